//! The text form of a plan: reading and printing. `docs/use/faults.md` is its reference.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use super::error::PlanError;
use super::plan::{
    Action, Direction, Event, Field, Kind, Lateness, Origin, Peer, Place, Plan, Rule, Scope, Unit,
    Which,
};

/// Units of time, the longest first.
const UNITS: [(&str, u64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

// ---- printing ----

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Nth(n) => write!(f, "{}", Ordinal(n)),
            Self::Every(2) => f.write_str("every other"),
            Self::Every(n) => write!(f, "every {}", Ordinal(n)),
            Self::From(n) => write!(f, "from {} on", Ordinal(n)),
            Self::Each => f.write_str("each"),
            Self::Last => f.write_str("last"),
        }
    }
}

struct Ordinal(u64);

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(n) = self;
        let ending = match (n % 100, n % 10) {
            (11..=13, _) => "th",
            (_, 1) => "st",
            (_, 2) => "nd",
            (_, 3) => "rd",
            _ => "th",
        };
        write!(f, "{n}{ending}")
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fpdu(which) => write!(f, "{which} FPDU"),
            Self::Message(which, kind) => write!(f, "{which} {}", kind.name()),
            Self::FpduOf {
                fpdu,
                message,
                kind,
            } => write!(f, "{fpdu} FPDU of {message} {}", kind.name()),
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sent => "sent",
            Self::Received => "received",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passing(unit, direction) => write!(f, "{unit} {direction}"),
            Self::Datagram(which, direction) => write!(f, "{which} datagram {direction}"),
            Self::Connect(which) => write!(f, "{which} connect"),
            Self::Accept(which) => write!(f, "{which} accept"),
            Self::Completion(which) => write!(f, "{which} completion"),
            Self::Call(which, name) => write!(f, "{which} {name} called"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => Ok(()),
            Self::Octet(octet) => write!(f, " after octet {octet}"),
        }
    }
}

struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        let whole = |(_, scale): &&(&str, u64)| nanoseconds.is_multiple_of((*scale).into());
        let (name, scale) = UNITS.iter().find(whole).unwrap_or(&UNITS[3]);
        write!(f, "{} {name}", nanoseconds / u128::from(*scale))
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Time(time) => write!(f, "for {}", Time(time)),
            Self::Datagrams(1) => f.write_str("behind 1 datagram"),
            Self::Datagrams(count) => write!(f, "behind {count} datagrams"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(place) => write!(f, "reset{place}"),
            Self::Close(place) => write!(f, "close{place}"),
            Self::Hold(None, place) => write!(f, "hold{place}"),
            Self::Hold(Some(time), place) => write!(f, "hold for {}{place}", Time(*time)),
            Self::Flip {
                bit,
                field,
                good_crc,
            } => {
                write!(f, "flip bit {bit} of {}", field.name())?;
                f.write_str(if *good_crc { " with good CRC" } else { "" })
            }
            Self::Drop => f.write_str("drop"),
            Self::Duplicate => f.write_str("duplicate"),
            Self::Delay(lateness) => write!(f, "delay {lateness}"),
            Self::Rebind => f.write_str("rebind"),
            Self::Refuse => f.write_str("refuse"),
            Self::Fail(status) => write!(f, "fail with {status}"),
            Self::BreakQueue(status, place) => write!(f, "break queue with {status}{place}"),
            Self::RemoveDevice(place) => write!(f, "remove device{place}"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            event,
            scope,
            peer,
            action,
            ..
        } = self;
        write!(f, "when {event}")?;
        let (one, all) = counted_on(event).unwrap_or(("connection", "connections"));
        match scope {
            Scope::Each => {}
            Scope::One(number) => write!(f, " on {one} {number}")?,
            Scope::All => write!(f, " over all {all}")?,
        }
        match peer {
            None => {}
            Some(Peer::Address(address)) => write!(f, " with peer {address}")?,
            Some(Peer::Port(address)) => write!(f, " with peer {address}")?,
        }
        write!(f, ": {action}")
    }
}

// ---- reading ----

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            for words in clauses(line) {
                let mut reader = Reader {
                    line: index + 1,
                    text: line,
                    words: &words.words,
                    end: words.end,
                };
                if !reader.words.is_empty() {
                    rules.push(reader.rule()?);
                }
            }
        }
        Ok(Self { rules })
    }
}

/// A word and its column, from 1.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    text: &'a str,
    column: usize,
}

