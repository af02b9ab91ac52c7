//! Running checks: hangs, panics, missing needs and known deviations are reported as such.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use netdirect::{NotifyType, Overlapped, Provider, QueuePairOptions};
use netdirect_conform::{
    Bench, Check, End, Ends, Interface, Limits, Need, Outcome, Pass, Run, Selection, Stop, Target,
    Work, deviations, report, run, run_these,
};
use softnd::Options;

const fn check(name: &'static str, run: fn(&Bench) -> netdirect_conform::Verdict) -> Check {
    Check {
        name,
        also: &[],
        interface: Interface::Adapter,
        title: "does what the test needs",
        needs: &[],
        time_limits: None,
        largest_registration: None,
        patience: None,
        run: Work::Opened(run),
    }
}

/// Each check has its own simulated network.
fn simulated() -> Target {
    Target::new("simulated", None, |_| {
        let provider = softnd::simulation::provider("seed=7", Options::default());
        let provider = provider.map_err(|error| Stop::Broken(error.to_string()))?;
        let addresses = provider.query_address_list();
        let addresses = addresses.map_err(|error| Stop::Broken(error.to_string()))?;
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

fn tcp() -> Target {
    let provider: Arc<dyn Provider> = softnd::provider(Options::default());
    Target::on_provider(&provider, SocketAddr::from(([127, 0, 0, 1], 0)))
}

fn found(target: &Target, checks: &'static [Check], selection: &Selection) -> Run {
    run_these(checks.iter(), target, selection, |_| {}).unwrap()
}

fn seen(found: &Run, at: usize) -> &str {
    match &found.entries[at].outcome {
        Outcome::Fail(failure) => &failure.seen,
        other => panic!("no failure: {other:?}"),
    }
}

const HANGS: &[Check] = &[
    check("ADPT-001.call", |bench| {
        bench.step("a call that never returns");
        loop {
            std::thread::park();
        }
    }),
    check("ADPT-002.wait", |bench| {
        let cq = bench.near.cq(8)?;
        let overlapped = Overlapped::new();
        let started = cq.notify(NotifyType::Any, &overlapped);
        bench
            .near
            .done("a Notify that nothing ends", started, &overlapped)?;
        Ok(Pass::Right)
    }),
    check("ADPT-003.result", |bench| {
        let cq = bench.near.cq(8)?;
        bench.near.result("of a request that nobody made", &cq)?;
        Ok(Pass::Right)
    }),
];

#[test]
fn a_wait_without_end_is_a_failure_that_names_the_step() {
    let limits = Limits {
        answer: Duration::from_millis(20),
        ..Limits::default()
    };
    let selection = Selection {
        limits,
        ..Selection::default()
    };
    for target in [simulated(), tcp()] {
        let found = found(&target, &HANGS[1..], &selection);
        for (at, step) in [
            (0, "\"near: a Notify that nothing ends\""),
            (
                1,
                "\"near: wait for 1 results: of a request that nobody made\"",
            ),
        ] {
            let seen = seen(&found, at);
            assert!(seen.contains("a hang in the step"), "{seen}");
            assert!(seen.contains(step), "{seen}");
        }
        assert!(!found.succeeded());
    }
}

const REFUSED: &[Check] = &[check("CONN-001.refused", |bench| {
    let listening = bench.far.listening()?;
    let (connecting, accepting) = (bench.near.connector()?, bench.far.connector()?);
    let queues = bench.near.queues(8, QueuePairOptions::default())?;
    let (arrived, answered) = (Overlapped::new(), Overlapped::new());
    let (arrived, answered) = (arrived.without_port(), answered.without_port());
    let request = listening
        .listener
        .get_connection_request(&accepting, &arrived);
    let request = bench.far.started("get a connection request", request)?;
    // No listener is there.
    let elsewhere = SocketAddr::new(listening.address.ip(), listening.address.port() ^ 1);
    let connect = connecting.connect(&queues.qp, elsewhere, 0, 0, &[], &answered);
    let _ = bench.near.started("connect", connect)?;
    bench.far.arrives(request, &arrived, &answered)?;
    Ok(Pass::Right)
})];

#[test]
fn a_connect_that_fails_ends_the_wait_for_its_arrival() {
    let found = found(&simulated(), REFUSED, &Selection::default());
    let seen = seen(&found, 0);
    assert!(
        seen.starts_with("the failure of Connect: ND_CONNECTION_REFUSED"),
        "{seen}"
    );
}

#[test]
fn a_call_that_does_not_return_is_a_failure_that_names_the_step() {
    let mut last = String::new();
    // A machine that pauses for a second may not have reached the call when the time is over; then the test allows more time.
    for seconds in [1, 4, 16, 60] {
        let selection = Selection {
            limits: Limits {
                check: Duration::from_secs(seconds),
                ..Limits::default()
            },
            ..Selection::default()
        };
        let found = run_these(HANGS[..1].iter(), &simulated(), &selection, |_| {});
        let Ok(found) = found else { continue };
        last = seen(&found, 0).to_owned();
        assert!(last.contains("a hang in the step"), "{last}");
        if last.contains("\"a call that never returns\"") {
            return;
        }
    }
    panic!("{last}");
}

#[test]
fn a_wait_that_nothing_in_a_simulation_can_end_takes_no_time() {
    let found = found(&simulated(), &HANGS[1..], &Selection::default());
    assert_eq!(found.failures().count(), 2);
    let limit = Limits::default().answer;
    assert!(found.entries.iter().all(|entry| entry.took < limit));
}

const PANIC: &[Check] = &[check("ADPT-001.panic", |bench| {
    bench.step("divide");
    panic!("by zero, of all numbers")
})];

#[test]
fn a_panic_is_a_failure_with_its_message() {
    let found = found(&simulated(), PANIC, &Selection::default());
    let seen = seen(&found, 0);
    assert_eq!(
        seen,
        "a panic in the step \"divide\": by zero, of all numbers"
    );
}

const LACKING: &[Check] = &[Check {
    needs: &[Need::Faults, Need::NoResize],
    ..check("ADPT-001.needs", |_| panic!("it must not run"))
}];

#[test]
fn a_skip_names_the_capability_that_is_missing() {
    let found = found(&simulated(), LACKING, &Selection::default());
    let Outcome::Skip(why) = &found.entries[0].outcome else {
        panic!("{:?}", found.entries[0].outcome);
    };
    assert!(why.contains("CQ_RESIZE_SUPPORTED"), "{why}");
    assert!(found.succeeded());
}

const OF_ANOTHER_RUN: &[Check] = &[
    Check {
        needs: &[Need::StrictProfile],
        ..check("ADPT-001.strict", |_| panic!("it must not run"))
    },
    check("ADPT-002.fault", |bench| {
        bench.near.inject(netdirect::Fault::UnreachableHost {
            address: "192.0.2.1".parse().expect("an address"),
        })?;
        panic!("a network of the system has no such fault")
    }),
];

#[test]
fn what_the_run_does_not_provide_is_no_skip_of_the_adapter() {
    let found = found(&tcp(), OF_ANOTHER_RUN, &Selection::default());
    let left_out: Vec<_> = found
        .left_out()
        .map(|(entry, why)| (entry.check.name, why))
        .collect();
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert_eq!(
        left_out[0],
        ("ADPT-001.strict", "the run is not of the strict profile")
    );
    assert!(left_out[1].1.contains("UnreachableHost"), "{left_out:?}");
    assert!(found.is_empty());
    assert!(!found.succeeded(), "nothing was checked");
}

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

const UNREACHABLE: &[Check] = &[check("ADPT-001.host", |bench| {
    let host = bench.unreachable_host()?;
    bench.near.equal("the host", host, HOST)?;
    Ok(Pass::Right)
})];

#[test]
fn the_host_that_the_run_names_is_taken_if_it_is_of_the_family_of_the_adapter() {
    let outcome_for = |host: Option<&str>| {
        let selection = Selection {
            unreachable_host: host.map(|host| host.parse().unwrap()),
            ..Selection::default()
        };
        let mut found = found(&tcp(), UNREACHABLE, &selection);
        found.entries.remove(0).outcome
    };
    assert_eq!(outcome_for(Some("192.0.2.9")), Outcome::Pass);
    for (host, wanted) in [
        (Some("2001:db8::9"), "no address of the family"),
        (None, "--unreachable-host"),
    ] {
        match outcome_for(host) {
            Outcome::LeftOut(why) => assert!(why.contains(wanted), "{why}"),
            other => panic!("{host:?}: {other:?}"),
        }
    }
}

const JOBS: &[Check] = &[
    check("ADPT-001.a", together),
    check("ADPT-002.a", together),
    check("ADPT-003.a", together),
    check("ADPT-004.a", together),
];
static ARRIVED: AtomicUsize = AtomicUsize::new(0);

/// Ends when four checks are here at the same time.
fn together(bench: &Bench) -> netdirect_conform::Verdict {
    bench.step("wait for the other checks");
    ARRIVED.fetch_add(1, Ordering::SeqCst);
    while ARRIVED.load(Ordering::SeqCst) < JOBS.len() {
        std::thread::yield_now();
    }
    Ok(Pass::Right)
}

#[test]
fn checks_run_beside_each_other_and_are_told_of_in_their_order() {
    let selection = Selection {
        jobs: 4,
        ..Selection::default()
    };
    let mut names = Vec::new();
    let found = run_these(JOBS.iter(), &simulated(), &selection, |entry| {
        names.push(entry.check.name);
    });
    assert!(found.unwrap().succeeded());
    assert_eq!(
        names,
        ["ADPT-001.a", "ADPT-002.a", "ADPT-003.a", "ADPT-004.a"]
    );
}

const TWICE: &[Check] = &[
    check("ADPT-001.a", |_| Ok(Pass::Right)),
    check("ADPT-002.a", |_| Ok(Pass::Right)),
    check("ADPT-001.a", |_| Ok(Pass::Right)),
];

#[test]
fn two_checks_of_one_name_are_refused_before_any_runs() {
    for jobs in [1, 3] {
        let selection = Selection {
            jobs,
            ..Selection::default()
        };
        let found = run_these(TWICE.iter(), &simulated(), &selection, |entry| {
            panic!("{} ran", entry.check.name)
        });
        let error = found.map(|run| run.entries.len()).unwrap_err();
        assert!(
            error.contains("two checks are called ADPT-001.a"),
            "{error}"
        );
    }
}

const KNOWN: &[Check] = &[
    check("ADPT-020.depths", |_| Err(netdirect_conform_fail())),
    check("ADPT-023.depths", |_| Ok(Pass::Right)),
];

fn netdirect_conform_fail() -> Stop {
    Stop::Fail {
        expected: "one".into(),
        seen: "two".into(),
    }
}

#[test]
fn a_known_deviation_is_no_failure_and_a_mended_one_is_a_pass() {
    let text = "[[deviation]]\ncheck = 'ADPT-020'\nreason = 'why'\nsource = 'how'\n\
                [[deviation]]\ncheck = 'ADPT-023.depths'\nreason = 'why'\nsource = 'how'\n";
    let selection = Selection {
        deviations: deviations::parse(text).unwrap(),
        ..Selection::default()
    };
    let found = found(&simulated(), KNOWN, &selection);
    assert!(found.succeeded());
    assert!(matches!(found.entries[0].outcome, Outcome::Known(..)));
    assert!(matches!(found.entries[1].outcome, Outcome::Mended(_)));
    let json = report::json(&found);
    assert!(json.contains("\"outcome\": \"known\""), "{json}");
    assert!(
        json.contains("\"detail\": \"why (how); saw two\""),
        "{json}"
    );
    assert!(json.contains("\"outcome\": \"pass\""), "{json}");
}

#[test]
fn only_selects_by_family_row_and_name() {
    let names = |only: &[&str]| {
        let selection = Selection {
            only: only.iter().map(|text| (*text).to_owned()).collect(),
            ..Selection::default()
        };
        let found = run(&simulated(), &selection, |_| {}).unwrap();
        let names = found.entries.iter().map(|entry| entry.check.name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&["ADPT-020"]), ["ADPT-020.depths"]);
    assert_eq!(
        names(&["ADPT-023.depths", "ADPT-020"]),
        ["ADPT-020.depths", "ADPT-023.depths"]
    );
    assert_eq!(
        names(&["ADPT-022"]),
        ["ADPT-021.shortage"],
        "by a further row"
    );
    assert!(names(&["INFO"]).len() >= 2);
    assert!(names(&["NOTHING"]).is_empty());
}

#[test]
fn what_cannot_be_opened_is_told_once() {
    let target = Target::new("nowhere", None, |_| {
        Err(Stop::Broken("no such thing".into()))
    });
    let error = run(&target, &Selection::default(), |_| {}).unwrap_err();
    assert_eq!(error, "no such thing");
}
