//! Reports of both suites about a peer whose every text is made to break out of its field, read back.
//!
//! A text has broken out if the report has another structure than with harmless texts, or if its field does not hold the text. JUnit is read
//! by a library for XML, HTML by the rules that browsers have for what the page uses: elements, attributes in double quotes, four references.

use std::collections::BTreeSet;
use std::time::Duration;

use conform_report::{About, Entry, Failure, Outcome, Run, Suite, is_printable, report};
use quick_xml::events::{BytesStart, Event};

/// What breaks out of elements, attributes, comments, sections, references and scripts of XML and HTML, and out of lines and terminals.
const BREAKS: [&str; 12] = [
    "\"",
    "' onmouseover='x()' \" onmouseover=\"x()\"",
    "</small></p></details><script>x()</script>",
    "</title></style><script>x()</script><style><title>",
    "]]>",
    "<![CDATA[ x ]]>",
    "--><!-- x",
    "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY y \"z\">]>",
    "&amp; &lt;b&gt; &#60;b&#62; &#x3c; &y; & &",
    "</testcase><testcase name=\"x\"><failure/></testcase>",
    "\u{0}\u{1}\u{8}\u{b}\u{1b}[2J\u{7f}\u{85}\u{9b}\u{2028}\u{202e}\u{200b}\u{feff}\u{e0041}\u{fffe}\u{ffff}",
    "\r\n| --- |\r\n\t</pre>",
];

/// Makes the texts of one report. Each begins with the name of its field.
struct Texts {
    hostile: bool,
}

impl Texts {
    fn text(&self, field: &str) -> String {
        let tail = if self.hostile {
            BREAKS.concat()
        } else {
            "text".to_owned()
        };
        format!("{field}: {tail} :end")
    }

    fn texts(&self, field: &str) -> Vec<String> {
        if !self.hostile {
            return vec![self.text(field); BREAKS.len()];
        }
        let each = BREAKS.iter().map(|text| format!("{field}: {text} :end"));
        each.collect()
    }

    fn failure(&self, name: &str) -> Failure {
        Failure {
            expected: self.text(&format!("{name} expected")),
            seen: self.text(&format!("{name} seen")),
            trace: self.texts(&format!("{name} trace")),
        }
    }

    /// A run with every outcome.
    fn run<F>(&self, facts: F, abouts: impl Iterator<Item = About>, strict: bool) -> Run<F> {
        let outcomes = [
            Outcome::Pass,
            Outcome::Weak(self.text("weak")),
            Outcome::Fail(self.failure("fail")),
            Outcome::Known(self.failure("known"), self.text("reason")),
            Outcome::Mended(self.text("mended")),
            Outcome::Skip(self.text("skip")),
            Outcome::LeftOut(self.text("left out")),
        ];
        let entries: Vec<Entry> = abouts
            .zip(outcomes)
            .map(|(check, outcome)| Entry {
                check,
                outcome,
                took: Duration::from_millis(12),
            })
            .collect();
        assert_eq!(entries.len(), 7);
        Run {
            target: self.text("target"),
            facts,
            strict,
            entries,
            lost: Some(self.text("lost")),
            interrupted: None,
        }
    }
}

/// What a reader is to find in place of a text.
fn shown(text: &str) -> String {
    let shown = |c| {
        if is_printable(c) || c == '\n' || c == '\t' {
            c
        } else {
            char::REPLACEMENT_CHARACTER
        }
    };
    text.chars().map(shown).collect()
}

/// A report as its reader has it: the elements and attributes without texts, and all texts.
#[derive(Debug, Default)]
struct Read {
    structure: Vec<String>,
    texts: Vec<String>,
}

impl Read {
    fn has(&self, text: &str) -> bool {
        self.texts.iter().any(|found| found.contains(text))
    }
}

/// The attributes that hold texts of the peer or of checks in JUnit. The values of all others belong to the structure.
const OF_PEER: [&str; 3] = ["name", "message", "uuid"];

fn element(read: &mut Read, start: &BytesStart<'_>) {
    let name = String::from_utf8(start.name().as_ref().to_vec()).unwrap();
    read.structure.push(format!("<{name}"));
    for attribute in start.attributes() {
        let attribute = attribute.expect("well formed");
        let key = String::from_utf8(attribute.key.as_ref().to_vec()).unwrap();
        assert!(!attribute.value.contains(&b'<'), "XML forbids it");
        let value = attribute.unescape_value().expect("known references");
        if OF_PEER.contains(&key.as_str()) {
            read.texts.push(value.into_owned());
            read.structure.push(key);
        } else {
            read.structure.push(format!("{key}={value}"));
        }
    }
}

/// Reads XML. Fails if it is not well formed.
fn read_xml(xml: &str) -> Read {
    let is_allowed = |c| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    assert!(xml.chars().all(is_allowed), "XML 1.0 has all characters");
    let mut read = Read::default();
    let mut text = String::new();
    let mut reader = quick_xml::Reader::from_str(xml);
    reader.config_mut().check_end_names = true;
    reader.config_mut().check_comments = true;
    loop {
        match reader.read_event().expect("well formed") {
            Event::Text(part) => text.push_str(&part.decode().unwrap()),
            Event::GeneralRef(reference) => {
                let found = reference.resolve_char_ref().expect("a character");
                let name = reference.decode().unwrap();
                match found {
                    Some(c) => text.push(c),
                    None => text.push_str(
                        quick_xml::escape::resolve_predefined_entity(&name).expect("is predefined"),
                    ),
                }
                continue;
            }
            Event::Start(start) => {
                read.texts.push(std::mem::take(&mut text));
                element(&mut read, &start);
            }
            Event::Empty(start) => {
                element(&mut read, &start);
                read.structure.push(">".to_owned());
            }
            Event::End(_) => {
                read.texts.push(std::mem::take(&mut text));
                read.structure.push(">".to_owned());
            }
            Event::Decl(_) => {}
            Event::Eof => break,
            other => panic!("a report has no {other:?}"),
        }
    }
    assert_eq!(text.trim(), "", "behind the end");
    read
}

