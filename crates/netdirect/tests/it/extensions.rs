//! Capabilities, counters and faults: what the types promise, and what a provider answers that implements nothing.

use std::collections::HashSet;

use netdirect::{
    AdapterExtensions, AtomicOp, Call, Capabilities, Counters, Fault, ProviderExtensions, Status,
};
use proptest::prelude::*;

/// Has its capabilities, and nothing else.
#[derive(Debug)]
struct Plain(Capabilities);

impl AdapterExtensions for Plain {
    fn capabilities(&self) -> Capabilities {
        self.0
    }
}

impl ProviderExtensions for Plain {}

#[test]
fn what_is_not_implemented_is_not_supported() {
    let plain = Plain(Capabilities::ND2);
    let adapter: &dyn AdapterExtensions = &plain;
    let provider: &dyn ProviderExtensions = &plain;
    let fault = Fault::Call {
        call: Call::Any,
        nth: 1,
        status: Status::NO_MEMORY,
    };
    for refused in [
        adapter.inject(Fault::RemoveDevice),
        adapter.inject(fault.clone()),
        provider.inject(fault),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.status(), Status::NOT_SUPPORTED);
        assert!(!error.what().is_empty());
    }
    assert_eq!(adapter.counters(), Counters::new());
    assert_eq!(adapter.counters().total("lenient"), 0);
}

#[test]
fn atomics_need_a_mask_capability_only_with_a_mask() {
    let fetch_add = |mask| Capabilities::needed_for(AtomicOp::FetchAdd { add: 1, mask });
    assert_eq!(fetch_add(0), Capabilities::FETCH_ADD);
    assert_eq!(fetch_add(1 << 31), Capabilities::FETCH_ADD_MASK);
    let swap = |compare_mask, swap_mask| {
        Capabilities::needed_for(AtomicOp::CompareSwap {
            compare: 1,
            compare_mask,
            swap: 2,
            swap_mask,
        })
    };
    assert_eq!(swap(u64::MAX, u64::MAX), Capabilities::COMPARE_SWAP);
    for (compare_mask, swap_mask) in [(0, u64::MAX), (u64::MAX, 0), (1, 1)] {
        let needed = swap(compare_mask, swap_mask);
        assert_eq!(needed, Capabilities::COMPARE_SWAP_MASK);
    }
    assert_eq!(
        Capabilities::needed_for(AtomicOp::add(7))
            | Capabilities::needed_for(AtomicOp::compare_swap(1, 2)),
        Capabilities::FETCH_ADD | Capabilities::COMPARE_SWAP
    );
}

#[test]
fn any_covers_every_kind_of_call_and_each_kind_itself() {
    let kinds: HashSet<_> = Call::ALL.into_iter().collect();
    assert_eq!(kinds.len(), Call::ALL.len());
    assert!(!kinds.contains(&Call::Any));
    for kind in Call::ALL {
        assert!(Call::Any.covers(kind));
        for other in Call::ALL {
            assert_eq!(kind.covers(other), kind == other);
        }
    }
}

#[test]
fn counters_are_printed_one_a_line() {
    let counters = Counters::from_iter([("b", 2), ("a.c", 1), ("b", 3)]);
    assert_eq!(counters.to_string(), "a.c 1\nb 3\n");
}

fn names() -> impl Strategy<Value = Vec<(String, u64)>> {
    proptest::collection::vec(("[ab](\\.[ab]{1,2}){0,2}", 0..1000_u64), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_group_is_the_sum_of_what_is_in_it(values in names(), group in "[ab](\\.[ab])?") {
        let counters: Counters = values.into_iter().collect();
        let inside = format!("{group}.");
        let expected: u64 = counters
            .iter()
            .filter(|(name, _)| *name == group || name.starts_with(&inside))
            .map(|(_, value)| value)
            .sum();
        prop_assert_eq!(counters.total(&group), expected);
    }

    #[test]
    fn what_was_counted_since_adds_up(before in names(), more in names()) {
        let before: Counters = before.into_iter().collect();
        let mut after = before.clone();
        let grown = more.iter().map(|(name, value)| {
            (name.clone(), before.get(name).unwrap_or(0) + value)
        });
        after.extend(grown);
        let since = after.since(&before);
        for (name, value) in after.iter() {
            let sum = before.get(name).unwrap_or(0) + since.get(name).expect("the same names");
            prop_assert_eq!(sum, value);
        }
    }
}
