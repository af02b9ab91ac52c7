//! The pcapng container: one section, one Ethernet interface, Enhanced Packet Blocks.
//!
//! The format is that of draft-ietf-opsawg-pcapng, little-endian on every machine.

use std::fs::File;
use std::io::{self, Seek};

use super::sent_by::SentBy;

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_END: u16 = 0;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
/// if_tsresol: a negative power of ten.
const NANOSECONDS: u8 = 9;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The writer is called once this many octets are waiting.
const WRITE_FROM: usize = 64 << 10;

/// Blocks on their way into files, or into a writer.
pub(super) struct Sink {
    output: Output,
    /// Whole blocks that were not passed to the output yet.
    blocks: Vec<u8>,
    /// Octets of the present file, with those that wait.
    length: u64,
    /// The most octets of one file.
    limit: u64,
    is_full: bool,
    failed: Option<Failure>,
}

enum Output {
    Writer(Box<dyn io::Write + Send>),
    Ring(Ring),
}

/// Files that take turns. All are open from the beginning: no name leads elsewhere later, and what is refused is refused at once.
struct Ring {
    files: Vec<WholeBlocks>,
    /// The file that is being written.
    at: usize,
}

impl Output {
    fn writer(&mut self) -> &mut dyn io::Write {
        match self {
            Self::Writer(writer) => &mut **writer,
            Self::Ring(ring) => &mut ring.files[ring.at],
        }
    }

