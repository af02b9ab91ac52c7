//! Tests that nothing stays in memory when the client has released everything, however a connection has ended, over every transport.
//!
//! In a simulated network nothing may stay once the last handle was dropped, because its clock no longer moves. Over TCP and UDP the
//! adapters' threads have connections to end, and then nothing may stay either.

mod ends;
mod lingering;
mod networks;
mod objects;
mod setup;
mod stage;

use stage::{Held, Kind, Order, Stage};

/// A part of a client's program, and all the handles that it has afterwards.
struct Scene(&'static str, fn(&Stage) -> Vec<Held>);

/// Runs each scene, and releases the client's handles in several orders.
fn play(kind: Kind, scenes: &[Scene]) {
    for Scene(name, scene) in scenes {
        for order in Order::ALL {
            let stage = Stage::new(kind);
            let handles = scene(&stage);
            order.release(handles);
            stage.assert_nothing_stays(&format!("{kind:?}: {name}, released {order:?}"));
        }
    }
}

/// Makes a test over each transport of functions that take a [`Kind`].
macro_rules! on_each_transport {
    ($($name:ident),+ $(,)?) => {
        #[cfg(unix)]
        mod tcp {
            $(#[test] fn $name() { super::$name(crate::released::Kind::Tcp) })+
        }
        #[cfg(unix)]
        mod udp {
            $(#[test] fn $name() { super::$name(crate::released::Kind::Udp) })+
        }
        mod simulated_streams {
            $(#[test] fn $name() { super::$name(crate::released::Kind::Streams) })+
        }
        mod simulated_datagrams {
            $(#[test] fn $name() { super::$name(crate::released::Kind::Datagrams) })+
        }
    };
}
use on_each_transport;
