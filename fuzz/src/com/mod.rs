//! `netdirect-com`'s border: any call of a program in C, with any pointer into guarded memory, in any order.

mod arena;
mod client;

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Once};
use std::time::Duration;

use netdirect::{Error, Result, Status};
use netdirect_com::export::Library;
use softnd::simulation::Simulation;

use crate::input::Input;
use client::{ADDRESSES, Client};

thread_local! {
    /// The network of this run.
    static NETWORK: RefCell<Option<Simulation>> = const { RefCell::new(None) };
    /// Whether this thread has panicked. The border catches panics.
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

static LIBRARY: Library = Library { open, pin: || {} };

/// The most calls of a run.
const CALLS: usize = 96;

fn open(_configuration: &str) -> Result<Arc<dyn netdirect::Provider>> {
    NETWORK.with_borrow(|network| {
        let network = network.as_ref();
        let network = network.ok_or_else(|| Error::from(Status::DEVICE_NOT_READY))?;
        let addresses = ADDRESSES.map(Into::into);
        Ok(network.provider(addresses, softnd::Options::default()))
    })
}

fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICKED.set(true);
            before(info);
        }));
    });
}

/// Input: calls. An octet says what happens: mostly a method of an object, whose number, method and arguments follow; also time that passes,
/// octets that the program writes into its memory, and handles that it makes, sets and closes.
///
/// The program keeps the promise of clients, and no more: pointers lead to memory that the method may use, which ends right before a page that
/// cannot be accessed; counts beyond every limit come with pointers that lead to that page.
///
/// # Panics
///
/// Panics if a method panics, returns a status without a name, or counts references wrong.
pub fn com(octets: &[u8]) {
    watch_panics();
    PANICKED.set(false);
    let network = Simulation::new(1);
    NETWORK.set(Some(network.clone()));
    let mut input = Input::new(octets);
    let mut client = Client::new(&LIBRARY);
    for _ in 0..CALLS {
        if input.is_empty() {
            break;
        }
        match input.octet() & 31 {
            0..=1 => network.pass(Duration::from_micros(1 << (input.octet() & 23))),
            2 => client.write(&mut input),
            3 => client.handles(&mut input),
            _ => client.call(&mut input),
        }
        assert!(!PANICKED.get(), "a call has panicked");
    }
    client.finish();
    NETWORK.set(None);
    assert!(!PANICKED.get(), "a call has panicked");
}
