//! The arguments of `nd run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::{CaptureRoom, SecurityArgs};

/// The kind of device that the program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Presents {
    /// As adapters for RoCE v2: what most programs are tested with
    Roce,
    /// As adapters for iWARP: for peers on iWARP adapters or the kernel's siw
    Iwarp,
}

/// When a Write is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WritesDone {
    /// When it is in the peer's memory
    Placed,
    /// When TCP has taken it, which is faster
    Sent,
}

#[derive(Debug, Args)]
pub(crate) struct ProgramArgs {
    /// How the devices present themselves; on the wire they speak iWARP either way
    #[arg(long = "as", value_enum, default_value_t = Presents::Roce)]
    pub(super) present: Presents,

    /// The text in front of the number in the names of devices, for programs that look for devices of one kind, for example rxe or siw
    #[arg(long, value_name = "PREFIX", default_value = "softnd", value_parser = names)]
    pub(super) names: String,

    /// The only network interface that gets a device [default: all with an address; lo if there is no other]
    #[arg(long, value_name = "NAME")]
    pub(super) interface: Option<String>,

    /// The ports that connections take where the program names none, for example 7000-7999
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub(super) ports: Option<(u16, u16)>,

    /// Capture what connections send and receive: each process writes PROGRAM-PID.pcapng in this folder, which is made if need be, and to which only this user may write
    #[arg(long, value_name = "FOLDER")]
    pub(super) capture: Option<PathBuf>,

    #[command(flatten)]
    pub(super) capture_room: CaptureRoom,

    /// Write the counters of each process to PROGRAM-PID.json in this folder when it ends, and at SIGUSR1: the folder is made if need be, and only this user may write to it
    #[arg(long, value_name = "FOLDER")]
    pub(super) counters: Option<PathBuf>,

    /// Has things go wrong by a fault plan: its text, or @ and the file that has it. Each process counts for itself
    #[arg(long, value_name = "PLAN")]
    pub(super) fault: Option<String>,

    /// Connect over UDP, encrypted by QUIC, and not over TCP: programs under such a run reach each other alone
    #[arg(long)]
    pub(super) udp: bool,

    /// Print on standard error why calls of the libraries fail and why connections end, which programs learn as numbers alone
    #[arg(long)]
    pub(super) explain: bool,

    /// Ask for no CRCs: they are used only if the peer wants them
    #[arg(long, conflicts_with = "crc")]
    pub(super) no_crc: bool,

    /// Ask for CRCs, also through shared memory
    #[arg(long)]
    pub(super) crc: bool,

    /// When Writes are done, and signalled requests behind them [default: placed, with --as iwarp sent]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(super) writes: Option<WritesDone>,

    /// Connections within this machine go through shared memory, if both ends have this option and belong to the same user
    #[arg(long, conflicts_with = "udp")]
    pub(super) same_host: bool,

    /// The congestion control: over TCP system or a name that the system permits, over UDP cubic, bbr or newreno
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<String>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(super) command: Vec<OsString>,

    // Last, because its heading is that of all that follows.
    #[command(flatten)]
    pub(super) security: SecurityArgs,
}

impl ProgramArgs {
    /// The variables of the environment that the libraries read, without those for paths. A variable that is not named here keeps the value that the user has set.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let kind = match self.present {
            Presents::Roce => "roce",
            Presents::Iwarp => "iwarp",
        };
        let mut all = vec![
            ("SOFTND_VERBS_AS", kind.to_owned()),
            ("SOFTND_VERBS_NAMES", self.names.clone()),
        ];
        if let Some(interface) = &self.interface {
            all.push(("SOFTND_VERBS_INTERFACE", interface.clone()));
        }
        if let Some((first, last)) = self.ports {
            all.push(("SOFTND_VERBS_PORTS", format!("{first}-{last}")));
        }
        if let Some(octets) = self.capture_room.limit {
            all.push(("SOFTND_VERBS_CAPTURE_LIMIT", octets.to_string()));
        }
        if let Some(files) = self.capture_room.files {
            all.push(("SOFTND_VERBS_CAPTURE_FILES", files.to_string()));
        }
        if self.explain {
            all.push(("SOFTND_VERBS_EXPLAIN", "1".to_owned()));
        }
        if let Some(name) = &self.congestion {
            all.push(("SOFTND_CONGESTION", name.clone()));
        }
        if self.no_crc {
            all.push(("SOFTND_VERBS_CRC", "off".to_owned()));
        }
        if self.crc {
            all.push(("SOFTND_VERBS_CRC", "on".to_owned()));
        }
        if let Some(when) = self.writes {
            let when = match when {
                WritesDone::Placed => "placed",
                WritesDone::Sent => "sent",
            };
            all.push(("SOFTND_VERBS_WRITES", when.to_owned()));
        }
        if self.same_host {
            all.push(("SOFTND_SAME_HOST", "1".to_owned()));
        }
        all
    }
}

#[cfg(unix)]
fn names(text: &str) -> Result<String, String> {
    use softverbs::ProcessOptions;

    if ProcessOptions::are_names(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "must be at most {} letters, digits, _ and -, a letter first, and no digit at the end",
        ProcessOptions::LONGEST_NAMES
    ))
}

/// `nd run` needs Linux, and says so.
#[cfg(windows)]
fn names(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.to_owned())
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let wrong = || "must be two ports from 1 to 65535, as 7000-7999".to_owned();
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (first, last) = port(first).zip(port(last)).ok_or_else(wrong)?;
    if first > last {
        return Err(format!("{first} is above {last}"));
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::ports;

    #[test]
    fn ports_are_a_range() {
        assert_eq!(ports("7000-7010"), Ok((7000, 7010)));
        assert_eq!(ports("9-8"), Err("9 is above 8".to_owned()));
        for wrong in ["", "7000", "0-1", "1-65536"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
