//! The server's part of the demo.

use std::sync::Arc;

use netdirect::{
    Buffer, Listener, MrFlags, OpFlags, ReadLimits, RemoteAddress, RequestType, Status,
};

use super::args::DemoServerArgs;
use super::connection::{DemoConnection, expect, posted, quoted, verify, verify_pattern, wrong};
use super::report::ServerOutput;
use super::script::{LIMIT, SERVER_LIMITS, SORRY, WELCOME, fill, pattern, sizes, words};
use crate::args::SecurityArgs;
use crate::errors::{Failure, Result};
use crate::provider::AdapterOptions;
use crate::session::{self, Deadline, Endpoint, Region, Request, Session, Setup};
use crate::units;

/// Runs until the client has finished. A failure is reported through the pipe.
pub(super) fn run(args: &DemoServerArgs) -> Result<()> {
    let played = play(args);
    if let Err(failure) = &played {
        ServerOutput.give_up(failure)?;
    }
    played.map_err(Failure::already_reported)
}

fn play(args: &DemoServerArgs) -> Result<()> {
    let options = AdapterOptions {
        crc: args.no_crc.then_some(false),
        security: SecurityArgs {
            pins: args.pin.iter().cloned().collect(),
            ..SecurityArgs::default()
        },
        ..AdapterOptions::default()
    };
    let setup = Setup::new(args.url.as_deref(), options, LIMIT)?;
    let session = setup.at(session::loopback())?;
    let local = session.an_address()?;
    let (listener, address) = session.listen(local)?;
    ServerOutput.listening(address, setup.fingerprint())?;
    let mut server = Server {
        session,
        listener,
        output: ServerOutput,
        checked: 0,
    };
    let mut main = server.accept(args.private_data.as_bytes())?;
    server.receive_and_send(&mut main)?;
    server.written(&mut main)?;
    server.read(&mut main)?;
    server.window(&mut main)?;
    server.refused(&mut main)?;
    server.reject()?;
    server.bulk()?;
    server.disconnected(main)?;
    server.output.checked(server.checked)
}

struct Server {
    session: Session,
    listener: Arc<dyn Listener>,
    output: ServerOutput,
    /// Octets found right on this side.
    checked: u64,
}

impl Server {
    /// The client's next connection request, which has this private data.
    fn request(&self, words: &[u8]) -> Result<Request> {
        let deadline = Deadline::after(LIMIT);
        loop {
            let request =
                session::next_request(&self.session, self.listener.as_ref(), Some(deadline))?;
            if request.private_data == words {
                return Ok(request);
            }
            // The request comes from another program. An error of the rejection changes nothing here.
            let _ = request.connector.reject(&[]);
        }
    }

    fn accept(&self, words: &[u8]) -> Result<DemoConnection> {
        let request = self.request(words)?;
        let ReadLimits { inbound, outbound } = request.limits;
        let says = quoted(&request.private_data);
        self.output.say(format_args!(
            "GetConnectionRequest: {}, {says}, from {}",
            Status::SUCCESS,
            request.peer
        ))?;
        self.output.say(format_args!(
            "GetReadLimits: may serve {inbound} Reads, issue {outbound}"
        ))?;
        let connection = DemoConnection::new(&self.session, request.connector, 0, |_| Ok(()))?;
        let limits = ReadLimits {
            inbound: SERVER_LIMITS.inbound.min(inbound),
            outbound: SERVER_LIMITS.outbound.min(outbound),
        };
        let ReadLimits { inbound, outbound } = limits;
        let says = format!(
            "{}, limits: serves {inbound} Reads, issues {outbound}",
            quoted(WELCOME)
        );
        self.output.say(format_args!("Accept: {says}"))?;
        self.output.pause()?;
        let status = connection.endpoint.accept(limits, WELCOME)?;
        self.output
            .say(format_args!("Accept: {status}, the connection stands"))?;
        expect("accept the connection", status)?;
        self.output.pause()?;
        Ok(connection)
    }

    /// Accepts a further connection without private data.
    fn accept_another(
        &self,
        words: &[u8],
        more: u32,
        first: impl FnOnce(&Endpoint) -> Result<()>,
    ) -> Result<DemoConnection> {
        let request = self.request(words)?;
        let connection = DemoConnection::new(&self.session, request.connector, more, first)?;
        expect(
            "accept the connection",
            connection.endpoint.accept(request.limits, &[])?,
        )?;
        Ok(connection)
    }

