//! The defaults suit every stack, and the page of the book says why.

use std::collections::HashSet;

use super::*;
use crate::Options;

#[test]
fn a_peer_is_found_by_its_name() {
    for peer in Peer::KNOWN {
        assert_eq!(Peer::by_name(peer.name()), Some(peer));
    }
    assert_eq!(Peer::by_name("rxe"), None);
}

/// MPA does not carry the name of a peer's stack.
#[test]
fn the_defaults_suit_all_of_them() {
    let options = Options::default();
    for peer in Peer::KNOWN {
        let needs = peer.needs();
        assert!(options.private_data <= needs.private_data, "{peer}");
        assert!(
            options.peer_to_peer || needs.peer_to_peer != Some(true),
            "{peer}"
        );
        assert!(!options.markers || needs.markers, "{peer}");
        if let Some(most) = needs.hold_ready {
            assert!(options.timeouts.hold_ready.is_some_and(|held| held <= most));
        }
    }
    assert!(options.asks_for_crcs(), "PEER-008");
    assert!(options.read_limit <= 255, "PEER-072");
}

/// The page has the quirks, and the code cites their IDs.
#[test]
fn the_page_has_a_table_for_each_stack() {
    let page = include_str!("../../pages/peers.md");
    let mut ids = HashSet::new();
    let (_, sections) = page.split_once("\n## ").expect("sections");
    let mut peers = Vec::new();
    for section in sections.split("\n## ") {
        let (title, text) = section.split_once('\n').expect("a title");
        let name = title.split(|c: char| !c.is_alphanumeric()).next();
        let peer = Peer::by_name(name.unwrap_or_default()).expect(title);
        let rows: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("| PEER-"))
            .collect();
        assert!(rows.len() > 3, "{peer}");
        for row in rows {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let ["", id, fact, answer, source, ""] = cells[..] else {
                panic!("{row} has other cells");
            };
            assert!(ids.insert(id), "{id} is there twice");
            assert!(![fact, answer, source].contains(&""), "{id}");
        }
        peers.push(peer);
    }
    assert_eq!(peers, Peer::KNOWN);
    for cited in ["PEER-004", "PEER-008", "PEER-072", "PEER-085", "PEER-090"] {
        assert!(ids.contains(cited), "{cited}");
    }
}
