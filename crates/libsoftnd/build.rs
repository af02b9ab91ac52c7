//! Gives the library its name for the dynamic linker, with the part of the version that has to be the same.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let has_soname = ["linux", "freebsd"];
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if has_soname.contains(&&*system) {
        println!(
            "cargo::rustc-cdylib-link-arg=-Wl,-soname,libsoftnd.so.{}",
            compatible_version()
        );
    }
}

/// Before 1.0 versions with another second number may be incompatible, after it those with another first one.
fn compatible_version() -> &'static str {
    match env!("CARGO_PKG_VERSION_MAJOR") {
        "0" => concat!("0.", env!("CARGO_PKG_VERSION_MINOR")),
        major => major,
    }
}
