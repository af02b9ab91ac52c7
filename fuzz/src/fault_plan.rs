//! The text of fault plans.

use iwarp_io::faults::{Plan, Rule};

/// Input: the text of a plan; what is no UTF-8 is replaced.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn fault_plan(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match text.parse::<Plan>() {
        Ok(plan) => survives(&plan),
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

/// Printed and read again, and put together rule by rule, it is the same plan.
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
