//! `nd rping`: the exchange of rping, which rdma-core's users know, over any provider.
//!
//! [`exchange`] says what goes over the connection; [`client`] and [`server`] are the two sides. Each works with its
//! counterpart here and with rping's own.

mod client;
mod exchange;
mod server;

use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::errors::{Failure, Result, one_line};
use crate::output;
use crate::peer::{self, PeerArgs};
use crate::units;

/// Above all that is useful for a ping.
const MAX_SIZE: u32 = 1 << 30;

/// What a server takes unless told otherwise: the most that rping's client sends, and one octet.
const SERVER_SIZE: u32 = 64 << 10;

/// The flags have rping's names. A client always compares what comes back with what it sent.
#[derive(Debug, Args)]
#[command(
    after_help = "-v shows the data of each ping; say one v more for what it shows of other commands. With rping on the other side sizes are from 23 to 65535, which is all that rping takes."
)]
pub(crate) struct RpingArgs {
    /// Waits for a client
    #[arg(short = 's', long, conflicts_with = "client")]
    server: bool,

    /// Connects to a server, and pings it
    #[arg(short = 'c', long, required_unless_present = "server")]
    client: bool,

    /// The server's address: where to listen, or what to connect to
    #[arg(short = 'a', long, value_name = "ADDR")]
    address: String,

    /// The server's port; a server takes any free one for 0
    #[arg(short, long, default_value_t = exchange::PORT)]
    port: u16,

    /// Pings; 0: until Ctrl-C is pressed or the other side ends
    #[arg(short = 'C', long, value_name = "COUNT", default_value_t = 0)]
    count: u64,

    /// Octets per ping [default: 64]; of a server: the most it takes [default: 65536]
    #[arg(short = 'S', long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SIZE)))]
    size: Option<u32>,

    /// Has the server compare what it reads with rping's pattern
    #[arg(short = 'V', long)]
    validate: bool,

    #[command(flatten)]
    peer: PeerArgs,
}

/// Runs the side that is asked for. With `show`, each ping's data is printed, as rping's -v does.
pub(crate) fn run(args: &RpingArgs, show: bool) -> Result<()> {
    let addresses = peer::resolve(&args.address, args.port)?;
    let setup = args.peer.setup()?;
    let mut pings = Pings::new(args.count, show);
    let done = if args.server {
        server::run(args, &setup, &addresses, &mut pings)
    } else {
        client::run(args, &setup, &addresses, &mut pings)
    };
    pings.bar.finish_and_clear();
    let recorded = setup.finish();
    // What was done is told even if the rest was not.
    if done.is_ok() || pings.done > 0 {
        output::afterword(pings.summary())?;
    }
    done?;
    recorded
}

/// How far the pings are.
#[derive(Debug)]
struct Pings {
    wanted: u64,
    done: u64,
    octets: u64,
    begun: Option<Instant>,
    time: Duration,
    show: bool,
    bar: ProgressBar,
}

impl Pings {
    fn new(wanted: u64, show: bool) -> Self {
        // Hidden where standard error is no terminal.
        let bar = if wanted == 0 {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::new(wanted)
        };
        let template = if wanted == 0 {
            "{spinner} {pos} pings, {per_sec}"
        } else {
            "{wide_bar} {pos}/{len} pings, {per_sec}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            wanted,
            done: 0,
            octets: 0,
            begun: None,
            time: Duration::ZERO,
            show,
            bar,
        }
    }

    /// The connection stands: from here on time counts.
    fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }

    /// Whether another ping is wanted.
    fn more(&self) -> bool {
        self.wanted == 0 || self.done < self.wanted
    }

    /// One more has succeeded. `title` is rping's for its data.
    fn count(&mut self, title: &str, data: &[u8]) -> Result<()> {
        self.done += 1;
        self.octets += data.len() as u64;
        self.time = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        self.bar.set_position(self.done);
        if self.show {
            let text = one_line(&exchange::text(data));
            self.bar
                .suspend(|| output::line(format_args!("{title}: {text}")))?;
        }
        Ok(())
    }

    /// `100 pings, 6400 B each way, in 12 ms (120 µs each)`.
    fn summary(&self) -> String {
        let plural = if self.done == 1 { "" } else { "s" };
        let each = u32::try_from(self.done)
            .ok()
            .and_then(|done| self.time.checked_div(done))
            .unwrap_or_default();
        format!(
            "{} ping{plural}, {} each way, in {} ({} each)",
            self.done,
            units::bytes(self.octets),
            units::time(self.time),
            units::time(each)
        )
    }
}

/// The peer ended the connection before all was done.
fn early(pings: &Pings) -> Failure {
    Failure::peer(
        format!(
            "the other side ended the connection after {} of {} pings",
            pings.done, pings.wanted
        ),
        "look at what it says",
    )
}
