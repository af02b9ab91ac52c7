//! `nd rping`: the exchange of rdma-core's rping, over any provider.
//!
//! [`exchange`] defines the messages. [`client`] and [`server`] are the two sides, each of which works with its counterpart
//! here and with that of rping.

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

/// Runs the side that the arguments name. With `show`, each ping's data is printed, as rping's -v does.
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
    // The summary is printed even if some pings failed.
    if done.is_ok() || pings.done > 0 {
        output::afterword(pings.summary())?;
    }
    done?;
    recorded
}
