//! The text of fault plans, and what a plan does to a stream.

use std::io;
use std::time::Instant;

use iwarp::Role;
use iwarp_io::faults::{Faults, Plan, Rule};

/// Input: the text of a plan, in which invalid UTF-8 is replaced. Behind an octet of 0 follows a stream: first the length
/// of the pieces in which it passes, then its octets.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn fault_plan(data: &[u8]) {
    let mut parts = data.splitn(2, |octet| *octet == 0);
    let text = String::from_utf8_lossy(parts.next().unwrap_or_default());
    match text.parse::<Plan>() {
        Ok(plan) => {
            survives(&plan);
            if let Some([step, octets @ ..]) = parts.next() {
                pieces_do_not_matter(&plan, octets, usize::from(*step).max(1));
            }
        }
        Err(error) => {
            let line = text.lines().nth(error.line() - 1);
            let line = line.expect("an error is in a line of the text");
            assert!((1..=line.chars().count() + 1).contains(&error.column()));
            let shown = error.to_string();
            let lines: Vec<_> = shown.split('\n').collect();
            assert_eq!(lines.len(), 3, "place, line and caret");
            assert_eq!(lines[1].chars().count(), 2 + line.chars().count());
            assert_eq!(lines[2].chars().count(), 2 + error.column());
            let strange = |c: char| c.is_control() && c != '\t' && c != '\n';
            assert!(!shown.contains(strange), "{shown:?}");
        }
    }
}

/// A plan that is printed and read again, or made again rule by rule, is the same plan.
fn survives(plan: &Plan) {
    let printed = plan.to_string();
    assert_eq!(printed.lines().count(), plan.rules().len());
    let read = printed.parse::<Plan>();
    assert_eq!(read.as_ref(), Ok(plan));
    let rules = plan.rules().map(Rule::clone);
    let made = rules.fold(Plan::new(), |made, rule| {
        made.with_rule(rule)
            .expect("a rule of a plan fits into a plan")
    });
    assert_eq!(&made, plan);
}

/// The octets that pass at one moment, and the end, are the same whether a stream comes whole or in pieces.
fn pieces_do_not_matter(plan: &Plan, octets: &[u8], step: usize) {
    for role in [Role::Initiator, Role::Responder] {
        let sent = [octets.len().max(1), step].map(|step| send(plan, role, octets, step));
        assert_eq!(sent[0], sent[1]);
        let received = [octets.len().max(1), step].map(|step| receive(plan, role, octets, step));
        assert_eq!(received[0], received[1]);
    }
}

/// The octets that passed, the end of the stream, and the effects of each rule.
type Outcome = (Vec<u8>, &'static str, Vec<(usize, u64)>);

fn send(plan: &Plan, role: Role, octets: &[u8], step: usize) -> Outcome {
    let faults = Faults::new(plan.clone());
    let now = Instant::now();
    let mut passed = Vec::new();
    let mut sink = |octets: &[u8]| {
        passed.extend_from_slice(octets);
        Ok(octets.len())
    };
    let Some(mut stream) = faults.stream(role, ([127, 0, 0, 1], 1).into()) else {
        return (octets.to_vec(), "open", Vec::new());
    };
    let mut end = "open";
    for piece in octets.chunks(step) {
        match stream.write(now, piece, &mut sink) {
            Err(_) => end = "reset",
            Ok((_, Some(_))) => end = "held",
            Ok((_, None)) => {}
        }
    }
    stream.end_sending();
    match stream.flush(now, sink) {
        Err(_) => end = "reset",
        Ok(Some(_)) => end = "held",
        Ok(None) if stream.has_closed_sending() => end = "closed",
        Ok(None) => {}
    }
    (passed, end, faults.happened().collect())
}

fn receive(plan: &Plan, role: Role, octets: &[u8], step: usize) -> Outcome {
    let faults = Faults::new(plan.clone());
    let now = Instant::now();
    let Some(mut stream) = faults.stream(role, ([127, 0, 0, 1], 1).into()) else {
        return (octets.to_vec(), "open", Vec::new());
    };
    let mut rest = octets;
    let mut passed = Vec::new();
    let mut into = [0; 300];
    let end = loop {
        let read = stream.read(now, &mut into, |into| {
            let (now, later) = rest.split_at(rest.len().min(into.len()).min(step));
            into[..now.len()].copy_from_slice(now);
            rest = later;
            Ok(now.len())
        });
        match read {
            Ok(0) => break "end",
            Ok(count) => passed.extend_from_slice(&into[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break "held",
            Err(_) => break "reset",
        }
        assert!(passed.len() <= octets.len(), "no more than there is");
    };
    (passed, end, faults.happened().collect())
}
