//! Judges the reaction of a target to an error.

use std::time::Instant;

use crate::conn::{Conn, End, Seen, describe};
use crate::wire::{Code, Segment, Terminate, hex, opcode};
use conform_report::{Pass, Step, Verdict, fail};

/// The end of a stream on which the suite has sent an error.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// With this Terminate.
    Terminate(Segment, Terminate),
    /// Without a Terminate.
    Closed(End),
}

/// Waits for a Terminate or the end of the stream. Anything else is skipped.
///
/// # Errors
///
/// A failure, if neither comes.
pub(crate) fn ending(conn: &mut Conn, expected: &str) -> Step<Ending> {
    let limit = conn.limits().answer;
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let first = conn.target_is_initiator && conn.inbound.segments == 0;
        match conn.segment(left)? {
            Seen::It(segment) if segment.opcode == opcode::TERMINATE => {
                let Some(terminate) = Terminate::parse(&segment.payload, first) else {
                    return Err(fail(
                        expected,
                        format!("a Terminate without header: {}", hex(&segment.payload, 16)),
                    ));
                };
                return Ok(Ending::Terminate(segment, terminate));
            }
            Seen::It(_) => {}
            Seen::End(end, _) => return Ok(Ending::Closed(end)),
            Seen::Nothing => return Err(fail(expected, describe::<()>(&Seen::Nothing, limit))),
        }
    }
}

/// Checks that one of these Terminates comes. The first is preferred. The mere end of the stream is a weak pass (RFC 5040
/// §6.2.1).
///
/// # Errors
///
/// A failure, if another Terminate comes, or nothing.
pub(crate) fn terminated(conn: &mut Conn, codes: &[Code]) -> Verdict {
    let expected = wanted(codes);
    match ending(conn, &expected)? {
        Ending::Terminate(_, terminate) if codes.contains(&terminate.code) => Ok(Pass::Right),
        Ending::Terminate(_, terminate) => {
            Err(fail(expected, format!("Terminate {}", terminate.code)))
        }
        Ending::Closed(end) => Ok(Pass::Weak(format!(
            "{end:?} without the {expected}, which a close may overtake (RFC 5040 §6.2.1)"
        ))),
    }
}

/// Checks that any Terminate comes, or the end of the stream.
///
/// # Errors
///
/// A failure, if neither comes.
pub(crate) fn ended(conn: &mut Conn) -> Verdict {
    ending(conn, "a Terminate, or the end of the stream").map(|_| Pass::Right)
}

/// Checks that the stream ends without a Terminate.
///
/// # Errors
///
/// A failure, if something else comes.
pub(crate) fn closed(conn: &mut Conn) -> Verdict {
    let expected = "the end of the stream, and no Terminate";
    match ending(conn, expected)? {
        Ending::Closed(_) => Ok(Pass::Right),
        Ending::Terminate(_, terminate) => {
            Err(fail(expected, format!("Terminate {}", terminate.code)))
        }
    }
}

/// Returns the Terminate, for checks of its form.
///
/// # Errors
///
/// A failure, if another Terminate comes, or nothing. The check is skipped if the close has overtaken the Terminate.
pub(crate) fn sample(conn: &mut Conn, codes: &[Code]) -> Step<(Segment, Terminate)> {
    let expected = wanted(codes);
    match ending(conn, &expected)? {
        // Another check is about the code.
        Ending::Terminate(segment, terminate) => Ok((segment, terminate)),
        Ending::Closed(end) => Err(conform_report::Stop::Skip(format!(
            "{end:?} instead of the {expected}: there is nothing to look at"
        ))),
    }
}

fn wanted(codes: &[Code]) -> String {
    let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
    format!("Terminate {}", codes.join(" or "))
}
