//! Files that a user names: the one place where such files are made, and opened to be written.
//!
//! The other users of a machine can put links, pipes and files of their own where a program will write, if the folder is open to them, as
//! `/tmp` is. Three rules keep them from gaining anything by that:
//!
//! - **The owner of a link counts.** A link is followed if it belongs to this user or to root ([`followed`]).
//! - **What is secret goes to this user alone** ([`put_secret`]): captures, counters, and logs of keys.
//! - **A file in the place of another one gains no rights** ([`take_after`]): it has that one's owner and group, and no set-user-ID bit.
//!
//! What is not secret has the mode that the umask leaves, as with any program.
//!
//! [`folder`] looks at the folders above a file, for files whose names others must not be able to foretell.

#[cfg(unix)]
pub mod folder;
mod links;
#[cfg(unix)]
mod owner;
mod plain;
#[cfg(unix)]
mod refused;
mod rights;
pub(crate) mod secret;
#[cfg(all(test, unix))]
mod tests;
mod unnamed;

pub use links::{followed, without_links};
pub use plain::{create_new, empty, open_existing, open_or_create};
pub use rights::{TakenOver, take_after};
pub use secret::put_secret;
pub use unnamed::{create_unnamed, give_name};