    fn receive_and_send(&mut self, connection: &mut DemoConnection) -> Result<()> {
        let message = connection.hear()?;
        self.checked += verify("the client's Send", &message, &pattern(1, sizes::SEND))?;
        self.output.say(format_args!(
            "Receive: {}, {} bytes, all as sent",
            Status::SUCCESS,
            message.len()
        ))?;
        let status = connection.say(&pattern(2, sizes::ANSWER))?;
        self.output.say(format_args!(
            "Send of {} bytes back: {status}",
            sizes::ANSWER
        ))?;
        expect("send", status)?;
        self.output.pause()
    }

    fn written(&mut self, connection: &mut DemoConnection) -> Result<()> {
        let region = self
            .session
            .register(sizes::REGION, MrFlags::ALLOW_REMOTE_WRITE)?;
        self.advertise(connection, &region, "ND_MR_FLAG_ALLOW_REMOTE_WRITE")?;
        connection.hear_mark()?;
        self.checked += verify_pattern("what was written", &region.buffer, 3)?;
        let len = units::bytes(sizes::REGION as u64);
        self.output.say(format_args!(
            "memory: all {len} as written, and the Write made no completion here"
        ))?;
        self.output.pause()
    }

    fn read(&self, connection: &mut DemoConnection) -> Result<()> {
        let region = self
            .session
            .register(sizes::REGION, MrFlags::ALLOW_REMOTE_READ)?;
        fill(&region.buffer, 4);
        self.advertise(connection, &region, "ND_MR_FLAG_ALLOW_REMOTE_READ")?;
        connection.hear_mark()
    }

    /// Sends the client the place of a region.
    fn advertise(
        &self,
        connection: &mut DemoConnection,
        region: &Region,
        rights: &str,
    ) -> Result<()> {
        let remote = region.remote();
        connection.tell(&remote.to_bytes())?;
        let len = units::bytes(region.buffer.len() as u64);
        self.output.say(format_args!(
            "Register of {len} with {rights}: {}",
            Status::SUCCESS
        ))?;
        self.output.say(format_args!(
            "Send of its address and its token, {}",
            token(remote)
        ))?;
        self.output.pause()
    }

    fn window(&mut self, connection: &mut DemoConnection) -> Result<()> {
        let region = self
            .session
            .register(sizes::BEHIND, MrFlags::ALLOW_LOCAL_WRITE)?;
        let mut expected = pattern(5, sizes::BEHIND);
        region.buffer.write(0, &expected);
        let window = self.session.adapter().create_memory_window();
        let window = window.map_err(|error| Failure::nd("create a memory window", &error))?;
        let address = region.buffer.address() + sizes::WINDOW.start as u64;
        let (qp, length) = (
            Arc::clone(&connection.endpoint.qp),
            sizes::WINDOW.len() as u64,
        );
        let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
        posted(qp.bind(0, &region.region, &window, address, length, rights))?;
        let status = connection.wait(RequestType::Bind)?.status;
        let what = format!(
            "{} of a region that grants nothing itself",
            units::bytes(length)
        );
        self.output
            .say(format_args!("Bind of a window to {what}: {status}"))?;
        expect("bind a window", status)?;
        let remote = RemoteAddress {
            address,
            token: window.get_remote_token(),
        };
        connection.tell(&remote.to_bytes())?;
        self.output.say(format_args!(
            "Send of the window's address and token, {}",
            token(remote)
        ))?;
        self.output.pause()?;

        connection.hear_mark()?;
        let half = sizes::WINDOW.len() / 2;
        expected[sizes::WINDOW.start..][..half].copy_from_slice(&pattern(6, half));
        self.checked += verify(
            "the region behind the window",
            &region.buffer.to_vec(),
            &expected,
        )?;
        let (changed, rest) = (
            units::bytes(half as u64),
            units::bytes((sizes::BEHIND - half) as u64),
        );
        self.output.say(format_args!(
            "memory: {changed} as written, the other {rest} untouched"
        ))?;
        posted(qp.invalidate(0, &window, OpFlags::empty()))?;
        let status = connection.wait(RequestType::Invalidate)?.status;
        self.output.say(format_args!("Invalidate: {status}"))?;
        expect("invalidate the window", status)?;
        connection.tell(&[])?;
        self.checked += verify(
            "the region behind the window",
            &region.buffer.to_vec(),
            &expected,
        )?;
        self.output.pause()
    }

