//! Two engines and arbitrary operations on both, compared with a simple model of what each peer's memory must hold.
//!
//! The model needs no timing. Whatever happens, the memory that a peer writes to holds a prefix of the octets of its
//! Writes, in posting order, and nothing else.

use std::time::{Duration, Instant};

use iwarp::{Role, StreamEnd, TxLimit};

use crate::input::Input;
use crate::side::{Side, TARGET, markers};
use crate::wire::Wire;

/// Input: four octets of set-up (see `Side::new`), then operations; the highest bit of each says on which side.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn pair(data: &[u8]) {
    let mut input = Input::new(data);
    let setup = [(); 4].map(|()| input.octet());
    let now = Instant::now();
    let mut pair = Pair {
        sides: [Role::Initiator, Role::Responder].map(|role| {
            let mut side = Side::new(role, setup, now);
            side.inbound = Some(Wire::new(
                setup[0] & 1 != 0,
                markers(role, setup[0]).received,
            ));
            side
        }),
        reset: false,
    };
    if setup[0] >> 1 & 3 == 3 {
        // A ready-to-receive Send takes a Receive, so the model has to know its place in the order of Sends.
        pair.sides[0].expect_ready_send();
        pair.sides[0].send_ready();
    }
    while !input.is_empty() {
        pair.step(&mut input);
    }
    pair.finish();
}

struct Pair {
    sides: [Side; 2],
    reset: bool,
}

impl Pair {
    fn step(&mut self, input: &mut Input<'_>) {
        let op = input.octet();
        let side = usize::from(op >> 7);
        match op >> 4 & 7 {
            0..=3 => self.sides[side].local(op, input),
            4 => self.deliver(side, usize::from(input.word16())),
            5 => self.events(side),
            6 if op & 15 == 0 => self.reset(),
            6 => self.close(side),
            _ => self.round(),
        }
        self.check_reads();
    }

    /// Octets of `from` reach the other side, and with the last of them its end.
    fn deliver(&mut self, from: usize, most: usize) {
        let [first, second] = &mut self.sides;
        let (from, to) = if from == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let len = most.min(from.out.len());
        to.inbox.extend(from.out.drain(..len));
        to.receive();
        if from.fin_sent && from.out.is_empty() && !to.fin_received {
            to.end(StreamEnd::Fin);
        }
    }

    fn close(&mut self, side: usize) {
        let side = &mut self.sides[side];
        side.fin_sent |= side.may_close();
    }

    fn reset(&mut self) {
        self.reset = true;
        for side in &mut self.sides {
            side.out.clear();
            side.inbox.clear();
            side.fin_sent = true;
            side.end(StreamEnd::Reset);
        }
    }

    fn events(&mut self, side: usize) {
        let [first, second] = &mut self.sides;
        let (this, peer) = if side == 0 {
            (first, second)
        } else {
            (second, first)
        };
        this.events(Some(&mut peer.sends));
    }

    /// Does everything once, without limits that matter.
    fn round(&mut self) {
        let limit = TxLimit {
            octets: 1 << 20,
            fpdus: 64,
            mulpdu: 1442,
        };
        for side in 0..2 {
            if !self.sides[side].fin_sent {
                self.sides[side].transmit_within(limit);
                self.sides[side].write(usize::MAX);
            }
            self.deliver(side, usize::MAX);
        }
        for side in 0..2 {
            self.events(side);
        }
    }

    /// RDMAP-040: never more outstanding Reads than agreed. The ready-to-receive Read does not count, nor one that confirms apart.
    fn check_reads(&self) {
        for (this, peer) in [(0, 1), (1, 0)] {
            let (this, peer) = (&self.sides[this], &self.sides[peer]);
            if this.passes {
                continue; // some Responses were handled before their turn
            }
            let answered = this
                .inbound
                .as_ref()
                .map_or(0, |inbound| inbound.seen.read_responses);
            let open = this.wire.seen.read_requests - answered;
            let limits = this.conn.read_limits(); // equal, but for a Read that confirms apart
            assert!(
                open <= u64::from(limits.ord.max(limits.ird)) + 1,
                "{open} Reads under way"
            );
            assert!(peer.wire.seen.read_responses <= this.wire.seen.read_requests);
        }
    }

    fn is_quiet(&self) -> bool {
        self.sides
            .iter()
            .all(|side| side.is_drained() && (side.fin_sent || !side.conn.wants_transmit()))
    }

    fn run_until_quiet(&mut self) {
        for _ in 0..1000 {
            self.round();
            if self.is_quiet() {
                return;
            }
        }
        panic!("the two never come to rest");
    }

    fn finish(&mut self) {
        if !self.reset {
            self.sides[0].send_ready();
            self.run_until_quiet();
            self.check_progress();
            // A side that waits for a Receive has waited long enough.
            for side in &mut self.sides {
                side.now += Duration::from_secs(3600);
                side.conn.handle_timeout(side.now);
            }
            self.run_until_quiet();
            self.sides[0].conn.disconnect();
            for _ in 0..4 {
                self.run_until_quiet();
                self.close(0);
                self.close(1);
            }
            self.run_until_quiet();
        }
        self.reset();
        for side in 0..2 {
            self.events(side);
            assert!(self.sides[side].ended, "the end is told");
            self.sides[side].assert_all_came_back();
            self.sides[side].assert_untouched();
            let [this, peer] = [&self.sides[side], &self.sides[1 - side]];
            this.assert_counted(&peer.mem);
        }
        assert_is_a_prefix(&self.sides[0], &self.sides[1]);
        assert_is_a_prefix(&self.sides[1], &self.sides[0]);
    }

    /// If both streams are intact and no side waits for a Receive, all posted requests are done and have arrived.
    fn check_progress(&self) {
        let sound = |side: &Side| {
            let waits = side.conn.is_stalled() || side.conn.awaits_recognition();
            side.conn.is_running() && !waits && !side.fin_sent
        };
        if !self.sides.iter().all(sound) {
            return;
        }
        for (this, peer) in [(0, 1), (1, 0)] {
            let (this, peer) = (&self.sides[this], &self.sides[peer]);
            assert!(
                !this.conn.is_fenced() && this.conn.is_idle(),
                "nothing is left to do"
            );
            assert!(this.wire.is_whole() && peer.inbox.is_empty());
            let mut expected = vec![0; peer.mem.read(TARGET).len()];
            for (at, data) in &this.writes {
                expected[*at..*at + data.len()].copy_from_slice(data);
            }
            assert_eq!(peer.mem.read(TARGET), expected, "all Writes have arrived");
            assert_eq!(this.counted(&peer.mem), this.total, "all Atomics are done");
        }
    }
}

/// The peer's memory holds a prefix of the octets of this side's Writes.
fn assert_is_a_prefix(this: &Side, peer: &Side) {
    let found = peer.mem.read(TARGET);
    let mut picture = vec![0; found.len()];
    let mut differing = found.iter().filter(|octet| **octet != 0).count();
    if differing == 0 {
        return;
    }
    for (at, data) in &this.writes {
        for (at, octet) in (*at..).zip(data) {
            differing -= usize::from(picture[at] != found[at]);
            picture[at] = *octet;
            differing += usize::from(picture[at] != found[at]);
            if differing == 0 {
                return;
            }
        }
    }
    panic!("memory holds what no prefix of the Writes explains");
}
