//! Where the tree is.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::c::environment;

/// The longest root. `nd run` makes none that is longer.
const ROOM: usize = 1024;

/// The length of the root, and one; 0 before it is known. Threads that are first at once write the same octets.
static KNOWN: AtomicUsize = AtomicUsize::new(0);
static OCTETS: [AtomicU8; ROOM] = [const { AtomicU8::new(0) }; ROOM];

fn of_environment() -> Option<&'static [u8]> {
    let root = environment(c"SOFTND_VERBS_PATHS")?;
    (root.first() == Some(&b'/') && root.len() <= ROOM).then_some(root)
}

fn set(root: &[u8]) {
    for (to, from) in OCTETS.iter().zip(root) {
        to.store(*from, Ordering::Relaxed);
    }
    KNOWN.store(root.len() + 1, Ordering::Release);
}

/// Takes the root from the environment, for good: the program may change the environment later.
pub(crate) fn prepare() {
    set(of_environment().unwrap_or_default());
}

/// The octets of the root, none if there is no tree.
pub(crate) fn octets() -> impl ExactSizeIterator<Item = u8> {
    if KNOWN.load(Ordering::Acquire) == 0 {
        // A call before the constructor. There may be no environment yet, so its absence is not kept.
        of_environment().into_iter().for_each(set);
    }
    let len = KNOWN.load(Ordering::Acquire).saturating_sub(1);
    let octets = OCTETS.get(..len).unwrap_or_default();
    octets.iter().map(|octet| octet.load(Ordering::Relaxed))
}

/// How many octets of a path of the kernel name the root: behind them is the path that programs know.
pub(crate) fn len_in(path: &[u8]) -> usize {
    let mut root = octets();
    let len = root.len();
    let is_in_root = path.len() > len && path.iter().zip(&mut root).all(|(a, b)| *a == b);
    let is_whole = path.get(len).is_some_and(|next| *next == b'/');
    if is_in_root && is_whole { len } else { 0 }
}
