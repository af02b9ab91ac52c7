//! What the two processes say to each other. Each message is JSON on one line of the control connection.
//!
//! Both sides begin with `nd-perf VERSION PACKAGE`. Then the side that runs the tests sends a [`ControlRequest`], and the other side
//! answers: [`ControlAnswer::Ok`] with what the request says, or for a turn [`ControlAnswer::Go`] and then [`ControlAnswer::Done`].
//! [`ControlAnswer::Waiting`] may precede the first answer. In place of any message a side may say that it gives up, and the connection
//! ends.

use netdirect::RemoteAddress;
use serde::{Deserialize, Serialize};

use super::spec::{Receives, Spec};

/// A number that distinguishes the connections of a row from those of other programs.
pub(super) type Key = [u8; 8];

/// What the side that runs the tests asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ControlRequest {
    /// Before rows over UDP: the fingerprint of this side's certificate. The answer is that of the other side's.
    Certificate(String),
    /// A row begins. The answer is a [`RowOffer`], or a [`CrowdOffer`] if the row is about many connections.
    Row {
        spec: Spec,
        /// How long nothing may complete.
        timeout_ms: u64,
    },
    /// A further RDMA connection, with Receives of each queue pair's own and memory at the best place. The answer is a [`RowOffer`].
    Plain,
    /// A further RDMA connection, over TCP also within one machine. The answer is a [`RowOffer`]; in a row about many connections, the port
    /// of further connections.
    OverTcp,
    /// The RDMA connection is being made, and stands with the answer.
    Join,
    /// A bare QUIC connection. The first answer is a [`QuicOffer`]; with the second one the connection stands.
    Quic,
    /// A bare TCP connection is being made, with this congestion control, or `-` for the system's own. The answer is the name of the
    /// one that it has.
    Wire(String),
    /// In a row about many connections: the connection that is alone is being made, on its own adapter.
    Alone,
    /// The idle connections are being made. The answer says how many octets each has cost, if that is known.
    Crowd,
    /// The idle connections move octets first, after [`Crowd`](Self::Crowd) and before its answer. This many have not moved theirs yet. The
    /// line for 0 is the last one, and none of these lines has an answer.
    Traffic(u32),
    /// For this many milliseconds nothing happens. [`ControlAnswer::Done`] has the share of processor time that this took, if that is
    /// known.
    Idle(u64),
    /// A turn of messages, or of connections that come and go.
    Turn { count: u64, over: TurnConnection },
    /// What the turns since the last time have brought is to be checked.
    Verify,
    /// The row is over.
    End,
    /// This side gives up, for this reason.
    Failed(String),
}

/// The connection that carries the messages of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum TurnConnection {
    /// The one under test; in a row about many connections one of the many, or connections that come and go.
    Tested,
    /// That of [`ControlRequest::Plain`] or [`ControlRequest::OverTcp`].
    Plain,
    /// A bare connection, by its number, and the size of its writes.
    Wire { index: usize, write: usize },
    /// That of [`ControlRequest::Alone`].
    Alone,
    /// Bare connections that come and go.
    Bare,
}

/// What the side that serves the tests answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ControlAnswer<T> {
    Ok(T),
    /// A turn may begin.
    Go,
    /// The turn is over.
    Done(T),
    /// Another client is served first.
    Waiting(String),
    /// This side gives up, for this reason.
    Failed(String),
}

/// Where the connections of a row are expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowOffer {
    /// The port of the RDMA connection.
    pub(super) rdma: u16,
    /// The port of bare connections, of a connection that is under test.
    pub(super) tcp: Option<u16>,
    /// The key by which connections are known.
    pub(super) key: Key,
    /// The ring that the other side reads or writes.
    pub(super) ring: [u8; RemoteAddress::LEN],
    /// Where this side takes its Receives from.
    pub(super) receives: Receives,
}

/// Where the connections of a row about many are expected: by their ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CrowdOffer {
    pub(super) many: u16,
    pub(super) alone: Option<u16>,
    pub(super) bare: u16,
    pub(super) key: Key,
    /// The memory with which the idle connections move octets, if they do.
    pub(super) traffic: Option<[u8; RemoteAddress::LEN]>,
    pub(super) receives: Receives,
}

/// Where a bare QUIC connection is expected, and the certificate that it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuicOffer {
    pub(super) port: u16,
    pub(super) certificate: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_str, from_value, json, to_string, to_value};

    use super::super::spec::tests::{SPEC, SPECS};
    use super::*;

    #[test]
    fn a_row_survives_its_journey() {
        for spec in SPECS {
            let row = ControlRequest::Row {
                spec,
                timeout_ms: 7,
            };
            let line = to_string(&row).expect("written");
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(from_str::<ControlRequest>(&line).expect("read"), row);
        }
    }

    #[test]
    fn a_row_with_anything_missing_or_unknown_is_none() {
        let good = to_value(SPEC).expect("written");
        let fields = good.as_object().expect("an object");
        for key in fields.keys() {
            // Without a value the row has no limit of segments and no traffic, its memory is at the best place, and the environment chooses
            // shared memory.
            if !["segment", "traffic", "page_offset", "same_host"].contains(&key.as_str()) {
                let mut fields = fields.clone();
                fields.remove(key);
                assert!(from_value::<Spec>(fields.into()).is_err(), "{key}");
            }
            let mut bad = good.clone();
            bad[key] = json!("?");
            assert!(from_value::<Spec>(bad).is_err(), "{key}");
        }
        let mut more = good;
        more["more"] = Value::Null;
        assert!(from_value::<Spec>(more).is_err());
    }

    #[test]
    fn requests_and_answers_are_short_and_plain() {
        let turn = ControlRequest::Turn {
            count: 1000,
            over: TurnConnection::Wire { index: 2, write: 9 },
        };
        let lines = [
            to_string(&ControlRequest::Join),
            to_string(&turn),
            to_string(&ControlAnswer::Ok(())),
            to_string(&ControlAnswer::Done(None::<f64>)),
        ];
        assert_eq!(
            lines.map(|line| line.expect("written")),
            [
                r#""join""#,
                r#"{"turn":{"count":1000,"over":{"wire":{"index":2,"write":9}}}}"#,
                r#"{"ok":null}"#,
                r#"{"done":null}"#,
            ]
        );
        for bad in [
            r#"{"join":1}"#,
            r#"{"turn":{"count":-1,"over":"tested"}}"#,
            r#""jump""#,
        ] {
            assert!(from_str::<ControlRequest>(bad).is_err(), "{bad}");
        }
    }
}
