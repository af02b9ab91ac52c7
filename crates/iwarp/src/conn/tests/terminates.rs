//! Every Terminate code of section 11, in both directions: the fault of this side that causes it, its headers, and that it is understood
//! from any peer, in both bit orders.

use std::collections::BTreeSet;

use super::*;
use crate::TerminateCode;
use crate::ddp::{TaggedError, UntaggedError};
use crate::mpa;
use crate::rdmap::{Class, OperationError, ProtectionError, Terminate};

/// Headers that a Terminate carries: segment length and DDP header, and a Read Request header where the message was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Headers {
    None,
    Ddp,
    DdpAndRead,
}

use Headers::{Ddp, DdpAndRead, None as Bare};

/// The rows of section 11: layer, type, code, headers.
const ROWS: [(u8, u8, u8, Headers); 34] = [
    (0, 0, 0x00, Bare),
    (0, 1, 0x00, DdpAndRead),
    (0, 1, 0x01, DdpAndRead),
    (0, 1, 0x02, DdpAndRead),
    (0, 1, 0x03, DdpAndRead),
    (0, 1, 0x04, DdpAndRead),
    (0, 1, 0x09, DdpAndRead), // of a Send, which has no such header
    (0, 1, 0xff, DdpAndRead),
    (0, 2, 0x05, Ddp),
    (0, 2, 0x06, Ddp),
    (0, 2, 0x07, Ddp),
    (0, 2, 0x08, Ddp),
    (0, 2, 0x09, Ddp),
    (0, 2, 0xff, Ddp),
    (1, 0, 0x00, Bare), // OPEN-20
    (1, 1, 0x00, Ddp),
    (1, 1, 0x01, Ddp),
    (1, 1, 0x02, Ddp),
    (1, 1, 0x03, Ddp),
    (1, 1, 0x04, Ddp),
    (1, 2, 0x01, Ddp),
    (1, 2, 0x02, Ddp),
    (1, 2, 0x03, Ddp),
    (1, 2, 0x04, Ddp),
    (1, 2, 0x05, Ddp),
    (1, 2, 0x06, Ddp),
    (1, 3, 0x00, Bare),
    (2, 0, 0x01, Bare),
    (2, 0, 0x02, Bare),
    (2, 0, 0x03, Bare),
    (2, 0, 0x04, Bare),
    (2, 0, 0x05, Bare),
    (2, 0, 0x06, Bare),
    (2, 0, 0x07, Bare),
];

/// Codes that the engine never sends.
const NEVER_SENT: [(u8, u8, u8); 6] = [
    (0, 1, 0xff), // every refusal has a code of its own
    (0, 2, 0x08), // an adapter that fails as a whole says nothing more
    (0, 2, 0x09), // 0/1/09 is the one of the two (OPEN-04)
    (1, 3, 0x00), // reserved for the layer below
    (2, 0, 0x01), // there is nothing left to send it on (OPEN-18)
    (2, 0, 0x04), // a frame that is none closes the connection (MPA-021, MPA-022)
];

/// Every fault, and those of the start-up that are reported by a Terminate.
fn faults() -> Vec<Fault> {
    use mpa::Error::{Closed, Crc, InsufficientIrd, LocalCatastrophic, Marker, NoReady};
    let mpa = [
        Closed,
        Crc,
        Marker,
        LocalCatastrophic,
        InsufficientIrd,
        NoReady,
    ]
    .map(Fault::Mpa);
    let tagged = {
        use TaggedError::{Bounds, InvalidSTag, NotAssociated, Version, Wrap};
        [InvalidSTag, Bounds, NotAssociated, Wrap, Version].map(Fault::Tagged)
    };
    let untagged = {
        use UntaggedError::{InvalidMo, InvalidQn, MsnRange, NoBuffer, TooLong, Version};
        [InvalidQn, NoBuffer, MsnRange, InvalidMo, TooLong, Version].map(Fault::Untagged)
    };
    let protection = {
        use ProtectionError::{Bounds, CannotInvalidate, InvalidSTag, NotAssociated, Rights, Wrap};
        [
            InvalidSTag,
            Bounds,
            Rights,
            NotAssociated,
            Wrap,
            CannotInvalidate,
        ]
        .map(Fault::Protection)
    };
    let operation = {
        use OperationError::{Stream, UnexpectedOpcode, Unspecified, Version};
        [Version, UnexpectedOpcode, Stream, Unspecified].map(Fault::Operation)
    };
    let others = [Fault::Truncated, Fault::Local, Fault::MalformedTerminate];
    let mut all = mpa.to_vec();
    all.extend(tagged);
    all.extend(untagged);
    all.extend(protection);
    all.extend(operation);
    all.extend(others);
    all
}

fn code(code: TerminateCode) -> (u8, u8, u8) {
    (code.layer, code.etype, code.code)
}

/// A running Responder fails of this in the middle of a Read Request, and what it then sends.
fn terminate_for(fault: Fault) -> Option<Terminate> {
    let mut raw = Raw::responder();
    raw.receive(&vector("R1"));
    let about = crate::conn::terminated::TerminatedHeaders::ulpdu(&ulpdu("D3"));
    raw.end.conn.fail_with(fault, about, None);
    let last = frames(&raw.transmit(), true).pop();
    assert!(raw.end.conn.write_side_done(), "RDMAP-071");
    // Codes of the start-up are the first FPDU where they are really sent.
    let first = matches!(fault, Fault::Mpa(error) if error.code() >= 5);
    Terminate::parse(last?.get(18..)?, first)
}

