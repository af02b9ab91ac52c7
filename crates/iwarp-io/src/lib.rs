//! The driver of iWARP connections: everything between the engine (`iwarp`) and the interface that applications use.
//!
//! Nothing here knows NetworkDirect or verbs: `softnd` and `softverbs` put these on top, each with a type that implements
//! [`endpoint::Owner`].
//!
//! # The layers
//!
//! ```text
//!   softnd, softverbs          objects, statuses, rules of the interface
//!  ──────────────────────────────────────────────────────────────────────────────────────────────
//!   endpoint   cq              one connection in use; results, and requests that wait for them
//!   setup                      connections until both sides have agreed: MPA's frames, limits for unknown peers
//!   progress                   which thread drives which streams, and how it learns that they are ready
//!   transport                  streams of octets
//!    ├ tcp                     over the system's TCP
//!    ├ shared_memory           within one machine: rings that both processes have mapped, beside a TCP connection
//!    ├ quic                    over UDP: QUIC and TLS, a stream of QUIC for each connection
//!    └ sim                     over a simulated network
//!   simulation                 the virtual clock and the simulated network, below all that runs on them
//!  ──────────────────────────────────────────────────────────────────────────────────────────────
//!   iwarp, iwarp-mem           the engine; registered memory, and the system calls that read and write it
//! ```
//!
//! Each module uses those below it alone; `tests/tests/structure/order.rs` has their order. Outside the layers: [`faults`] (plans of faults)
//! and [`capture`] (files for Wireshark) sit between endpoint and transport, in [`transport::stream`]; an adapter's [`environment`] gives
//! every layer its clock and its random numbers, so that a simulation runs the same way for the same seed; [`peer_table`], [`peer_backlog`], [`peer_network`] and [`protection_faults`] limit the resources that one
//! peer can take; [`descriptors`], [`socket_buffer`], [`interfaces`] and [`processors`] query the system; [`bounded_file`] reads what users
//! name, and [`user_files`] opens the files that users name; [`error_number`] and [`system_call`] name the system's errors; [`sync`] has the
//! locks and atomics that loom can model; [`living`] lists objects that others keep; [`lenient_cases`] counts what an interface permits beyond
//! other adapters.
//!
//! # Who calls whom
//!
//! - **A client posts**: owner → [`endpoint::Endpoint::post`] → the engine's connection → `transport::stream` → socket. A request may wait
//!   for others that are sent with it (`endpoint/gather.rs`).
//! - **A client polls or waits**: owner → [`progress::domain::Domain`] or [`progress::waiters::Waiters`] → the sources that are ready
//!   → [`endpoint`] as a [`progress::domain::Source`] → socket → engine → memory, and completions → [`endpoint::Owner::completed`],
//!   [`place`](endpoint::Owner::place), [`deliver`](endpoint::Owner::deliver), which [`endpoint::queue_pair`] has for queue pairs.
//! - **No thread polls or waits**: [`progress::background`], a thread of each adapter, does the same, and makes the calls that are due.
//! - **A client connects or listens**: owner → [`transport::Transport::bind`] → a [`transport::Dialer`] or [`transport::Listener`] →
//!   [`setup::ActiveSide`], or [`setup::Acceptor`] and [`setup::PassiveSide`] → a stream and the agreed parameters → [`endpoint::Endpoint::start`].
//!
//! A [`driver::Driver`] holds everything of one adapter: its transport, its control domain and its background thread. Calls go down the
//! layers; upwards go only the traits [`endpoint::Owner`], [`setup::AcceptorOwner`], [`setup::StartupOwner`], [`faults::FaultOwner`] and
//! [`progress::domain::Source`]. An owner is called with its endpoint locked unless its documentation says otherwise.
//!
//! # Where to read first
//!
//! 1. The example at [`endpoint::Owner`]: two endpoints, from their creation to a message.
//! 2. [`transport`]: the parts of a transport. `tcp/wire.rs` is the shortest real one.
//! 3. [`endpoint`], then `endpoint/stream_io/mod.rs`: one visit of a thread to a connection.
//! 4. [`progress`], then `progress/domain/mod.rs` and `progress/waiters/mod.rs`.
//! 5. [`setup`], then `setup/mpa_startup.rs`.
//! 6. [`transport::quic`] and `docs/internals/iwarp-over-quic.md`; [`simulation`] and `simulation/world/mod.rs`.
//!
//! To add a transport: a folder next to `tcp` with the types that [`transport`] lists, and a variant of its enums for each of them. To add
//! a kind of fault: `faults/plan.rs` (the contents of a rule), `faults/text.rs` (its text), and `faults/direction.rs` or
//! `faults/datagrams.rs` (its effect).
#![forbid(unsafe_code)]

pub mod bounded_file;
pub mod buffers;
pub mod capture;
pub mod cq;
pub mod descriptors;
pub mod driver;
pub mod edges;
pub mod endpoint;
pub mod environment;
pub mod error_number;
pub mod faults;
pub mod interfaces;
pub mod lenient_cases;
pub mod living;
#[macro_use]
pub mod log;
pub mod memory;
pub mod peer_backlog;
pub mod peer_network;
pub mod peer_table;
mod printable;
pub mod processors;
pub mod progress;
pub mod protection_faults;
mod revision_1_peers;
pub mod setup;
pub mod simulation;
pub mod socket_buffer;
pub mod sync;
pub mod system_call;
mod thread_value;
pub mod transport;
pub mod user_files;
pub mod vain_polls;

#[doc(hidden)]
pub use iwarp::planted;
