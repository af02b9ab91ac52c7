//! The findings of the fuzzers, by name. Each is also a file of a corpus, so that mutations start from it.

/// A ready-to-receive message asked for late was put between two segments of a Send (OPEN-10).
#[test]
fn the_ready_message_waits_for_the_message_under_way() {
    softnd_fuzz::pair(include_bytes!("../corpus/pair/ready-message-in-a-message"));
}

/// The end of the peer's stream gave up a Send of which a part was on its way, and a response followed the incomplete Send
/// (OPEN-10).
#[test]
fn the_peers_end_lets_the_message_under_way_finish() {
    softnd_fuzz::engine(include_bytes!("../corpus/engine/end-in-a-message"));
}

/// A request that had to fail once the Read before it was answered did not, because an inbound Send stalled in the same
/// call: the Terminate was not announced.
#[test]
fn a_failure_that_is_due_is_announced_behind_a_stall() {
    softnd_fuzz::pair(include_bytes!("../corpus/pair/failure-behind-a-stall"));
}

/// A silent Bind left a mark behind that pointed at its slot; the Write that got the slot was done before it was sent, and its
/// slot was given away again under it.
#[test]
fn a_request_in_the_slot_of_a_silent_bind_is_not_done_unsent() {
    softnd_fuzz::pair(include_bytes!(
        "../corpus/pair/slot-of-a-silent-bind-used-again"
    ));
}

/// A malicious peer answered the Read that confirms Writes before that Read was sent, and a Write of which no FPDU had left
/// was done.
#[test]
fn an_answer_to_an_unsent_read_confirms_nothing() {
    softnd_fuzz::engine(include_bytes!(
        "../corpus/engine/answer-before-the-confirming-read"
    ));
}

/// A peer whose ready-to-receive message is a Read raised this side's limit of no Reads to one, as MPA2-020 has it, and the
/// target took this for a fault.
#[test]
fn a_read_as_the_ready_message_raises_a_limit_of_none() {
    softnd_fuzz::startup(include_bytes!(
        "../corpus/startup/ready-read-raises-a-limit-of-none"
    ));
}

/// Immediate Data whose last four octets are those of an announcement took no Receive between sides that know each other, and the Send behind
/// it took its place.
#[test]
fn a_number_of_the_client_announces_no_send() {
    softnd_fuzz::pair(include_bytes!("../corpus/pair/number-that-announces"));
}
