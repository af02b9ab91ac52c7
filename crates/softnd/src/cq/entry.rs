//! How results are stored in a completion queue's ring, and how ND2's types translate to those of the ring.

use std::num::NonZeroU32;

use iwarp_io::cq::{self, NotifyOn, Reason, Word};
use netdirect::{CompletionResult, Immediate, NotifyType, RequestType, Status};

use crate::fault_plan;

/// One result on its way into a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) result: CompletionResult,
    /// A Receive whose Send asked for an event.
    pub(crate) solicited: bool,
}

/// A result in the ring. The result's tag has the kind of the request, and a bit that is set if the result has immediate data.
#[derive(Debug, Default)]
pub(crate) struct Words {
    request: Word,
    queue_pair: Word,
    /// Status and octets.
    outcome: Word,
    /// Immediate data of 8 octets. Valid only if the bit in the tag is set.
    immediate: Word,
}

/// All kinds of requests. The index is the value of the kind in the tag of a result.
const KINDS: [RequestType; 8] = {
    let [a, b, c, d, e, f] = RequestType::ALL;
    [
        a,
        b,
        c,
        d,
        e,
        f,
        RequestType::SendImmediate,
        RequestType::Atomic,
    ]
};
/// The bits of a tag that hold the kind.
const KIND: u64 = KINDS.len() as u64 - 1;
/// The bit of a tag that is set if the result has immediate data.
const IMMEDIATE: u64 = KINDS.len() as u64;

fn kind_bits(kind: RequestType) -> u64 {
    debug_assert!(
        KINDS.contains(&kind),
        "this provider has no requests of kind {kind}"
    );
    match kind {
        RequestType::SendImmediate => 6,
        RequestType::Atomic => 7,
        nd2 => u64::from(nd2.value()) & KIND,
    }
}

impl cq::Entry for Entry {
    type Result = CompletionResult;
    type Words = Words;

    const OVERFLOW: Reason = reason(Status::BUFFER_OVERFLOW); // CQ-022

    fn reason(name: &str) -> Option<Reason> {
        fault_plan::status(name).map(reason)
    }

    /// A failed request satisfies a solicited Notify as well (CQ-029).
    fn wakes(&self) -> bool {
        self.solicited || self.result.status != Status::SUCCESS
    }

    fn tag(&self) -> u64 {
        let immediate = match self.result.immediate {
            Some(_) => IMMEDIATE,
            None => 0,
        };
        immediate | kind_bits(self.result.request_type)
    }

    fn store(&self, words: &Words) {
        let result = &self.result;
        let outcome = u64::from(result.status.bits()) << 32 | u64::from(result.bytes_transferred);
        words.request.set(result.request_context);
        words.queue_pair.set(result.queue_pair_context);
        words.outcome.set(outcome);
        if let Some(octets) = result.immediate.and_then(Immediate::eight) {
            words.immediate.set(u64::from_ne_bytes(octets));
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "each half of the word is one value"
    )]
    fn load(words: &Words, tag: u64) -> CompletionResult {
        let outcome = words.outcome.get();
        let kind = KINDS[(tag & KIND) as usize];
        let immediate =
            (tag & IMMEDIATE != 0).then(|| Immediate::from(words.immediate.get().to_ne_bytes()));
        CompletionResult::new(kind, words.request.get())
            .status(Status::from_bits((outcome >> 32) as u32))
            .bytes_transferred(outcome as u32)
            .queue_pair_context(words.queue_pair.get())
            .immediate(immediate)
    }
}

/// The results that a Notify of this kind waits for (CQ-026 to CQ-028).
pub(super) fn notify_on(kind: NotifyType) -> NotifyOn {
    match kind {
        NotifyType::Any => NotifyOn::Any,
        NotifyType::Solicited => NotifyOn::Solicited,
        NotifyType::Errors => NotifyOn::Breakdown,
    }
}

/// The reason that represents this error status in the ring.
pub(crate) const fn reason(status: Status) -> Reason {
    match NonZeroU32::new(status.bits()) {
        Some(bits) => Reason(bits),
        None => panic!("a completion queue ends with an error"),
    }
}

/// The status that requests of Notify complete with: success, or the error behind the reason.
pub(super) fn status(reason: Option<Reason>) -> Status {
    reason.map_or(Status::SUCCESS, |Reason(bits)| {
        Status::from_bits(bits.get())
    })
}

#[cfg(test)]
mod tests {
    use iwarp_io::cq::Entry as _;

    use super::*;

    /// A result whose fields all follow from a number.
    fn result(number: u64) -> CompletionResult {
        let status = match number % 4 {
            3 => Status::CANCELED,
            _ => Status::SUCCESS,
        };
        let immediate = number
            .is_multiple_of(3)
            .then(|| number.to_ne_bytes().into());
        let kind = KINDS[usize::try_from(number % 8).unwrap()];
        CompletionResult::new(kind, number)
            .status(status)
            .bytes_transferred(u32::try_from(number).unwrap())
            .queue_pair_context(!number)
            .immediate(immediate)
    }

    #[test]
    fn a_result_is_loaded_as_it_was_stored() {
        let words = Words::default();
        for number in 0..48 {
            let entry = Entry {
                result: result(number),
                solicited: false,
            };
            entry.store(&words);
            assert!(entry.tag() < 16);
            assert_eq!(Entry::load(&words, entry.tag()), entry.result);
        }
    }

    #[test]
    fn cq_029_a_failed_request_satisfies_a_solicited_notify() {
        for (number, solicited, wakes) in [(0, false, false), (0, true, true), (3, false, true)] {
            let result = result(number);
            assert_eq!(Entry { result, solicited }.wakes(), wakes);
        }
    }

    #[test]
    fn every_error_is_a_reason_of_its_own() {
        for error in Status::ALL.iter().filter(|status| !status.is_success()) {
            assert_eq!(status(Some(reason(*error))), *error);
        }
        assert_eq!(status(None), Status::SUCCESS);
    }
}
