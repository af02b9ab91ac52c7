//! Takes a frame off the stream, and finds out why octets are not a frame.

use core::fmt;

use super::frame::{
    ENHANCED_LEN, FLAG_ENHANCED, FLAGS, Frame, FrameKind, HEADER_LEN, MAX_PRIVATE_DATA, REVISION,
};

/// Why octets are not a start-up frame, or not a usable one. The reaction to all these errors is to close the TCP
/// connection, without an answer (MPA-021, MPA-022).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupError {
    /// The octet at this offset is not the key's: the peer speaks something else (MPA-003, MPA-004).
    Key {
        /// Offset in the key, 0 to 15.
        at: usize,
    },
    /// The other kind of frame: both sides act as the Initiator, or as the Responder (MPA-005).
    WrongKind(FrameKind),
    /// A Rev that we do not speak (MPA-010).
    Revision(u8),
    /// `PD_Length` above 512 (MPA-012).
    PrivateDataLength(u16),
    /// S = 1 with Rev 1, which has no such bit, so that the meaning of the first octets of the Private Data is unknown
    /// (MPA2-001, MPA2-002).
    EnhancedRevision,
    /// S = 1 without RFC 6581's four octets (MPA2-003).
    EnhancedLength(u16),
    /// The caller passed octets behind the frame together with the frame.
    Trailing,
    /// A Reply of a Rev that was not offered (MPA2-036).
    ReplyRevision(u8),
    /// A Rev 2 Reply with S = 0 to a Request with S = 1 (MPA2-006).
    ReplyNotEnhanced,
}

impl fmt::Display for StartupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { at } => write!(
                f,
                "not an MPA start-up frame: octet {at} differs from the key"
            ),
            Self::WrongKind(kind) => write!(
                f,
                "an MPA {kind} frame where an MPA {} frame is due",
                kind.other()
            ),
            Self::Revision(revision) => write!(f, "MPA revision {revision} is not supported"),
            Self::PrivateDataLength(len) => write!(
                f,
                "an MPA frame announces {len} octets of Private Data, at most 512 are legal"
            ),
            Self::EnhancedRevision => {
                f.write_str("an MPA frame of revision 1 has the S bit of revision 2")
            }
            Self::EnhancedLength(len) => write!(
                f,
                "an MPA frame with S = 1 has {len} octets of Private Data, at least 4 are due"
            ),
            Self::Trailing => f.write_str("octets behind an MPA start-up frame"),
            Self::ReplyRevision(revision) => write!(
                f,
                "the MPA Reply has revision {revision}, which was not offered"
            ),
            Self::ReplyNotEnhanced => {
                f.write_str("an MPA Reply of revision 2 has S = 0, the Request had S = 1")
            }
        }
    }
}

impl core::error::Error for StartupError {}

/// Takes exactly one frame off the stream. The reader never asks for an octet behind the frame, so that octets that follow
/// stay in the transport (MPA-014). It refuses at the first octet that cannot belong to a frame of the expected kind.
#[derive(Clone, Debug)]
pub struct FrameReader {
    expect: FrameKind,
    octets: Vec<u8>,
    state: ReaderState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderState {
    Header,
    Body { end: usize },
    Done,
    Failed(StartupError),
}

impl FrameReader {
    /// A reader of one frame of this kind.
    #[must_use]
    pub const fn new(expect: FrameKind) -> Self {
        Self {
            expect,
            octets: Vec::new(),
            state: ReaderState::Header,
        }
    }

    /// Returns true if any octet has arrived, a refused one included. An Initiator falls back to Rev 1 only if no octet has arrived
    /// (PEER-034, PEER-062).
    #[must_use]
    pub const fn started(&self) -> bool {
        !self.octets.is_empty() || matches!(self.state, ReaderState::Failed(_))
    }

    /// The most octets to read from the transport now: first the rest of the header, then the rest of what the header
    /// announces. 0 once the frame is complete or refused.
    #[must_use]
    pub const fn wanted(&self) -> usize {
        match self.state {
            ReaderState::Header => HEADER_LEN - self.octets.len(),
            ReaderState::Body { end } => end - self.octets.len(),
            ReaderState::Done | ReaderState::Failed(_) => 0,
        }
    }

    /// Takes in octets from the transport. The frame is returned once, when its last octet has arrived.
    ///
    /// # Errors
    ///
    /// The peer's octets are not a frame of the expected kind, or there were more octets than the frame has. From then on,
    /// every call returns the same error.
    pub fn push(&mut self, octets: &[u8]) -> Result<Option<Frame>, StartupError> {
        self.take(octets)
            .inspect_err(|error| self.state = ReaderState::Failed(*error))
    }

    fn take(&mut self, mut octets: &[u8]) -> Result<Option<Frame>, StartupError> {
        if let ReaderState::Failed(error) = self.state {
            return Err(error);
        }
        if self.state == ReaderState::Header {
            let (header, rest) = octets.split_at(octets.len().min(self.wanted()));
            for octet in header {
                check_header_octet(self.expect, self.octets.len(), *octet)?;
                self.octets.push(*octet);
            }
            octets = rest;
            if let Some(header) = self.octets.first_chunk::<HEADER_LEN>() {
                self.state = ReaderState::Body {
                    end: frame_len(header)?,
                };
            }
        }
        // The octets left over belong to the body. An incomplete header leaves no octets over.
        let (body, behind) = octets.split_at(octets.len().min(self.wanted()));
        self.octets.extend_from_slice(body);
        if !behind.is_empty() {
            return Err(StartupError::Trailing); // MPA-015
        }
        if self.state
            == (ReaderState::Body {
                end: self.octets.len(),
            })
        {
            self.state = ReaderState::Done;
            return Ok(Some(Frame::parse_checked(self.expect, &self.octets)));
        }
        Ok(None)
    }
}

/// The checks that need only one octet of the header.
fn check_header_octet(expect: FrameKind, at: usize, octet: u8) -> Result<(), StartupError> {
    let other = expect.other();
    match (expect.key().get(at), other.key().get(at)) {
        (Some(due), _) if octet == *due => Ok(()),
        // All octets before this one were right, so it is the first one in which the two keys differ.
        (_, Some(others)) if octet == *others => Err(StartupError::WrongKind(other)),
        (Some(_), _) => Err(StartupError::Key { at }),
        (None, _) if at == REVISION && !matches!(octet, 1 | 2) => {
            Err(StartupError::Revision(octet))
        }
        (None, _) => Ok(()),
    }
}

/// The checks that need the whole header. Returns the length of the frame.
fn frame_len(header: &[u8; HEADER_LEN]) -> Result<usize, StartupError> {
    let private = u16::from_be_bytes([header[18], header[19]]);
    if usize::from(private) > MAX_PRIVATE_DATA {
        return Err(StartupError::PrivateDataLength(private));
    }
    if header[FLAGS] & FLAG_ENHANCED != 0 {
        if header[REVISION] < 2 {
            return Err(StartupError::EnhancedRevision);
        }
        if usize::from(private) < ENHANCED_LEN {
            return Err(StartupError::EnhancedLength(private));
        }
    }
    Ok(HEADER_LEN + usize::from(private))
}
