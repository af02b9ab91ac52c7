//! softnd's end of the exchange that `rping` of rdma-core speaks, through the NetworkDirect traits, as client or as server.
//!
//! `tests/interop/guest.sh` runs it against `rping` on the Linux kernel's soft-iWARP. It ends with status 0 and one line on
//! standard output if everything happened as the case says, otherwise with status 1 and one line on standard error.
#![forbid(unsafe_code)]

mod client;
mod exchange;
mod server;
mod side;

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use side::Outcome;

/// Speaks rping's exchange over softnd.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    role: Role,
    /// Do not ask for CRC.
    #[arg(long, global = true)]
    no_crc: bool,
    /// Octets of data in each direction per ping.
    #[arg(long, global = true, default_value_t = 64)]
    size: u32,
    /// Pings.
    #[arg(long, global = true, default_value_t = 10)]
    count: u32,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Connects to a server.
    Client {
        /// The local address.
        #[arg(long)]
        from: IpAddr,
        /// The server's address and port.
        #[arg(long)]
        to: SocketAddr,
        /// The work of the peer.
        case: client::Case,
    },
    /// Waits for a client.
    Server {
        /// The address and port to listen on.
        #[arg(long)]
        at: SocketAddr,
        /// The work of the peer.
        case: server::Case,
    },
}

fn run(cli: &Cli) -> Outcome<String> {
    let load = exchange::Load {
        size: cli.size,
        count: cli.count,
    };
    match cli.role {
        Role::Client { from, to, case } => client::run(case, from, to, !cli.no_crc, load),
        Role::Server { at, case } => server::run(case, at, !cli.no_crc, load),
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("siw_peer: {what}");
            ExitCode::FAILURE
        }
    }
}
