//! Providers that break one rule each: exactly the checks for that rule fail.
//!
//! Each is softnd in a simulated network, wrapped. To add one: a line in `Break`, what it does in the wrapper, and a line in a
//! table of `tables` with the checks that have to fail, which should be one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use netdirect::Provider;
use netdirect_conform::{
    Check, End, Ends, Limits, Outcome, Run, Selection, Stop, Target, Wants, checks, run_these,
};
use softnd::Options;

use crate::sample;
use crate::tables::{Table, connections, objects, requests};
use crate::wrapper::{Break, Broken};

/// softnd in its own simulated network, with one rule broken.
fn target(rule: Break) -> Target {
    Target::new("broken", None, move |wants| {
        let inner = softnd::simulation::provider("seed=7", options(wants));
        let inner = inner.map_err(|error| Stop::Broken(error.to_string()))?;
        let addresses = inner.query_address_list();
        let addresses = addresses.map_err(|error| Stop::Broken(error.to_string()))?;
        let provider: Arc<dyn Provider> = Arc::new(Broken::new(inner, rule));
        let end = |address| End {
            provider: Arc::clone(&provider),
            address,
        };
        Ok(Ends {
            near: end(addresses[0]),
            far: end(addresses[1]),
        })
    })
}

/// As a check wants the provider to be.
fn options(wants: &Wants) -> Options {
    let options = Options::default().timeouts(|limits| {
        if let Some(limit) = wants.time_limits.map(Some) {
            (limits.connect, limits.reply, limits.request) = (limit, limit, limit);
            (limits.ready, limits.hold_ready, limits.disconnect) = (limit, limit, limit);
        }
        if wants.patience.is_some() {
            limits.hold_ready = wants.patience;
        }
    });
    options.limits(|limits| {
        limits.registration_size = wants.largest_registration.unwrap_or(u64::MAX);
    })
}

fn found(rule: Break, checks: impl Iterator<Item = &'static Check>) -> Run {
    // The harness runs several of these tests side by side, and each check at work needs some 20 MB.
    let selection = Selection {
        jobs: 1,
        ..Selection::default()
    };
    run_these(checks, &target(rule), &selection, |_| {}).unwrap()
}

fn failed(found: &Run) -> Vec<&'static str> {
    found.failures().map(|entry| entry.check.name).collect()
}

fn details(found: &Run) -> String {
    let failures = found.failures();
    let details = failures.map(|entry| format!("{}: {:#?}", entry.check.name, entry.outcome));
    details.collect::<Vec<_>>().join("\n")
}

