//! The arguments of `nd conform`.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::{Format, Stack};
use crate::provider;
use crate::suites;

/// Checks a provider.
#[derive(Clone, Debug, Args)]
pub(crate) struct Conform {
    #[arg(help = format!("The adapter, for example {}", provider::EXAMPLE), required_unless_present = "list")]
    pub(crate) url: Option<String>,

    /// The adapter at the other end, which may be of another provider [default: a second one of the same provider]
    #[arg(long, value_name = "URL")]
    pub(crate) peer: Option<String>,

    /// Tells an adapter, at either end, that the other end runs this stack [default: works with all]
    #[arg(long, value_enum, value_name = "STACK", requires = "peer")]
    pub(crate) stack: Option<Stack>,

    /// Uses one adapter for both ends
    #[arg(long, conflicts_with = "peer")]
    pub(crate) one_adapter: bool,

    /// Connections between the two ends go through shared memory
    #[arg(long)]
    pub(crate) same_host: bool,

    /// What is expected, and how the provider is opened if it has profiles
    #[arg(long, value_enum, default_value_t = Profile::Default)]
    pub(crate) profile: Profile,

    /// Only these checks, by family, row or name or the beginning of the latter, such as CONN or MW-004 (may be repeated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Lists the checks without running them
    #[arg(long)]
    pub(crate) list: bool,

    /// The form of the report
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = Format::parser(suites::FORMATS))]
    pub(crate) format: Format,

    /// Writes the report to this file; progress is shown on the terminal
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// How many checks run at the same time
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) jobs: NonZeroUsize,

    /// Makes the suite wait this many times as long, for slow peers
    #[arg(long, value_name = "X", default_value = "1", value_parser = scale)]
    pub(crate) time_scale: f64,

    /// An address that nobody has, in a network that the adapter reaches, for the check of unreachable hosts [default: only providers
    /// that can pretend are checked]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) unreachable_host: Option<IpAddr>,

    /// Known deviations of the provider: a file, or a name such as siw-6.1
    #[arg(long, value_name = "FILE|NAME", visible_alias = "known")]
    pub(crate) deviations: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Runs every client known
    Default,
    /// As narrow as the narrowest adapter
    Strict,
}

fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.001..=1000.0).contains(&scale) {
        Ok(scale)
    } else {
        Err("must be from 0.001 to 1000".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_positive_and_finite() {
        for bad in ["0", "-1", "x", "inf", "NaN", "1e9"] {
            assert!(scale(bad).is_err(), "{bad}");
        }
        assert_eq!(scale("2.5"), Ok(2.5));
    }
}
