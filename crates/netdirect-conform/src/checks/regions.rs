//! `IND2MemoryRegion`: registrations, their rights and their tokens.

use conform_report::{Pass, Stop, Verdict, ensure, fail};
use netdirect::{
    Buffer, Call, CompletionPort, Event, MrFlags, OpFlags, Overlapped, RemoteAddress, RemoteToken,
    RequestType, Started, Status,
};

use super::common::{
    bind, exchange, expect_refused_read, expect_refused_write, pattern, shared, shortage, sink,
    source,
};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::need::Need;
use crate::side::Memory;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::MemoryRegion, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "MR-001.second",
        "registers a second buffer in a region that holds one, and in a region of its own",
        second_buffer,
    )
    .also(&["MR-002", "AMB-013"]),
    new_check(
        "MR-003.rights",
        "registers one buffer in two regions, of which the peer may read one and may not read the other",
        two_regions,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-004.together",
        "registers 16 regions and deregisters them, all at the same time",
        many_at_once,
    ),
    new_check(
        "MR-006.register",
        "registers a buffer and sends from it",
        register_and_send,
    )
    .also(&["MR-030"])
    .needs(&[Need::Connections]),
    new_check(
        "MR-007.pending",
        "calls Register and Deregister, which return ND_PENDING and succeed",
        both_are_pending,
    )
    .also(&["MR-025"]),
    new_check(
        "MR-008.shortage",
        "has Register fail for want of resources, and succeed afterwards",
        |bench| {
            let (side, region) = (&bench.near, bench.near.region()?);
            let buffer = Buffer::new(64);
            let make = || {
                let overlapped = Overlapped::new();
                let started = region.register(&buffer, MrFlags::empty(), &overlapped)?;
                netdirect::ext::wait(Ok(started), &overlapped)
            };
            shortage(side, Call::Register, &[Status::INSUFFICIENT_RESOURCES], make)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Faults]),
    new_check(
        "MR-010.removed",
        "calls Register after the device was removed",
        |bench| {
            let gone = bench.near.open_again()?;
            let region = gone.region()?;
            super::common::remove(&gone)?;
            let overlapped = Overlapped::new();
            let started = region.register(&Buffer::new(64), MrFlags::empty(), &overlapped);
            let status = gone.ended("Register", started, &overlapped)?;
            gone.status("Register", status, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "MR-011.largest",
        "registers a buffer that is one octet larger than MaxRegistrationSize",
        too_large,
    )
    .largest_registration(1 << 20),
    new_check(
        "MR-012.sizes",
        "registers buffers of one octet and of odd lengths at odd addresses, and sends from each",
        odd_sizes,
    )
    .also(&["TST-028"])
    .needs(&[Need::Connections]),
    new_check(
        "MR-013.local-write",
        "receives into a region with ALLOW_LOCAL_WRITE, and fails to receive into one without",
        local_write,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-014.remote-read",
        "has the peer read a region with ALLOW_REMOTE_READ, and fail to read one without",
        remote_read,
    )
    .also(&["MR-031"])
    .needs(&[Need::Connections]),
    new_check(
        "MR-015.remote-write",
        "has the peer write a region with ALLOW_REMOTE_WRITE, receives into it, and has the peer fail to write one without",
        remote_write,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-016.no-local",
        "fails to receive into a region with ALLOW_REMOTE_READ alone",
        remote_read_is_not_local_write,
    )
    .also(&["AMB-014"])
    .needs(&[Need::Connections]),
    new_check(
        "MR-017.sink",
        "reads into a region with RDMA_READ_SINK, which the peer cannot read",
        read_sink,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-018.secure",
        "registers with DO_NOT_SECURE_VM beside other flags",
        |bench| {
            let flags = MrFlags::DO_NOT_SECURE_VM | MrFlags::ALLOW_LOCAL_WRITE;
            bench.near.memory(4096, flags)?;
            bench.near.memory(4096, MrFlags::DO_NOT_SECURE_VM)?;
            Ok(Pass::Right)
        },
    ),
    new_check(
        "MR-019.no-rights",
        "sends and writes from a region without flags, and fails to read into it",
        no_rights,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-020.flags",
        "registers with each flag that does not exist, and without it afterwards",
        unknown_flags,
    )
    .also(&["AMB-062"]),
    new_check(
        "MR-021.when",
        "registers memory before and after it connects, and exchanges messages by both",
        before_and_after,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-022.shared",
        "sends from one region on two queue pairs, and receives into one region on two",
        one_region_for_all,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-024.deregister",
        "deregisters a region, after which its token is of no use",
        deregistered_token,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-026.busy",
        "deregisters a region with a bound window, before and after Invalidate",
        busy,
    )
    .also(&["MW-011", "GEN-013"])
    .needs(&[Need::Connections, Need::Windows]),
    new_check(
        "MR-027.empty",
        "deregisters regions that never had a buffer or have none any more",
        nothing_registered,
    )
    .also(&["AMB-013"]),
    new_check(
        "MR-028.released",
        "releases a registered region, after which the peer cannot write its buffer",
        released,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-029.again",
        "registers the same buffer and another one in a region that was deregistered, and sends from both",
        again,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-032.token",
        "sends a remote token to the peer as octets, and the peer reads by it",
        token_by_message,
    )
    .needs(&[Need::Connections]),
    new_check(
        "MR-033.tokens",
        "asks for the tokens of a region many times, which stay the same while it is registered",
        tokens_stay,
    ),
    new_check(
        "MR-034.untouched",
        "deregisters regions of which a Receive and the peer know: no octet changes any more",
        untouched,
    )
    .needs(&[Need::Connections]),
    new_check(
        "AMB-012.empty",
        "registers a buffer of no octets",
        |bench| {
            let region = bench.near.region()?;
            let overlapped = Overlapped::new();
            let started = region.register(&Buffer::new(0), MrFlags::empty(), &overlapped);
            let status = bench.near.ended("Register of nothing", started, &overlapped)?;
            let wanted = Status::INVALID_BUFFER_SIZE;
            bench.near.status("Register of nothing", status, wanted)?;
            bench
                .near
                .register(&region, &Buffer::new(1), MrFlags::empty())?;
            Ok(Pass::Right)
        },
    )
    .also(&["TST-084"]),
    new_check(
        "TST-090.sizes",
        "registers and deregisters one region 10,000 times, with sizes from 1 octet to 4 MiB in turn, by event and by packet",
        each_size,
    ),
    new_check(
        "TST-091.many",
        "registers 10,000 regions on one buffer at the same time",
        |bench| {
            let side = &bench.near;
            let buffer = Buffer::new(4096);
            let mut regions = Vec::new();
            for _ in 0..10_000 {
                let region = side.region()?;
                side.register(&region, &buffer, MrFlags::ALLOW_LOCAL_WRITE)?;
                regions.push(region);
            }
            let mut tokens: Vec<u32> = regions
                .iter()
                .map(|region| region.get_remote_token().0)
                .collect();
            tokens.sort_unstable();
            tokens.dedup();
            side.equal("different tokens", tokens.len(), regions.len())?;
            regions.iter().try_for_each(|region| side.deregister(region))?;
            Ok(Pass::Right)
        },
    ),
];

fn second_buffer(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let memory = side.memory(64, MrFlags::empty())?;
    let other = Buffer::new(64);
    let overlapped = Overlapped::new();
    let started = memory
        .region
        .register(&other, MrFlags::empty(), &overlapped);
    let status = side.ended("a second Register", started, &overlapped)?;
    let wanted = Status::INVALID_DEVICE_STATE;
    side.status("a second Register", status, wanted)?;
    side.register(&side.region()?, &other, MrFlags::empty())?;
    // The first registration is as it was.
    side.deregister(&memory.region)?;
    Ok(Pass::Right)
}

fn two_regions(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let open = shared(&bench.near, 64)?;
    let closed = Memory {
        buffer: open.buffer.clone(),
        region: bench.near.region()?,
    };
    bench
        .near
        .register(&closed.region, &closed.buffer, MrFlags::ALLOW_LOCAL_WRITE)?;
    let into = sink(&bench.far, 64)?;
    link.far.read(1, &[into.sge(..)], open.remote())?;
    link.far.succeeds(RequestType::Read)?;
    bench
        .far
        .equal("the octets read", into.octets(0, 64), pattern(64))?;
    expect_refused_read(&link.far, closed.remote())?;
    Ok(Pass::Right)
}

fn many_at_once(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let mut all = Vec::new();
    for _ in 0..16 {
        all.push((side.region()?, Buffer::new(4096), Overlapped::new()));
    }
    for registers in [true, false] {
        let what = if registers { "register" } else { "deregister" };
        let mut started = Vec::new();
        for (region, buffer, overlapped) in &all {
            let call = if registers {
                region.register(buffer, MrFlags::ALLOW_REMOTE_READ, overlapped)
            } else {
                region.deregister(overlapped)
            };
            started.push(side.started(what, call)?);
        }
        for ((_, _, overlapped), started) in all.iter().zip(started) {
            side.done(what, Ok(started), overlapped)?;
        }
    }
    Ok(Pass::Right)
}

fn register_and_send(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    exchange(&link)?;
    Ok(Pass::Right)
}

fn both_are_pending(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let (region, buffer) = (side.region()?, Buffer::new(64));
    for registers in [true, false] {
        let overlapped = Overlapped::new();
        let (what, call) = if registers {
            let call = region.register(&buffer, MrFlags::empty(), &overlapped);
            ("Register", call)
        } else {
            ("Deregister", region.deregister(&overlapped))
        };
        let started = side.started(what, call)?;
        side.equal(
            format_args!("what {what} returns"),
            started,
            Started::Pending,
        )?;
        side.done(what, Ok(started), &overlapped)?;
    }
    Ok(Pass::Right)
}

fn too_large(bench: &Bench) -> Verdict {
    let largest = bench.near.info.max_registration_size;
    let length = largest.checked_add(1).and_then(|n| usize::try_from(n).ok());
    let buffer = length.and_then(|length| Buffer::try_new(length).ok());
    let Some(buffer) = buffer else {
        return Err(Stop::LeftOut(format!(
            "this machine has no buffer above MaxRegistrationSize ({largest} octets)"
        )));
    };
    let region = bench.near.region()?;
    let overlapped = Overlapped::new();
    let started = region.register(&buffer, MrFlags::empty(), &overlapped);
    let status = bench
        .near
        .ended("Register of too much", started, &overlapped)?;
    let wanted = Status::INVALID_PARAMETER;
    bench.near.status("Register of too much", status, wanted)?;
    Ok(Pass::Right)
}

fn odd_sizes(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let whole = Buffer::new((4 << 20) + 64);
    for (at, length) in [(0, 1), (3, 1), (1, 41), (4095, 3), (17, (4 << 20) + 41)] {
        let part = Memory {
            buffer: whole.slice(at..at + length),
            region: bench.near.region()?,
        };
        part.buffer.write(0, &pattern(length));
        bench
            .near
            .register(&part.region, &part.buffer, MrFlags::empty())?;
        let into = sink(&bench.far, length)?;
        link.far.receive(1, &[into.sge(..)])?;
        link.near.send(2, &[part.sge(..)], OpFlags::empty())?;
        link.near.succeeds(RequestType::Send)?;
        let taken = link.far.takes()?;
        let got = (taken.bytes_transferred as usize, into.octets(0, length));
        let same = got == (length, pattern(length));
        ensure(same, format!("{length} octets from {at}"), "others")?;
        bench.near.deregister(&part.region)?;
    }
    Ok(Pass::Right)
}

/// The near side receives 64 octets into `memory`, and the Receive ends with `wanted`.
fn receives(bench: &Bench, memory: &Memory, wanted: Status) -> conform_report::Step {
    let link = bench.link()?;
    let from = source(&bench.far, 64)?;
    link.near.receive(1, &[memory.sge(..)])?;
    link.far.send(2, &[from.sge(..)], OpFlags::empty())?;
    let result = link.near.received("the Receive")?;
    let got = (result.request_type, result.status);
    let what = "the result of the Receive";
    bench
        .near
        .equal(what, got, (RequestType::Receive, wanted))?;
    if wanted == Status::SUCCESS {
        let octets = memory.octets(0, 64);
        bench.near.equal("the message", octets, pattern(64))?;
    } else {
        let octets = memory.octets(0, 64);
        bench.near.equal("the memory", octets, vec![0; 64])?;
    }
    Ok(())
}

fn local_write(bench: &Bench) -> Verdict {
    let open = bench.near.memory(64, MrFlags::ALLOW_LOCAL_WRITE)?;
    receives(bench, &open, Status::SUCCESS)?;
    let closed = bench.near.memory(64, MrFlags::empty())?;
    receives(bench, &closed, Status::ACCESS_VIOLATION)?;
    Ok(Pass::Right)
}

fn remote_read(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let open = bench.near.memory(64, MrFlags::ALLOW_REMOTE_READ)?;
    open.buffer.write(0, &pattern(64));
    let into = sink(&bench.far, 64)?;
    link.far.read(1, &[into.sge(..)], open.remote())?;
    link.far.succeeds(RequestType::Read)?;
    bench
        .far
        .equal("the octets read", into.octets(0, 64), pattern(64))?;
    let closed = bench.near.memory(64, MrFlags::ALLOW_REMOTE_WRITE)?;
    expect_refused_read(&link.far, closed.remote())?;
    Ok(Pass::Right)
}

fn remote_write(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let open = bench.near.memory(64, MrFlags::ALLOW_REMOTE_WRITE)?;
    let from = source(&bench.far, 64)?;
    link.far.write(1, &[from.sge(..)], open.remote())?;
    link.far.succeeds(RequestType::Write)?;
    bench.step("wait until the Write is in memory");
    bench.near.until(|| open.octets(0, 64) == pattern(64))?;
    open.buffer.fill(0);
    receives(bench, &open, Status::SUCCESS)?;
    let closed = bench.near.memory(64, MrFlags::ALLOW_REMOTE_READ)?;
    expect_refused_write(&link.far, closed.remote())?;
    bench
        .near
        .equal("the memory", closed.octets(0, 64), vec![0; 64])?;
    Ok(Pass::Right)
}

fn remote_read_is_not_local_write(bench: &Bench) -> Verdict {
    let memory = bench.near.memory(64, MrFlags::ALLOW_REMOTE_READ)?;
    receives(bench, &memory, Status::ACCESS_VIOLATION)?;
    Ok(Pass::Right)
}

fn read_sink(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let flags = MrFlags::RDMA_READ_SINK | MrFlags::ALLOW_LOCAL_WRITE;
    let into = bench.near.memory(64, flags)?;
    let from = shared(&bench.far, 64)?;
    link.near.read(1, &[into.sge(..)], from.remote())?;
    link.near.succeeds(RequestType::Read)?;
    bench
        .near
        .equal("the octets read", into.octets(0, 64), pattern(64))?;
    expect_refused_read(&link.far, into.remote())?;
    Ok(Pass::Right)
}

fn no_rights(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (own, there) = (source(&bench.near, 64)?, shared(&bench.far, 64)?);
    there.buffer.fill(0);
    let into = sink(&bench.far, 64)?;
    link.far.receive(1, &[into.sge(..)])?;
    link.near.send(1, &[own.sge(..)], OpFlags::empty())?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    link.near.write(2, &[own.sge(..)], there.remote())?;
    link.near.succeeds(RequestType::Write)?;
    bench.step("wait until the Write is in memory");
    bench.far.until(|| there.octets(0, 64) == pattern(64))?;
    there.buffer.fill(9);
    link.near.read(3, &[own.sge(..)], there.remote())?;
    let result = link.near.initiated("a Read into a region without flags")?;
    let wanted = Status::ACCESS_VIOLATION;
    bench.near.status("the Read", result.status, wanted)?;
    bench
        .near
        .equal("the memory", own.octets(0, 64), pattern(64))?;
    Ok(Pass::Right)
}

fn unknown_flags(bench: &Bench) -> Verdict {
    let (region, buffer) = (bench.near.region()?, Buffer::new(64));
    for bit in (0..32).map(|bit| 1_u32 << bit) {
        let flags = MrFlags::from_bits_retain(bit);
        // ALLOW_REMOTE_WRITE has two bits, one of which means nothing by itself, and some providers take it.
        if MrFlags::all().contains(flags) {
            continue;
        }
        let overlapped = Overlapped::new();
        let started = region.register(&buffer, flags, &overlapped);
        let what = format!("Register with the flag {bit:#x}");
        let status = bench.near.ended(&what, started, &overlapped)?;
        let wanted = Status::INVALID_PARAMETER_3;
        bench.near.status(&what, status, wanted)?;
    }
    bench.near.register(&region, &buffer, MrFlags::empty())?;
    Ok(Pass::Right)
}

fn before_and_after(bench: &Bench) -> Verdict {
    let (from, to) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    let link = bench.link()?;
    link.far.receive(1, &[to.sge(..)])?;
    link.near.send(2, &[from.sge(..)], OpFlags::empty())?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    bench
        .far
        .equal("the message", to.octets(0, 64), pattern(64))?;
    exchange(&link)?;
    Ok(Pass::Right)
}

fn one_region_for_all(bench: &Bench) -> Verdict {
    let links = [bench.link()?, bench.link()?];
    let (from, to) = (source(&bench.near, 64)?, sink(&bench.far, 128)?);
    for (at, link) in links.iter().enumerate() {
        link.far.receive(1, &[to.sge(64 * at..64 * (at + 1))])?;
        link.near.send(2, &[from.sge(..)], OpFlags::empty())?;
    }
    for (at, link) in links.iter().enumerate() {
        link.near.succeeds(RequestType::Send)?;
        link.far.takes()?;
        let got = to.octets(64 * at, 64);
        bench.far.equal("the message", got, pattern(64))?;
    }
    Ok(Pass::Right)
}

fn deregistered_token(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = source(&bench.near, 64)?;
    let entry = memory.sge(..);
    bench.near.deregister(&memory.region)?;
    link.near.send(1, &[entry], OpFlags::empty())?;
    let result = link.near.initiated("a Send from a deregistered region")?;
    let wanted = Status::ACCESS_VIOLATION;
    bench.near.status("the Send", result.status, wanted)?;
    Ok(Pass::Right)
}

fn busy(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = sink(&bench.near, 64)?;
    let window = bench.near.window()?;
    bind(&link.near, &memory, &window, .., OpFlags::ALLOW_READ)?;
    let overlapped = Overlapped::new();
    let started = memory.region.deregister(&overlapped);
    let what = "Deregister with a bound window";
    bench.near.refused(what, started, Status::DEVICE_BUSY)?;
    let posted = link.near.queues.qp.invalidate(2, &window, OpFlags::empty());
    bench.near.expect("post Invalidate", posted)?;
    link.near.succeeds(RequestType::Invalidate)?;
    bench.near.deregister(&memory.region)?;
    Ok(Pass::Right)
}

fn nothing_registered(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let (region, buffer) = (side.region()?, Buffer::new(64));
    let wanted = Status::INVALID_DEVICE_STATE;
    for round in 0..2 {
        let overlapped = Overlapped::new();
        let started = region.deregister(&overlapped);
        let status = side.ended("deregister nothing", started, &overlapped)?;
        side.status(format_args!("Deregister ({round})"), status, wanted)?;
        side.register(&region, &buffer, MrFlags::empty())?;
        side.deregister(&region)?;
    }
    Ok(Pass::Right)
}

fn released(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let Memory { buffer, region } = shared(&bench.near, 64)?;
    let remote = RemoteAddress {
        address: buffer.address(),
        token: region.get_remote_token(),
    };
    bench.step("release the registered region");
    drop(region);
    expect_refused_write(&link.far, remote)?;
    bench
        .near
        .equal("the buffer", buffer.to_vec(), pattern(64))?;
    Ok(Pass::Right)
}

fn again(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let region = bench.near.region()?;
    let first = Buffer::new(64);
    for buffer in [first.clone(), first, Buffer::new(64)] {
        buffer.write(0, &pattern(64));
        bench.near.register(&region, &buffer, MrFlags::empty())?;
        let memory = Memory {
            buffer,
            region: region.clone(),
        };
        let to = sink(&bench.far, 64)?;
        link.far.receive(1, &[to.sge(..)])?;
        link.near.send(2, &[memory.sge(..)], OpFlags::empty())?;
        link.near.succeeds(RequestType::Send)?;
        link.far.takes()?;
        bench
            .far
            .equal("the message", to.octets(0, 64), pattern(64))?;
        bench.near.deregister(&region)?;
    }
    Ok(Pass::Right)
}

fn token_by_message(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = shared(&bench.near, 64)?;
    let note = bench.near.memory(RemoteAddress::LEN, MrFlags::empty())?;
    note.buffer.write(0, &memory.remote().to_bytes());
    let to = sink(&bench.far, RemoteAddress::LEN)?;
    link.far.receive(1, &[to.sge(..)])?;
    link.near.send(2, &[note.sge(..)], OpFlags::empty())?;
    link.far.takes()?;
    let octets = to.octets(0, RemoteAddress::LEN);
    let token: [u8; 4] = octets[8..].try_into().unwrap_or_default();
    let remote = RemoteAddress {
        token: RemoteToken::from_bytes(token),
        ..memory.remote()
    };
    let into = sink(&bench.far, 64)?;
    link.far.read(3, &[into.sge(..)], remote)?;
    link.far.succeeds(RequestType::Read)?;
    bench
        .far
        .equal("the octets read", into.octets(0, 64), pattern(64))?;
    Ok(Pass::Right)
}

fn tokens_stay(bench: &Bench) -> Verdict {
    let memory = shared(&bench.near, 64)?;
    bench.step("ask for the tokens");
    let region = &memory.region;
    let tokens = (region.get_local_token(), region.get_remote_token());
    for _ in 0..100 {
        let again = (region.get_local_token(), region.get_remote_token());
        bench.near.equal("the tokens", again, tokens)?;
    }
    let other = shared(&bench.near, 64)?;
    let differs = other.region.get_remote_token() != tokens.1;
    ensure(
        differs,
        "another remote token of another region",
        "the same",
    )?;
    Ok(Pass::Right)
}

fn untouched(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = sink(&bench.near, 64)?;
    link.near.receive(1, &[memory.sge(..)])?;
    bench.near.deregister(&memory.region)?;
    let from = source(&bench.far, 64)?;
    link.far.send(2, &[from.sge(..)], OpFlags::empty())?;
    let result = link
        .near
        .received("the Receive into a deregistered region")?;
    let wanted = Status::ACCESS_VIOLATION;
    bench.near.status("the Receive", result.status, wanted)?;
    bench
        .near
        .equal("the memory", memory.octets(0, 64), vec![0; 64])?;

    let link = bench.link()?;
    let memory = shared(&bench.near, 64)?;
    let remote = memory.remote();
    bench.near.deregister(&memory.region)?;
    expect_refused_write(&link.far, remote)?;
    bench
        .near
        .equal("the memory", memory.octets(0, 64), pattern(64))?;
    Ok(Pass::Right)
}

fn each_size(bench: &Bench) -> Verdict {
    const TIMES: u32 = 10_000;
    const SIZES: u32 = 23;
    let side = bench.near.open_again()?;
    let port = CompletionPort::new();
    side.expect("tie the file to a port", side.file.associate(&port, 1))?;
    let (region, buffer) = (side.region()?, Buffer::new(1 << (SIZES - 1)));
    let event = Event::new();
    let (by_event, by_packet) = (
        Overlapped::with_event(&event).without_port(),
        Overlapped::new(),
    );
    let rights = MrFlags::ALLOW_REMOTE_READ | MrFlags::ALLOW_REMOTE_WRITE;
    let ends = |started, overlapped: &Overlapped| {
        let has_ended = match started {
            Ok(Started::Done) => true,
            Ok(Started::Pending) if overlapped.event().is_some() => {
                event.wait_timeout(bench.limits().answer)
            }
            Ok(Started::Pending) => port.get(Some(bench.limits().answer)).is_some(),
            Err(error) => return Err(fail("success", netdirect::Error::to_string(&error))),
        };
        if !has_ended {
            return bench.hangs();
        }
        side.status("the request", overlapped.status(), Status::SUCCESS)
    };
    for round in 0..TIMES {
        let size = 1_usize << (round % SIZES);
        if size as u64 > side.info.max_registration_size {
            continue;
        }
        if round < SIZES {
            side.step(format_args!(
                "register and deregister {size} octets, and other sizes in turn"
            ));
        }
        let overlapped = if (round / SIZES).is_multiple_of(2) {
            &by_event
        } else {
            &by_packet
        };
        let part = buffer.slice(..size);
        ends(region.register(&part, rights, overlapped), overlapped)?;
        ends(region.deregister(overlapped), overlapped)?;
    }
    Ok(Pass::Right)
}
