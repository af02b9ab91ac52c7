//! What a library says of itself.

use std::sync::Arc;

use netdirect::{Provider, Result};

/// A library that exports a provider.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Makes the provider, by lines of the library's configuration file that go before the file itself; mostly without any. Called for each
    /// client that asks for a provider, and when one configures it.
    pub open: fn(configuration: &str) -> Result<Arc<dyn Provider>>,
    /// Keeps the library loaded for good. Called when an adapter is opened, because threads run the library's code from then on.
    pub pin: fn(),
}
