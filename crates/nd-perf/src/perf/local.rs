//! The second process of `nd perf local`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nd_base::errors::{Failure, Result};
use nd_base::provider::AdapterOptions;
use nd_base::session::{self, Setup};

use super::affinity;
use super::link::LIMIT;
use super::spec::Receives;
use crate::process;

/// How long the process may take to end after its client has left.
const PARTING: Duration = Duration::from_secs(5);

/// A process of this program that serves the tests. It is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Second {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Second {
    /// Starts the process, and waits until it listens, at an address of the adapter if one is named. Its queue pairs take their
    /// Receives from there.
    pub(super) fn start(verbose: u8, receives: Receives, url: Option<&str>) -> Result<Self> {
        let address = match url {
            None => session::loopback(),
            Some(url) => {
                let setup = Setup::new(Some(url), AdapterOptions::default(), LIMIT)?;
                setup.at(session::loopback())?.an_address()?
            }
        };
        let explain = |error| Failure::start("a second process of this program", &error);
        affinity::anywhere();
        let mut command = Command::new(std::env::current_exe().map_err(explain)?);
        command
            .args(["perf", "serve", "--once", "--listen", &address.to_string()])
            .args(url.iter().flat_map(|url| ["--url", url]))
            .args(["--receives", &receives.to_string()])
            .args((0..verbose).map(|_| "-v"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().map_err(explain)?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            // The rest of the output need not be read.
            let _ = BufReader::new(output).read_line(&mut line);
        }
        let address = line.split_whitespace().last();
        match address.and_then(|address| address.parse().ok()) {
            Some(address) => Ok(Self { child, address }),
            None => {
                end(&mut child);
                Err(Failure::new(
                    "the second process of this program does not listen",
                    "run again with -vv to see more",
                ))
            }
        }
    }

    /// Waits until the process has ended by itself, as it does when its client has left. Connections over UDP end in good order then,
    /// while a process that was killed leaves the other side waiting for answers. One that does not end in time is killed.
    pub(super) fn finish(mut self) {
        // An error means that there is nothing to wait for.
        let _ = process::wait(&mut self.child, PARTING);
    }
}

impl Drop for Second {
    /// A failure here may be caused by an error of the other process, so that process gets time to report the error before it is ended.
    fn drop(&mut self) {
        const LAST_WORDS: Duration = Duration::from_secs(1);
        let _ = process::wait(&mut self.child, LAST_WORDS);
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // Both fail only if the process has ended already.
    let _ = child.kill();
    let _ = child.wait();
}
