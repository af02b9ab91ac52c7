//! A completion queue as a stream.

use std::future::{IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use netdirect::{
    CompletionQueue, CompletionResult, Error, Finished, NotifyType, Overlapped, Result, Started,
    Status,
};

/// The results of a completion queue as a [`Stream`], in the order of the queue.
///
/// The stream holds no results: each stays in the queue until the poll that returns it. So neither a stream nor a future of
/// [`next`](Self::next) that is dropped loses a result, and another stream of the same queue goes on where the first one ended.
/// Use one stream of a queue at a time, and leave Notify to it.
///
/// A result with an error is an ordinary item, because the queue goes on. An `Err` means that the queue can report no more
/// results by itself:
///
/// - The queue has overflowed or broken down, or the device was removed (`ND_BUFFER_OVERFLOW`, `ND_INTERNAL_ERROR`,
///   `ND_DEVICE_REMOVED`). The stream then returns what the queue still holds, and otherwise `None`. Results that the queue gets
///   later can be had by polling the stream again.
/// - Any other error is one that another poll may not meet, for example `ND_INSUFFICIENT_RESOURCES`.
///
/// ```
/// # use netdirect_async::CompletionStream;
/// # async fn demo(cq: std::sync::Arc<dyn netdirect::CompletionQueue>) -> netdirect::Result<()> {
/// let mut results = CompletionStream::new(&cq);
/// while let Some(result) = results.next().await {
///     let result = result?;
///     println!("request {} ended with {}", result.request_context, result.status);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct CompletionStream {
    cq: Arc<dyn CompletionQueue>,
    notify: Overlapped,
    /// A Notify was started, and its end was not seen yet.
    is_armed: bool,
    /// Set when the queue was empty after that.
    waits: Option<Finished>,
    /// The first poll is still to come.
    is_first: bool,
    /// The error that a Notify has ended with, until it is returned.
    error: Option<Error>,
    /// No Notify can be started any more.
    ended: bool,
}

impl CompletionStream {
    /// For a completion queue.
    pub fn new(cq: &Arc<dyn CompletionQueue>) -> Self {
        Self {
            cq: cq.clone(),
            notify: Overlapped::new().without_port(),
            is_armed: false,
            waits: None,
            is_first: true,
            error: None,
            ended: false,
        }
    }

    /// The completion queue, `IND2CompletionQueue`.
    pub fn completion_queue(&self) -> &Arc<dyn CompletionQueue> {
        &self.cq
    }

    /// Waits for the next result. Dropping the future loses no result.
    ///
    /// # Errors
    ///
    /// Those of [`CompletionQueue::notify`], including its final statuses.
    pub async fn next(&mut self) -> Option<Result<CompletionResult>> {
        let mut one = [CompletionResult::default()];
        let taken = poll_fn(|cx| self.poll_results(cx, &mut one)).await;
        taken.map(|taken| taken.map(|_| one[0]))
    }

    /// Waits for results, moves the oldest ones to the start of `into`, and returns their number; 0 where the stream would end.
    /// Dropping the future loses no result.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    ///
    /// # Panics
    ///
    /// If `into` is empty.
    pub async fn get(&mut self, into: &mut [CompletionResult]) -> Result<usize> {
        let taken = poll_fn(|cx| self.poll_results(cx, into)).await;
        taken.unwrap_or(Ok(0))
    }

    fn poll_results(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [CompletionResult],
    ) -> Poll<Option<Result<usize>>> {
        assert!(!into.is_empty(), "no room for a result");
        loop {
            if let Some(waits) = &mut self.waits {
                let status = ready!(Pin::new(waits).poll(cx));
                (self.waits, self.is_armed) = (None, self.notify.is_pending());
                self.error = (status != Status::SUCCESS).then(|| explained(status, &self.notify));
                self.ended = is_final(status);
            } else if std::mem::take(&mut self.is_first) {
                // A Notify that another stream of the queue has left in flight ends for a result that comes now. So this stream starts its
                // own Notify before it looks.
                self.start();
            }
            // Results first, also those that came before a queue broke down (CQ-022).
            let taken = self.cq.take_results(into);
            if taken > 0 {
                return Poll::Ready(Some(Ok(taken)));
            }
            if let Some(error) = self.error.take() {
                return Poll::Ready(Some(Err(error)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            self.start();
            if self.is_armed {
                self.waits = Some((&self.notify).into_future());
            }
        }
    }

    /// Starts a Notify, unless there is one whose end was not seen yet.
    fn start(&mut self) {
        if self.is_armed {
            return;
        }
        match self.cq.notify(NotifyType::Any, &self.notify) {
            Ok(started) => self.is_armed = started == Started::Pending,
            Err(error) => {
                self.ended = is_final(error.status());
                self.error = Some(error);
            }
        }
    }
}

/// The error of a request that has ended with this status. It has the provider's words, unless the `Overlapped` has got another request
/// meanwhile.
#[cold]
pub(crate) fn explained(status: Status, overlapped: &Overlapped) -> Error {
    match overlapped.result() {
        Err(error) if error.status() == status => error,
        _ => status.into(),
    }
}

/// Returns true if an error of Notify means that no further Notify can succeed.
pub(crate) fn is_final(status: Status) -> bool {
    ![
        Status::SUCCESS,
        Status::CANCELED,
        Status::INSUFFICIENT_RESOURCES,
        Status::NO_MEMORY,
        Status::POSSIBLE_DEADLOCK,
    ]
    .contains(&status)
}

impl Stream for CompletionStream {
    type Item = Result<CompletionResult, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut one = [CompletionResult::default()];
        let taken = ready!(self.poll_results(cx, &mut one));
        Poll::Ready(taken.map(|taken| taken.map(|_| one[0])))
    }
}
