//! The server: takes one client, Reads and Writes its buffers, until either side disconnects.

use std::net::SocketAddr;

use clap::ValueEnum;
use netdirect::{MrFlags, Overlapped, RemoteToken, Status};

use crate::exchange::{Advert, Load, MESSAGE, pattern};
use crate::side::{LIMITS, Outcome, Refusal, Region, Side, doing, expect, settle};

/// The exchange of the server with its client.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Case {
    /// The whole exchange until the client disconnects.
    Ping,
    /// Like the case before, but this side disconnects, when the client waits for the answer to one more ping.
    Disconnect,
    /// Reads by a key that the client has not given.
    ReadBadKey,
    /// Reads one octet more than the client has.
    ReadBeyond,
    /// Writes by a key that the client has not given.
    WriteBadKey,
    /// Writes one octet more than the client has.
    WriteBeyond,
    /// Rejects the connection.
    Reject,
}

/// Runs the case.
pub(crate) fn run(case: Case, at: SocketAddr, crc: bool, load: Load) -> Outcome<String> {
    let side = Side::new(at.ip(), crc)?;
    get_request(&side, at)?;
    // One octet more than a ping has.
    let flags = MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK;
    let region = side.register(load.size + 1, flags)?;
    match case {
        Case::Ping => serve_all(side, &region, load)?.ended()?,
        Case::Disconnect => {
            let mut side = serve_all(side, &region, load)?;
            // rping never ends if its Receive is posted after the end. Here the Receive has been posted long before.
            side.receive()?;
            side.disconnect()?;
        }
        Case::ReadBadKey => return overstep(side, &region, Refusal::Read, spoil_key),
        Case::ReadBeyond => return overstep(side, &region, Refusal::Read, lengthen),
        Case::WriteBadKey => return overstep(side, &region, Refusal::Write, spoil_key),
        Case::WriteBeyond => return overstep(side, &region, Refusal::Write, lengthen),
        Case::Reject => {
            side.connector.reject(&[]).map_err(doing("Reject"))?;
            return Ok("rejected".to_owned());
        }
    }
    Ok(format!("{} pings of {} octets", load.count, load.size))
}

fn spoil_key(given: &mut Advert) {
    given.at.token = RemoteToken::from_host(given.at.token.to_host() ^ 1);
}

fn lengthen(given: &mut Advert) {
    given.size += 1;
}

fn get_request(side: &Side, at: SocketAddr) -> Outcome<()> {
    let listener = side
        .adapter
        .create_listener(&side.file)
        .map_err(doing("create a listener"))?;
    listener.bind(at).map_err(doing("bind the listener"))?;
    listener.listen(1).map_err(doing("listen"))?;
    let overlapped = Overlapped::new();
    let started = listener.get_connection_request(&side.connector, &overlapped);
    let status = settle("GetConnectionRequest", &overlapped, started)?;
    expect("GetConnectionRequest", status, &[Status::SUCCESS])?;

    let connector = &side.connector;
    let said = connector
        .get_private_data()
        .map_err(doing("GetPrivateData"))?;
    if !said.is_empty() {
        return Err(format!("{} octets of private data from rping", said.len()));
    }
    let limits = connector
        .get_read_limits()
        .map_err(doing("GetReadLimits"))?;
    if limits != LIMITS {
        return Err(format!("{limits:?} instead of {LIMITS:?}"));
    }
    Ok(())
}

fn accept(side: &Side) -> Outcome<()> {
    let overlapped = Overlapped::new();
    let (inbound, outbound) = (LIMITS.inbound, LIMITS.outbound);
    let started = side
        .connector
        .accept(&side.qp, inbound, outbound, &[], &overlapped);
    let status = settle("Accept", &overlapped, started)?;
    expect("Accept", status, &[Status::SUCCESS])?;
    side.watch()
}

/// Accepts, and serves all pings.
fn serve_all(mut side: Side, region: &Region, load: Load) -> Outcome<Side> {
    accept(&side)?;
    for ping in 0..load.count {
        serve(&mut side, region, ping, load.size)?;
    }
    Ok(side)
}

/// One ping: Read, answer, Write, answer.
fn serve(side: &mut Side, region: &Region, ping: u32, size: u32) -> Outcome<()> {
    take(side, region, ping, size)?;
    let sink = Advert::decode(side.receive()?);
    let status = side.write(region, sink.at, size)?;
    expect("Write", status, &[Status::SUCCESS])?;
    side.send(&[0; MESSAGE])
}

/// The first half of a ping: the client's data, checked, and the answer.
fn take(side: &mut Side, region: &Region, ping: u32, size: u32) -> Outcome<()> {
    let source = Advert::decode(side.receive()?);
    if source.size != size {
        return Err(format!(
            "a source of {} octets instead of {size}",
            source.size
        ));
    }
    region.buffer.fill(0);
    let status = side.read(region, source.at, size)?;
    expect("Read", status, &[Status::SUCCESS])?;
    let mut data = region.buffer.to_vec();
    data.truncate(size as usize);
    if data != pattern(ping, size) {
        return Err(format!("ping {ping}: what was read is not rping's pattern"));
    }
    side.send(&[0; MESSAGE])
}

/// Accepts, and makes an access beyond what the client has granted.
fn overstep(
    mut side: Side,
    region: &Region,
    by: Refusal,
    spoil: fn(&mut Advert),
) -> Outcome<String> {
    accept(&side)?;
    if matches!(by, Refusal::Write) {
        // The source is read as it should be, the sink comes next.
        take(&mut side, region, 0, region.size - 1)?;
    }
    let mut given = Advert::decode(side.receive()?);
    spoil(&mut given);
    side.be_refused(by, region, given.at, given.size)
}
