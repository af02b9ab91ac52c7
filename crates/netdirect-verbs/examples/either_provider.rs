//! One program for RDMA devices and for softnd: sends a line of text, and writes it back into the sender's memory.
//!
//! ```sh
//! cargo run -p netdirect-verbs --example either_provider -- verbs://siw0                    # serves, and prints its address
//! cargo run -p netdirect-verbs --example either_provider -- softnd+tcp://192.0.2.1 ADDRESS  # sends to it
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, CompletionResult, LocalToken, MemoryRegion,
    MrFlags, OpFlags, Overlapped, OverlappedFile, QueuePair, QueuePairOptions, ReadLimits,
    RemoteAddress, Result, Sge, ext,
};

/// The length of a text at most, in octets.
const LENGTH: usize = 1024;

/// The only function that knows of providers.
fn open(url: &str) -> Result<Arc<dyn Adapter>> {
    match url.strip_prefix("verbs://") {
        Some(device) => {
            let provider = netdirect_verbs::provider(netdirect_verbs::Options::default())?;
            let address = netdirect_verbs::device_address(&*provider, device)?;
            provider.open_adapter(provider.resolve_address(address)?)
        }
        None => softnd::open(url, softnd::Options::default()),
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [url] => serve(&open(url)?, |address| println!("serving at {address}"))?,
        [url, address] => {
            let text = send(&open(url)?, address.parse()?, "hello from the other side")?;
            println!("came back: {text}");
        }
        _ => return Err("usage: either_provider URL | either_provider URL ADDRESS".into()),
    }
    Ok(())
}

/// One end of a connection: a queue pair with its completion queue, and registered memory.
struct End {
    file: Arc<dyn OverlappedFile>,
    cq: Arc<dyn CompletionQueue>,
    qp: Arc<dyn QueuePair>,
    memory: Buffer,
    region: Arc<dyn MemoryRegion>,
}

impl End {
    fn new(adapter: &Arc<dyn Adapter>) -> Result<Self> {
        let file = adapter.create_overlapped_file()?;
        let cq = adapter.create_completion_queue(&file, 16, Affinity::default())?;
        let qp = adapter.create_queue_pair(&cq, &cq, QueuePairOptions::default())?;
        let memory = Buffer::new(LENGTH);
        let region = adapter.create_memory_region(&file)?;
        let overlapped = Overlapped::new();
        let rights = MrFlags::ALLOW_LOCAL_WRITE | MrFlags::ALLOW_REMOTE_WRITE;
        ext::wait(region.register(&memory, rights, &overlapped), &overlapped)?;
        Ok(Self {
            file,
            cq,
            qp,
            memory,
            region,
        })
    }

    fn token(&self) -> LocalToken {
        self.region.get_local_token()
    }

    /// Waits for the next result, which has to be a success.
    fn result(&self) -> Result<CompletionResult> {
        let mut results = [CompletionResult::default(); 1];
        ext::Results::new(&self.cq).get(&mut results)?;
        let [result] = results;
        result.status.ok()?;
        Ok(result)
    }
}

/// Takes one text, and writes it to where the peer wants it.
pub(crate) fn serve(adapter: &Arc<dyn Adapter>, tell: impl FnOnce(SocketAddr)) -> Result<()> {
    let end = End::new(adapter)?;
    let listener = adapter.create_listener(&end.file)?;
    listener.bind(adapter.query_address_list()?[0])?;
    listener.listen(1)?;
    tell(listener.get_local_address()?);

    let connector = adapter.create_connector(&end.file)?;
    let peer = ext::get_connection_request(&listener, &connector)?;
    let Some(place) = peer.private_data.first_chunk::<{ RemoteAddress::LEN }>() else {
        return connector.reject(b"where to?");
    };
    let place = RemoteAddress::from_bytes(*place);
    end.qp
        .receive(0, &[Sge::new(&end.memory, .., end.token())])?;
    ext::accept(&connector, &end.qp, ReadLimits::default(), &[])?;

    let received = end.result()?.bytes_transferred as usize;
    let text = Sge::new(&end.memory, ..received, end.token());
    end.qp.write(1, &[text], place, OpFlags::empty())?;
    end.result()?;
    // When the message arrives, everything written before is there.
    end.qp.send(2, &[], OpFlags::empty())?;
    end.result()?;
    let ended = Overlapped::new();
    ext::wait(connector.notify_disconnect(&ended), &ended)
}

/// Sends a text, and returns what came back.
pub(crate) fn send(adapter: &Arc<dyn Adapter>, to: SocketAddr, text: &str) -> Result<String> {
    let (end, back) = (End::new(adapter)?, End::new(adapter)?);
    let place = RemoteAddress {
        address: back.memory.address(),
        token: back.region.get_remote_token(),
    };
    let connector = adapter.create_connector(&end.file)?;
    end.qp.receive(0, &[])?;
    let limits = ReadLimits::default();
    ext::connect(&connector, &end.qp, to, limits, &place.to_bytes())?;

    let text = &text.as_bytes()[..text.len().min(LENGTH)];
    end.memory.write(0, text);
    let message = Sge::new(&end.memory, ..text.len(), end.token());
    end.qp.send(1, &[message], OpFlags::empty())?;
    end.result()?; // the Send, or the Receive of the answer
    end.result()?;
    ext::disconnect(&connector)?;
    let mut octets = vec![0; text.len()];
    back.memory.read(0, &mut octets);
    Ok(String::from_utf8_lossy(&octets).into_owned())
}