/// Each broken provider fails the checks of its line and no others, of those that `met` says it meets.
fn verify<I: Iterator<Item = &'static Check>>(table: Table, met: impl Fn(usize) -> I) {
    let mut wrong = String::new();
    for (line, (rule, expected)) in table.iter().enumerate() {
        let found = found(*rule, met(line));
        let failed = failed(&found);
        if failed != *expected {
            wrong += &format!("{rule:?}: {failed:?} instead of {expected:?}\n");
            if std::env::var_os("DETAILS").is_some() {
                wrong += &details(&found);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Each broken provider meets the checks that can see its rule, and its part of the sample.
fn by_day<I: Iterator<Item = &'static Check>>(table: Table, sampled: usize, checks: fn() -> I) {
    verify(table, |line| {
        sample::of_line(table, line, sampled, checks())
    });
}

/// Each broken provider meets all checks.
fn at_night<I: Iterator<Item = &'static Check>>(table: Table, checks: fn() -> I) {
    verify(table, |_| checks());
}

#[test]
fn the_wrapper_itself_breaks_nothing() {
    let found = found(Break::Nothing, checks());
    assert!(found.succeeded(), "{}", details(&found));
    let passed = found.count(|outcome| *outcome == Outcome::Pass);
    assert!(passed > 120, "{passed}");
}

#[test]
fn a_wrong_status_fails_the_check_for_it() {
    by_day(objects::STATUSES, objects::SAMPLED, objects::all);
}

#[test]
fn a_wrong_deed_fails_the_check_for_it() {
    by_day(objects::BEHAVIOUR, objects::SAMPLED, objects::all);
}

#[test]
fn what_goes_wrong_after_a_while_fails_the_check_that_does_it_often() {
    by_day(objects::OFTEN, objects::SAMPLED, objects::slow);
}

#[test]
fn a_wrong_status_of_a_request_fails_the_check_for_it() {
    by_day(requests::STATUSES, requests::SAMPLED, requests::all);
}

#[test]
fn a_wrong_deed_with_requests_fails_the_check_for_it() {
    by_day(requests::BEHAVIOUR, requests::SAMPLED, requests::all);
}

#[test]
fn a_broken_connection_fails_the_checks_for_it() {
    by_day(connections::RULES, connections::SAMPLED, connections::all);
}

#[test]
fn by_day_each_check_meets_those_that_break_its_rule_and_several_others() {
    let mut met: HashMap<&str, usize> = HashMap::new();
    let mut count = |table: Table, sampled: usize, checks: &[&'static Check]| {
        for (line, (rule, expected)) in table.iter().enumerate() {
            let chosen = sample::of_line(table, line, sampled, checks.iter().copied());
            let chosen: Vec<_> = chosen.map(|check| check.name).collect();
            let missing = expected.iter().find(|name| !chosen.contains(name));
            assert_eq!(missing, None, "{rule:?}");
            for name in chosen.iter().filter(|name| !expected.contains(name)) {
                *met.entry(*name).or_default() += 1;
            }
        }
    };
    let objects: Vec<_> = objects::all().collect();
    let requests: Vec<_> = requests::all().collect();
    let connections: Vec<_> = connections::all().collect();
    count(objects::STATUSES, objects::SAMPLED, &objects);
    count(objects::BEHAVIOUR, objects::SAMPLED, &objects);
    count(requests::STATUSES, requests::SAMPLED, &requests);
    count(requests::BEHAVIOUR, requests::SAMPLED, &requests);
    count(connections::RULES, connections::SAMPLED, &connections);
    for check in [objects, requests, connections].concat() {
        let met = met.get(check.name).copied().unwrap_or(0);
        assert!(met >= 3, "{}: {met}", check.name);
    }
}

/// `cargo test -p netdirect-conform --test it every_broken_provider_against_all_checks -- --ignored`
mod every_broken_provider_against_all_checks {
    use super::*;

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn wrong_statuses() {
        at_night(objects::STATUSES, objects::all);
    }

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn wrong_deeds() {
        at_night(objects::BEHAVIOUR, objects::all);
    }

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn wrong_after_a_while() {
        at_night(objects::OFTEN, objects::slow);
    }

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn wrong_statuses_of_requests() {
        at_night(requests::STATUSES, requests::all);
    }

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn wrong_deeds_with_requests() {
        at_night(requests::BEHAVIOUR, requests::all);
    }

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn broken_connections() {
        at_night(connections::RULES, connections::all);
    }
}

/// All lines of the tables.
fn lines() -> impl Iterator<Item = &'static (Break, &'static [&'static str])> {
    let objects = [objects::STATUSES, objects::BEHAVIOUR, objects::OFTEN];
    let others = [requests::STATUSES, requests::BEHAVIOUR, connections::RULES];
    let tables = objects.into_iter().chain(others);
    tables.flatten().filter(|(_, names)| !names.is_empty())
}

/// The page has a line for each interface: its checks, the providers that fail one of these, and the checks that one fails.
#[test]
fn the_page_tells_how_many_rules_of_each_interface_are_broken() {
    let rows: HashSet<_> = lines()
        .flat_map(|(_, names)| names.iter())
        .map(|name| name.split('.').next())
        .collect();
    assert!(rows.len() >= 80, "{}", rows.len());
    let page = include_str!("../../pages/standards.md");
    let mut interfaces: Vec<_> = checks().map(|check| check.interface).collect();
    interfaces.dedup();
    for interface in interfaces {
        let own: HashSet<_> = checks()
            .filter(|check| check.interface == interface)
            .map(|check| check.name)
            .collect();
        let of_own = |names: &[&str]| names.iter().any(|name| own.contains(name));
        let rules = lines().filter(|(_, names)| of_own(names)).count();
        let names = lines().flat_map(|(_, names)| names.iter());
        let failing: HashSet<_> = names.filter(|name| own.contains(*name)).collect();
        let (title, all, some) = (interface.title(), own.len(), failing.len());
        let line = format!("| {title} | {all} | {rules} | {some} |");
        assert!(
            page.contains(&line),
            "docs/check/standards.md lacks: {line}"
        );
        assert!(rules > 0, "{title}");
    }
    let all = lines().count();
    let sentence = format!("{all} providers that break one rule each");
    assert!(
        page.contains(&sentence),
        "docs/check/standards.md lacks: {sentence}"
    );
}

/// A panic or a hang is a failure of the one check, and the others go on.
#[test]
fn a_panic_and_a_hang_of_the_provider_are_failures_with_their_step() {
    let only = || objects::all().filter(|check| check.name == "CQ-041.context");
    let panics = found(Break::FlushPanics, only());
    assert_eq!(failed(&panics), ["CQ-041.context"]);
    let text = details(&panics);
    assert!(text.contains("not implemented yet"), "{text}");
    let selection = Selection {
        limits: Limits {
            check: std::time::Duration::from_secs(1),
            ..Limits::default()
        },
        ..Selection::default()
    };
    let hangs = run_these(only(), &target(Break::FlushHangs), &selection, |_| {}).unwrap();
    assert_eq!(failed(&hangs), ["CQ-041.context"]);
    let text = details(&hangs);
    assert!(text.contains("a hang in the step"), "{text}");
}
