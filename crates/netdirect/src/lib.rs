//! netdirect
