//! `nd cat`: moves a file to another process by Send, RDMA Write or RDMA Read.
//!
//! [`protocol`] defines the messages, [`connection`] sends and receives them, [`mod@send`] and [`mod@recv`] are the two sides.
//! The ring of blocks bounds the memory, whatever the size of the file.

pub(crate) mod args;
mod connection;
mod place;
mod protocol;
mod recv;
mod send;
mod sink;
mod source;

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest as _, Sha256};

pub(crate) use recv::recv;
pub(crate) use send::send;

use crate::units;

/// The progress of a transfer: a bar on standard error if that is a terminal, and the figures for the summary.
#[derive(Debug)]
struct Progress {
    bar: ProgressBar,
    begun: Instant,
    moved: u64,
    hash: Sha256,
}

impl Progress {
    /// `size` is the expected size, if one is known.
    fn new(size: Option<u64>, what: &'static str) -> Self {
        let (bar, template) = match size {
            Some(size) => (
                ProgressBar::new(size),
                "{msg} {wide_bar:.cyan/blue} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}",
            ),
        };
        let (bar, style) = (
            bar.with_message(what),
            ProgressStyle::with_template(template),
        );
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Self {
            bar,
            begun: Instant::now(),
            moved: 0,
            hash: Sha256::new(),
        }
    }

    /// Counts the next piece of the file.
    fn add(&mut self, data: &[u8]) {
        self.hash.update(data);
        self.moved += data.len() as u64;
        self.bar.set_position(self.moved);
    }

    fn moved(&self) -> u64 {
        self.moved
    }

    /// The digest of all pieces so far.
    fn digest(&self) -> protocol::Digest {
        self.hash.clone().finalize().into()
    }

    /// Removes the bar and returns the duration of the transfer.
    fn finish(&self) -> Duration {
        self.bar.finish_and_clear();
        self.begun.elapsed()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear(); // an error message must not share its line with a bar
    }
}

fn hex(digest: &protocol::Digest) -> String {
    digest.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The operations that have carried a file, and the name of the connection's transport, if the adapter can tell.
type Carrier = (args::Via, Option<&'static str>);

/// `314572800 bytes (300 MiB) to 192.0.2.7:4791 by write over TCP in 412 ms, 764 MB/s`, with `way` for *to* and the peer.
fn summary(moved: u64, way: &str, (via, transport): Carrier, time: Duration) -> String {
    let human = if moved < 1024 {
        String::new()
    } else {
        format!(" ({})", units::bytes(moved))
    };
    let plural = if moved == 1 { "" } else { "s" };
    format!(
        "{moved} byte{plural}{human} {way} by {via}{} in {}, {}",
        transport.map_or_else(String::new, over),
        units::time(time),
        units::rate(moved, time)
    )
}

/// A transport in the words of a sentence, with a space in front.
fn over(transport: &'static str) -> String {
    match transport {
        "tcp" => " over TCP".to_owned(),
        "udp" => " over UDP".to_owned(),
        "shm" => " through shared memory".to_owned(),
        other => format!(" over {other}"),
    }
}

#[cfg(test)]
mod tests;