/// The words between two semicolons.
#[derive(Debug, Default)]
struct RuleText<'a> {
    words: Vec<Word<'a>>,
    /// The column behind the last word.
    end: usize,
}

/// Cuts a line at white space and at `;`, up to a comment. A `:` at the end of a word is a word.
fn clauses(line: &str) -> Vec<RuleText<'_>> {
    let code = comment_start(line).map_or(line, |at| &line[..at]);
    let mut clauses = Vec::new();
    let mut column = 1;
    for part in code.split(';') {
        let mut words = Vec::new();
        let mut end = column;
        let mut rest = part;
        while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
            column += rest[..start].chars().count();
            rest = &rest[start..];
            let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(length);
            let bare = word.strip_suffix(':').unwrap_or(word);
            let at = |text, column| Word { text, column };
            let wide = bare.chars().count();
            if !bare.is_empty() {
                words.push(at(bare, column));
            }
            if bare.len() < word.len() {
                words.push(at(":", column + wide));
            }
            column += word.chars().count();
            end = column;
            rest = behind;
        }
        column += rest.chars().count() + 1;
        clauses.push(RuleText { words, end });
    }
    clauses
}

/// The index of a `#` at the start of a word.
fn comment_start(line: &str) -> Option<usize> {
    let mut before = ' ';
    line.char_indices().find_map(|(at, c)| {
        let starts = c == '#' && (before.is_whitespace() || before == ';');
        before = c;
        starts.then_some(at)
    })
}

/// Reads one rule from its words.
struct Reader<'a> {
    line: usize,
    text: &'a str,
    words: &'a [Word<'a>],
    end: usize,
}

type Read<T> = Result<T, PlanError>;

impl<'a> Reader<'a> {
    /// The error that `what` was expected here.
    fn expected<T>(&self, what: &str) -> Read<T> {
        let found = match self.words.first() {
            Some(word) => format!("found `{}`", word.text),
            None => "found the end of the rule".to_owned(),
        };
        let problem = format!("expected {what}, {found}");
        let at = (self.line, self.column());
        Err(PlanError::new(at, &problem, self.text))
    }

    fn column(&self) -> usize {
        self.words.first().map_or(self.end, |word| word.column)
    }

