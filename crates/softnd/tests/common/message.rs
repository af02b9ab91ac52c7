//! One small message, and the result that its receiver waits for.

use netdirect::{CompletionResult, NotifyType, OpFlags, Overlapped};

use super::{ALL, Pair, Region, pair};

/// Sends from the active to the passive side of a pair, whose Receive is posted into the region returned.
#[must_use]
pub fn send(pair: &Pair) -> Region {
    let target = pair.passive.region(8, ALL);
    send_into(pair, &target);
    target
}

pub fn send_into(pair: &Pair, target: &Region) {
    pair.passive_qp.receive(1, &[target.sge(0, 8)]).unwrap();
    pair.active_qp
        .send_inline(2, &[b"ping"], OpFlags::empty())
        .unwrap();
}

pub fn taken(pair: &Pair) {
    let mut result = [CompletionResult::default()];
    assert_eq!(pair.passive.cq.get_results(&mut result), 1);
    assert_eq!(result[0].bytes_transferred, 4);
}

pub fn armed(pair: &Pair, overlapped: &Overlapped) {
    let _ = pair.passive.cq.notify(NotifyType::Any, overlapped).unwrap();
}

/// A pair whose passive side has polled through enough messages that its stream is not reported any more.
pub fn steadily_polled() -> (Pair, Region) {
    let pair = pair();
    let target = pair.passive.region(8, ALL);
    for _ in 0..200 {
        send_into(&pair, &target);
        let mut result = [CompletionResult::default()];
        while pair.passive.cq.get_results(&mut result) == 0 {
            std::hint::spin_loop();
        }
        while pair.active.cq.get_results(&mut result) == 0 {
            std::hint::spin_loop();
        }
    }
    (pair, target)
}
