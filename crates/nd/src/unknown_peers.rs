//! Lines about peers of a server that do not speak iWARP. The provider turns them away, and reports them in its log alone.

use std::fmt::{Debug, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{Filtered, Targets};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::errors::one_line;
use crate::provider::UNKNOWN_PEERS;
use crate::stderr::Remarks;

/// Prints a line for each event about such a peer.
#[derive(Debug, Default)]
pub(crate) struct UnknownPeerLines {
    remarks: Remarks,
}

impl UnknownPeerLines {
    /// The layer, which sees these events and no others.
    pub(crate) fn layer<S>() -> Filtered<Self, Targets, S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        Self::default().with_filter(Targets::new().with_target(UNKNOWN_PEERS, Level::INFO))
    }
}

impl<S: Subscriber> Layer<S> for UnknownPeerLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut seen = UnknownPeer::default();
        event.record(&mut seen);
        let UnknownPeer { peer, failure } = seen;
        let text = format!("turned away {peer}, which asked for no connection: {failure}");
        self.remarks.remark(one_line(&text));
    }
}

/// The fields of the event.
#[derive(Debug, Default)]
struct UnknownPeer {
    peer: String,
    failure: String,
}

impl Visit for UnknownPeer {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = match field.name() {
            "peer" => &mut self.peer,
            "failure" => &mut self.failure,
            _ => return,
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{value:?}");
    }
}