    fn peek(&self, at: usize) -> Option<&'a str> {
        self.words.get(at).map(|word| word.text)
    }

    /// Takes these words, separated by one blank, if they come next.
    fn take(&mut self, phrase: &str) -> bool {
        let mut taken = 0;
        for word in phrase.split(' ') {
            match self.peek(taken) {
                Some(next) if next.eq_ignore_ascii_case(word) => taken += 1,
                _ => return false,
            }
        }
        self.words = &self.words[taken..];
        true
    }

    fn need(&mut self, phrase: &str) -> Read<()> {
        for word in phrase.split(' ') {
            if !self.take(word) {
                return self.expected(&format!("`{word}`"));
            }
        }
        Ok(())
    }

    fn skip(&mut self) {
        self.words = &self.words[1..];
    }

    /// Reads a number in decimal digits. `what` goes into the error.
    fn number<T: FromStr>(&mut self, what: &str) -> Read<T> {
        let number = self.peek(0).and_then(digits).and_then(|n| n.parse().ok());
        match number {
            Some(number) => {
                self.skip();
                Ok(number)
            }
            None => self.expected(what),
        }
    }

    fn rule(&mut self) -> Read<Rule> {
        self.need("when")?;
        let mut origin = Origin {
            line: self.line,
            text: self.text.to_owned(),
            ..Origin::default()
        };
        let event = self.event(&mut origin)?;
        let scope = self.scope(&event)?;
        let peer = self.peer(&event)?;
        if !self.take(":") {
            let mut what = behind_event(&event, scope, peer);
            let called = self
                .peek(0)
                .filter(|word| word.eq_ignore_ascii_case("called"));
            if let (Some(_), Some(name)) = (called, sole_name(&event)) {
                what += &format!(" (`{name}` is an event, not a call)");
            }
            return self.expected(&what);
        }
        let action = self.action(&event, &mut origin)?;
        if !self.words.is_empty() {
            let more = behind_action(&event, &action);
            return self.expected(&format!("{more}the end of the rule or `;`"));
        }
        Ok(Rule {
            event,
            scope,
            peer,
            action,
            origin,
        })
    }

    fn which(&mut self, within: bool) -> Read<Which> {
        const ONE: &str = "an ordinal such as `2nd`";
        if self.take("each") {
            return Ok(Which::Each);
        }
        if self.take("every other") {
            return Ok(Which::Every(2));
        }
        if self.take("every") {
            let what = format!("`other` or {ONE}");
            return self.ordinal(&what).map(Which::Every);
        }
        if self.take("from") {
            let first = self.ordinal(ONE)?;
            self.need("on")?;
            return Ok(Which::From(first));
        }
        if within && self.take("last") {
            return Ok(Which::Last);
        }
        let last = if within { ", `last`" } else { "" };
        let what = format!("{ONE}, `each`, `every`{last} or `from`");
        self.ordinal(&what).map(Which::Nth)
    }

    fn ordinal(&mut self, what: &str) -> Read<u64> {
        let ordinal = self.peek(0).and_then(|word| {
            let (number, _) = word.split_at_checked(word.len().checked_sub(2)?)?;
            let n: u64 = digits(number)?.parse().ok()?;
            (n > 0 && Ordinal(n).to_string().eq_ignore_ascii_case(word)).then_some(n)
        });
        match ordinal {
            Some(ordinal) => {
                self.skip();
                Ok(ordinal)
            }
            None => self.expected(what),
        }
    }

    fn event(&mut self, origin: &mut Origin) -> Read<Event> {
        let start = self.words;
        let which = self.which(true)?;
        if self.take("FPDU") {
            let unit = if self.take("of") {
                let message = self.which(false)?;
                let Some(kind) = self.kind(|kind| !kind.is_startup()) else {
                    return self.expected(&kinds(|kind| !kind.is_startup()));
                };
                Unit::FpduOf {
                    fpdu: which,
                    message,
                    kind,
                }
            } else {
                if which == Which::Last {
                    return self.expected("`of` and a message, of which the FPDU is the last");
                }
                Unit::Fpdu(which)
            };
            return Ok(Event::Passing(unit, self.direction()?));
        }
        if which == Which::Last {
            self.words = &start[1..];
            return self.expected("`FPDU`");
        }
        let column = self.column();
        if self.take("datagram") {
            origin.datagram = column;
            return Ok(Event::Datagram(which, self.direction()?));
        }
        if self.take("connect") {
            return Ok(Event::Connect(which));
        }
        if self.take("accept") {
            return Ok(Event::Accept(which));
        }
        if self.take("completion") {
            return Ok(Event::Completion(which));
        }
        if let Some(kind) = self.kind(|_| true) {
            let unit = Unit::Message(which, kind);
            return Ok(Event::Passing(unit, self.direction()?));
        }
        match (self.peek(0), self.peek(1)) {
            (Some(name), Some(called))
                if is_name(name) && called.eq_ignore_ascii_case("called") =>
            {
                origin.call = self.column();
                self.need(name)?;
                self.need("called")?;
                Ok(Event::Call(which, name.to_owned()))
            }
            _ => {
                let kinds = kinds(|_| true).replace(" or ", ", ");
                self.expected(&format!(
                    "`FPDU`, {kinds}, `datagram`, `connect`, `accept`, `completion`, or the name of a call and `called`"
                ))
            }
        }
    }

    fn kind(&mut self, fits: impl Fn(Kind) -> bool) -> Option<Kind> {
        let mut kinds = Kind::ALL.into_iter().filter(|kind| fits(*kind));
        kinds.find(|kind| self.take(kind.name()))
    }

    fn direction(&mut self) -> Read<Direction> {
        if self.take("sent") {
            return Ok(Direction::Sent);
        }
        if self.take("received") {
            return Ok(Direction::Received);
        }
        self.expected("`sent` or `received`")
    }

    fn scope(&mut self, event: &Event) -> Read<Scope> {
        let Some((one, all)) = counted_on(event) else {
            return Ok(Scope::Each);
        };
        if self.take("on") {
            self.need(one)?;
            let what = format!("the number of a {one}, from 1 on");
            return match self.peek(0) {
                Some("0") => self.expected(&what),
                _ => self.number(&what).map(Scope::One),
            };
        }
        if self.take("over") {
            self.need("all")?;
            self.need(all)?;
            return Ok(Scope::All);
        }
        Ok(Scope::Each)
    }

    fn peer(&mut self, event: &Event) -> Read<Option<Peer>> {
        if !has_peer(event) || !self.take("with") {
            return Ok(None);
        }
        self.need("peer")?;
        let word = self.peek(0).unwrap_or_default();
        let peer = match (word.parse::<IpAddr>(), word.parse::<SocketAddr>()) {
            (Ok(address), _) => Peer::Address(address),
            (_, Ok(address)) => Peer::Port(address),
            _ => return self.expected("an IP address, with a port or without"),
        };
        self.skip();
        Ok(Some(peer))
    }

    fn action(&mut self, event: &Event, origin: &mut Origin) -> Read<Action> {
        let possible = actions(event);
        let Some(word) = possible.iter().find(|word| self.take(word)) else {
            if self
                .peek(0)
                .is_some_and(|word| word.eq_ignore_ascii_case("drop"))
            {
                return self.expected(&format!(
                    "{}: a stream of octets cannot lose some of them, only a `datagram` can be lost",
                    one_of(possible)
                ));
            }
            return self.expected(&one_of(possible));
        };
        Ok(match *word {
            "reset" => Action::Reset(self.place(event)?),
            "close" => Action::Close(self.place(event)?),
            "hold" => {
                let time = if self.take("for") {
                    Some(self.time()?)
                } else {
                    None
                };
                Action::Hold(time, self.place(event)?)
            }
            "flip" => self.flip(event)?,
            "drop" => Action::Drop,
            "duplicate" => Action::Duplicate,
            "delay" => Action::Delay(self.lateness()?),
            "rebind" => Action::Rebind,
            "refuse" => Action::Refuse,
            "fail" => Action::Fail(self.status(origin)?),
            "break" => {
                self.need("queue")?;
                let status = self.status(origin)?;
                Action::BreakQueue(status, self.place(event)?)
            }
            _ => {
                self.need("device")?;
                Action::RemoveDevice(self.place(event)?)
            }
        })
    }

    fn place(&mut self, event: &Event) -> Read<Place> {
        if !matches!(event, Event::Passing(..)) || !self.take("after") {
            return Ok(Place::End);
        }
        self.need("octet")?;
        self.number("a number of octets").map(Place::Octet)
    }

    fn lateness(&mut self) -> Read<Lateness> {
        if self.take("for") {
            return self.time().map(Lateness::Time);
        }
        if !self.take("behind") {
            return self.expected("`for` or `behind`");
        }
        let what = "how many datagrams, from 1 on";
        let count = match self.peek(0) {
            Some("0") => return self.expected(what),
            _ => self.number(what)?,
        };
        if !self.take("datagram") {
            self.need("datagrams")?;
        }
        Ok(Lateness::Datagrams(count))
    }

    fn time(&mut self) -> Read<Duration> {
        let what = "a time such as `5 ms`, in `s`, `ms`, `us` or `ns`";
        let Some(word) = self.peek(0) else {
            return self.expected(what);
        };
        let split = word.find(|c: char| !c.is_ascii_digit());
        let (number, unit) = word.split_at(split.unwrap_or(word.len()));
        let scale_of = |unit: &str| {
            let found = UNITS.iter().find(|(name, _)| *name == unit);
            found.map(|(_, scale)| *scale)
        };
        let Ok(count) = number.parse::<u64>() else {
            return self.expected(what);
        };
        let together = !unit.is_empty();
        let scale = if together {
            scale_of(unit)
        } else {
            self.skip();
            self.peek(0).and_then(scale_of)
        };
        let Some(scale) = scale else {
            return self.expected(if together {
                what
            } else {
                "a unit of time: `s`, `ms`, `us` or `ns`"
            });
        };
        self.skip();
        let per_second = UNITS[0].1 / scale;
        let rest = Duration::from_nanos(count % per_second * scale);
        Ok(Duration::from_secs(count / per_second).saturating_add(rest))
    }

    fn flip(&mut self, event: &Event) -> Read<Action> {
        self.need("bit")?;
        let number = self.words;
        let bit: u32 = self.number("the number of a bit, from 0 on")?;
        self.need("of")?;
        let startup =
            matches!(event, Event::Passing(Unit::Message(_, kind), _) if kind.is_startup());
        let datagram = matches!(event, Event::Datagram(..));
        let fields = match event {
            Event::Datagram(..) => &[Field::Payload][..],
            _ if startup => &Field::ALL[..3],
            _ => &Field::ALL,
        };
        let Some(field) = fields.iter().find(|field| self.take(field.name())) else {
            let names: Vec<_> = fields.iter().map(|field| field.name()).collect();
            return self.expected(&one_of(&names));
        };
        let bits = match field {
            Field::Length => 16,
            Field::Header if startup => 160,
            Field::Header => 144,
            Field::Payload => u32::MAX,
            Field::Crc => 32,
        };
        if bit >= bits {
            self.words = number;
            let what = format!("a bit of the {}, 0 to {}", field.name(), bits - 1);
            return self.expected(&what);
        }
        let good_crc = !startup && !datagram && *field != Field::Crc && self.take("with");
        if good_crc {
            self.need("good CRC")?;
        }
        Ok(Action::Flip {
            bit,
            field: *field,
            good_crc,
        })
    }

    fn status(&mut self, origin: &mut Origin) -> Read<String> {
        self.need("with")?;
        origin.status = self.column();
        match self.peek(0) {
            Some(name) if is_name(name) || name.strip_prefix("0x").is_some_and(is_hexadecimal) => {
                self.skip();
                Ok(name.to_owned())
            }
            _ => self.expected("the name of a status"),
        }
    }
}

