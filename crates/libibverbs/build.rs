//! Links the library with the version nodes of rdma-core's two libraries.

use version_nodes::{Library, linker_args};

/// The nodes of libibverbs, of its drivers in several releases, and of librdmacm.
const NODES: &str = include_str!("nodes.map");

fn main() {
    println!("cargo::rerun-if-changed=nodes.map");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(with_versions)");
    let library = Library {
        soname: "libibverbs.so.1",
        nodes: NODES,
        needs: None,
    };
    match linker_args(&library) {
        Ok(args) => {
            println!("cargo::rustc-cfg=with_versions");
            for arg in args {
                println!("cargo::rustc-cdylib-link-arg={arg}");
            }
        }
        Err(why) => {
            let why = why.0;
            println!("cargo::warning=the libraries for verbs programs are left empty: {why}");
            println!("cargo::rustc-env=WHY_EMPTY={why}");
        }
    }
}
