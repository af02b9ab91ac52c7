//! Connections within one machine through shared memory, as a client of the provider has them.

use crate::common::{LONG, Pair, pair_with};
use softnd::Options;

/// The names that both ends have for the transport.
fn transports(pair: &Pair) -> [Option<&'static str>; 2] {
    [
        pair.active_connector.transport(),
        pair.passive_connector.transport(),
    ]
}

/// An adapter with the option, which waits for the other end however long that takes.
fn with_option() -> Options {
    let options = Options::default().same_host(true);
    options.timeouts(|limits| limits.same_host = Some(LONG))
}

#[test]
fn both_ends_name_shared_memory_if_both_have_the_option() {
    let pair = pair_with(with_option(), with_option());
    assert_eq!(transports(&pair), [Some("shm"); 2]);
}

/// A limit that is switched off is none that has passed.
#[test]
fn a_connector_without_a_limit_waits() {
    let options = with_option().timeouts(|limits| limits.same_host = None);
    let pair = pair_with(options, with_option());
    assert_eq!(transports(&pair), [Some("shm"); 2]);
}

#[test]
fn both_ends_name_tcp_if_one_end_alone_has_the_option() {
    let without = || Options::default().same_host(false);
    for [active, passive] in [[with_option(), without()], [without(), with_option()]] {
        let pair = pair_with(active, passive);
        assert_eq!(transports(&pair), [Some("tcp"); 2]);
    }
}
