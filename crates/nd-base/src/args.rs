//! Arguments that several commands have.

use std::path::PathBuf;
use std::time::Duration;

use crate::provider::CaptureOptions;
use crate::stderr;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// Options of the adapter, for every command that connects.
#[derive(Clone, Debug, Default, Args)]
pub struct AdapterArgs {
    /// Records everything that is sent and received in a pcapng file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,

    // A comment for the help would change that of the command.
    #[allow(
        missing_docs,
        reason = "the room of the capture, whose fields have their help"
    )]
    #[command(flatten)]
    pub capture_room: CaptureRoom,

    /// Has things go wrong by a fault plan: its text, or @ and the file that has it
    #[arg(long, value_name = "PLAN")]
    pub fault: Option<String>,

    /// Does not ask for CRCs (they are used anyway if the peer asks for them)
    #[arg(long, conflicts_with = "crc")]
    pub no_crc: bool,

    /// Asks for CRCs, also through shared memory
    #[arg(long)]
    pub crc: bool,

    /// Connections within this machine go through shared memory, if both ends have this option and belong to the same user
    #[arg(long)]
    pub same_host: bool,

    /// The congestion control: over TCP system or a name that the system permits, over UDP cubic, bbr or newreno
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,

    /// The stack on the other side, if it needs special treatment [default: works with all]
    #[arg(long = "stack", alias = "peer", value_enum, value_name = "STACK")]
    pub peer: Option<Stack>,
}

/// The room that captures may take, for every command with `--capture`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct CaptureRoom {
    /// The most octets that a process captures, such as 500M; then the capture ends, and the connections go on [default: 1G]
    #[arg(long = "capture-limit", value_name = "SIZE", requires = "capture", value_parser = octets)]
    pub limit: Option<u64>,

    /// Captures into N files in turn, FILE-1 to FILE-N, each with its part of the limit: the oldest gives way to what is new
    #[arg(long = "capture-files", value_name = "N", requires = "capture", value_parser = clap::value_parser!(u32).range(1..=i64::from(CaptureOptions::MOST_FILES)))]
    pub files: Option<u32>,
}

impl AdapterArgs {
    /// Whether to ask for CRCs, if the user has chosen.
    pub fn chosen_crc(&self) -> Option<bool> {
        match (self.crc, self.no_crc) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

impl CaptureRoom {
    /// The options of a capture that says on standard error that it is full.
    pub fn options(self) -> CaptureOptions {
        let options = CaptureOptions::default().on_full(|text| stderr::note(text));
        let options = match self.limit {
            Some(octets) => options.limit(octets),
            None => options,
        };
        match self.files {
            Some(files) => options.files(files),
            None => options,
        }
    }
}

/// The trusted certificates and this side's own certificate, on connections over UDP.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options for connections over UDP")]
pub struct SecurityArgs {
    /// Trusts the other side if its certificate has this fingerprint, which a listening side prints. A listening side with this
    /// option accepts nobody else (may be repeated)
    #[arg(long = "pin", value_name = "FINGERPRINT")]
    pub pins: Vec<String>,

    /// Trusts the other side if an authority (CA) in this file has signed its certificate. A listening side with this option
    /// accepts nobody else (may be repeated)
    #[arg(long = "ca", value_name = "FILE")]
    pub authorities: Vec<PathBuf>,

    /// The name that the server's certificate must be valid for, with --ca [default: the address that is connected to]
    #[arg(long, value_name = "NAME", requires = "authorities")]
    pub server_name: Option<String>,

    /// Connects to every server, whatever its certificate: for tests, because anybody on the way can take the server's place
    #[arg(long, conflicts_with_all = ["pins", "authorities"])]
    pub insecure: bool,

    /// The certificate to show, as PEM or DER [default: a new one for each process, or for each `nd run`]
    #[arg(long = "cert", value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,

    /// The private key of the certificate, as PEM or DER
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
}

impl SecurityArgs {
    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--pin", !self.pins.is_empty()),
            ("--ca", !self.authorities.is_empty()),
            ("--server-name", self.server_name.is_some()),
            ("--insecure", self.insecure),
            ("--cert", self.certificate.is_some()),
        ];
        given
            .into_iter()
            .find_map(|(name, is_set)| is_set.then_some(name))
    }

    /// Returns true if a trusted certificate or CA is named.
    pub fn trusts_some(&self) -> bool {
        !self.pins.is_empty() || !self.authorities.is_empty()
    }
}

/// An iWARP stack that something is known of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stack {
    /// The Linux kernel's soft-iWARP
    Siw,
    /// Chelsio T4 and later
    Cxgb4,
    /// Intel E810 and X722
    Irdma,
    /// QLogic and Marvell FastLinQ
    Qed,
}

/// The format of a report. A command has some of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for a terminal.
    Text,
    /// JSON.
    Json,
    /// Rows for spreadsheets (RFC 4180).
    Csv,
    /// JUnit XML, for continuous integration.
    Junit,
    /// One page of HTML.
    Html,
    /// Tables in Markdown.
    Markdown,
}

impl Format {
    /// The name by which a user chooses the format.
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Junit => "junit",
            Self::Html => "html",
            Self::Markdown => "markdown",
        }
    }

    /// Parses the formats of a command, each of which has a line in its help.
    pub fn parser(formats: &'static [(Self, &'static str)]) -> impl TypedValueParser<Value = Self> {
        let value = |(format, help): &(Self, &'static str)| {
            let value = PossibleValue::new(format.name()).help(*help);
            // The name that `nd perf` had for it.
            value.aliases((*format == Self::Text).then_some("table"))
        };
        PossibleValuesParser::new(formats.iter().map(value)).map(|name| {
            let is_named = |(format, _): &&(Self, _)| format.name() == name;
            formats
                .iter()
                .find(is_named)
                .map_or(Self::Text, |(format, _)| *format)
        })
    }
}

/// A time limit as it is typed: seconds, with or without a fraction.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(limit) if !limit.is_zero() && limit <= Duration::from_secs(86_400) => Ok(limit),
        _ => Err("must be above 0 and at most 86400".to_owned()),
    }
}

/// A number of octets as it is typed: k, M, G and T are binary.
pub fn octets(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.trim_end_matches(['i', 'B']).char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "not a size; write it like 8, 64k or 1M".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "must be below 16 EiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_have_binary_suffixes() {
        for (text, number) in [
            ("0", 0),
            ("8", 8),
            ("64k", 65_536),
            ("1MiB", 1 << 20),
            ("5G", 5 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(octets(text), Ok(number), "{text}");
        }
        for bad in ["", "k", "-1", "1.5", "x", "64q", "16777216T"] {
            assert!(octets(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_format_has_its_name_where_a_command_has_it() {
        #[derive(Debug, clap::Parser)]
        struct Only {
            #[arg(default_value = "text", value_parser = Format::parser(&[(Format::Text, ""), (Format::Csv, "")]))]
            format: Format,
        }
        let parse = |line: &[&str]| {
            let only = <Only as clap::Parser>::try_parse_from([&["nd"], line].concat());
            only.map(|only| only.format).ok()
        };
        assert_eq!(parse(&[]), Some(Format::Text));
        assert_eq!(parse(&["csv"]), Some(Format::Csv));
        assert_eq!(parse(&["table"]), Some(Format::Text));
        assert_eq!(parse(&["json"]), None);
    }

    #[test]
    fn a_time_limit_is_positive_and_finite() {
        for bad in ["0", "-1", "x", "inf", "NaN", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
    }
}
