//! Tables of broken rules, and of the checks that fail for them.

pub(crate) mod requests;
