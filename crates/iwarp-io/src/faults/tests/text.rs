//! The text of plans: its meaning, the errors in wrong texts, and that printing and reading a plan again yields the same plan.

use std::time::Duration;

use proptest::prelude::*;

use super::super::*;

fn plan(text: &str) -> Plan {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn only(text: &str) -> Rule {
    let plan = plan(text);
    let [rule] = plan
        .rules()
        .cloned()
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    rule
}

fn passing(unit: Unit, direction: Direction) -> Event {
    Event::Passing(unit, direction)
}

#[test]
fn each_form_means_what_it_says() {
    use Direction::{Received, Sent};
    use Which::{Each, Every, From, Last, Nth};
    let message = |which, kind| Unit::Message(which, kind);
    let name = |name: &str| name.to_owned();
    let fpdu_of = |fpdu, message, kind| Unit::FpduOf {
        fpdu,
        message,
        kind,
    };
    let ms = Duration::from_millis;
    for (text, event, action) in [
        (
            "when 3rd FPDU of 2nd Read Response sent: reset",
            passing(fpdu_of(Nth(3), Nth(2), Kind::ReadResponse), Sent),
            Action::reset(),
        ),
        (
            "when last FPDU of each message received: close after octet 7",
            passing(fpdu_of(Last, Each, Kind::Any), Received),
            Action::close().after_octet(7),
        ),
        (
            "when every other FPDU sent: flip bit 31 of CRC",
            passing(Unit::Fpdu(Every(2)), Sent),
            Action::flip(31, Field::Crc),
        ),
        (
            "when every 11th Atomic Request received: flip bit 0 of payload with good CRC",
            passing(message(Every(11), Kind::AtomicRequest), Received),
            Action::Flip {
                bit: 0,
                field: Field::Payload,
                good_crc: true,
            },
        ),
        (
            "when from 22nd on MPA Request sent: hold",
            passing(message(From(22), Kind::MpaRequest), Sent),
            Action::hold(),
        ),
        (
            "when 1st Send sent: hold for 5ms after octet 0",
            passing(message(Nth(1), Kind::Send), Sent),
            Action::hold_for(ms(5)).after_octet(0),
        ),
        (
            "WHEN 100TH immediate data SENT: Remove Device",
            passing(message(Nth(100), Kind::Immediate), Sent),
            Action::RemoveDevice(Place::End),
        ),
        (
            "when each Terminate received: break queue with ND_INTERNAL_ERROR",
            passing(message(Each, Kind::Terminate), Received),
            Action::BreakQueue(name("ND_INTERNAL_ERROR"), Place::End),
        ),
        (
            "when every 20th datagram sent: drop",
            Event::Datagram(Every(20), Sent),
            Action::Drop,
        ),
        (
            "when Each Datagram received: Duplicate",
            Event::Datagram(Each, Received),
            Action::Duplicate,
        ),
        (
            "when 2nd datagram received: delay for 5 ms",
            Event::Datagram(Nth(2), Received),
            Action::Delay(Lateness::Time(ms(5))),
        ),
        (
            "when every 7th datagram sent: delay behind 3 datagrams",
            Event::Datagram(Every(7), Sent),
            Action::Delay(Lateness::Datagrams(3)),
        ),
        (
            "when from 9th on datagram sent: flip bit 4096 of payload",
            Event::Datagram(From(9), Sent),
            Action::flip(4096, Field::Payload),
        ),
        (
            "when 100th datagram sent: rebind",
            Event::Datagram(Nth(100), Sent),
            Action::Rebind,
        ),
        (
            "when every other connect: refuse",
            Event::Connect(Every(2)),
            Action::Refuse,
        ),
        (
            "when 1st accept: hold for 2 s",
            Event::Accept(Nth(1)),
            Action::hold_for(ms(2000)),
        ),
        (
            "when 2nd completion: hold for 5000 us",
            Event::Completion(Nth(2)),
            Action::hold_for(ms(5)),
        ),
        (
            "when 2nd Register called: fail with ND_NO_MEMORY",
            Event::Call(Nth(2), name("Register")),
            Action::Fail(name("ND_NO_MEMORY")),
        ),
    ] {
        assert_eq!(only(text), Rule::new(event, action), "{text}");
    }
}

#[test]
fn rules_say_over_what_and_for_whom_they_count() {
    let rule = || {
        Rule::new(
            passing(Unit::Fpdu(Which::Nth(1)), Direction::Sent),
            Action::reset(),
        )
    };
    let peer = |text: &str| Peer::Address(text.parse().unwrap());
    for (text, due) in [
        ("", rule()),
        (" on connection 2", rule().scope(Scope::One(2))),
        (" over all connections", rule().scope(Scope::All)),
        (" with peer 10.0.0.7", rule().with_peer(peer("10.0.0.7"))),
        (" with peer fe80::1", rule().with_peer(peer("fe80::1"))),
        (" with peer fe80::", rule().with_peer(peer("fe80::"))),
        (
            " over all connections with peer [::1]:80",
            rule()
                .scope(Scope::All)
                .with_peer(Peer::Port("[::1]:80".parse().unwrap())),
        ),
    ] {
        assert_eq!(
            only(&format!("when 1st FPDU sent{text}: reset")),
            due,
            "{text}"
        );
        if !text.ends_with(':') {
            let apart = format!("when 1st FPDU sent{text} :  reset");
            assert_eq!(only(&apart), due, "{text}");
        }
    }
    let queues = Rule::new(Event::Completion(Which::Each), Action::hold());
    assert_eq!(
        only("when each completion on queue 3: hold"),
        queues.scope(Scope::One(3))
    );
    let datagrams = Rule::new(Event::Datagram(Which::Each, Direction::Sent), Action::Drop);
    assert_eq!(
        only("when each datagram sent over all sockets with peer 10.0.0.7: drop"),
        datagrams
            .clone()
            .scope(Scope::All)
            .with_peer(peer("10.0.0.7"))
    );
    assert_eq!(
        only("when each datagram sent on socket 2: drop"),
        datagrams.scope(Scope::One(2))
    );
    let peers = Rule::new(Event::Accept(Which::Each), Action::Refuse);
    let text = "when each accept with peer ::ffff:10.0.0.7: refuse";
    assert_eq!(only(text), peers.with_peer(peer("::ffff:10.0.0.7")));
}

#[test]
fn lines_semicolons_comments_and_blank_lines_part_rules() {
    let text = "# a plan\n\n  when each connect: refuse # always\n;when 1st FPDU sent: reset;; when 2nd accept: hold;\r\n";
    let plan = plan(text);
    let lines: Vec<_> = plan
        .rules()
        .map(|rule| (rule.line(), rule.to_string()))
        .collect();
    assert_eq!(
        lines,
        [
            (3, "when each connect: refuse".to_owned()),
            (4, "when 1st FPDU sent: reset".to_owned()),
            (4, "when 2nd accept: hold".to_owned()),
        ]
    );
    assert!("".parse::<Plan>().unwrap().is_empty());
    assert!(" ; # nothing".parse::<Plan>().unwrap().is_empty());
}

/// Each wrong text, with the line and the column of the mistake, and the message.
const ERRORS: &[(&str, usize, usize, &str)] = &[
    (
        "1st Write sent: reset",
        1,
        1,
        "expected `when`, found `1st`",
    ),
    (
        "\nwhen 1st Write send: reset",
        2,
        16,
        "expected `sent` or `received`, found `send`",
    ),
    (
        "when 1st Write",
        1,
        15,
        "expected `sent` or `received`, found the end of the rule",
    ),
    (
        "when second Write sent: reset",
        1,
        6,
        "expected an ordinal such as `2nd`, `each`, `every`, `last` or `from`, found `second`",
    ),
    (
        "when 2th Write sent: reset",
        1,
        6,
        "expected an ordinal such as `2nd`, `each`, `every`, `last` or `from`, found `2th`",
    ),
    (
        "when 0th Write sent: reset",
        1,
        6,
        "expected an ordinal such as `2nd`, `each`, `every`, `last` or `from`, found `0th`",
    ),
    (
        "when every Write sent: reset",
        1,
        12,
        "expected `other` or an ordinal such as `2nd`, found `Write`",
    ),
    (
        "when from 2nd Write sent: reset",
        1,
        15,
        "expected `on`, found `Write`",
    ),
    (
        "when last Write sent: reset",
        1,
        11,
        "expected `FPDU`, found `Write`",
    ),
    (
        "when last FPDU sent: reset",
        1,
        16,
        "expected `of` and a message, of which the FPDU is the last, found `sent`",
    ),
    (
        "when 1st FPDU of last Write sent: reset",
        1,
        18,
        "expected an ordinal such as `2nd`, `each`, `every` or `from`, found `last`",
    ),
    (
        "when 1st FPDU of 1st MPA Reply sent: reset",
        1,
        22,
        "expected `RTR`, `Write`, `Read Request`, `Read Response`, `Send`, `Immediate Data`, `Atomic Request`, \
             `Atomic Response`, `Terminate` or `message`, found `MPA`",
    ),
    (
        "when 1st Wirte sent: reset",
        1,
        10,
        "expected `FPDU`, `MPA Request`, `MPA Reply`, `RTR`, `Write`, `Read Request`, `Read Response`, `Send`, \
             `Immediate Data`, `Atomic Request`, `Atomic Response`, `Terminate`, `message`, `datagram`, `connect`, \
             `accept`, `completion`, or the name of a call and `called`, found `Wirte`",
    ),
    (
        "when 1st Write sent reset",
        1,
        21,
        "expected `on`, `over`, `with` or `:`, found `reset`",
    ),
    (
        "when 1st Write sent on connection 0: reset",
        1,
        35,
        "expected the number of a connection, from 1 on, found `0`",
    ),
    (
        "when 1st Write sent on queue 1: reset",
        1,
        24,
        "expected `connection`, found `queue`",
    ),
    (
        "when 1st Connect called: fail with ND_NO_MEMORY",
        1,
        18,
        "expected `with` or `:` (`connect` is an event, not a call), found `called`",
    ),
    (
        "when each completion called: hold",
        1,
        22,
        "expected `on`, `over` or `:` (`completion` is an event, not a call), found `called`",
    ),
    (
        "when 1st connect on connection 1: refuse",
        1,
        18,
        "expected `with` or `:`, found `on`",
    ),
    (
        "when each completion with peer ::1: hold",
        1,
        22,
        "expected `on`, `over` or `:`, found `with`",
    ),
    (
        "when 1st connect with peer me: refuse",
        1,
        28,
        "expected an IP address, with a port or without, found `me`",
    ),
    (
        "when 1st connect:",
        1,
        18,
        "expected `refuse`, `hold` or `remove`, found the end of the rule",
    ),
    (
        "when 1st Write sent: refuse",
        1,
        22,
        "expected `reset`, `close`, `hold`, `flip`, `break` or `remove`, found `refuse`",
    ),
    (
        "when 1st Write sent: drop",
        1,
        22,
        "expected `reset`, `close`, `hold`, `flip`, `break` or `remove`: a stream of octets cannot lose some of them, \
             only a `datagram` can be lost, found `drop`",
    ),
    (
        "when 1st datagram: drop",
        1,
        18,
        "expected `sent` or `received`, found `:`",
    ),
    (
        "when last datagram sent: drop",
        1,
        11,
        "expected `FPDU`, found `datagram`",
    ),
    (
        "when 1st datagram sent on connection 1: drop",
        1,
        27,
        "expected `socket`, found `connection`",
    ),
    (
        "when 1st datagram sent: reset",
        1,
        25,
        "expected `drop`, `duplicate`, `delay`, `flip` or `rebind`, found `reset`",
    ),
    (
        "when 1st datagram sent: delay 5 ms",
        1,
        31,
        "expected `for` or `behind`, found `5`",
    ),
    (
        "when 1st datagram sent: delay behind 0 datagrams",
        1,
        38,
        "expected how many datagrams, from 1 on, found `0`",
    ),
    (
        "when 1st datagram sent: delay behind 3",
        1,
        39,
        "expected `datagrams`, found the end of the rule",
    ),
    (
        "when 1st datagram sent: flip bit 7 of header",
        1,
        39,
        "expected `payload`, found `header`",
    ),
    (
        "when 1st datagram sent: flip bit 7 of payload with good CRC",
        1,
        47,
        "expected the end of the rule or `;`, found `with`",
    ),
    (
        "when 1st datagram sent: drop after octet 5",
        1,
        30,
        "expected the end of the rule or `;`, found `after`",
    ),
    (
        "when 1st Write sent: hold 5 ms",
        1,
        27,
        "expected `for`, `after`, the end of the rule or `;`, found `5`",
    ),
    (
        "when 1st Write sent: hold for 5",
        1,
        32,
        "expected a unit of time: `s`, `ms`, `us` or `ns`, found the end of the rule",
    ),
    (
        "when 1st Write sent: hold for 5h",
        1,
        31,
        "expected a time such as `5 ms`, in `s`, `ms`, `us` or `ns`, found `5h`",
    ),
    (
        "when 1st Write sent: reset after 5",
        1,
        34,
        "expected `octet`, found `5`",
    ),
    (
        "when 1st Write sent: reset after octet -1",
        1,
        40,
        "expected a number of octets, found `-1`",
    ),
    (
        "when 1st connect: hold after octet 1",
        1,
        24,
        "expected `for`, the end of the rule or `;`, found `after`",
    ),
    (
        "when 1st Write sent: flip bit 16 of length",
        1,
        31,
        "expected a bit of the length, 0 to 15, found `16`",
    ),
    (
        "when 1st Write sent: flip bit 1 of pad",
        1,
        36,
        "expected `length`, `header`, `payload` or `CRC`, found `pad`",
    ),
    (
        "when 1st MPA Reply sent: flip bit 1 of CRC",
        1,
        40,
        "expected `length`, `header` or `payload`, found `CRC`",
    ),
    (
        "when 1st Write sent: flip bit 1 of CRC with good CRC",
        1,
        40,
        "expected the end of the rule or `;`, found `with`",
    ),
    (
        "when 1st X called: fail with 5",
        1,
        30,
        "expected the name of a status, found `5`",
    ),
    (
        "when 1st X called: reset",
        1,
        20,
        "expected `fail` or `remove`, found `reset`",
    ),
    (
        "when each connect: refuse ; \twhen 1st accept: refused",
        1,
        47,
        "expected `refuse`, `hold` or `remove`, found `refused`",
    ),
    (
        "when each connect: refuse it",
        1,
        27,
        "expected the end of the rule or `;`, found `it`",
    ),
];

#[test]
fn errors_say_line_column_and_what_was_expected() {
    for &(text, line, column, problem) in ERRORS {
        let error = text.parse::<Plan>().expect_err(text);
        assert_eq!(error.problem(), problem, "{text}");
        assert_eq!((error.line(), error.column()), (line, column), "{text}");
    }
}

#[test]
fn an_error_shows_its_line_with_a_caret_under_the_place() {
    let error = "when each connect: refuse\n\twhen ärst: x"
        .parse::<Plan>()
        .unwrap_err();
    let shown = error.to_string();
    assert!(
        shown.starts_with("line 2, column 7: expected an ordinal "),
        "{shown}"
    );
    assert!(shown.ends_with("\n  \twhen ärst: x\n  \t     ^"), "{shown}");
}

#[test]
fn names_that_the_owner_does_not_know_are_errors_of_the_same_form() {
    let plan = plan(
        "when 1st Register called: fail with ND_NO_MEMORY\n\
         when each completion: break queue with ND_OVERFLOW; when 1st Regster called: fail with ND_NO_MEMORY",
    );
    let known = |names: &'static [&str]| {
        move |name: &str| match names.contains(&name) {
            true => Ok(()),
            false => Err(format!("one of {names:?}")),
        }
    };
    let (call, overflow) = (known(&["Register"]), known(&["ND_NO_MEMORY"]));
    let error = plan.check_names(call, overflow).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 40));
    assert_eq!(
        error.problem(),
        "expected one of [\"ND_NO_MEMORY\"], found `ND_OVERFLOW`"
    );
    let error = plan.check_names(call, |_| Ok(())).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 62));
    assert!(plan.check_names(|_| Ok(()), |_| Ok(())).is_ok());
}

