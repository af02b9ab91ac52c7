//! `nd rping`: the exchange of rping, which rdma-core's users know, over any provider.
//!
//! [`exchange`] says what goes over the connection; [`client`] and [`server`] are the two sides. Each works with its
//! counterpart here and with rping's own.

pub(crate) mod args;
mod client;
mod exchange;
mod pings;
mod server;

use self::args::RpingArgs;
use self::pings::Pings;
use crate::errors::Result;
use crate::output;
use crate::peer;

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
    pings.finish();
    let recorded = setup.finish();
    // What was done is told even if the rest was not.
    if done.is_ok() || pings.done > 0 {
        output::afterword(pings.summary())?;
    }
    done?;
    recorded
}
