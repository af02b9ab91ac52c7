//! Registered memory made of vectors.
