//! Links the library with librdmacm's version nodes, so that it brings libibverbs along.

use version_nodes::{Library, linker_args};

const NODES: &str = include_str!("nodes.map");

fn main() {
    println!("cargo::rerun-if-changed=nodes.map");
    println!("cargo::rerun-if-changed=build.rs");
    let library = Library {
        soname: "librdmacm.so.1",
        nodes: NODES,
        needs: Some("libibverbs.so.1"),
    };
    // Where it cannot be linked so, libibverbs says why.
    for arg in linker_args(&library).unwrap_or_default() {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
}
