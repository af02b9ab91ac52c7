//! The client: connects, describes its buffers, checks what comes back, disconnects.

use std::net::{IpAddr, SocketAddr};

use clap::ValueEnum;
use netdirect::{MrFlags, Overlapped, RemoteAddress, RemoteToken, Status};

use crate::exchange::{Advert, Load, MESSAGE, pattern};
use crate::side::{LIMITS, Outcome, Refusal, Side, doing, expect, settle};

/// The exchange of the client once it is connected.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Case {
    /// The whole exchange, then Disconnect.
    Ping,
    /// Reads by a key that the server has never made.
    ReadBadKey,
    /// Writes by a key that the server has never made.
    WriteBadKey,
    /// Describes a source by a key that does not exist: the server's Read has to be refused.
    OfferBadSource,
    /// Describes a source as one octet longer than it is.
    OfferLongSource,
    /// Describes a source that may not be read.
    OfferUnreadable,
    /// Describes a sink that may not be written.
    OfferUnwritable,
    /// Sends what rping takes for bogus, so that the server disconnects.
    Bogus,
}

/// Runs the case.
pub(crate) fn run(
    case: Case,
    from: IpAddr,
    to: SocketAddr,
    crc: bool,
    load: Load,
) -> Outcome<String> {
    let mut side = Side::new(from, crc)?;
    connect(&side, from, to)?;
    match case {
        Case::Ping => ping(side, load),
        Case::ReadBadKey => refused(side, Refusal::Read, load),
        Case::WriteBadKey => refused(side, Refusal::Write, load),
        Case::OfferBadSource => offer(side, load, MrFlags::ALLOW_REMOTE_READ, |advert| {
            advert.at.token = RemoteToken::from_host(advert.at.token.to_host() ^ 1);
        }),
        Case::OfferLongSource => offer(side, load, MrFlags::ALLOW_REMOTE_READ, |advert| {
            advert.size += 1;
        }),
        Case::OfferUnreadable => offer(side, load, MrFlags::ALLOW_LOCAL_WRITE, |_| ()),
        Case::OfferUnwritable => offer_sink(side, load),
        Case::Bogus => {
            side.send(&[0; MESSAGE / 2])?;
            side.ended()?;
            Ok("the server disconnected".to_owned())
        }
    }
}

/// Connect, a check of the server's private data, CompleteConnect.
fn connect(side: &Side, from: IpAddr, to: SocketAddr) -> Outcome<()> {
    let connector = &side.connector;
    connector
        .bind((from, 0).into())
        .map_err(doing("bind the connector"))?;
    let overlapped = Overlapped::new();
    let (inbound, outbound) = (LIMITS.inbound, LIMITS.outbound);
    let started = connector.connect(&side.qp, to, inbound, outbound, &[], &overlapped);
    let status = settle("Connect", &overlapped, started)?;
    expect("Connect", status, &[Status::SUCCESS])?;

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

    let overlapped = Overlapped::new();
    let started = connector.complete_connect(&overlapped);
    let status = settle("CompleteConnect", &overlapped, started)?;
    expect("CompleteConnect", status, &[Status::SUCCESS])?;
    side.watch()
}

fn ping(mut side: Side, load: Load) -> Outcome<String> {
    let source = side.register(load.size, MrFlags::ALLOW_REMOTE_READ)?;
    let sink = side.register(load.size, MrFlags::ALLOW_REMOTE_WRITE)?;
    for ping in 0..load.count {
        let data = pattern(ping, load.size);
        source.buffer.write(0, &data);
        sink.buffer.fill(0);
        for region in [&source, &sink] {
            side.send(&region.advert().encode())?;
            side.receive()?;
        }
        if sink.buffer.to_vec() != data {
            return Err(format!("ping {ping}: what came back is not what was sent"));
        }
    }
    side.disconnect()?;
    Ok(format!("{} pings of {} octets", load.count, load.size))
}

fn refused(side: Side, by: Refusal, load: Load) -> Outcome<String> {
    let region = side.register(load.size, MrFlags::ALLOW_LOCAL_WRITE)?;
    // Any key will do, because the server has described nothing.
    let at = RemoteAddress {
        address: 0x1_0000,
        token: RemoteToken::from_host(0x7fff_ff00),
    };
    side.be_refused(by, &region, at, load.size)
}

/// Describes a source that the server's Read must be refused for, which ends the connection.
fn offer(
    mut side: Side,
    load: Load,
    flags: MrFlags,
    spoil: impl FnOnce(&mut Advert),
) -> Outcome<String> {
    let source = side.register(load.size, flags)?;
    let mut advert = source.advert();
    spoil(&mut advert);
    side.send(&advert.encode())?;
    side.ended()?;
    Ok("the server's Read was refused".to_owned())
}

/// Offers a sink for the server's Write. No octet of the Write may arrive.
fn offer_sink(mut side: Side, load: Load) -> Outcome<String> {
    let source = side.register(load.size, MrFlags::ALLOW_REMOTE_READ)?;
    let sink = side.register(load.size, MrFlags::ALLOW_REMOTE_READ)?;
    source.buffer.write(0, &pattern(0, load.size));
    side.send(&source.advert().encode())?;
    side.receive()?;
    side.send(&sink.advert().encode())?;
    side.ended()?;
    if sink.buffer.to_vec().iter().any(|octet| *octet != 0) {
        return Err("the refused Write has left something in the sink".to_owned());
    }
    Ok("the server's Write was refused".to_owned())
}