/// Elements of HTML that have no end.
const WITHOUT_END: [&str; 2] = ["meta", "br"];

/// A text of HTML: the four references that the reports use, and nothing that a browser could take for another one.
fn unescaped(mut text: &str) -> String {
    let mut out = String::new();
    while let Some((before, from)) = text.split_once('&') {
        out.push_str(before);
        let known = [("amp;", '&'), ("lt;", '<'), ("gt;", '>'), ("quot;", '"')];
        let found = known
            .into_iter()
            .find_map(|(name, c)| Some((from.strip_prefix(name)?, c)));
        let (rest, c) = found.unwrap_or_else(|| panic!("a bare &: {from:.30}"));
        out.push(c);
        text = rest;
    }
    assert!(!text.contains(['<', '>']), "{text}");
    out + text
}

/// Reads HTML as a browser does.
fn read_html(page: &str) -> Read {
    let mut read = Read::default();
    let mut open = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a page");
    while let Some((text, from)) = rest.split_once('<') {
        if open.last() == Some(&"style") {
            assert!(from.starts_with("/style>"), "what is in a style is ours");
        } else {
            read.texts.push(unescaped(text));
        }
        // A value may hold what ends a tag elsewhere.
        let mut quoted = false;
        let end = from.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let (tag, behind) = from.split_at(end.expect("a tag ends"));
        rest = &behind[1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "the element that is open ends");
            read.structure.push(format!("/{name}"));
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric();
        assert!(!name.is_empty() && name.chars().all(is_name), "{tag}");
        // No attribute holds a text of a peer, so all of them are structure.
        read.structure
            .push(format!("{name} {}", unescaped(attributes)));
        if !WITHOUT_END.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    read
}

/// Reads the reports of a run with hostile texts, and compares them with those of a run with harmless ones.
fn assert_held<F: Suite>(hostile: &Run<F>, harmless: &Run<F>, of_facts: &[String]) {
    let texts = Texts { hostile: true };
    let mut junit = read_xml(&report::junit(hostile));
    for text in &mut junit.texts {
        *text = text.replace('\n', " ");
    }
    assert_eq!(
        junit.structure,
        read_xml(&report::junit(harmless)).structure
    );
    let html = read_html(&report::html(hostile));
    assert_eq!(html.structure, read_html(&report::html(harmless)).structure);

    let trace = texts.texts("fail trace").join("\n");
    let both = [
        "target",
        "lost",
        "weak",
        "fail expected",
        "fail seen",
        "mended",
        "skip",
        "left out",
        "reason",
        "known seen",
    ];
    let both = both.map(|field| texts.text(field));
    for text in both.iter().chain([&trace]) {
        // Readers of XML take ends of lines in attributes for spaces.
        let in_junit = shown(text).replace(['\n', '\t'], " ");
        assert!(
            junit.has(&in_junit),
            "JUnit lacks {text:?}: {:#?}",
            junit.texts
        );
        assert!(
            html.has(&shown(text)),
            "HTML lacks {text:?}: {:#?}",
            html.texts
        );
    }
    assert!(!of_facts.is_empty());
    for text in of_facts {
        assert!(html.has(&shown(text)), "HTML lacks {text:?}");
    }
    // The reader has not made up a structure that anything fits in.
    assert!(junit.structure.len() > 40 && html.structure.len() > 100);
    let kinds: BTreeSet<_> = html.structure.iter().collect();
    assert!(kinds.len() > 20, "{kinds:?}");
}

#[test]
fn reports_of_wire_conform_hold_the_texts_of_a_hostile_peer() {
    for strict in [false, true] {
        let [hostile, harmless] = [true, false].map(|hostile| {
            let texts = Texts { hostile };
            let facts = iwarp_conform::Facts {
                notes: texts.texts("note"),
                ..iwarp_conform::Facts::default()
            };
            let abouts = iwarp_conform::checks().map(|check| check.about());
            texts.run(facts, abouts, strict)
        });
        let notes = hostile.facts.notes.clone();
        assert_held(&hostile, &harmless, &notes);
    }
}

#[test]
fn reports_of_conform_hold_the_texts_of_a_hostile_provider() {
    for strict in [false, true] {
        let [hostile, harmless] = [true, false].map(|hostile| {
            let texts = Texts { hostile };
            let facts = netdirect_conform::Facts {
                provider: texts.text("provider"),
                peer: Some(texts.text("peer")),
                capabilities: texts.texts("capability"),
                notes: texts.texts("note"),
                ..netdirect_conform::Facts::default()
            };
            let abouts = netdirect_conform::checks().map(|check| check.about());
            texts.run(facts, abouts, strict)
        });
        let mut of_facts = hostile.facts.notes.clone();
        of_facts.extend(hostile.facts.peer.clone());
        assert_held(&hostile, &harmless, &of_facts);
    }
}