/// The word, if it consists of decimal digits.
fn digits(word: &str) -> Option<&str> {
    let is_number = !word.is_empty() && word.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then_some(word)
}

fn is_hexadecimal(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Returns true if a word can be the name of a call or of a status. A status can also be given by its bits.
fn is_name(word: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.chars().all(rest)
}

/// The kind of object that events of this sort are counted on, as a word in the singular and in the plural.
fn counted_on(event: &Event) -> Option<(&'static str, &'static str)> {
    match event {
        Event::Passing(..) => Some(("connection", "connections")),
        Event::Datagram(..) => Some(("socket", "sockets")),
        Event::Completion(_) => Some(("queue", "queues")),
        Event::Connect(_) | Event::Accept(_) | Event::Call(..) => None,
    }
}

fn has_peer(event: &Event) -> bool {
    match event {
        Event::Passing(..) | Event::Datagram(..) | Event::Connect(_) | Event::Accept(_) => true,
        Event::Completion(_) | Event::Call(..) => false,
    }
}

/// The first words of the actions that events of this sort can have.
fn actions(event: &Event) -> &'static [&'static str] {
    match event {
        // Before the start-up is over, it is unknown which queues a stream will feed.
        Event::Passing(Unit::Message(_, kind), _) if kind.is_startup() => {
            &["reset", "close", "hold", "flip", "remove"]
        }
        Event::Passing(..) => &["reset", "close", "hold", "flip", "break", "remove"],
        Event::Datagram(..) => &["drop", "duplicate", "delay", "flip", "rebind"],
        Event::Connect(_) | Event::Accept(_) => &["refuse", "hold", "remove"],
        Event::Completion(_) => &["hold", "break", "remove"],
        Event::Call(..) => &["fail", "remove"],
    }
}

