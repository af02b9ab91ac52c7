//! Passes to `nd` the cargo profile that it is built with, because what is measured depends on it.

use std::env;
use std::path::Path;

/// Cargo has no variable for the profile's name. It is the folder above `build/PACKAGE-HASH/out`.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let name = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let name = name.map_or_else(|| "unknown".into(), |name| name.to_string_lossy());
    println!("cargo::rustc-env=ND_PROFILE={name}");
}
