//! Queue pairs for datagrams do arbitrary things in a simulated network that loses, repeats and delays datagrams, and a plain model checks what
//! their programs see.
//!
//! Each message is a unique number. A Receive that succeeds has the octets of one message to its queue pair, in the life of the
//! queue pair in which the message was sent or in a later one, with the number and the address of the queue pair that has sent it. No message is
//! received more often than the network has repeated it. Each request ends once, and with RESET not at all. What was sent and not received was
//! dropped, and is counted: by the network or by the receiver.
//!
//! `SOFTND_SEEDS=10000 cargo test --release -p softverbs --test it datagrams_model` runs 10,000 seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use softverbs::{
    AddressHandle, Chance, Conditions, Destination, DeviceKind, QpMask, QpState, SendData,
    SendOperation, SendRequest, WcOpcode, WcStatus, WorkCompletion, World, gid,
};

use crate::common::{Host, send_of};
use crate::datagrams::{Datagrams, GRH, KEY, dropped, handle};
use crate::numbers_model::{Random, each_seed};

/// The seeds of an ordinary run.
const SEEDS: u64 = 150;
const HOSTS: usize = 2;
const PAIRS: usize = 4;
/// The depth of each queue, and the room of a Receive.
const SLOTS: u64 = 8;
const ROOM: u32 = 200;
const STEPS: u64 = 120;

/// A message, by its number.
struct Message {
    from: usize,
    to: usize,
    /// The life of the receiver when the message was sent.
    life: u64,
    length: u64,
    immediate: Option<[u8; 4]>,
    /// It has the Q_Key of its receiver.
    has_key: bool,
    received: u64,
}

struct End {
    host: usize,
    pair: Datagrams,
    /// Counts the times at which the queue pair was reset.
    life: u64,
    sends: BTreeSet<u64>,
    receives: BTreeSet<u64>,
    /// The numbers of the last request of each queue. Those of Receives name their slots.
    next: u64,
    next_receive: u64,
}

struct Model {
    world: World,
    hosts: Vec<Host>,
    handles: BTreeMap<(usize, usize), Arc<AddressHandle>>,
    ends: Vec<End>,
    messages: Vec<Message>,
    random: Random,
    loses: bool,
    repeats: bool,
}

/// The octet of a message at a place.
fn octet(number: u64, at: u64) -> u8 {
    (number.wrapping_mul(31) ^ at.wrapping_mul(7)).to_be_bytes()[7]
}

