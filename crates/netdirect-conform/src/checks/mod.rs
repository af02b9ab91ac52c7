//! The checks, by interface.
//!
//! # How to write one
//!
//! - Each interface has a file with a list `CHECKS`, in the order of its rows. A line of the list is
//!   `check(Interface::…, "MR-012.one-octet", "one sentence that says what the check does", function)`, followed where needed by
//!   `.also(&[…])` with further rows that the check proves, and by `.needs(&[…])` with what the provider has to have. If
//!   the adapter lacks what is needed, the check is skipped; if the run lacks it ([`Need::is_of_run`](crate::Need::is_of_run)), the
//!   check is not part of the run. `Stop::Skip` and `Stop::LeftOut` say so of what a check finds out by itself, and a skip
//!   begins with "the adapter" or "the far adapter". The part of the name behind the dot is one to three words.
//! - The function has the signature `fn(&Bench) -> Verdict`. It makes all objects that it uses, from `bench.near` (the side that
//!   is checked) and `bench.far` (its peer), and ends with `Ok(Pass::Right)`.
//! - A row is proven by what a client sees: a status, a result, octets in memory. A check that would pass on a provider that
//!   breaks the rule is no check: write it so that it can fail.
//! - All calls go through the methods of [`Side`](crate::Side) and [`LinkEnd`](crate::LinkEnd), or are preceded by
//!   `bench.step("…")` or `side.step("…")`: the last step is what a hang is blamed on.
//! - All waits go through [`Side`](crate::Side): `done`, `ended`, `end_of`, `results`, `until`, `stays`, `no_result`. They
//!   have limits, and they move the clock of a simulated network. A check never sleeps, starts no thread where `bench.near` is
//!   in a simulation, and uses ports that the provider picks.
//! - That something does *not* happen is shown by something later that does, where that is possible; `stays` and `no_result` let
//!   a short time pass, and notice a violation only if it is quick.
//! - Expectations that differ between profiles ask [`Bench::profile`](crate::Bench::profile).
//! - A check that waits for a time limit of the provider sets it by `.time_limits(…)`.
//! - Helpers that several interfaces use are in `common`.
//! - A new check changes the pages below `docs/check`: run `cargo make check-pages`. The rule that the check is about becomes a broken provider with a line in a table of `tests/it/tables`: the check fails, and
//!   no other does.

mod adapter;
mod client_setup;
mod common;
mod completion;
mod connector;
mod creation;
mod info;
mod iwarp_setup;
mod listener;
mod notify;
mod overlapped;
mod provider;
mod queue_pair;
mod regions;
mod requests;
mod setup;
mod shared_receive_queue;
mod shared_receives;
mod windows;

use crate::check::Check;

/// All checks, in the order they run.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [
        provider::CHECKS,
        adapter::CHECKS,
        shared_receives::CHECKS,
        creation::CHECKS,
        info::CHECKS,
        overlapped::CHECKS,
        regions::CHECKS,
        windows::CHECKS,
        completion::CHECKS,
        notify::CHECKS,
        queue_pair::posts::CHECKS,
        queue_pair::messages::CHECKS,
        queue_pair::transfers::CHECKS,
        queue_pair::windows::CHECKS,
        queue_pair::ending::CHECKS,
        shared_receive_queue::CHECKS,
        connector::bind::CHECKS,
        connector::connect::CHECKS,
        connector::data::CHECKS,
        connector::accept::CHECKS,
        connector::states::CHECKS,
        connector::ending::CHECKS,
        listener::CHECKS,
        iwarp_setup::CHECKS,
        client_setup::CHECKS,
    ]
    .into_iter()
    .flatten()
}
