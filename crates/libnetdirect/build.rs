//! Gives the library its name for the dynamic linker.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let has_soname = ["linux", "freebsd"];
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if has_soname.contains(&&*system) {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnetdirect.so");
        // Threads of the pool behind BindIoCompletionCallback never end.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
