//! The client's part of the demo. The client also decides when the lines of each side are shown.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netdirect::{MrFlags, OpFlags, ReadLimits, RemoteAddress, RequestType, Status};

use super::args::DemoArgs;
use super::connection::{DemoConnection, expect, posted, quoted, verify, verify_pattern, wrong};
use super::report::DemoOutput;
use super::script::{
    self, CLIENT_CHECKS, CLIENT_LIMITS, LIMIT, SERVER_CHECKS, fill, pattern, sizes, words,
};
use crate::args::SecurityArgs;
use crate::errors::{Failure, Result};
use crate::output;
use crate::provider::{self, AdapterOptions};
use crate::session::{Session, Setup};
use crate::units;
use conform_report::table::{Align, Table};

pub(super) fn run(args: &DemoArgs, verbose: u8) -> Result<()> {
    provider::check_for_two_processes(args.which.url())?;
    // Wrong options are found here, and not by the second process.
    let options = AdapterOptions {
        capture: None,
        ..AdapterOptions::from(&args.adapter)
    };
    drop(Setup::new(args.which.url(), options, LIMIT)?);
    let mut demo = DemoOutput::start(args, verbose)?;
    let there = demo.listening()?;
    let server = there.address;
    // Each side knows the other one's certificate, because one has started the other.
    let security = SecurityArgs {
        pins: there.fingerprint.into_iter().collect(),
        ..SecurityArgs::default()
    };
    let options = AdapterOptions::new(&args.adapter, &security);
    let setup = Setup::new(args.which.url(), options, LIMIT)?;
    let local = SocketAddr::new(server.ip(), 0);
    let session = setup.at(local)?;
    let ids = (std::process::id(), demo.server_id());
    output::line(format_args!(
        "client is process {}, server is process {} at {server}",
        ids.0, ids.1
    ))?;
    let mut client = Client {
        session,
        demo,
        local,
        server,
        checked: 0,
        ways: Vec::new(),
    };
    let played = client.play(&args.private_data);
    let recorded = setup.finish();
    let Client {
        session,
        mut demo,
        checked,
        ways,
        ..
    } = client;
    drop(session);
    let there = match played {
        Ok(there) => there,
        Err(failure) if failure.is_ours() => return Err(failure),
        Err(failure) => return Err(demo.last_words().unwrap_or(failure)),
    };
    recorded?;
    show_ways(&ways)?;
    let all = demo.paint().green("every byte checked");
    output::line(format_args!(
        "\n{all}: {} on the client, {} on the server",
        units::bytes(checked),
        units::bytes(there)
    ))
}

fn show_ways(ways: &[Transfer]) -> Result<()> {
    let columns = [
        ("moved by", Align::Left),
        ("bytes", Align::Right),
        ("requests", Align::Right),
        ("time", Align::Right),
        ("rate", Align::Right),
    ];
    let mut table = Table::new(columns);
    for way in ways {
        let rate = match way.name {
            ROUND_TRIPS => format!("{} each", units::time(way.time / sizes::PINGS)),
            _ => units::rate(way.bytes, way.time),
        };
        let requests = units::count(way.requests.into());
        table.row([
            way.name.to_owned(),
            units::count(way.bytes),
            requests,
            units::time(way.time),
            rate,
        ]);
    }
    output::line("")?;
    output::line(table.to_string().trim_end())
}

const ROUND_TRIPS: &str = "round trips";

/// One operation that moves bytes, and how fast it was.
struct Transfer {
    name: &'static str,
    bytes: u64,
    requests: u32,
    time: Duration,
}

struct Client {
    session: Session,
    demo: DemoOutput,
    local: SocketAddr,
    server: SocketAddr,
    /// Octets found right on this side.
    checked: u64,
    ways: Vec<Transfer>,
}

impl Client {
    /// Goes through all steps. Returns how many octets the server has checked.
    fn play(&mut self, private_data: &str) -> Result<u64> {
        let mut main = self.connect(private_data)?;
        self.send_and_receive(&mut main)?;
        self.write(&mut main)?;
        self.read(&mut main)?;
        let gone = self.window(&mut main)?;
        self.refused(&mut main, gone)?;
        self.reject()?;
        self.bulk()?;
        self.disconnect(main)?;
        let there = self.demo.checked()?;
        if self.checked != CLIENT_CHECKS {
            return Err(wrong(format!(
                "{} bytes were checked instead of {CLIENT_CHECKS}",
                self.checked
            )));
        }
        if there != SERVER_CHECKS {
            return Err(wrong(format!(
                "the server checked {there} bytes instead of {SERVER_CHECKS}"
            )));
        }
        Ok(there)
    }