/// RDMAP-075, RDMAP-076, RDMAP-081: each fault has a row, with its headers; rows without a fault are known by name.
#[test]
fn every_fault_becomes_its_row() {
    let mut sent = BTreeSet::new();
    for fault in faults() {
        let terminate = terminate_for(fault);
        let silent = matches!(
            fault,
            Fault::Mpa(mpa::Error::Closed) | Fault::MalformedTerminate
        );
        assert_eq!(terminate.is_none(), silent, "{fault:?}"); // MPA-078, RDMAP-086
        let Some(terminate) = terminate else { continue };
        let row = ROWS
            .iter()
            .find(|row| (row.0, row.1, row.2) == code(terminate.code));
        let (.., headers) = row.unwrap_or_else(|| panic!("no row for {fault:?}"));
        let carried = match (terminate.ddp.is_some(), terminate.read.is_some()) {
            (false, false) => Bare,
            (true, false) => Ddp,
            (true, true) => DdpAndRead,
            (false, true) => panic!("a Read Request header alone"),
        };
        assert_eq!(carried, *headers, "{fault:?}");
        assert_eq!(terminate.segment_length.is_some(), carried != Bare);
        assert_eq!(fault.code(), Some(terminate.code));
        sent.insert(code(terminate.code));
    }
    let rows: BTreeSet<_> = ROWS.iter().map(|row| (row.0, row.1, row.2)).collect();
    let unsent: BTreeSet<_> = rows.difference(&sent).copied().collect();
    assert_eq!(unsent, BTreeSet::from(NEVER_SENT));
}

/// A Terminate of this code as it is behind the DDP header: in the RFC's bit order or in that of a little-endian host.
fn word((layer, etype, code): (u8, u8, u8), flags: u8, swapped: bool) -> [u8; 4] {
    if swapped {
        [etype << 4 | layer, code, flags.reverse_bits(), 0]
    } else {
        [layer << 4 | etype, code, flags, 0]
    }
}

/// RDMAP-075, RDMAP-087, PEER-084: every row is understood and has a name, straight and swapped, with headers and
/// without.
#[test]
fn every_row_is_understood_from_anybody() {
    let d3 = ulpdu("D3");
    for (layer, etype, number, headers) in ROWS {
        let row = (layer, etype, number);
        for swapped in [false, true] {
            // The one host with swapped bits adds headers to 1/0/00 (OPEN-20).
            let bare = headers == Bare && !(swapped && row == (1, 0, 0));
            let flags = if bare { 0 } else { 0xc0 };
            let mut payload = word(row, flags, swapped).to_vec();
            if !bare {
                payload.extend(46u16.to_be_bytes());
                payload.extend(&d3[..18]);
            }
            let terminate = Terminate::parse(&payload, false).expect("a control word");
            // Of words without headers these read the same both ways: after the start-up RDMAP's is meant.
            let expected = match row {
                (2, 0, 5..=7) => (0, 2, number),
                _ => row,
            };
            assert_eq!(code(terminate.code), expected, "{row:?} swapped {swapped}");
            assert_eq!(terminate.ddp.is_some(), !bare);
            assert!(terminate.code.is_assigned());
            assert_ne!(terminate.code.name(), "unassigned");
            // The Initiator's first FPDU: there the start-up is meant.
            let first = Terminate::parse(&payload, true).expect("a control word");
            assert_eq!(code(first.code), row, "{row:?} swapped {swapped}, first");
        }
    }
}

/// AMB-002, AMB-008: what each row does to the request it speaks of.
#[test]
fn every_row_ends_the_stream_and_its_request() {
    for (layer, etype, number, headers) in ROWS {
        let mut raw = Raw::initiator().with_buffers();
        raw.end.post(1, read(&[SINK_OF_4], 0x1000)).unwrap();
        raw.end.post(2, inline(&[b"x"])).unwrap();
        raw.transmit();
        let mut terminate = Terminate::new(TerminateCode::new(layer, etype, number));
        if headers != Bare {
            let (header, _) = crate::ddp::Header::split(&ulpdu("D3")).unwrap();
            terminate.ddp = Some(header);
            terminate.segment_length = Some(46);
        }
        let (octets, len) = terminate.to_bytes();
        let mut message = vector("T3")[2..20].to_vec(); // the DDP header of any Terminate
        message.extend_from_slice(&octets[..len]);
        raw.ulpdu(&message);
        let seen = raw.end.terminated().expect("it is told (RDMAP-072)");
        assert_eq!(raw.transmit(), [], "RDMAP-073: not answered");
        assert!(raw.end.conn.has_failed() && raw.end.conn.write_side_done());
        let read = match (headers, seen.code.class()) {
            (Bare, _) => WqeStatus::Flushed,
            (_, Class::Protection) => WqeStatus::RemoteAccess,
            (_, Class::NoBuffer | Class::Other) => WqeStatus::RemoteError,
        };
        // The Send was done when the transport had it.
        let case = format!("{layer}/{etype}/{number:02x}");
        assert_eq!(outcomes(&raw.end), [read, WqeStatus::Success], "{case}");
    }
}
