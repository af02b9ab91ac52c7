//! Every cell of the table.

use super::*;

/// The effect of an event in a state, in words.
fn cell(state: State, event: Event) -> String {
    match step(state, event) {
        Ok(Step { next, acts, row }) => {
            let acts: Vec<_> = acts.iter().map(|act| format!("{act:?}")).collect();
            let next = match next == state {
                true => String::new(),
                false => format!("{next:?}"),
            };
            format!("{next} | {} | {row}", acts.join(", "))
        }
        Err(refusal) => {
            let next = match refusal.next == state {
                true => String::new(),
                false => format!("{:?}", refusal.next),
            };
            let status = refusal.status.name().expect("a name");
            format!("{next} | the call fails: {status} | {}", refusal.row)
        }
    }
}

/// The table for readers: for each event, groups of states in which it has the same effect.
fn table() -> String {
    let mut table =
        String::from("| event | in | next state | what follows | rows |\n|---|---|---|---|---|\n");
    for event in Event::ALL {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for state in State::ALL {
            let (cell, name) = (cell(state, event), format!("{state:?}"));
            match groups.iter_mut().find(|(other, _)| *other == cell) {
                Some((_, states)) => states.push(name),
                None => groups.push((cell, vec![name])),
            }
        }
        for (cell, states) in groups {
            let line = format!("| {event:?} | {} | {cell} |", states.join(", "));
            let words: Vec<_> = line.split_whitespace().collect();
            table += &words.join(" ");
            table += "\n";
        }
    }
    table
}

/// `table.md` is the reviewed table: a change of a cell changes the file as well.
#[test]
fn every_cell_is_as_the_table_for_readers_says() {
    let documented = include_str!("../table.md");
    let table = table();
    let is_same = table == documented;
    assert!(is_same, "connector/table.md should be:\n{table}");
}

fn is_call(event: Event) -> bool {
    use Event::*;
    matches!(
        event,
        Bind | BindAgain
            | GetConnectionRequest
            | Connect
            | CompleteConnect
            | Accept
            | Reject
            | NotifyDisconnect
            | Disconnect
            | TakeBack
    )
}

#[test]
fn only_calls_fail_and_a_call_that_fails_changes_no_connector_that_can_go_on() {
    for (state, event) in cells() {
        if let Err(refusal) = step(state, event) {
            assert!(is_call(event), "{event:?} in {state:?}");
            assert!(!refusal.status.is_success() && !refusal.what.is_empty());
            let goes_on = refusal.next == state;
            // CONN-055, CONN-071: the peer had disconnected.
            let is_over = (state, refusal.next) == (State::Gone, State::Dead);
            assert!(goes_on || is_over, "{event:?} in {state:?}");
        }
    }
}

#[test]
fn conn_114_a_connector_that_is_over_stays_so() {
    for (state, event) in cells().filter(|(state, _)| state.is_over()) {
        if let Ok(step) = step(state, event) {
            assert!(step.next.is_over(), "{event:?} in {state:?}");
        }
    }
}

/// The requests that can be in flight in a state: a Connect, CompleteConnect, Accept or Disconnect; a NotifyDisconnect.
fn may_have(state: State) -> (bool, bool) {
    use State::*;
    let change = matches!(state, Connecting | Answered | Accepting | Disconnecting);
    (change, matches!(state, Connected | Disconnecting))
}

#[test]
fn no_state_is_left_with_requests_that_the_next_one_cannot_have() {
    use Act::{EndAll, EndNotifications, EndStateChange, FinishDisconnect};
    for (state, event) in cells() {
        let Ok(Step { next, acts, .. }) = step(state, event) else {
            continue;
        };
        let ends = |what: fn(&Act) -> bool| acts.iter().any(what);
        let ends_change =
            ends(|act| matches!(act, EndAll(_) | EndStateChange(_) | FinishDisconnect));
        let ends_notifications =
            ends(|act| matches!(act, EndAll(_) | EndNotifications | FinishDisconnect));
        let ((had_change, had_notifications), (change, notifications)) =
            (may_have(state), may_have(next));
        // A CompleteConnect ends in the call that has begun it.
        let ends_call = matches!(event, Event::Completed | Event::CompletionFails);
        let has_change = had_change && (state != State::Answered || ends_call);
        if has_change && !change {
            assert!(ends_change, "{event:?} in {state:?}");
        }
        if had_notifications && !notifications {
            assert!(ends_notifications, "{event:?} in {state:?}");
        }
    }
}

#[test]
fn conn_105_only_cancel_release_and_removal_end_notifications_with_another_status_than_success() {
    for (state, event) in cells() {
        let Ok(Step { acts, .. }) = step(state, event) else {
            continue;
        };
        let all = acts.iter().any(|act| matches!(act, Act::EndAll(_)));
        if all && may_have(state).1 {
            let is_explicit =
                matches!(event, Event::Cancel | Event::Release | Event::DeviceRemoved);
            assert!(is_explicit, "{event:?} in {state:?}");
        }
    }
}

fn cells() -> impl Iterator<Item = (State, Event)> {
    let events_in = |state| Event::ALL.map(|event| (state, event));
    State::ALL.into_iter().flat_map(events_in)
}

#[test]
fn no_state_and_no_event_is_listed_twice() {
    for list in [
        State::ALL.map(|state| format!("{state:?}")).to_vec(),
        Event::ALL.map(|event| format!("{event:?}")).to_vec(),
    ] {
        let mut names = list.clone();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), list.len());
    }
}
