//! The table of quirks is complete, the defaults suit every stack in the table, and the book shows the same rows.

use std::collections::HashSet;
use std::fmt::Write;

use super::*;
use crate::Options;

#[test]
fn every_quirk_has_an_id_a_peer_and_a_source() {
    let mut ids = HashSet::new();
    for quirk in QUIRKS {
        assert!(ids.insert(quirk.id), "{} is there twice", quirk.id);
        assert!(quirk.id.starts_with("PEER-") && Peer::KNOWN.contains(&quirk.peer));
        for text in [quirk.fact, quirk.answer, quirk.source] {
            assert!(!text.is_empty() && !text.contains('|'), "{}", quirk.id);
        }
    }
    for peer in Peer::KNOWN {
        assert!(peer.quirks().count() > 3, "{peer}");
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
    assert!(options.crc, "PEER-008");
    assert!(options.read_limit <= 255, "PEER-072");
}

#[test]
fn the_book_shows_the_table() {
    let book = include_str!("../../../../docs/check/peers.md");
    for peer in Peer::KNOWN {
        let mut rows = String::new();
        for quirk in peer.quirks() {
            let Quirk {
                id,
                fact,
                answer,
                source,
                ..
            } = quirk;
            writeln!(rows, "| {id} | {fact} | {answer} | {source} |").unwrap();
        }
        assert!(
            book.contains(&rows),
            "docs/check/peers.md should have for {peer}:\n{rows}"
        );
    }
}
