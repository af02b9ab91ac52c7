//! The connection against the catalogue: two engines, one virtual clock, no sockets.

mod ahead;
mod announced;
mod batch;
mod confirm;
mod cuts;
mod early;
mod ends;
mod extensions;
mod failing;
mod keeps;
mod limits;
mod markers;
mod model;
mod negative;
mod on_demand;
mod requests;
mod rows;
mod shared;
mod terminates;
mod unreliable;
mod unsent;
mod vectors;
mod windows;

use std::time::{Duration, Instant};

use super::*;
use crate::memory::Scope;
use crate::mpa::fpdu;
use crate::mpa::testing::hex;
use crate::testing::{End, Knobs, Pair, Rights, SIZES, frames, stream};
use crate::types::{Pd, ReadLimits, RemoteAddress, STag, Sge, StreamId};

const PD: Pd = Pd(1);
const SCOPE: Scope = Scope {
    pd: PD,
    stream: StreamId(1),
};
/// The STags of the Data Source or Write target, and of the Read sink, in the catalogue's frames.
const TARGET: STag = STag(0x1234_5678);
const SINK: STag = STag(0x1122_3344);
/// Where the answer `D4` goes.
const SINK_OF_4: Sge = Sge {
    address: 0,
    length: 4,
    token: SINK,
};
/// One octet of a region that was never registered.
const NOWHERE: Sge = Sge {
    address: 0,
    length: 1,
    token: STag(99),
};

fn remote(stag: STag, to: u64) -> RemoteAddress {
    RemoteAddress { stag, to }
}

fn sends(data: Payload<'_>) -> Operation<Payload<'_>> {
    Operation::Send {
        data,
        solicited: false,
        invalidate: None,
    }
}

fn inline<'a>(data: &'a [&'a [u8]]) -> Operation<Payload<'a>> {
    sends(Payload::Inline(data))
}

/// A Read of the catalogue's target.
fn read<'a>(sink: &'a [Sge], at: u64) -> Operation<Payload<'a>> {
    Operation::Read {
        sink: Payload::Sges(sink),
        remote: remote(TARGET, at),
    }
}

fn wqe(context: u64, operation: Operation<Payload<'_>>) -> InitiatorWqe<'_> {
    InitiatorWqe {
        context,
        operation,
        silent: false,
        fence: false,
    }
}

fn part(sge: Sge, at: u32, length: u32) -> Sge {
    Sge {
        address: sge.address + u64::from(at),
        length,
        ..sge
    }
}

/// Octets that differ from place to place.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at.wrapping_mul(31) ^ at >> 8).to_le_bytes()[0] ^ seed)
        .collect()
}

/// Statuses of all completions, in their order.
fn outcomes(end: &End) -> Vec<WqeStatus> {
    end.completions().iter().map(|done| done.status).collect()
}

/// Statuses of all completions of one kind.
fn statuses(end: &End, kind: RequestKind) -> Vec<WqeStatus> {
    let completions = end.completions();
    completions
        .iter()
        .filter(|done| done.kind == kind)
        .map(|done| done.status)
        .collect()
}

/// A pair in full operation; `b` has the catalogue's buffer of 64 KiB at 0x1000.
fn pair(knobs: Knobs) -> Pair {
    let pair = Pair::ready(knobs);
    pair.b
        .mem
        .register_as(TARGET, 0x1000, pattern(1 << 16, 7), Rights::ALL, PD);
    pair
}

/// A running connection that talks to the test itself.
struct Raw {
    end: End,
    now: Instant,
    knobs: Knobs,
}

impl Raw {
    /// A Responder with CRC on. Its first inbound FPDU opens the fence.
    fn responder() -> Self {
        Self::with(stream(Role::Responder))
    }

    fn initiator() -> Self {
        Self::with(stream(Role::Initiator))
    }

    fn with(config: StreamConfig) -> Self {
        let mut end = End::new(SIZES);
        end.conn.start(config);
        Self {
            end,
            now: Instant::now(),
            knobs: Knobs::default(),
        }
    }

    /// With buffers under the catalogue's names: 4096 octets at 0x1000, and a sink of 4096 octets at 0.
    fn with_buffers(self) -> Self {
        let mem = &self.end.mem;
        mem.register_as(TARGET, 0x1000, pattern(4096, 7), Rights::ALL, PD);
        mem.register_as(SINK, 0, vec![0; 4096], Rights::ALL, PD);
        self
    }

    fn receive(&mut self, octets: &[u8]) {
        self.end.receive(octets);
    }