    fn connection(&self, more: u32) -> Result<DemoConnection> {
        DemoConnection::new(&self.session, self.session.connector()?, more, |_| Ok(()))
    }

    fn connect(&mut self, private_data: &str) -> Result<DemoConnection> {
        self.demo
            .step("Connect, with private data and read limits")?;
        let connection = self.connection(0)?;
        let ReadLimits { inbound, outbound } = CLIENT_LIMITS;
        let says = format!(
            "{}, limits: serves {inbound} Reads, issues {outbound}",
            quoted(private_data.as_bytes())
        );
        self.demo
            .client(format_args!("Connect to {}: {says}", self.server))?;
        let status = connection.endpoint.connect(
            self.local,
            self.server,
            CLIENT_LIMITS,
            private_data.as_bytes(),
        );
        expect(
            &format!("connect to {}", self.server),
            status.map_err(too_long)?,
        )?;
        self.demo.server()?;
        let connector = &connection.endpoint.connector;
        let words = connector
            .get_private_data()
            .map_err(|error| Failure::nd("read the server's private data", &error))?;
        let limits = connector
            .get_read_limits()
            .map_err(|error| Failure::nd("read the read limits", &error))?;
        if words != script::WELCOME
            || limits.inbound > CLIENT_LIMITS.inbound
            || limits.outbound > CLIENT_LIMITS.outbound
        {
            return Err(wrong(format!(
                "the answer to Connect is {} and {limits:?}",
                quoted(&words)
            )));
        }
        let ReadLimits { inbound, outbound } = limits;
        let says = format!(
            "{}, limits: may serve {inbound} Reads, issue {outbound}",
            quoted(&words)
        );
        self.demo
            .client(format_args!("Connect: {}, {says}", Status::SUCCESS))?;
        let status = connection.endpoint.complete_connect()?;
        self.demo
            .client(format_args!("CompleteConnect: {status}"))?;
        expect("complete the connection", status)?;
        self.demo.server()?;
        Ok(connection)
    }

    fn send_and_receive(&mut self, connection: &mut DemoConnection) -> Result<()> {
        self.demo.step("Send and Receive, both ways")?;
        let status = connection.say(&pattern(1, sizes::SEND))?;
        self.demo
            .client(format_args!("Send of {} bytes: {status}", sizes::SEND))?;
        expect("send", status)?;
        self.demo.server()?;
        let answer = connection.hear()?;
        self.checked += verify("the server's Send", &answer, &pattern(2, sizes::ANSWER))?;
        self.demo.client(format_args!(
            "Receive: {}, {} bytes, all as sent",
            Status::SUCCESS,
            answer.len()
        ))
    }

    fn write(&mut self, connection: &mut DemoConnection) -> Result<()> {
        self.demo.step("RDMA Write into the server's memory")?;
        let there = connection.hear_address()?;
        self.demo.server()?;
        let source = self.session.register(sizes::REGION, MrFlags::empty())?;
        fill(&source.buffer, 3);
        let status = connection.write(&source, 0..sizes::REGION, there)?;
        self.demo.client(format_args!(
            "Write of {}: {status}",
            units::bytes(sizes::REGION as u64)
        ))?;
        expect("write", status)?;
        connection.tell(&[])?;
        self.demo.client(format_args!(
            "Send of 0 bytes, to say that it was written: {}",
            Status::SUCCESS
        ))?;
        self.demo.server()
    }

    fn read(&mut self, connection: &mut DemoConnection) -> Result<()> {
        self.demo.step("RDMA Read from the server's memory")?;
        let there = connection.hear_address()?;
        self.demo.server()?;
        let sink = self.session.register(
            sizes::REGION,
            MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK,
        )?;
        let status = connection.read(&sink, 0..sizes::REGION, there)?;
        expect("read", status)?;
        self.checked += verify_pattern("what was read", &sink.buffer, 4)?;
        let len = units::bytes(sizes::REGION as u64);
        self.demo.client(format_args!(
            "Read of {len}: {status}, all bytes as they are there"
        ))?;
        connection.tell(&[])
    }