/// The word for an event that consists of one word, which might be taken for the name of a call.
fn sole_name(event: &Event) -> Option<&'static str> {
    match event {
        Event::Connect(_) => Some("connect"),
        Event::Accept(_) => Some("accept"),
        Event::Completion(_) => Some("completion"),
        Event::Passing(..) | Event::Datagram(..) | Event::Call(..) => None,
    }
}

/// The words that may follow an event when these parts were read.
fn behind_event(event: &Event, scope: Scope, peer: Option<Peer>) -> String {
    let mut what = Vec::new();
    if scope == Scope::Each && peer.is_none() && counted_on(event).is_some() {
        what.extend(["on", "over"]);
    }
    if peer.is_none() && has_peer(event) {
        what.push("with");
    }
    what.push(":");
    one_of(&what)
}

/// The words that may follow an action, each with a comma behind it.
fn behind_action(event: &Event, action: &Action) -> String {
    let more: &[_] = match action {
        Action::Hold(None, Place::End) if matches!(event, Event::Passing(..)) => &["for", "after"],
        Action::Hold(None, Place::End) => &["for"],
        Action::Reset(Place::End)
        | Action::Close(Place::End)
        | Action::Hold(_, Place::End)
        | Action::BreakQueue(_, Place::End)
        | Action::RemoveDevice(Place::End)
            if matches!(event, Event::Passing(..)) =>
        {
            &["after"]
        }
        _ => return String::new(),
    };
    more.iter().map(|word| format!("`{word}`, ")).collect()
}

fn kinds(fits: impl Fn(Kind) -> bool) -> String {
    let kinds = Kind::ALL.into_iter().filter(|kind| fits(*kind));
    let names: Vec<_> = kinds.map(Kind::name).collect();
    one_of(&names)
}

/// Formats a list as "`a`, `b` or `c`".
fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
        None => String::new(),
    }
}