    fn refused(&mut self, main: &mut DemoConnection) -> Result<()> {
        let mut connection = self.accept_another(words::TO_READ, 0, |_| Ok(()))?;
        self.ended(&mut connection)?;
        self.output.pause()?;

        // A region in the middle of our own memory, so that a byte too far would be noticed.
        let buffer = Buffer::new(sizes::BEHIND);
        let expected = pattern(7, sizes::BEHIND);
        buffer.write(0, &expected);
        let half = sizes::BEHIND / 2;
        let region = self
            .session
            .register_buffer(buffer.slice(..half), MrFlags::ALLOW_REMOTE_WRITE)?;
        let mut connection = self.accept_another(words::TO_WRITE, 0, |_| Ok(()))?;
        let end = region.remote().offset((half - sizes::REFUSED / 2) as u64);
        // The client's queue pair has not sent anything yet. This side may send nevertheless, because Accept is complete
        // (AMB-040).
        connection.tell(&end.to_bytes())?;
        let len = units::bytes(half as u64);
        self.output.say(format_args!(
            "Register of {len} with ND_MR_FLAG_ALLOW_REMOTE_WRITE: {}",
            Status::SUCCESS
        ))?;
        self.output.pause()?;
        self.ended(&mut connection)?;
        self.checked += verify(
            "memory around the end of the region",
            &buffer.to_vec(),
            &expected,
        )?;
        self.output
            .say("memory: not one byte changed, in the region or behind it")?;
        self.output.pause()?;

        main.hear_mark()?;
        main.tell(&[])
    }

    /// Prints how a connection ended on which the client has caused an error.
    fn ended(&self, connection: &mut DemoConnection) -> Result<()> {
        let flushed = connection.flushed()?;
        if flushed == Status::SUCCESS {
            return Err(wrong(
                "a message came where the connection should have ended",
            ));
        }
        let noticed = connection
            .endpoint
            .wait_for_end(LIMIT)
            .ok_or_else(|| wrong("NotifyDisconnect never completed"))?;
        self.output.say(format_args!(
            "NotifyDisconnect: {noticed}; Receive: {flushed}"
        ))
    }

    fn reject(&self) -> Result<()> {
        let request = self.request(words::QUESTION)?;
        self.output.say(format_args!(
            "GetConnectionRequest: {}, {}",
            Status::SUCCESS,
            quoted(&request.private_data)
        ))?;
        request
            .connector
            .reject(SORRY)
            .map_err(|error| Failure::nd("reject a connection", &error))?;
        self.output.say(format_args!(
            "Reject: {}, {}",
            Status::SUCCESS,
            quoted(SORRY)
        ))?;
        self.output.pause()
    }

    fn bulk(&mut self) -> Result<()> {
        let target = self
            .session
            .register(sizes::BULK, MrFlags::ALLOW_REMOTE_WRITE)?;
        let source = self
            .session
            .register(sizes::BULK, MrFlags::ALLOW_REMOTE_READ)?;
        fill(&source.buffer, 10);
        let mut connection = self.accept_another(words::BULK, sizes::CHUNKS, |endpoint| {
            (0..sizes::CHUNKS as usize).try_for_each(|i| {
                let part = target.sge(sizes::CHUNK * i..sizes::CHUNK * (i + 1));
                posted(endpoint.qp.receive(i as u64, &[part]))
            })
        })?;
        for _ in 0..sizes::CHUNKS {
            expect(
                "finish a Receive",
                connection.wait(RequestType::Receive)?.status,
            )?;
        }
        connection.tell(&[])?;
        self.checked += verify_pattern("what was sent", &target.buffer, 8)?;
        target.buffer.fill(0); // or a Write that never came might look right
        connection.tell(&[target.remote().to_bytes(), source.remote().to_bytes()].concat())?;

        connection.hear_mark()?;
        connection.tell(&[])?;
        self.checked += verify_pattern("what was written", &target.buffer, 9)?;

        let ping = pattern(11, sizes::PING);
        for _ in 0..sizes::PINGS {
            let heard = connection.hear()?;
            self.checked += verify("the client's Send", &heard, &ping)?;
            connection.tell(&heard)?;
        }
        let len = units::bytes(sizes::BULK as u64);
        self.output.say(format_args!(
            "memory: {len} as sent, later {len} as written"
        ))?;
        self.output.pause()?;
        connection
            .endpoint
            .wait_for_end(LIMIT)
            .map(drop)
            .ok_or_else(|| wrong("NotifyDisconnect never completed"))
    }

    fn disconnected(&self, mut connection: DemoConnection) -> Result<()> {
        let noticed = connection
            .endpoint
            .wait_for_end(LIMIT)
            .ok_or_else(|| wrong("NotifyDisconnect never completed"))?;
        self.output
            .say(format_args!("NotifyDisconnect: {noticed}"))?;
        let flushed = connection.flushed()?;
        self.output
            .say(format_args!("Receive that was still posted: {flushed}"))?;
        let status = connection.endpoint.disconnect()?;
        self.output.say(format_args!("Disconnect: {status}"))?;
        expect("disconnect", status)?;
        self.output.pause()
    }
}

fn token(remote: RemoteAddress) -> String {
    format!("{:#010x}", remote.token.to_host())
}