    /// Goes on with an empty file: the one that is not used yet, or the oldest. Returns false if there is no other.
    fn turn(&mut self) -> io::Result<bool> {
        match self {
            Self::Ring(ring) if ring.files.len() > 1 => {
                ring.at = (ring.at + 1) % ring.files.len();
                ring.files[ring.at].empty()?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// The parts of an `io::Error` that can be returned more than once. `io::Error` itself cannot be cloned.
struct Failure {
    os_error: Option<i32>,
    kind: io::ErrorKind,
    text: String,
}

impl Failure {
    fn new(error: &io::Error) -> Self {
        Self {
            os_error: error.raw_os_error(),
            kind: error.kind(),
            text: error.to_string(),
        }
    }

    fn again(&self) -> io::Error {
        match self.os_error {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(self.kind, self.text.clone()),
        }
    }
}

impl Sink {
    /// Writes into `writer`, at most `limit` octets.
    pub(super) fn new(writer: Box<dyn io::Write + Send>, limit: u64) -> io::Result<Self> {
        Self::begin(Output::Writer(writer), limit)
    }

    /// Writes into these files in turn, at most `limit` octets into each. Each is a capture from the beginning, also those whose turn does
    /// not come.
    pub(super) fn ring(files: Vec<File>, limit: u64) -> io::Result<Self> {
        let mut files: Vec<WholeBlocks> = files.into_iter().map(WholeBlocks::new).collect();
        for file in files.iter_mut().skip(1) {
            io::Write::write_all(file, &header())?;
        }
        Self::begin(Output::Ring(Ring { files, at: 0 }), limit)
    }

    fn begin(output: Output, limit: u64) -> io::Result<Self> {
        let mut sink = Self {
            output,
            blocks: Vec::with_capacity(2 * WRITE_FROM),
            length: 0,
            limit,
            is_full: false,
            failed: None,
        };
        sink.begin_file();
        sink.flush()?;
        Ok(sink)
    }

    fn begin_file(&mut self) {
        self.blocks = header();
        self.length = self.blocks.len() as u64;
    }

    /// Adds one frame, captured at `now` nanoseconds since 1970 and sent by `by`. Returns true if this frame is the first that the limit
    /// leaves no room for: it and all later ones are left out.
    pub(super) fn packet(
        &mut self,
        now: u64,
        by: SentBy,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        if self.failed.is_some() || self.is_full {
            return false;
        }
        let before = self.blocks.len();
        block(&mut self.blocks, ENHANCED_PACKET, |body| {
            put_u32(body, 0); // interface
            put_u64_halves(body, now);
            let lengths = body.len();
            body.extend_from_slice(&[0; 8]);
            let start = body.len();
            write(body);
            let length = length_octets(body.len() - start);
            body[lengths..lengths + 4].copy_from_slice(&length); // captured
            body[lengths + 4..start].copy_from_slice(&length); // original
            pad(body);
            let direction = match by {
                SentBy::Local => OUTBOUND,
                SentBy::Peer => INBOUND,
            };
            option(body, EPB_FLAGS, &direction.to_le_bytes());
            option(body, OPTION_END, &[]);
        });
        let added = (self.blocks.len() - before) as u64;
        if self.length + added > self.limit {
            let last = self.blocks.split_off(before);
            self.write_out();
            return !self.continue_with(&last);
        }
        self.length += added;
        if self.blocks.len() >= WRITE_FROM {
            self.write_out();
        }
        false
    }

    /// Puts a block that the present file has no room for into the next file. Returns false if there is none; then the capture is full.
    fn continue_with(&mut self, block: &[u8]) -> bool {
        if self.failed.is_some() {
            return true; // the capture has ended already
        }
        match self.output.turn() {
            Ok(true) => {
                self.begin_file();
                self.blocks.extend_from_slice(block);
                self.length += block.len() as u64;
                true
            }
            Ok(false) => {
                self.is_full = true;
                false
            }
            Err(error) => {
                self.failed = Some(Failure::new(&error));
                true
            }
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write_out();
        if self.failed.is_none()
            && let Err(error) = self.output.writer().flush()
        {
            self.failed = Some(Failure::new(&error));
        }
        match &self.failed {
            None => Ok(()),
            Some(failure) => Err(failure.again()),
        }
    }

    fn write_out(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.output.writer().write_all(&self.blocks)
        {
            self.failed = Some(Failure::new(&error));
        }
        self.blocks.clear();
    }
}

/// The blocks with which a file begins.
fn header() -> Vec<u8> {
    let mut blocks = Vec::with_capacity(2 * WRITE_FROM);
    block(&mut blocks, SECTION_HEADER, section_header);
    block(&mut blocks, INTERFACE_DESCRIPTION, interface_description);
    blocks
}

/// A file that contains only whole blocks, even when the disk is full.
struct WholeBlocks {
    file: File,
    /// Octets of the blocks that are in the file.
    length: u64,
}

impl WholeBlocks {
    /// Takes over a file without content.
    fn new(file: File) -> Self {
        Self { file, length: 0 }
    }

    /// Begins anew.
    fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.length = 0;
        Ok(())
    }
}

impl io::Write for WholeBlocks {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.write_all(octets)?;
        Ok(octets.len())
    }

    /// Writes blocks. If there is no room for one of them, cuts off what was written of it.
    fn write_all(&mut self, blocks: &[u8]) -> io::Result<()> {
        let mut written = 0;
        let done = loop {
            if written == blocks.len() {
                break Ok(());
            }
            match self.file.write(&blocks[written..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let whole = whole_blocks(blocks, written);
        self.length += whole as u64;
        if whole < written && self.file.metadata().is_ok_and(|found| found.is_file()) {
            // The caller gets the error of the write, also if this fails.
            let _ = self.file.set_len(self.length);
        }
        done
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The length of the blocks that are whole within the first `end` octets.
fn whole_blocks(blocks: &[u8], end: usize) -> usize {
    let mut whole = 0;
    // A block begins with its kind and its length.
    while let Some(length) = blocks[whole..].get(4..8).and_then(|at| at.try_into().ok()) {
        let next = u32::from_le_bytes(length) as usize + whole;
        if next > end || next == whole {
            break;
        }
        whole = next;
    }
    whole
}

impl Drop for Sink {
    fn drop(&mut self) {
        // A drop has no caller to report an error to.
        let _ = self.flush();
    }
}

fn section_header(body: &mut Vec<u8>) {
    put_u32(body, BYTE_ORDER_MAGIC);
    put_u16(body, 1); // version 1.0
    put_u16(body, 0);
    body.extend_from_slice(&[0xFF; 8]); // section length: to the end of the file
    option(
        body,
        SHB_USERAPPL,
        concat!("softnd ", env!("CARGO_PKG_VERSION")).as_bytes(),
    );
    option(body, OPTION_END, &[]);
}

fn interface_description(body: &mut Vec<u8>) {
    put_u16(body, LINKTYPE_ETHERNET);
    put_u16(body, 0); // reserved
    put_u32(body, 0); // no limit on a packet's length
    option(body, IF_NAME, b"softnd");
    option(body, IF_TSRESOL, &[NANOSECONDS]);
    option(body, OPTION_END, &[]);
}

/// Type, total length, body, total length again. Bodies keep to multiples of four octets.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    debug_assert!(
        out.len().is_multiple_of(4),
        "padding counts from the start of the buffer"
    );
    let start = out.len();
    put_u32(out, kind);
    put_u32(out, 0);
    body(out);
    let total = length_octets(out.len() + 4 - start);
    out.extend_from_slice(&total);
    out[start + 4..start + 8].copy_from_slice(&total);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    put_u16(out, code);
    put_u16(
        out,
        u16::try_from(value.len()).expect("options here are short"),
    );
    out.extend_from_slice(value);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

fn length_octets(length: usize) -> [u8; 4] {
    u32::try_from(length)
        .expect("a frame is shorter than 4 GiB")
        .to_le_bytes()
}

fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes the upper half first, unlike a little-endian 64-bit number.
fn put_u64_halves(out: &mut Vec<u8>, value: u64) {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    out.extend_from_slice(&[e, f, g, h, a, b, c, d]);
}
