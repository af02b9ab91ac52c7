//! The log that `nd run -v` asks for: events of the driver and of its objects, on the program's standard error.

use std::io::{self, IsTerminal as _};

use rdma_buffer::environment;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Begins the log, if the environment asks for one. Once the process has one, this does nothing.
///
/// # Errors
///
/// The filter is none.
pub(crate) fn start() -> Result<(), ParseError> {
    let Some(filter) = environment::text("SOFTND_VERBS_LOG") else {
        return Ok(());
    };
    let filter: Targets = filter.parse()?;
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let lines = if environment::text("SOFTND_VERBS_LOG_FORMAT").as_deref() == Some("json") {
        let lines = lines.json().flatten_event(true).with_span_list(false);
        lines.boxed()
    } else {
        lines.with_ansi(io::stderr().is_terminal()).boxed()
    };
    let log = tracing_subscriber::registry().with(lines.with_filter(filter));
    // The child of a fork has the log of its parent.
    let _ = log.try_init();
    Ok(())
}