#[test]
fn an_owner_without_datagrams_refuses_rules_about_them() {
    let refused = |text: &str| plan(text).check_without_datagrams("another event");
    assert_eq!(
        refused("when each FPDU sent: reset; when each connect: refuse"),
        Ok(())
    );
    let error =
        refused("when each connect: refuse\n when 1st accept: hold; when each datagram sent: drop");
    let error = error.unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 35));
    assert_eq!(error.problem(), "expected another event, found `datagram`");
    let made = Rule::new(
        Event::Datagram(Which::Each, Direction::Sent),
        Action::Rebind,
    );
    let error = Plan::new().with_rule(made).unwrap();
    let error = error.check_without_datagrams("another").unwrap_err();
    assert_eq!((error.line(), error.column()), (1, 11));
}

#[test]
fn a_plan_that_was_made_is_checked_as_text_is() {
    let message = |which| Unit::Message(which, Kind::MpaReply);
    let event = |which| Event::Passing(message(which), Direction::Sent);
    let call = |name: &str| Event::Call(Which::Each, name.to_owned());
    let fail = |name: &str| Action::Fail(name.to_owned());
    for (rule, problem) in [
        (
            Rule::new(event(Which::Each), Action::Refuse),
            "expected `reset`, ",
        ),
        (
            Rule::new(event(Which::Each), Action::flip(1, Field::Crc)),
            "expected `length`, ",
        ),
        (
            Rule::new(event(Which::Nth(0)), Action::reset()),
            "expected an ordinal ",
        ),
        (
            Rule::new(event(Which::Last), Action::reset()),
            "expected `FPDU`",
        ),
        (
            Rule::new(call("Register"), fail("no status")),
            "expected the end of the rule",
        ),
        (
            Rule::new(call("A called: remove device; when 1st A"), fail("B")),
            "expected a name of one word",
        ),
        (
            Rule::new(event(Which::Each), Action::reset()).scope(Scope::One(0)),
            "expected the number ",
        ),
        (
            Rule::new(call("Register"), fail("A")).scope(Scope::All),
            "expected `:`",
        ),
    ] {
        let error = Plan::new().with_rule(rule).unwrap_err();
        assert!(error.problem().starts_with(problem), "{error}");
    }
    let made = Plan::new()
        .with_rule(Rule::new(call("Register"), fail("ND_NO_MEMORY")))
        .and_then(|plan| plan.with_rule(Rule::new(call("Listen"), fail("ND_NO_MEMOR"))))
        .unwrap();
    let status = |name: &str| match name {
        "ND_NO_MEMORY" => Ok(()),
        _ => Err("a status".to_owned()),
    };
    let error = made.check_names(|_| Ok(()), status).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 36));
}

