//! The checks, by section.

mod close;
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

use crate::bench::Bench;
use crate::check::{Check, Level, Need, Pass, Role, Section, Step, Stop, Verdict, ensure, fail};
use crate::conn::{Conn, Seen};
use crate::service::{Answer, Command, Region, RegionKind, Report};
use crate::wire::{AtomicRequest, Segment, opcode};

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

const fn check(
    section: Section,
    name: &'static str,
    title: &'static str,
    run: fn(&mut Bench) -> Verdict,
) -> Check {
    Check {
        name,
        also: &[],
        section,
        level: Level::Must,
        role: Role::Both,
        needs: &[],
        title,
        run,
    }
}

impl Check {
    const fn also(mut self, rows: &'static [&'static str]) -> Self {
        self.also = rows;
        self
    }

    const fn should(mut self) -> Self {
        self.level = Level::Should;
        self
    }

    const fn responder(mut self) -> Self {
        self.role = Role::Responder;
        self
    }

    const fn initiator(mut self) -> Self {
        self.role = Role::Initiator;
        self
    }

    const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }
}

/// What a region holds from some place on, asked for on a connection of its own.
fn peek(bench: &mut Bench, region: u16, offset: u64, length: u16) -> Step<Vec<u8>> {
    let mut conn = bench.open()?;
    peek_on(&mut conn, region, offset, length)
}

/// The same on this connection.
fn peek_on(conn: &mut Conn, region: u16, offset: u64, length: u16) -> Step<Vec<u8>> {
    let peek = Command::Peek {
        region,
        offset,
        length,
    };
    match conn.command(&peek)? {
        Answer::Octets(octets) => Ok(octets),
        other => Err(fail("octets of a region", format!("{other:?}"))),
    }
}

/// Fills a region with an octet.
fn fill(conn: &mut Conn, region: u16, octet: u8) -> Step {
    match conn.command(&Command::Fill { region, octet })? {
        Answer::Done(_) => Ok(()),
        other => Err(fail("a region is filled", format!("{other:?}"))),
    }
}

/// A region still holds nothing but `octet` there. `conn` ends first: a target that connects has one at a time.
fn untouched(
    bench: &mut Bench,
    conn: Conn,
    region: u16,
    (offset, length): (u64, u16),
    octet: u8,
) -> Step {
    drop(conn);
    let found = peek(bench, region, offset, length)?;
    match found.iter().position(|found| *found != octet) {
        None if found.len() == usize::from(length) => Ok(()),
        None => Err(fail(
            format!("{length} octets of the region"),
            format!("{}", found.len()),
        )),
        Some(at) => Err(fail(
            format!("nothing is placed: octets {octet:02x}"),
            format!("octet {} is {:02x}", offset + at as u64, found[at]),
        )),
    }
}

/// The region that Writes go to, filled with an octet.
fn writable(conn: &mut Conn, octet: u8) -> Step<(u16, Region)> {
    let found = conn.region(RegionKind::Shared, false, true)?;
    fill(conn, found.0, octet)?;
    Ok(found)
}

/// What the target knows of test data on this connection.
fn report(conn: &mut Conn) -> Step<Report> {
    match conn.command(&Command::Report)? {
        Answer::Report(report) => Ok(report),
        other => Err(fail("a report", format!("{other:?}"))),
    }
}

/// That the target goes on working on this connection: an echo, or what works without an application.
fn alive(bench: &Bench, conn: &mut Conn) -> Verdict {
    if bench.facts.service {
        conn.echo(b"alive?")?;
    } else {
        conn.works()?;
    }
    Ok(Pass::Right)
}

/// No violation of a row, or of one of several, in what the target has sent.
fn no_fault(conn: &Conn, rows: &[&str]) -> Verdict {
    match conn.faults().iter().find(|fault| rows.contains(&fault.row)) {
        None => Ok(Pass::Right),
        Some(fault) => Err(fail(fault.expected.clone(), fault.seen.clone())),
    }
}

/// Whether the stream ended, rather than that something came.
fn is_end<T>(seen: &Seen<T>) -> bool {
    matches!(seen, Seen::End(..))
}