    /// One FPDU with this ULPDU arrives.
    fn ulpdu(&mut self, ulpdu: &[u8]) {
        let mut frame = Vec::new();
        fpdu::put(&mut frame, ulpdu, true);
        self.receive(&frame);
    }

    /// The octets that it sends.
    fn transmit(&mut self) -> Vec<u8> {
        let octets = self.end.transmit(&self.knobs);
        self.end.collect();
        octets
    }

    fn post_receive(&mut self, context: u64, len: usize) -> Sge {
        let sge = self.end.mem.register(vec![0; len], Rights::ALL, PD);
        self.end.conn.post_receive(context, &[sge]).expect("room");
        sge
    }

    /// The Terminate it sends, if that is the last thing it sends.
    fn last_terminate(&mut self) -> Option<crate::rdmap::Terminate> {
        let ulpdus = frames(&self.transmit(), true);
        let last = ulpdus.last()?;
        (last[1] == 0x47).then(|| crate::rdmap::Terminate::parse(&last[18..], false))?
    }
}

/// `R1` to `R4`, `D1` to `D14`, `T1` to `T6`: sections 14.3 to 14.5, without spaces.
pub(super) fn vector(name: &str) -> Vec<u8> {
    let text = match name {
        "R1" => "000ec14000000001 0000000000000000 ebd34c5f",
        "R2" => {
            "002e414100000000 0000000100000001 0000000000000001 0000000000000000 0000000000000001 \
             0000000000000000 27dbd7e7"
        }
        "R3" => "000ec14200000001 0000000000000000 21a3e83e",
        "R4" => "0012414300000000 0000000000000001 00000000587be8c4",
        "D1" => "0017414300000000 0000000000000001 0000000068656c6c 6f000000b990b10c",
        "D2" => "0012c14012345678 0000000000001000 deadbeefadc06961",
        "D3" => {
            "002e414100000000 0000000100000001 0000000011223344 0000000000000000 0000100012345678 \
             0000000000001000 7d749884"
        }
        "D4" => "0012c14211223344 0000000000000000 cafef00dbae39456",
        "D5" => "0017414412345678 0000000000000002 0000000068656c6c 6f000000fae1aa70",
        "D6" => "0017414500000000 0000000000000003 0000000068656c6c 6f0000003d59af89",
        "D7" => "0017414612345678 0000000000000004 0000000068656c6c 6f0000009ee72f8e",
        "D8a" => "001a014300000000 0000000000000005 0000000041424344 45464748fc83cc01",
        "D8b" => "0015414300000000 0000000000000005 00000008494a4b00 e02b26ab",
        "D9a" => "0016814012345678 0000000000001000 4142434445464748 1c3765f2",
        "D9b" => "0011c14012345678 0000000000001008 494a4b0020830cb5",
        "D10" => "001a414800000000 0000000000000001 0000000001020304 0506070806c22805",
        "D11" => "001a414900000000 0000000000000002 0000000001020304 0506070834416a7a",
        "D12" => {
            "0046414a00000000 0000000100000001 0000000000000000 a0a0a0a012345678 0000000000001000 \
             0000000000000001 0000000000000000 0000000000000000 ffffffffffffffff 3ebd01e0"
        }
        "D13" => {
            "0046414a00000000 0000000100000002 0000000000000002 a0a0a0a112345678 0000000000001008 \
             1122334455667788 ffffffffffffffff 0000000000000007 ffffffffffffffff 67dba092"
        }
        "D14" => "001e414b00000000 0000000300000001 00000000a0a0a0a0 0000000000000029 ddba49a0",
        "T1" => {
            "0026414700000000 0000000200000001 000000001101c000 0012c14012345678 0000000000001000 \
             42347cf9"
        }
        "T2" => {
            "0046414700000000 0000000200000001 000000000101e000 002e414100000000 0000000100000001 \
             0000000011223344 0000000000000000 0000100012345678 0000000000001000 025f3da4"
        }
        "T3" => "0016414700000000 0000000200000001 0000000020020000 7fe42585",
        "T4" => "0016414700000000 0000000200000001 0000000002060000 6f77b973",
        "T5" => "0016414700000000 0000000200000001 0000000020060000 6540fb1b",
        "T6" => "0016414700000000 0000000200000001 0000000020070000 1bd2babe",
        _ => panic!("no vector {name}"),
    };
    hex(text)
}

/// The ULPDU of a vector.
fn ulpdu(name: &str) -> Vec<u8> {
    frames(&vector(name), true).remove(0)
}

/// No time at all.
const NONE: Duration = Duration::ZERO;
/// No Reads either way.
const NO_READS: ReadLimits = ReadLimits { ird: 0, ord: 0 };
