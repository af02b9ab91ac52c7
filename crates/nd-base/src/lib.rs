//! What the commands of `nd` share, those that measure included: errors, output, providers, connections.
//!
//! Every command is written against the traits of `netdirect`; the provider behind them is picked at run time, in [`provider`].
//! The user sees each error as one line and an exit status, both made in [`errors`].
//!
//! The modules are layers; each uses those before it in this list:
//!
//! - services of the system, and output for people: [`errors`], [`stderr`], [`output`], [`output_file`], [`units`], [`memory`], [`signals`],
//!   [`interrupt`];
//! - arguments that several commands have, and the providers: [`args`], [`provider`];
//! - connections: [`session`], [`admission`], [`mailbox`], [`peer`].

#![forbid(unsafe_code)]

pub mod admission;
pub mod args;
pub mod errors;
pub mod interrupt;
pub mod mailbox;
pub mod memory;
pub mod output;
pub mod output_file;
pub mod peer;
pub mod provider;
pub mod session;
pub mod signals;
pub mod stderr;
pub mod units;
