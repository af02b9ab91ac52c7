//! Under tokio: a task that runs the provider, and time limits.

use std::convert::Infallible;
use std::future::IntoFuture;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Error, OverlappedFile, Result, Status};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::within::within;

/// Watches the descriptor of an overlapped file, and runs the provider when the descriptor is ready ([`OverlappedFile::progress`]).
/// Requests then end in a thread of the runtime, and no thread of the provider has to hand their results over. Without this future
/// all requests end too.
///
/// The future never ends by itself. Spawn it, and abort the task at the end:
///
/// ```
/// # use netdirect_async::{AsyncAdapter, on_tokio};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> netdirect::Result<()> {
/// let adapter = AsyncAdapter::new(&softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?)?;
/// let driving = tokio::spawn(on_tokio::drive(adapter.file().clone()));
/// // ... connections, requests
/// driving.abort();
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// - [`NOT_SUPPORTED`](Status::NOT_SUPPORTED): the file has no descriptor, because its provider runs in a
///   [simulation](netdirect::SimulatedTime).
/// - [`INSUFFICIENT_RESOURCES`](Status::INSUFFICIENT_RESOURCES): the runtime cannot watch the descriptor.
///
/// # Panics
///
/// Outside of a runtime of tokio with I/O enabled.
pub async fn drive(file: Arc<dyn OverlappedFile>) -> Result<Infallible> {
    let Some(descriptor) = file.as_fd() else {
        return Err(Error::new(
            Status::NOT_SUPPORTED,
            "the overlapped file has no descriptor: futures move a simulation by themselves",
        ));
    };
    let descriptor = descriptor.try_clone_to_owned().map_err(cannot_watch)?;
    let watched = watch(descriptor).map_err(cannot_watch)?;
    loop {
        // Cleared first, so that what becomes ready meanwhile is seen.
        let mut ready = watched.readable().await.map_err(cannot_watch)?;
        ready.clear_ready();
        drop(ready);
        file.progress();
    }
}

#[allow(
    deprecated,
    reason = "the functions in its place are unsafe, because a type's descriptor might be closed too soon; an OwnedFd's is not"
)]
fn watch(descriptor: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

fn cannot_watch(error: std::io::Error) -> Error {
    let what = format!("tokio cannot watch the overlapped file: {error}");
    Error::new(Status::INSUFFICIENT_RESOURCES, what)
}

/// As [`within`], with a time limit of tokio.
///
/// ```
/// # use std::time::Duration;
/// # use netdirect_async::on_tokio::timeout;
/// # async fn demo(listener: netdirect_async::AsyncListener) -> netdirect::Result<()> {
/// let request = timeout(Duration::from_secs(5), listener.get_connection_request()).await?;
/// # drop(request);
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// [`TIMEOUT`](Status::TIMEOUT), and those of the future.
///
/// # Panics
///
/// Outside of a runtime of tokio with time enabled.
pub async fn timeout<T, E: From<Error>>(
    limit: Duration,
    future: impl IntoFuture<Output = Result<T, E>>,
) -> Result<T, E> {
    within(tokio::time::sleep(limit), future).await
}
