//! The first connection, on which the two sides agree and exchange their results.

use nd_base::errors::{Failure, Result, one_line};
use nd_base::mailbox::{Mailbox, lost};

use super::record::{
    CACHE_LINE, CYCLE, MTU, PLACE_RECORD, Place, Speed, VERSION, VERSION_RECORD, version,
};

/// More than any page has: the most memory that a peer can make this side add.
const MAX_CYCLE: u32 = 1 << 20;

/// The role of a side. The client sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// One side's end of the first connection.
#[derive(Debug)]
pub(super) struct ControlConnection {
    pub(super) mailbox: Mailbox,
    role: Role,
}

impl ControlConnection {
    pub(super) fn new(mailbox: Mailbox, role: Role) -> Self {
        Self { mailbox, role }
    }

    /// Exchanges a record for one of the same kind and length.
    fn swap<const N: usize>(&mut self, what: &str, mine: [u8; N]) -> Result<[u8; N]> {
        let doing = format!("exchange the {what}");
        if self.role == Role::Client {
            self.mailbox.send(&mine, &doing)?;
        }
        let theirs = self.mailbox.receive(&doing)?.ok_or_else(|| lost(&doing))?;
        let theirs = checked(what, &theirs)?;
        if self.role == Role::Server {
            self.mailbox.send(&mine, &doing)?;
        }
        Ok(theirs)
    }

    /// Agrees on the version, and exchanges how much memory each side uses for small messages.
    pub(super) fn greet(&mut self) -> Result<u32> {
        let theirs: [u8; VERSION_RECORD] = self.swap("versions", version())?;
        let text = theirs.split(|octet| *octet == 0).next().unwrap_or_default();
        if text != VERSION.as_bytes() {
            let text = one_line(&String::from_utf8_lossy(text));
            return Err(Failure::new(
                format!(
                    "the other side runs version '{text}' of perftest, and this side needs version {VERSION}"
                ),
                "use perftest 4.5+0.17 there, or `nd perftest`",
            ));
        }
        let cycle = self.swap("sizes of buffers", CYCLE.to_be_bytes())?;
        let cycle = u32::from_be_bytes(cycle).max(CYCLE);
        if cycle > MAX_CYCLE {
            return Err(Failure::new(
                format!("the other side uses a buffer of {cycle} octets for small messages"),
                format!("use at most {MAX_CYCLE} octets there"),
            ));
        }
        self.swap("sizes of cache lines", CACHE_LINE.to_be_bytes())?;
        self.swap("path MTUs", MTU)?;
        Ok(cycle)
    }

    /// Exchanges the addresses of both sides' memory. Without memory, the exchange only synchronizes the two sides.
    pub(super) fn places(&mut self, mine: Place) -> Result<Place> {
        let theirs: [u8; PLACE_RECORD] = self.swap("places of memory", mine.encode())?;
        Ok(Place::decode(&theirs))
    }

    /// Exchanges the places at the end of a test, which may take as long as `goes_on` returns no error.
    pub(super) fn places_after(
        &mut self,
        mine: Place,
        goes_on: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let (what, doing) = ("places of memory", "wait for the end of the test");
        let theirs = self.mailbox.receive_while(doing, goes_on)?;
        let _: [u8; PLACE_RECORD] = checked(what, &theirs.ok_or_else(|| lost(doing))?)?;
        self.mailbox.send(&mine.encode(), doing)
    }

    /// Sends the client's figures to the server. The server's answer means nothing.
    pub(super) fn speeds(&mut self, mine: Speed) -> Result<Speed> {
        let mut theirs = [[0; 8]; 5];
        for (record, theirs) in mine.encode().into_iter().zip(&mut theirs) {
            *theirs = self.swap("results", record)?;
        }
        Ok(Speed::decode(theirs))
    }
}

/// Checks the length of a record, which is fixed in this version.
fn checked<const N: usize>(what: &str, record: &[u8]) -> Result<[u8; N]> {
    record.try_into().map_err(|_| {
        Failure::new(
            format!(
                "the other side's record of the {what} has {} octets instead of the {N} of perftest 4.5+0.17",
                record.len()
            ),
            "use that version there, with the same test and -R, or `nd perftest`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_another_length_are_refused_by_name() {
        let failure = checked::<PLACE_RECORD>("places of memory", &[0; 64]).expect_err("too long");
        let text = failure.to_string();
        assert!(
            text.contains("places of memory has 64 octets") && text.contains("the 56 of perftest"),
            "{text}"
        );
        assert_eq!(checked::<2>("path MTUs", b"5\0").expect("two octets"), MTU);
    }
}
