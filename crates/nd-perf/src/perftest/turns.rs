//! The six tests, with the part of each side.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nd_base::errors::Result;
use netdirect::RemoteAddress;

use super::control::Role;
use super::data::{Data, Measurement, histogram};
use crate::device::Program;

impl Data {
    /// Runs this side's part. A server whose memory is only read or written measures nothing.
    pub(super) fn run(&mut self, role: Role, remote: RemoteAddress) -> Result<Option<Measurement>> {
        let measured = match (self.plan.test, role) {
            (Program::SendBw, Role::Client) => self.stream(Self::send, true).map(Some),
            (Program::WriteBw, Role::Client) => {
                self.stream(|data| data.write(remote), false).map(Some)
            }
            (Program::ReadBw, Role::Client) => {
                self.stream(|data| data.read(remote), false).map(Some)
            }
            (Program::SendBw, Role::Server) => self.take(remote).map(Some),
            (Program::SendLat, Role::Client) => self.ping_by_send().map(Some),
            (Program::SendLat, Role::Server) => self.pong_by_send().map(Some),
            (Program::WriteLat, _) => self.ping_by_write(role, remote).map(Some),
            (Program::ReadLat, Role::Client) => self.read_one_by_one(remote).map(Some),
            (Program::WriteBw | Program::ReadBw | Program::ReadLat, Role::Server) => Ok(None),
        };
        self.finish();
        measured
    }

    /// Posts requests, as many at a time as the depth and, with credits, the other side's Receives allow.
    fn stream(&mut self, post: impl Fn(&Self) -> Result<()>, credits: bool) -> Result<Measurement> {
        let plan = self.plan;
        let (mut asked, mut done, mut credit) = (0, 0, 0);
        let begun = Instant::now();
        while done < plan.count {
            if credits && self.credit() != credit {
                credit = self.credit();
                self.noticed();
            }
            // perftest leaves one Receive free. Subtractions are checked, because the peer's number may be wrong.
            let room = |asked: u32| !credits || (asked + 1).saturating_sub(credit) < plan.receives;
            while asked < plan.count && asked - done < plan.depth && room(asked) {
                post(self)?;
                asked += 1;
            }
            if self.look()?.is_some() {
                done += 1;
                self.progress(done);
            }
        }
        Ok(Measurement {
            time: begun.elapsed(),
            latencies: None,
        })
    }

    /// Takes Sends, and returns credits for them.
    fn take(&mut self, sender: RemoteAddress) -> Result<Measurement> {
        let plan = self.plan;
        let (mut taken, mut credits) = (0, 0);
        let mut begun = None;
        let mut due = None;
        while taken < plan.count {
            let result = self.wait()?;
            if self.check(&result)? {
                begun.get_or_insert_with(Instant::now);
                taken += 1;
                self.progress(taken);
                self.again(taken)?;
                if plan.credit(taken) {
                    due = Some(taken);
                }
            } else {
                credits -= 1;
            }
            if credits < plan.depth
                && let Some(taken) = due.take()
            {
                self.give_credit(taken, sender)?;
                credits += 1;
            }
        }
        let time = begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        self.finish_own(credits)?;
        Ok(Measurement {
            time,
            latencies: None,
        })
    }

    /// The side that sends first.
    fn ping_by_send(&mut self) -> Result<Measurement> {
        let mut pace = Pace::new(2)?;
        for round in 1..=self.plan.count {
            self.send()?;
            self.both(round)?;
            pace.lap();
        }
        Ok(pace.finish())
    }

    /// The side that answers.
    fn pong_by_send(&mut self) -> Result<Measurement> {
        let mut pace = Pace::new(2)?;
        let mut own = 0;
        for round in 1..=self.plan.count {
            loop {
                let result = self.wait()?;
                if self.check(&result)? {
                    break;
                }
                own -= 1;
            }
            if round == 1 {
                pace = Pace::new(2)?; // from here on the other side does nothing else
            } else {
                pace.lap();
            }
            self.again(round)?;
            self.send()?;
            own += 1;
            self.progress(round);
        }
        self.finish_own(own)?;
        Ok(pace.finish())
    }

    /// Waits for this many requests of this side, after all messages of the other side have arrived.
    fn finish_own(&mut self, requests: u32) -> Result<()> {
        for _ in 0..requests {
            let result = self.wait()?;
            if self.check(&result)? {
                return Err(self.too_many());
            }
        }
        Ok(())
    }

    /// Waits for the message of the other side and for the completion of this side's own.
    fn both(&mut self, round: u32) -> Result<()> {
        let (mut heard, mut sent) = (false, false);
        while !heard || !sent {
            let result = self.wait()?;
            if self.check(&result)? {
                heard = true;
                self.again(round)?;
            } else {
                sent = true;
            }
        }
        self.progress(round);
        Ok(())
    }

    /// Posts the Receive for a later round, if there is one, and one more, so that a message too many is noticed.
    fn again(&self, round: u32) -> Result<()> {
        if self.plan.count - round + 1 >= self.plan.receives {
            self.receive()?;
        }
        Ok(())
    }

    /// Both sides write in turns, and notice a message by its last octet. The server writes first.
    fn ping_by_write(&mut self, role: Role, remote: RemoteAddress) -> Result<Measurement> {
        let mut pace = Pace::new(2)?;
        for round in 1..=self.plan.count {
            // The octet counts rounds, and wraps.
            let [.., mark] = round.to_be_bytes();
            if role == Role::Client {
                self.await_mark(mark)?;
            }
            if round > 1 {
                pace.lap();
            } else {
                pace = Pace::new(2)?;
            }
            self.set_last(mark);
            self.write(remote)?;
            // The memory is written again in the next round.
            self.wait()?;
            if role == Role::Server {
                self.await_mark(mark)?;
            }
            self.progress(round);
        }
        Ok(pace.finish())
    }

    /// Waits for the octet. No request is outstanding meanwhile, so polling only drives the connection and finds its end.
    fn await_mark(&mut self, mark: u8) -> Result<()> {
        while self.last() != mark {
            match self.look() {
                Ok(_) => {}
                // The other side may have ended right after the last message.
                Err(_) if self.last() == mark => break,
                Err(failure) => return Err(failure),
            }
        }
        self.noticed();
        Ok(())
    }

    fn read_one_by_one(&mut self, remote: RemoteAddress) -> Result<Measurement> {
        let mut pace = Pace::new(1)?;
        for round in 1..=self.plan.count {
            self.read(remote)?;
            self.wait()?;
            pace.lap();
            self.progress(round);
        }
        Ok(pace.finish())
    }
}

/// The times of messages one after the other.
#[derive(Debug)]
struct Pace {
    begun: Instant,
    last: Instant,
    /// Messages in a lap, whose time is taken together.
    messages: u32,
    latencies: Histogram<u64>,
}

impl Pace {
    fn new(messages: u32) -> Result<Self> {
        let now = Instant::now();
        Ok(Self {
            begun: now,
            last: now,
            messages,
            latencies: histogram()?,
        })
    }

    fn lap(&mut self) {
        let now = Instant::now();
        let time = (now - self.last) / self.messages;
        self.last = now;
        self.latencies
            .saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    fn finish(self) -> Measurement {
        Measurement {
            time: self.begun.elapsed(),
            latencies: Some(self.latencies),
        }
    }
}
