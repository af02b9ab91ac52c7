//! Sentences about requests that have failed, of which ND2 gives only a status.

use std::borrow::Cow;

use crate::{CompletionResult, ConnectionEnd, EndedBy, Error, RequestType, Status};

impl CompletionResult {
    /// The error of a request that has failed: the status of the result, and a sentence that says why. `end` is the end of the connection of
    /// its queue pair, if the connection has ended. [`QueuePair::explain`](crate::QueuePair::explain) calls this with the end that it knows.
    ///
    /// ```
    /// use netdirect::{CompletionResult, ConnectionEnd, EndReason, EndedBy, RequestType, Status};
    ///
    /// let end = ConnectionEnd::new(EndedBy::Peer, EndReason::Disconnect, "the peer disconnected");
    /// let result = CompletionResult::new(RequestType::Receive, 7).status(Status::CANCELED);
    /// let error = result.explain(Some(&end));
    /// assert_eq!(error.to_string(), "ND_CANCELED: the connection ended before the request was done: the peer disconnected");
    /// ```
    #[cold]
    #[must_use]
    pub fn explain(&self, end: Option<&ConnectionEnd>) -> Error {
        Error::new(self.status, words(self, end))
    }
}

fn words(result: &CompletionResult, end: Option<&ConnectionEnd>) -> Cow<'static, str> {
    let by_peer = end.filter(|end| end.by() == EndedBy::Peer);
    // With the end of the connection where that belongs to the reason.
    let with = |what: &'static str, end: Option<&ConnectionEnd>| match end {
        Some(end) => format!("{what}: {end}").into(),
        None => Cow::Borrowed(what),
    };
    match (result.status, result.request_type) {
        (Status::CANCELED, _) => match end {
            Some(_) => with("the connection ended before the request was done", end),
            None => "the queue pair was flushed, or its connection ended, before the request was done".into(),
        },
        // AMB-045
        (Status::INVALID_DEVICE_REQUEST, RequestType::Read | RequestType::Atomic) => {
            "the outbound read limit of the connection is 0; give Connect or Accept a limit above 0, and the other side an inbound limit above 0".into()
        }
        // QP-043
        (Status::INVALID_DEVICE_REQUEST, RequestType::Bind) => {
            "the window is bound already, or the region does not permit the range or the access any more".into()
        }
        (Status::INVALID_DEVICE_REQUEST, RequestType::Invalidate) => {
            "the window is not bound, or another queue pair has bound it".into()
        }
        (Status::ACCESS_VIOLATION, kind) => match by_peer {
            Some(_) if kind != RequestType::Receive => with("the peer refused access to its memory", end),
            _ => "an entry of the request names memory that is not registered, or not with the right that is needed".into(),
        },
        (Status::BUFFER_OVERFLOW, RequestType::Receive) => "the message was longer than this Receive".into(),
        (Status::IO_TIMEOUT, _) => with(
            "the peer had no Receive for the message in time, or did not answer",
            by_peer,
        ),
        (Status::REMOTE_ERROR, _) => with("the peer found an error in the request", by_peer),
        (status, _) => with(status.meaning().unwrap_or("the request failed"), end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EndReason;

    #[test]
    fn every_failure_has_words() {
        let end = ConnectionEnd::new(EndedBy::Peer, EndReason::Reset, "it was reset");
        for kind in RequestType::ALL.into_iter().chain(RequestType::EXTENSIONS) {
            for status in Status::ALL {
                if *status == Status::SUCCESS || !kind.allows(*status) {
                    continue;
                }
                let result = CompletionResult::new(kind, 1).status(*status);
                for end in [None, Some(&end)] {
                    let error = result.explain(end);
                    assert_eq!(error.status(), *status);
                    assert!(error.what().len() > 10, "{kind:?} {error}");
                    assert!(!error.what().ends_with('.'), "{kind:?} {error}");
                }
            }
        }
    }

    #[test]
    fn the_end_is_named_where_the_peer_is_the_cause() {
        let by = |by, what| ConnectionEnd::new(by, EndReason::Terminate, what);
        let (peer, here) = (by(EndedBy::Peer, "PEER"), by(EndedBy::ThisSide, "HERE"));
        let failed = |kind, status| CompletionResult::new(kind, 1).status(status);
        let remote = failed(RequestType::Read, Status::ACCESS_VIOLATION);
        assert!(
            remote
                .explain(Some(&peer))
                .what()
                .ends_with("its memory: PEER")
        );
        for end in [None, Some(&here)] {
            assert!(
                remote
                    .explain(end)
                    .what()
                    .starts_with("an entry of the request")
            );
        }
        let message = failed(RequestType::Receive, Status::ACCESS_VIOLATION);
        assert!(
            message
                .explain(Some(&peer))
                .what()
                .starts_with("an entry of the request")
        );
        for status in [Status::IO_TIMEOUT, Status::REMOTE_ERROR] {
            let send = failed(RequestType::Send, status);
            assert!(send.explain(Some(&peer)).what().ends_with(": PEER"));
        }
    }
}
