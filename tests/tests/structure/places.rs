//! Where code may be `unsafe`, open sockets, start threads and read a clock.

use std::collections::BTreeSet;
use std::fs;

use softnd_tests::structure::Uses;

use crate::{crates, folders, root, short};

/// Something that only some places may do.
struct Rule {
    /// The rule in words, as in "must not …".
    what: &'static str,
    /// The paths of other crates by which it is done. A module includes all its items.
    paths: &'static [&'static str],
    /// The methods by which it is done.
    methods: &'static [&'static str],
    /// Files and folders below `crates` that may do it. A place that no longer does loses its line: the test says which.
    places: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule {
        what: "use sockets, or wait for them",
        paths: &[
            "socket2",
            "mio",
            "libc",
            "if_addrs",
            "rustix::net",
            "rustix::event",
            "std::net::TcpListener",
            "std::net::TcpStream",
            "std::net::UdpSocket",
            "std::os::unix::net",
        ],
        methods: &[],
        places: &[
            "iwarp-conform/src/bench.rs",
            "iwarp-conform/src/quic/mod.rs",
            "iwarp-conform/src/stream.rs",
            // The addresses of the machine.
            "iwarp-io/src/interfaces",
            "iwarp-io/src/progress/readiness",
            "iwarp-io/src/transport/both_ports.rs",
            "iwarp-io/src/transport/datagrams/plain_socket.rs",
            "iwarp-io/src/transport/quic/address_probe.rs",
            "iwarp-io/src/transport/same_host/check.rs",
            "iwarp-io/src/transport/same_host/meeting.rs",
            "iwarp-io/src/transport/tcp",
            // The one system call over registered memory.
            "iwarp-mem/src/io",
            // Options that no safe library has.
            "iwarp-mem/src/socket_options",
            // Types and numbers of C.
            "libibverbs/src",
            // The loader.
            "libsoftnd/src/pin.rs",
            // Which address reaches a peer.
            "libnetdirect/src/route.rs",
            // Types and numbers of C, and the loader.
            "nd-paths/src",
            "nd-base/src/admission/mod.rs",
            "nd-base/src/session/addresses.rs",
            "nd-base/src/session/setup.rs",
            "nd-perf/src/perf",
            // Which ports are free.
            "nd-perf/src/process.rs",
            "nd/src/wire_conform/suite.rs",
            "netdirect-conform/src/checks/iwarp_setup.rs",
            // A descriptor for event loops.
            "netdirect-com/src/import/file.rs",
            // Errno, the readiness of rdma-core's descriptors, and the addresses that devices have.
            "netdirect-verbs/src",
            // The system's word on memory, forks, signals and time slices, and the allocator's heaps.
            "rdma-buffer/src/forks.rs",
            "rdma-buffer/src/heaps.rs",
            "rdma-buffer/src/signals.rs",
            "rdma-buffer/src/time_slice.rs",
            "rdma-buffer/src/usable.rs",
        ],
    },
    Rule {
        what: "start threads",
        paths: &[
            "std::thread::Builder",
            "std::thread::spawn",
            "std::thread::scope",
        ],
        methods: &[],
        places: &[
            "iwarp-conform/src/bench.rs",
            "iwarp-io/src/progress/background/mod.rs",
            // Make the system's call, and end waits on time, on Windows.
            "iwarp-io/src/progress/readiness/flat",
            // The end of a program, which may hold locks of the library.
            "libibverbs/src/process.rs",
            "nd-base/src/admission/pending/mod.rs",
            "nd-base/src/interrupt",
            "nd-perf/src/cores.rs",
            // Reads what another program says.
            "nd-perf/src/process.rs",
            // A check that hangs is left behind.
            "netdirect-conform/src/run.rs",
            "netdirect-conform/src/checks/common.rs",
            // Brings packets of the system's port.
            "netdirect-com/src/import/port/windows.rs",
            // Ends requests at a library for which no thread waits.
            "netdirect-com/src/import/requests.rs",
            // Calls of drivers that block.
            "netdirect-verbs/src/connect/connector/active.rs",
            "netdirect-verbs/src/core.rs",
            "netdirect-verbs/src/driver.rs",
            // The functions of clients that completion ports call.
            "netdirect-com/src/handle/unix/pool.rs",
            // A library whose functions several threads call.
            "netdirect-com-conform/src/entry.rs",
        ],
    },
    Rule {
        what: "read a clock, or sleep by it",
        paths: &[
            "std::time::Instant::now",
            "std::time::SystemTime::now",
            "std::thread::sleep",
            "rustix::time",
            "rustix::thread::nanosleep",
        ],
        methods: &["elapsed"],
        places: &[
            // The program, and the suite of a raw peer, wait by the wall clock.
            "iwarp-conform/src",
            "nd/src",
            "nd-base/src",
            "nd-perf/src",
            "netdirect-conform/src/run.rs",
            "netdirect-conform/src/side.rs",
            // Lines for people, a few a second.
            "libibverbs/src/border/explain.rs",
            "iwarp-io/src/capture/mod.rs",
            "iwarp-io/src/environment.rs",
            "iwarp-io/src/log.rs",
            "iwarp-io/src/progress",
            "iwarp-io/src/simulation/world/mod.rs",
            "iwarp-io/src/vain_polls.rs",
            // Waits that the application limits.
            "netdirect/src/event.rs",
            "netdirect/src/ext.rs",
            "netdirect/src/overlapped",
            "netdirect-com/src/handle/limit.rs",
            "netdirect-com/src/import/port/packets.rs",
            "netdirect-verbs/src/file.rs",
            // A time limit for peers.
            "netdirect-verbs/src/driver.rs",
        ],
    },
    Rule {
        // A library follows no variable in a program that has more rights than its user: `rdma_buffer::environment` is the way.
        what: "read the environment",
        paths: &[
            "std::env::home_dir",
            "std::env::temp_dir",
            "std::env::var",
            "std::env::var_os",
            "std::env::vars",
            "std::env::vars_os",
            "libc::environ",
            "libc::getenv",
            "extern::environ",
            "extern::getenv",
            "extern::secure_getenv",
            "tempfile::tempdir",
            "tempfile::tempfile",
            "tempfile::NamedTempFile::new",
            "tempfile::TempDir::new",
            "tracing_subscriber::EnvFilter::from_default_env",
            "tracing_subscriber::EnvFilter::from_env",
            "tracing_subscriber::EnvFilter::try_from_default_env",
            "tracing_subscriber::EnvFilter::try_from_env",
            "tracing_subscriber::fmt::init",
        ],
        methods: &["from_env", "from_env_lossy", "try_from_env"],
        places: &[
            "rdma-buffer/src/environment.rs",
            // The C library's own check, because `nd-paths` depends on nothing.
            "nd-paths/src/c.rs",
            // The variables of a program that is executed.
            "nd-paths/src/environments.rs",
            // A program follows its user: colours, the log, programs to start and their variables, folders for what is private.
            "nd/src/log.rs",
            "nd-base/src/output.rs",
            "nd-perf/src/process.rs",
            "nd/src/run/private_folder.rs",
            "nd/src/run/program.rs",
            "nd/src/run/start.rs",
            // Called by build scripts.
            "version-nodes/src",
        ],
    },
    Rule {
        // SEC-008: numbers that must not be guessed come from the operating system. The hashers of the standard library
        // promise neither that their keys cannot be guessed nor that they give the same hash in later versions.
        what: "take random numbers from a hasher",
        paths: &[
            "std::collections::hash_map::DefaultHasher",
            "std::collections::hash_map::RandomState",
            "std::hash::DefaultHasher",
            "std::hash::RandomState",
        ],
        methods: &[],
        places: &[],
    },
    Rule {
        // Other users of the machine may have made what a name leads to: `user_files` knows what may be written to.
        what: "make files and links, or open files to write them",
        paths: &[
            "std::fs::DirBuilder",
            "std::fs::File::create",
            "std::fs::File::create_buffered",
            "std::fs::File::create_new",
            "std::fs::File::options",
            "std::fs::OpenOptions",
            "std::fs::copy",
            "std::fs::create_dir",
            "std::fs::create_dir_all",
            "std::fs::hard_link",
            "std::fs::rename",
            "std::fs::set_permissions",
            "std::fs::write",
            "std::os::unix::fs::chown",
            "std::os::unix::fs::fchown",
            "std::os::unix::fs::lchown",
            "std::os::unix::fs::symlink",
            "rustix::fs::chmod",
            "rustix::fs::chown",
            "rustix::fs::fchmod",
            "rustix::fs::fchown",
            "rustix::fs::link",
            "rustix::fs::linkat",
            "rustix::fs::mkdir",
            "rustix::fs::mknodat",
            "rustix::fs::open",
            "rustix::fs::openat",
            "rustix::fs::openat2",
            "rustix::fs::rename",
            "rustix::fs::symlink",
            "libc::creat",
            "libc::mkdir",
            "libc::open",
            "libc::openat",
            "libc::rename",
            "tempfile",
        ],
        methods: &["set_permissions"],
        places: &[
            "iwarp-io/src/user_files",
            // Names of files that are not whole, which `user_files` makes.
            "nd/src/cat/sink.rs",
            // Reads a program that is executed, by a call that allocates nothing.
            "nd-paths/src/binaries.rs",
            // Look where an entry of the tree leads, by descriptors that neither read nor write.
            "nd-paths/src/changes.rs",
            "nd-paths/src/paths.rs",
            // Links and files in a folder that only this user can write to.
            "nd/src/run/libraries.rs",
            "nd/src/run/private_folder.rs",
            "nd/src/run/tree.rs",
            // The client's end of a pipe of its own.
            "netdirect-com/src/handle/windows/pipe.rs",
            // In the folder of a build.
            "version-nodes/src",
        ],
    },
];