    /// Uses a window of the server, which the server then invalidates.
    fn window(&mut self, connection: &mut DemoConnection) -> Result<RemoteAddress> {
        self.demo
            .step("A memory window: bound, used, invalidated")?;
        let there = connection.hear_address()?;
        self.demo.server()?;
        let local = self.session.register(
            sizes::WINDOW.len(),
            MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK,
        )?;
        let status = connection.read(&local, 0..sizes::WINDOW.len(), there)?;
        expect("read through the window", status)?;
        let behind = pattern(5, sizes::BEHIND);
        self.checked += verify("the window", &local.buffer.to_vec(), &behind[sizes::WINDOW])?;
        let len = units::bytes(sizes::WINDOW.len() as u64);
        self.demo.client(format_args!(
            "Read of {len} through the window: {status}, all bytes as they are there"
        ))?;
        let half = sizes::WINDOW.len() / 2;
        fill(&local.buffer.slice(..half), 6);
        let status = connection.write(&local, 0..half, there)?;
        self.demo.client(format_args!(
            "Write of {} through the window: {status}",
            units::bytes(half as u64)
        ))?;
        expect("write through the window", status)?;
        connection.tell(&[])?;
        self.demo.server()?;
        connection.hear_mark()?;
        Ok(there)
    }

    fn refused(&mut self, main: &mut DemoConnection, gone: RemoteAddress) -> Result<()> {
        self.demo
            .step("Refused access, each on a connection of its own, which it ends")?;
        let sink = self.session.register(
            sizes::REFUSED,
            MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK,
        )?;
        let mut connection = self.connection(0)?;
        connection.connect(self.local, self.server, words::TO_READ)?;
        let status = connection.read(&sink, 0..sizes::REFUSED, gone)?;
        if status == Status::SUCCESS {
            return Err(wrong("a Read through an invalidated window succeeded"));
        }
        self.demo.client(format_args!(
            "Read through the invalidated window: {status}"
        ))?;
        self.ended(&mut connection)?;

        let mut connection = self.connection(0)?;
        connection.connect(self.local, self.server, words::TO_WRITE)?;
        let end = connection.hear_address()?;
        self.demo.server()?;
        // An iWARP Write may have completed before the refusal comes back (AMB-002).
        let status = connection.write(&sink, 0..sizes::REFUSED, end)?;
        let handed = if status == Status::SUCCESS {
            " (it was handed over before the refusal came)"
        } else {
            ""
        };
        self.demo.client(format_args!(
            "Write across the end of a region: {status}{handed}"
        ))?;
        self.ended(&mut connection)?;

        main.tell(&[])?;
        main.hear_mark()?;
        self.demo
            .client("the first connection is none the worse: a Send there and back succeeds")
    }

    /// Shows on both sides that a connection has ended.
    fn ended(&mut self, connection: &mut DemoConnection) -> Result<()> {
        let flushed = connection.flushed()?;
        if flushed == Status::SUCCESS {
            return Err(wrong("a connection goes on after a refused access"));
        }
        self.demo.client(format_args!(
            "Receive: {flushed}, as the connection has ended"
        ))?;
        self.demo.server()
    }

    fn reject(&mut self) -> Result<()> {
        self.demo.step("Reject, with private data")?;
        let question = words::QUESTION;
        self.demo.client(format_args!(
            "Connect to {}: {}",
            self.server,
            quoted(question)
        ))?;
        let connection = self.connection(0)?;
        let status =
            connection
                .endpoint
                .connect(self.local, self.server, CLIENT_LIMITS, question)?;
        self.demo.server()?;
        let connector = &connection.endpoint.connector;
        let words = connector
            .get_private_data()
            .map_err(|error| Failure::nd("read the reason for the Reject", &error))?;
        self.demo
            .client(format_args!("Connect: {status}, {}", quoted(&words)))?;
        if status != Status::CONNECTION_REFUSED || words != script::SORRY {
            return Err(wrong("the Reject did not arrive as it was sent"));
        }
        Ok(())
    }