fn octets(number: u64, length: u64) -> Vec<u8> {
    let rest = (8..length).map(|at| octet(number, at));
    number.to_be_bytes().into_iter().chain(rest).collect()
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut conditions = Conditions::default();
        let chance = |random: &mut Random| match random.below(2) {
            0 => Chance::NEVER,
            _ => Chance::per_million(u32::try_from(random.below(300_000)).unwrap()),
        };
        conditions.loss = chance(&mut random);
        conditions.duplication = chance(&mut random);
        conditions.reordering = chance(&mut random);
        conditions.full_socket = chance(&mut random);
        // In ERR what waits for room is not sent.
        let loses = conditions.loss != Chance::NEVER || conditions.full_socket != Chance::NEVER;
        let repeats = conditions.duplication != Chance::NEVER;
        let world = World::new(seed, conditions);
        let hosts: Vec<_> = (1..=HOSTS)
            .map(|last| Host::simulated(&world, u8::try_from(last).unwrap(), DeviceKind::Roce))
            .collect();
        let ends = (0..PAIRS).map(|place| End {
            host: place % HOSTS,
            pair: Datagrams::new(&hosts[place % HOSTS]),
            life: 0,
            sends: BTreeSet::new(),
            receives: BTreeSet::new(),
            next: 0,
            next_receive: 0,
        });
        let ends = ends.collect();
        let all = (0..HOSTS).flat_map(|from| (0..HOSTS).map(move |to| (from, to)));
        let handles = all.map(|(from, to)| ((from, to), handle(&hosts[from], &hosts[to])));
        Self {
            handles: handles.collect(),
            world,
            hosts,
            ends,
            messages: Vec::new(),
            random,
            loses,
            repeats,
        }
    }

    fn receive(&mut self, at: usize) {
        let end = &mut self.ends[at];
        if end.receives.len() as u64 == SLOTS || end.pair.qp.state() == QpState::Reset {
            return;
        }
        end.next_receive += 1;
        // Memory in two places, of which one may be within the header.
        let first = u32::try_from(self.random.below(ROOM.into())).unwrap();
        let offset = end.next_receive % SLOTS * 1024;
        let sges = [
            end.pair.sge(offset, first),
            end.pair.sge(offset + u64::from(first), ROOM - first),
        ];
        end.pair.qp.post_receive(end.next_receive, &sges).unwrap();
        end.receives.insert(end.next_receive);
    }

    fn send(&mut self, at: usize) {
        let to = usize::try_from(self.random.below(PAIRS as u64)).unwrap();
        // Some are longer than a Receive.
        let length = 8 + self.random.below(u64::from(ROOM) - GRH);
        let number = self.messages.len() as u64;
        let immediate = (self.random.below(2) == 0).then(|| [at.to_be_bytes()[7], 1, 2, 3]);
        let life = self.ends[to].life;
        let peer = self.ends[to].pair.qp.number();
        let key = match self.random.below(10) {
            0 => KEY + 1,
            1 => 1 << 31,
            _ => KEY,
        };
        let handle = &self.handles[&(self.ends[at].host, self.ends[to].host)];
        let end = &mut self.ends[at];
        let state = end.pair.qp.state();
        let takes = matches!(state, QpState::Rts | QpState::Err);
        if !takes || end.sends.len() as u64 == SLOTS {
            return;
        }
        end.next += 1;
        let octets = octets(number, length);
        let offset = 32 * 1024;
        end.pair.written(offset, &octets);
        let sges = [end.pair.sge(offset, u32::try_from(length).unwrap())];
        let operation = match immediate {
            None => SendOperation::Send,
            Some(immediate) => SendOperation::SendImmediate(immediate),
        };
        let request = SendRequest {
            operation,
            to: Some(Destination {
                handle,
                number: peer,
                key,
            }),
            ..send_of(end.next, SendData::Sges(&sges))
        };
        end.pair.qp.post_send(&request).unwrap();
        end.sends.insert(end.next);
        if state == QpState::Rts {
            self.messages.push(Message {
                from: at,
                to,
                life,
                length,
                immediate,
                has_key: key != KEY + 1,
                received: 0,
            });
        }
    }

    fn poll(&mut self, at: usize) {
        let mut some = [WorkCompletion::default(); 8];
        let taken = self.ends[at].pair.cq.poll(&mut some);
        for one in &some[..taken] {
            let end = &mut self.ends[at];
            assert_eq!(one.qp_num, end.pair.qp.number());
            let is_receive = one.opcode == WcOpcode::Receive;
            if is_receive {
                let oldest = end.receives.pop_first();
                assert_eq!(oldest, Some(one.wr_id), "in order, and once: {one:?}");
            } else {
                assert!(end.sends.remove(&one.wr_id), "once: {one:?}");
                assert_eq!(one.source, None);
            }
            match one.status {
                WcStatus::Success if is_receive => self.check_message(at, one),
                WcStatus::Success | WcStatus::Flushed => {}
                _ => panic!("{one:?}"),
            }
        }
    }

    fn check_message(&mut self, at: usize, one: &WorkCompletion) {
        let end = &self.ends[at];
        let offset = one.wr_id % SLOTS * 1024;
        let number = u64::from_be_bytes(end.pair.read(offset + GRH));
        let message = &mut self.messages[usize::try_from(number).unwrap()];
        message.received += 1;
        assert_eq!(message.to, at);
        assert!(message.life <= end.life);
        assert!(message.has_key);
        assert_eq!(u64::from(one.byte_len()), GRH + message.length);
        assert_eq!(one.immediate, message.immediate);
        for place in 8..message.length {
            let [got] = end.pair.read(offset + GRH + place);
            assert_eq!(got, octet(number, place), "octet {place} of {number}");
        }
        let sender = &self.ends[message.from];
        let grh: [u8; 40] = end.pair.read(offset);
        assert_eq!(grh[8..24], gid(self.hosts[sender.host].address));
        assert_eq!(grh[24..], gid(self.hosts[end.host].address));
        assert_eq!(one.source, Some(sender.pair.qp.number()));
    }

    fn act(&mut self) {
        let at = usize::try_from(self.random.below(PAIRS as u64)).unwrap();
        match self.random.below(80) {
            0 => {
                let end = &mut self.ends[at];
                end.pair.to(QpState::Reset, QpMask::empty()).unwrap();
                end.life += 1;
                end.sends.clear();
                end.receives.clear();
                end.pair.init();
                if self.random.below(4) > 0 {
                    self.ends[at].pair.advance();
                }
            }
            1 => self.ends[at]
                .pair
                .to(QpState::Err, QpMask::empty())
                .unwrap(),
            2 => {
                let end = &self.ends[at];
                if end.pair.qp.state() == QpState::Init {
                    end.pair.advance();
                }
            }
            3..=22 => self.receive(at),
            23..=47 => self.send(at),
            48..=67 => self.poll(at),
            _ => {
                self.world.step();
            }
        }
    }
}

fn run(seed: u64) {
    let mut model = Model::new(seed);
    for _ in 0..STEPS {
        model.act();
    }
    // Everything arrives, and every request of a queue pair in RTS or in ERR has an end.
    for _ in 0..100 {
        while model.world.step() {}
        (0..PAIRS).for_each(|at| model.poll(at));
    }
    for end in &model.ends {
        assert!(end.sends.is_empty(), "requests without an end");
        if end.pair.qp.state() == QpState::Err {
            assert!(end.receives.is_empty(), "Receives without an end");
        }
    }
    let all = |why: &str| {
        model
            .hosts
            .iter()
            .map(|host| dropped(host, why))
            .sum::<u64>()
    };
    assert_eq!((all("foreign"), all("not_sent")), (0, 0));
    let most = match model.repeats {
        false => 1,
        true => 2,
    };
    let received: u64 = model.messages.iter().map(|message| message.received).sum();
    assert!(
        model
            .messages
            .iter()
            .all(|message| message.received <= most)
    );
    let were_reset = model.ends.iter().any(|end| end.life > 0);
    if !model.loses && !model.repeats && !were_reset {
        let reasons = [
            "unknown_number",
            "wrong_key",
            "no_receive",
            "receive_too_short",
        ];
        let dropped: u64 = reasons.iter().map(|why| all(why)).sum();
        assert_eq!(received + dropped, model.messages.len() as u64);
    }
}

#[test]
fn every_datagram_arrives_whole_or_is_dropped_and_counted() {
    each_seed(SEEDS, run);
}