/// The files that may hold `unsafe`. A file that no longer does loses its line.
const UNSAFE: &[&str] = &[
    "iwarp-mem/src/io/mod.rs",
    "iwarp-mem/src/io/unix.rs",
    "iwarp-mem/src/io/windows.rs",
    "iwarp-mem/src/ring/mapping.rs",
    "iwarp-mem/src/socket_options/linux.rs",
    "iwarp-mem/src/socket_options/windows.rs",
    "iwarp-mem/src/table/mod.rs",
    // Memory for tests.
    "test-memory/src/lib.rs",
    "test-memory/src/unix.rs",
    "test-memory/src/windows.rs",
    // The C interface of verbs: what C programs hold and pass, errno, arrays by `calloc`, and a symbol for `nd run`.
    "libibverbs/src/abi/describe.rs",
    "libibverbs/src/border/cancellation/glibc.rs",
    "libibverbs/src/border/counter_requests.rs",
    "libibverbs/src/border/guard.rs",
    "libibverbs/src/border/names.rs",
    "libibverbs/src/border/object.rs",
    "libibverbs/src/border/pointers.rs",
    "libibverbs/src/border/signals.rs",
    "libibverbs/src/calls/device.rs",
    "libibverbs/src/why_empty.rs",
    // Two functions that programs in C find by their names, and the dynamic linker.
    // What programs in C pass, and the libraries of providers.
    "libnetdirect/src/arguments.rs",
    "libnetdirect/src/events.rs",
    "libnetdirect/src/handles.rs",
    "libnetdirect/src/helper.rs",
    "libnetdirect/src/library.rs",
    "libnetdirect/src/ports.rs",
    "libnetdirect/src/provider.rs",
    "libnetdirect/src/requests.rs",
    "libsoftnd/src/exports.rs",
    "libsoftnd/src/pin.rs",
    // Functions that replace those of the C library, and paths that C programs pass to them.
    "nd-paths/src/c.rs",
    "nd-paths/src/calls.rs",
    "nd-paths/src/argument_lists.rs",
    "nd-paths/src/binaries.rs",
    "nd-paths/src/changes.rs",
    "nd-paths/src/descriptors.rs",
    "nd-paths/src/environments.rs",
    "nd-paths/src/executions.rs",
    "nd-paths/src/exits.rs",
    "nd-paths/src/globs.rs",
    "nd-paths/src/loads.rs",
    "nd-paths/src/start.rs",
    "nd-paths/src/next.rs",
    "nd-paths/src/paths.rs",
    "nd-paths/src/renames.rs",
    "nd-paths/src/results.rs",
    "nd-paths/src/walks.rs",
    // Tables of functions of C.
    "netdirect-com/src/abi/extensions.rs",
    "netdirect-com/src/abi/tables.rs",
    // Winsock's catalogue.
    "netdirect-com/src/catalogue/winsock.rs",
    // Arguments of programs in C, and objects whose references they count.
    "netdirect-com/src/export/faults.rs",
    "netdirect-com/src/export/file/unix.rs",
    "netdirect-com/src/export/library.rs",
    "netdirect-com/src/export/object.rs",
    "netdirect-com/src/export/overlapped.rs",
    "netdirect-com/src/export/pointers.rs",
    "netdirect-com/src/export/requests.rs",
    // Events, completion ports and files through the tables of their makers, and objects with such tables.
    "netdirect-com/src/handle/unix/event.rs",
    "netdirect-com/src/handle/unix/pool.rs",
    "netdirect-com/src/handle/unix/port.rs",
    "netdirect-com/src/handle/unix/refs.rs",
    "netdirect-com/src/handle/unix/result.rs",
    "netdirect-com/src/handle/unix/wait.rs",
    // Those of Windows.
    "netdirect-com/src/handle/windows/event.rs",
    "netdirect-com/src/handle/windows/file.rs",
    "netdirect-com/src/handle/windows/mod.rs",
    "netdirect-com/src/handle/windows/pipe.rs",
    "netdirect-com/src/handle/windows/port.rs",
    "netdirect-com/src/handle/windows/wait.rs",
    // Libraries that export objects: their functions, and what they write.
    "netdirect-com/src/import/file.rs",
    "netdirect-com/src/import/library.rs",
    "netdirect-com/src/import/loaded.rs",
    "netdirect-com/src/import/pointer.rs",
    "netdirect-com/src/import/port/packets.rs",
    "netdirect-com/src/import/port/unix.rs",
    "netdirect-com/src/import/requests.rs",
    // Calls by the tables of such libraries.
    "netdirect-com-conform/src/call.rs",
    "netdirect-com-conform/src/client.rs",
    "netdirect-com-conform/src/open_adapter.rs",
    "netdirect-com-conform/src/request.rs",
    "netdirect-com-conform/src/requests.rs",
    // The libraries of rdma-core, and one owned handle for each kind of their objects.
    "netdirect-verbs/src/handle/cm.rs",
    "netdirect-verbs/src/handle/completion.rs",
    "netdirect-verbs/src/handle/context.rs",
    "netdirect-verbs/src/handle/memory.rs",
    "netdirect-verbs/src/handle/queue_pair.rs",
    "netdirect-verbs/src/handle/shared_receives.rs",
    "netdirect-verbs/src/handle/window.rs",
    "netdirect-verbs/src/sys/bindings.rs",
    "netdirect-verbs/src/sys/library.rs",
    "rdma-buffer/src/buffer.rs",
    "rdma-buffer/src/copy/mod.rs",
    "rdma-buffer/src/copy/bulk.rs",
    "rdma-buffer/src/copy/one_pass.rs",
    "rdma-buffer/src/copy/processor.rs",
    // What the kernel says of the program's rights.
    "rdma-buffer/src/environment.rs",
    "rdma-buffer/src/forks.rs",
    "rdma-buffer/src/heaps.rs",
    "rdma-buffer/src/signals.rs",
    "rdma-buffer/src/time_slice.rs",
    "rdma-buffer/src/usable.rs",
];