    fn bulk(&mut self) -> Result<()> {
        let title = format!(
            "{} by each of Send, Write and Read",
            units::bytes(sizes::BULK as u64)
        );
        self.demo.step(&title)?;
        let mut connection = self.connection(sizes::CHUNKS)?;
        let local = self.session.register(
            sizes::BULK,
            MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK,
        )?;
        connection.connect(self.local, self.server, words::BULK)?;
        let chunk = |i: u32| sizes::CHUNK * i as usize..sizes::CHUNK * (i as usize + 1);

        fill(&local.buffer, 8);
        let begun = Instant::now();
        for i in 0..sizes::CHUNKS {
            posted(connection.endpoint.qp.send(
                i.into(),
                &[local.sge(chunk(i))],
                OpFlags::empty(),
            ))?;
        }
        self.all(&mut connection, RequestType::Send)?;
        connection.hear_mark()?;
        self.way("Send", begun)?;
        let there = two_addresses(&connection.hear()?)?;

        fill(&local.buffer, 9);
        let begun = Instant::now();
        for i in 0..sizes::CHUNKS {
            let at = there.0.offset(chunk(i).start as u64);
            posted(connection.endpoint.qp.write(
                i.into(),
                &[local.sge(chunk(i))],
                at,
                OpFlags::empty(),
            ))?;
        }
        self.all(&mut connection, RequestType::Write)?;
        connection.tell(&[])?;
        connection.hear_mark()?;
        self.way("RDMA Write", begun)?;

        local.buffer.fill(0);
        let begun = Instant::now();
        for i in 0..sizes::CHUNKS {
            let at = there.1.offset(chunk(i).start as u64);
            posted(connection.endpoint.qp.read(
                i.into(),
                &[local.sge(chunk(i))],
                at,
                OpFlags::empty(),
            ))?;
        }
        self.all(&mut connection, RequestType::Read)?;
        self.way("RDMA Read", begun)?;
        self.checked += verify_pattern("what was read", &local.buffer, 10)?;

        let ping = pattern(11, sizes::PING);
        let begun = Instant::now();
        for _ in 0..sizes::PINGS {
            connection.tell(&ping)?;
            self.checked += verify("the answer", &connection.hear()?, &ping)?;
        }
        let bytes = 2 * u64::from(sizes::PINGS) * sizes::PING as u64;
        self.ways.push(Transfer {
            name: ROUND_TRIPS,
            bytes,
            requests: 2 * sizes::PINGS,
            time: begun.elapsed(),
        });
        let sent = format!(
            "{} of {} bytes by Send and Receive",
            units::count(sizes::PINGS.into()),
            sizes::PING
        );
        self.demo
            .client(format_args!("round trips: {sent}, all right"))?;
        self.demo.server()?;
        expect("disconnect", connection.endpoint.disconnect()?)
    }

    /// Waits for all requests of one kind.
    fn all(&self, connection: &mut DemoConnection, kind: RequestType) -> Result<()> {
        (0..sizes::CHUNKS)
            .try_for_each(|_| expect(&format!("finish a {kind}"), connection.wait(kind)?.status))
    }

    fn way(&mut self, name: &'static str, begun: Instant) -> Result<()> {
        let way = Transfer {
            name,
            bytes: sizes::BULK as u64,
            requests: sizes::CHUNKS,
            time: begun.elapsed(),
        };
        let each = units::bytes(sizes::CHUNK as u64);
        self.demo.client(format_args!(
            "{name}: {} of {each} each, all {}",
            way.requests,
            Status::SUCCESS
        ))?;
        self.ways.push(way);
        Ok(())
    }

    fn disconnect(&mut self, mut connection: DemoConnection) -> Result<()> {
        self.demo.step("Disconnect")?;
        let status = connection.endpoint.disconnect()?;
        self.demo.client(format_args!("Disconnect: {status}"))?;
        expect("disconnect", status)?;
        let flushed = connection.flushed()?;
        self.demo
            .client(format_args!("Receive that was still posted: {flushed}"))?;
        self.demo.server()
    }
}

fn too_long(failure: Failure) -> Failure {
    match failure.nd_status() {
        Some(Status::INVALID_BUFFER_SIZE) => failure
            .advise("shorten --private-data to the length that `nd info` shows as MaxCallerData"),
        _ => failure,
    }
}

fn two_addresses(message: &[u8]) -> Result<(RemoteAddress, RemoteAddress)> {
    match message.as_chunks::<{ RemoteAddress::LEN }>() {
        ([a, b], []) => Ok((RemoteAddress::from_bytes(*a), RemoteAddress::from_bytes(*b))),
        _ => Err(wrong("the server's message does not hold two addresses")),
    }
}
