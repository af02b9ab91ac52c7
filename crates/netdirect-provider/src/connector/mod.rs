//! Connectors, ND2's `IND2Connector`: the states of a connection from Connect or Accept to Disconnect, on both sides.
//!
//! [`machine`] is the table of states and events. A provider's connector contains [`ConnectorRules`] and implements [`ConnectorLine`], the
//! functions that the rules need of the line below: to connect, to answer, to end. Clients get a [`ConnectorHandle`]. Everything that
//! happens is one [`Event`](machine::Event) under the connector's lock. Its effects on others (ends of requests,
//! [`Action`](crate::requests::Action)s of the line) follow when the lock is released.

mod callers;
mod calls;
mod handle;
mod line;
pub mod machine;
mod rules;
#[cfg(test)]
pub(crate) mod tests;

pub use callers::QueuePairOwner;
pub use handle::ConnectorHandle;
pub use line::{Acceptance, Attempt, Binding, ConnectorLine, ConnectorRules, ConnectorState};
pub use rules::LockedConnector;
