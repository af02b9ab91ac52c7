//! The checks, by section.

mod close;
mod common;
mod ddp;
mod extensions;
mod framing;
mod hostile;
mod markers;
mod negotiation;
mod rdmap;
mod read;
mod replies;
mod security;
mod send;
mod startup;
mod terminate;
mod tour;
mod write;

use crate::check::Check;

pub(crate) use extensions::{takes_atomics, takes_immediate};

/// All checks, in the order they run.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [
        startup::CHECKS,
        negotiation::CHECKS,
        replies::CHECKS,
        framing::CHECKS,
        markers::CHECKS,
        ddp::CHECKS,
        write::CHECKS,
        read::CHECKS,
        send::CHECKS,
        rdmap::CHECKS,
        terminate::CHECKS,
        extensions::CHECKS,
        close::CHECKS,
        security::CHECKS,
        hostile::CHECKS,
    ]
    .into_iter()
    .flatten()
}
