//! iwarp
