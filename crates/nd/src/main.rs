//! nd
fn main() {}
