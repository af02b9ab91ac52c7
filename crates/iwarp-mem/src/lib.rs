//! iwarp-mem
