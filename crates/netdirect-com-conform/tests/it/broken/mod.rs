//! Libraries that break one rule each: exactly the checks for that rule fail.
//!
//! Each is softnd's library with another function in a table. To add one: the function, and a line in a table of `entry`, `objects`,
//! `queries`, `requests` or `connections` with the checks that have to fail, which should be one.

mod connections;
mod entry;
mod library;
mod objects;
mod queries;
mod requests;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use conform_report::{Pass, Stop, Verdict};
use netdirect_com::import::{Linked, linked};
use netdirect_conform::{
    Check, End, Ends, Interface, Limits, Profile, Steps, Unopened, Work, rows,
};

use self::entry::{CAN_UNLOAD, CLASS_OBJECT, EXPORTS};
use self::library::{Tables, use_tables, whole};

/// A broken rule: its description, the change that breaks it, and the checks that have to fail.
pub(crate) struct Line {
    what: &'static str,
    how: fn(&mut Broken),
    fails: &'static [&'static str],
}

const fn line(what: &'static str, how: fn(&mut Broken), fails: &'static [&'static str]) -> Line {
    Line { what, how, fails }
}

/// The settings of a library that are changed to break a rule.
pub(crate) struct Broken {
    pub(crate) tables: Tables,
    pub(crate) linked: Linked,
    /// The time that a check waits for an event or a packet. Only a library that sends none reaches the limit.
    pub(crate) answer: Duration,
}

/// All lines.
fn lines() -> impl Iterator<Item = &'static Line> {
    [
        entry::LINES,
        objects::LINES,
        queries::LINES,
        requests::LINES,
        connections::LINES,
    ]
    .into_iter()
    .flatten()
}

/// The libraries have one set of tables, and one state.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn make(check: &Check, broken: &Broken) -> Verdict {
    let Work::Unopened(run) = check.run else {
        panic!("{} opens its adapters", check.name);
    };
    // SAFETY: the functions are those of a library, whose objects keep ND2's rules but for one that has a status or a value.
    let provider = unsafe { linked("broken", broken.linked) };
    let end = End {
        provider: provider.expect("a provider"),
        address: "127.0.0.1:0".parse().unwrap(),
    };
    run(Unopened {
        ends: Ends {
            near: end.clone(),
            far: end,
        },
        limits: Limits {
            answer: broken.answer,
            ..Limits::default()
        },
        profile: Profile::default(),
        steps: Steps::default(),
    })
}

/// The checks that fail for a library, of these.
fn failures<'c>(how: fn(&mut Broken), checks: impl Iterator<Item = &'c Check>) -> Vec<String> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut broken = Broken {
        tables: whole(),
        linked: Linked {
            get_class_object: CLASS_OBJECT,
            can_unload_now: CAN_UNLOAD,
            exports: EXPORTS,
        },
        answer: Limits::default().answer,
    };
    how(&mut broken);
    entry::begin();
    use_tables(broken.tables);
    let mut failed = Vec::new();
    for check in checks {
        match make(check, &broken) {
            Ok(Pass::Right) => {}
            Err(Stop::Fail { expected, seen }) => {
                if std::env::var_os("DETAILS").is_some() {
                    println!("{}: expected {expected}, saw {seen}", check.name);
                }
                failed.push(check.name.to_owned());
            }
            other => failed.push(format!("{}: {other:?}", check.name)),
        }
    }
    failed
}

/// Each library fails the checks of its line and no others, of those that it is run with.
fn verify(meets: impl Fn(usize, &Line, usize, &Check) -> bool) {
    let mut wrong = String::new();
    for (at, line) in lines().enumerate() {
        let met = netdirect_com_conform::all().enumerate();
        let met = met.filter(|(index, check)| meets(at, line, *index, check));
        let failed = failures(line.how, met.map(|(_, check)| check));
        if failed != line.fails {
            wrong += &format!("{}: {failed:?} instead of {:?}\n", line.what, line.fails);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn softnds_own_library_passes_every_check_of_the_border() {
    assert_eq!(failures(|_| {}, netdirect_com_conform::all()), [""; 0]);
}

/// Each library is run with the checks that have to fail, and a part of the others, so that each of these is run with several libraries.
#[test]
fn a_library_that_breaks_a_rule_fails_the_check_for_it() {
    verify(|at, line, index, check| {
        line.fails.contains(&check.name) || (index + at).is_multiple_of(8)
    });
}

/// `.ci/night` runs it.
#[test]
#[ignore = "takes a while: every library meets every check"]
fn a_library_that_breaks_a_rule_fails_no_other_check() {
    verify(|_, _, _, _| true);
}

#[test]
fn each_check_of_the_border_has_a_library_that_fails_it() {
    let fails: HashSet<_> = lines().flat_map(|line| line.fails).copied().collect();
    let lacking = netdirect_com_conform::all().filter(|check| !fails.contains(check.name));
    let lacking: Vec<_> = lacking.map(|check| check.name).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
    let mut names = HashSet::new();
    for check in netdirect_com_conform::all() {
        assert!(names.insert(check.name), "{} twice", check.name);
        assert_eq!(check.interface, Interface::Border, "{}", check.name);
        assert!(!check.title.ends_with('.'), "{}", check.name);
        assert!(netdirect_conform::checks().all(|other| other.name != check.name));
        for id in check.rows() {
            let row = rows::find(id).unwrap_or_else(|| panic!("{id} of {}", check.name));
            assert!(row.unproven.is_empty(), "{id}: {}", row.because);
        }
    }
    assert!(names.len() >= 45, "{}", names.len());
}
