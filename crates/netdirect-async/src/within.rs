//! Time limits.

use std::future::{IntoFuture, poll_fn};
use std::pin::pin;
use std::task::Poll;

use netdirect::{Error, Result, Status};

/// Limits the time of a future: when `limit` ends first, the future is dropped, and the result is an error with the status
/// [`TIMEOUT`](Status::TIMEOUT). ND2's own time-outs, which are about a silent peer, have another status:
/// [`IO_TIMEOUT`](Status::IO_TIMEOUT).
///
/// `limit` is any future, such as the `sleep` of a runtime or the end of another task. If both are ready, the future's result
/// counts.
///
/// ```
/// # async fn demo(adapter: netdirect_async::AsyncAdapter, qp: std::sync::Arc<dyn netdirect::QueuePair>,
/// #     server: std::net::SocketAddr, sleep: impl Future<Output = ()>) {
/// use netdirect_async::within;
///
/// match within(sleep, adapter.connect(&qp, server)).await {
///     Ok(connection) => println!("connected with {:?}", connection.peer_address()),
///     Err(error) if error.status() == netdirect::Status::TIMEOUT => println!("too late"),
///     Err(error) => println!("{error}"),
/// }
/// # }
/// ```
///
/// # Errors
///
/// [`TIMEOUT`](Status::TIMEOUT), and those of the future.
pub async fn within<T, E: From<Error>>(
    limit: impl IntoFuture,
    future: impl IntoFuture<Output = Result<T, E>>,
) -> Result<T, E> {
    let (mut limit, mut future) = (pin!(limit.into_future()), pin!(future.into_future()));
    poll_fn(|cx| {
        if let Poll::Ready(result) = future.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        limit.as_mut().poll(cx).map(|_| {
            let late = Error::new(Status::TIMEOUT, "the time limit of the caller has passed");
            Err(late.into())
        })
    })
    .await
}
