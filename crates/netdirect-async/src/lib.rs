//! NetworkDirect v2 (ND2) for async Rust, on top of the traits of [`netdirect`].
//!
//! The crate works with every provider and under every executor: providers progress without calls, so a future that waits
//! here needs no reactor.
//!
//! | to | use |
//! |---|---|
//! | open the objects of one adapter | [`AsyncAdapter`] |
//! | connect, in one call | [`AsyncAdapter::connect`], [`Connection`] |
//! | listen, and accept or reject those who connect | [`AsyncAdapter::listen`], [`AsyncListener`], [`ConnectionRequest`] |
//! | register memory | [`AsyncAdapter::register`], [`RegisteredBuffer`] |
//! | send, receive, read and write, with a future for each request | [`AsyncAdapter::endpoint`], [`Endpoint`], [`Request`] |
//! | take the results of a completion queue one by one | [`CompletionStream`] |
//! | limit the time of any of these | [`within`] |
//!
//! Under the types of this crate are the objects of ND2, and each type returns its own: a program may mix both.
//!
//! # Example
//!
//! ```
//! use std::net::SocketAddr;
//! use netdirect::{Buffer, MrFlags, OpFlags, QueuePairOptions, Result};
//! use netdirect_async::{AsyncAdapter, AsyncListener, ListenerOptions};
//! # use futures_util::future::try_join;
//!
//! async fn server(adapter: AsyncAdapter, listener: AsyncListener) -> Result<Vec<u8>> {
//!     let endpoint = adapter.endpoint(QueuePairOptions::default())?;
//!     let memory = adapter.register(&Buffer::new(4096), MrFlags::ALLOW_LOCAL_WRITE).await?;
//!
//!     let request = listener.get_connection_request().await?;
//!     assert_eq!(request.private_data(), b"a client");
//!     let message = endpoint.receive([memory.part(..)]); // before the client can send
//!     let connection = request.accept(endpoint.queue_pair()).await?;
//!
//!     let length = message.await?.bytes_transferred as usize;
//!     connection.disconnected().await?;
//!     Ok(memory.slice(..length).to_vec())
//! }
//!
//! async fn client(adapter: AsyncAdapter, server: SocketAddr) -> Result<()> {
//!     let endpoint = adapter.endpoint(QueuePairOptions::default())?;
//!     let memory = adapter.register(&Buffer::new(4096), MrFlags::empty()).await?;
//!     let connect = adapter.connect(endpoint.queue_pair(), server);
//!     let connection = connect.private_data(*b"a client").await?;
//!
//!     memory.write(0, b"hello");
//!     endpoint.send([memory.part(..5)], OpFlags::empty()).await?;
//!     connection.disconnect().await
//! }
//!
//! # fn main() -> Result<()> {
//! // Both ends in one process, in a simulated network. Over TCP: softnd::open("softnd+tcp://127.0.0.1", …).
//! let network = softnd::simulation::Simulation::new(7);
//! let open = |host| network.open([10, 0, 0, host], softnd::Options::default());
//! let (here, there) = (AsyncAdapter::new(&open(1)?)?, AsyncAdapter::new(&open(2)?)?);
//! let listener = there.listen("10.0.0.2:0".parse().unwrap(), ListenerOptions::default())?;
//! let address = listener.local_address()?;
//! # fn block_on<F: Future>(future: F) -> F::Output {
//! #     let mut future = std::pin::pin!(future);
//! #     loop {
//! #         let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
//! #         if let std::task::Poll::Ready(output) = future.as_mut().poll(context) { return output }
//! #     }
//! # }
//! let ((), got) = block_on(try_join(client(here, address), server(there, listener)))?;
//! assert_eq!(got, b"hello");
//! # Ok(()) }
//! ```
//!
//! # Dropping a future
//!
//! A future that is dropped before its end gives up what it was doing, and loses nothing of others:
//!
//! | future | when it is dropped |
//! |---|---|
//! | [`AsyncAdapter::connect`] | The attempt is abandoned, and the queue pair can be connected again. [`Connect`] says what the peer sees. |
//! | [`AsyncListener::get_connection_request`], [`Incoming`] | The next one who waits gets the peer. |
//! | [`ConnectionRequest::accept`] | The connection is abandoned. The queue pair is used up (CONN-061). |
//! | [`AsyncAdapter::register`] | The memory is not registered. |
//! | [`Request`] | The request runs on, because ND2 cannot cancel a single one. Its memory stays registered until it has ended. |
//! | [`CompletionStream`], [`CompletionStream::next`] | The results stay in the queue. |
//! | [`Connection::disconnect`] | The connection ends all the same. |
//! | [`Connection::disconnected`] | Nothing happens. |
//!
//! # Time limits
//!
//! The crate has no clock. [`within`] limits any of its futures by a future that ends in time, such as the `sleep` of a
//! runtime.
//!
//! # Under tokio
//!
//! Everything here works in tasks of tokio. With the feature `tokio` the module `on_tokio` has two more things: `drive`, a
//! future that runs the provider in a task, and `timeout`, which is [`within`] with tokio's timer.
//!
//! # Errors
//!
//! Errors are those of [`netdirect`], and keep the status that ND2 names for the call. Methods that make several calls list
//! where their errors come from.

#![forbid(unsafe_code)]

mod adapter;
mod completions;
mod connect;
mod endpoint;
mod listener;
mod memory;
#[cfg(all(feature = "tokio", unix))]
pub mod on_tokio;
mod requests;
mod within;

pub use adapter::AsyncAdapter;
pub use completions::CompletionStream;
pub use connect::{Accept, Connect, ConnectError, Connection};
pub use endpoint::{Bind, Endpoint, EndpointOptions, RequestQueue};
pub use listener::{AsyncListener, ConnectionRequest, Incoming, ListenerOptions, NextRequest};
pub use memory::{BufferPart, RegisteredBuffer};
pub use requests::Request;
pub use within::within;