#[test]
fn the_examples_of_the_guide_are_plans() {
    let guide = include_str!("../../../pages/faults.md");
    let blocks: Vec<_> = guide.split("```").skip(1).step_by(2).collect();
    let blocks: Vec<_> = blocks
        .iter()
        .filter_map(|block| block.strip_prefix("text\n"))
        .collect();
    let [first, rough, wrong] = blocks[..] else {
        panic!("two plans and an error");
    };
    assert_eq!(plan(first).to_string(), first);
    assert_eq!(plan(rough).to_string(), rough);
    let line = wrong.lines().nth(1).unwrap().trim_start();
    let error = line.parse::<Plan>().unwrap_err();
    assert_eq!(format!("{error}\n"), wrong);
}

#[test]
fn a_plan_is_given_as_text_or_as_a_file() {
    let folder = std::env::temp_dir().join(format!("faults-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("plan").display().to_string();
    let load = |given: &str| Plan::load(given).map_err(|error| error.to_string());
    std::fs::write(&path, "when each connect: refuse\n").unwrap();
    assert_eq!(load(&format!("@{path}")), load("when each connect: refuse"));
    std::fs::write(&path, "when").unwrap();
    let error = load(&format!("@{path}")).unwrap_err();
    assert!(
        error.starts_with(&format!("fault plan {path}, line 1, column 5: expected ")),
        "{error}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
    let error = load(&format!("@{path}")).unwrap_err();
    assert!(
        error.starts_with(&format!("cannot read the fault plan {path}: ")),
        "{error}"
    );
    assert!(
        load("when")
            .unwrap_err()
            .starts_with("fault plan, line 1, column 5: expected ")
    );
}

// ---- a printed plan is read again ----

fn which() -> impl Strategy<Value = Which> {
    let n = prop_oneof![1..30u64, 1..=u64::MAX];
    prop_oneof![
        n.clone().prop_map(Which::Nth),
        n.clone().prop_map(Which::Every),
        n.prop_map(Which::From),
        Just(Which::Each),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&Kind::ALL[..])
}

fn unit() -> impl Strategy<Value = Unit> {
    let fpdu = prop_oneof![4 => which(), 1 => Just(Which::Last)];
    let messages = prop::sample::select(&Kind::ALL[2..]);
    prop_oneof![
        which().prop_map(Unit::Fpdu),
        (which(), kind()).prop_map(|(which, kind)| Unit::Message(which, kind)),
        (fpdu, which(), messages).prop_map(|(fpdu, message, kind)| Unit::FpduOf {
            fpdu,
            message,
            kind
        }),
    ]
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z][A-Za-z0-9_]{0,9}"
}

fn event() -> impl Strategy<Value = Event> {
    let direction = prop_oneof![Just(Direction::Sent), Just(Direction::Received)];
    prop_oneof![
        4 => (unit(), direction).prop_map(|(unit, direction)| Event::Passing(unit, direction)),
        2 => (which(), prop_oneof![Just(Direction::Sent), Just(Direction::Received)])
            .prop_map(|(which, direction)| Event::Datagram(which, direction)),
        1 => which().prop_map(Event::Connect),
        1 => which().prop_map(Event::Accept),
        1 => which().prop_map(Event::Completion),
        1 => (which(), name()).prop_map(|(which, name)| Event::Call(which, name)),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let place = || prop_oneof![Just(Place::End), any::<u64>().prop_map(Place::Octet)];
    let time = prop_oneof![
        any::<u64>().prop_map(Duration::from_nanos),
        (0..90u64).prop_map(Duration::from_millis),
        any::<u64>().prop_map(Duration::from_secs),
    ];
    let field =
        prop::sample::select(&[Field::Length, Field::Header, Field::Payload, Field::Crc][..]);
    prop_oneof![
        place().prop_map(Action::Reset),
        place().prop_map(Action::Close),
        (prop::option::of(time.clone()), place())
            .prop_map(|(time, place)| Action::Hold(time, place)),
        (0..170u32, field, any::<bool>()).prop_map(|(bit, field, good_crc)| Action::Flip {
            bit,
            field,
            good_crc
        }),
        Just(Action::Drop),
        Just(Action::Duplicate),
        Just(Action::Rebind),
        time.prop_map(|time| Action::Delay(Lateness::Time(time))),
        (0..4u64).prop_map(|count| Action::Delay(Lateness::Datagrams(count))),
        Just(Action::Refuse),
        name().prop_map(Action::Fail),
        (name(), place()).prop_map(|(name, place)| Action::BreakQueue(name, place)),
        place().prop_map(Action::RemoveDevice),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let scope = prop_oneof![
        3 => Just(Scope::Each),
        1 => (0..3u64).prop_map(Scope::One),
        1 => Just(Scope::All)
    ];
    let peer = prop_oneof![
        any::<std::net::IpAddr>().prop_map(Peer::Address),
        any::<std::net::SocketAddr>()
            .prop_filter("a scope or a flow label is not part of it", |address| {
                matches!(address, std::net::SocketAddr::V4(_))
            })
            .prop_map(Peer::Port),
    ];
    (event(), action(), scope, prop::option::weighted(0.2, peer)).prop_map(
        |(event, action, scope, peer)| {
            let rule = Rule::new(event, action).scope(scope);
            match peer {
                Some(peer) => rule.with_peer(peer),
                None => rule,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..Default::default() })]

    #[test]
    fn what_can_be_made_is_read_as_it_was_made(rules in prop::collection::vec(rule(), 0..20)) {
        let mut plan = Plan::new();
        for rule in rules {
            // The reader of the text refuses rules that fit no event or are out of range.
            plan = plan.clone().with_rule(rule).unwrap_or(plan);
        }
        let text = plan.to_string();
        prop_assert_eq!(&text.parse::<Plan>().unwrap(), &plan);
        prop_assert_eq!(text.replace('\n', ";").parse::<Plan>().unwrap().to_string(), text);
    }

    #[test]
    fn any_text_is_a_plan_or_has_a_place_that_is_wrong(
        words in prop::collection::vec(prop::sample::select(WORDS), 0..14),
    ) {
        match words.join(" ").parse::<Plan>() {
            Ok(plan) => prop_assert_eq!(plan.to_string().parse::<Plan>().unwrap(), plan),
            Err(error) => prop_assert!(error.line() > 0 && error.column() > 0 && !error.to_string().is_empty()),
        }
    }
}

const WORDS: &[&str] = &[
    "when",
    "1st",
    "every",
    "other",
    "2nd",
    "each",
    "from",
    "on",
    "last",
    "FPDU",
    "of",
    "Write",
    "Read",
    "Request",
    "sent",
    "received",
    "datagram",
    "drop",
    "delay",
    "behind",
    "datagrams",
    "socket",
    "connect",
    "accept",
    "completion",
    "X",
    "called",
    "connection",
    "1",
    "0",
    "over",
    "all",
    "queues",
    "with",
    "peer",
    "::1",
    ":",
    "reset",
    "hold",
    "for",
    "5",
    "ms",
    "after",
    "octet",
    "flip",
    "bit",
    "CRC",
    "good",
    ";",
    "\n",
    "#",
    "refuse",
    "fail",
    "break",
    "queue",
    "remove",
    "device",
    "é:",
];
