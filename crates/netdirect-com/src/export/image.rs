//! The functions that a library provides to this module.

use std::sync::Arc;

use netdirect::{Provider, Result};

/// A library that exports a provider.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Makes the provider, by lines of the library's configuration file that precede the file itself; mostly without any. Called for each
    /// client that asks for a provider, and when one configures it.
    pub open: fn(configuration: &str) -> Result<Arc<dyn Provider>>,
    /// Keeps the library loaded until the process ends. Called when an adapter is opened, because threads run the library's code from then
    /// on.
    pub pin: fn(),
}
