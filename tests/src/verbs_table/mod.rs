//! The table of programs for verbs that work over softnd, as the book has it: each pair is run, and its captures are dissected.

mod page;
mod pair;
mod rows;

pub use page::{MARKS, PAGE, replace, table};
pub use pair::{Outcome, run};
pub use rows::{Row, rows};