impl Rule {
    /// The path or method by which a file does it, if it does.
    fn means(&self, uses: &Uses) -> Option<String> {
        let is_within = |path: &str, module: &str| {
            let rest = path.strip_prefix(module);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let is_means = |path: &&String| {
            // An import of a whole module includes the items that are meant.
            let all_of = path.strip_suffix("::*");
            self.paths.iter().any(|means| {
                is_within(path, means) || all_of.is_some_and(|all_of| is_within(means, all_of))
            })
        };
        let path = uses.paths.iter().find(is_means).cloned();
        let method = self
            .methods
            .iter()
            .find(|method| uses.methods.contains(**method));
        path.or(method.map(|method| format!(".{method}()")))
    }
}

/// Each file of each crate, with what it uses. Tests are left out.
fn all_uses() -> Vec<(String, Uses)> {
    let mut all = Vec::new();
    for folder in folders() {
        for part in crates(&folder) {
            let uses = part.uses().into_iter();
            all.extend(uses.map(|(file, uses)| {
                let name = short(file);
                (name.strip_prefix("crates/").unwrap().to_owned(), uses)
            }));
        }
    }
    all
}

/// Returns true if a file is a place, or is in it.
fn is_in(file: &str, place: &str) -> bool {
    let rest = file.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[test]
fn sockets_threads_clocks_and_variables_are_where_they_may_be() {
    let all = all_uses();
    let mut wrong = String::new();
    for rule in RULES {
        let what = rule.what;
        let mut used = BTreeSet::new();
        for (file, uses) in &all {
            let Some(means) = rule.means(uses) else {
                continue;
            };
            match rule.places.iter().find(|place| is_in(file, place)) {
                Some(place) => drop(used.insert(*place)),
                None => wrong += &format!("{file} must not {what}: {means}\n"),
            }
        }
        for place in rule.places.iter().filter(|place| !used.contains(**place)) {
            wrong += &format!("{place} does not {what}: delete its line\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(all.len() > 200, "the crates have more files");
}

/// The callers of `user_files`, with the files that they have it open.
const USER_FILES: &[&str] = &[
    // Captures.
    "iwarp-io/src/capture/options/mod.rs",
    // Logs of keys.
    "iwarp-io/src/transport/quic/security/key_log.rs",
    // Reports, tables and drawings.
    "nd-base/src/output_file.rs",
    // Received files.
    "nd/src/cat/sink.rs",
    // The folder for links to libraries, and those for captures and counters of programs.
    "nd/src/run/private_folder.rs",
    "nd/src/run/start.rs",
    // The counters of verbs programs.
    "softverbs/src/counters_file.rs",
];

#[test]
fn each_file_that_a_user_names_is_opened_by_a_caller_that_is_listed() {
    let mut callers = Vec::new();
    for (file, _) in all_uses() {
        let is_within = is_in(&file, "iwarp-io/src/user_files");
        let text = fs::read_to_string(root().join("crates").join(&file)).unwrap();
        // Its own declaration ends with a semicolon.
        if !is_within && text.contains("user_files::") {
            callers.push(file);
        }
    }
    callers.sort();
    assert_eq!(callers, USER_FILES);
}

#[test]
fn unsafe_stands_where_it_may_be() {
    let mut wrong = String::new();
    let mut used = BTreeSet::new();
    for (file, uses) in all_uses() {
        if !uses.has_unsafe {
            continue;
        }
        match UNSAFE.iter().find(|place| **place == file) {
            Some(place) => drop(used.insert(*place)),
            None => wrong += &format!("{file} must not hold unsafe\n"),
        }
    }
    for place in UNSAFE.iter().filter(|place| !used.contains(**place)) {
        wrong += &format!("{place} holds no unsafe: delete its line\n");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The compiler refuses `unsafe` in every crate except those that have some, tests included.
#[test]
fn a_crate_without_unsafe_forbids_it() {
    let mut seen = 0;
    for folder in folders() {
        let name = short(&folder);
        let has_some = UNSAFE
            .iter()
            .any(|file| is_in(&format!("crates/{file}"), &name));
        for root in ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)) {
            if let Ok(text) = fs::read_to_string(&root) {
                let forbids = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
                assert_eq!(forbids, !has_some, "{}", root.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 6, "the crates have roots");
}

#[test]
fn nd_names_its_providers_in_one_place() {
    let folders = ["nd", "nd-base", "nd-perf"].map(|name| root().join("crates").join(name));
    let code = folders.iter().flat_map(|folder| crates(folder));
    let files: Vec<_> = code.flat_map(|code| code.files()).collect();
    let place = root().join("crates/nd-base/src/provider");
    // `nd run` is about softnd's libraries alone, and so is the catalogue of Windows.
    let libraries = ["run", "registration"].map(|name| root().join("crates/nd/src").join(name));
    let mut seen = 0;
    for path in &files {
        let text = fs::read_to_string(path).unwrap().to_lowercase();
        let names = text.contains("softnd");
        if path.starts_with(&place) {
            seen += usize::from(names);
        } else if !libraries.iter().any(|folder| path.starts_with(folder)) {
            assert!(!names, "{} names a provider", path.display());
        }
    }
    assert!(seen > 2, "{}: the place has moved", place.display());
    assert!(files.len() > 50, "nd has more modules");
}

/// Both interfaces set connections up by the driver's two sides alone.
#[test]
fn interfaces_see_the_sides_of_a_connection_and_not_what_is_below() {
    const BELOW: [&str; 4] = ["MpaStartup", "Dialer", "Turns", "Edges::"];
    for interface in ["crates/softnd", "crates/softverbs"] {
        let code = crates(&root().join(interface));
        let files: Vec<_> = code.iter().flat_map(|code| code.files()).collect();
        let mut sides = 0;
        for path in &files {
            let text = fs::read_to_string(path).unwrap();
            sides += usize::from(text.contains("ActiveSide"));
            for name in BELOW {
                // A simulated peer that speaks no iWARP has a stream by itself.
                let is_raw = path.ends_with("simulation/raw.rs");
                assert!(
                    is_raw || !text.contains(name),
                    "{} names {name}",
                    path.display()
                );
            }
        }
        assert!(sides > 0, "{interface} has moved");
    }
}
