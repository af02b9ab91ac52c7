//! Drivers of newer releases of rdma-core, which find every name that they need in softnd's library.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use softnd_tests::c_programs::CProgram;
use softnd_tests::nd;

/// Where Debian has libraries.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// The libraries of drivers below a release, and what libibverbs itself would load.
fn drivers(release: &Path) -> Vec<PathBuf> {
    let folder = release.join(LIBRARIES);
    let files_of = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("the release is unpacked");
        entries.map(|entry| entry.expect("a folder that can be read").path())
    };
    let mut all: Vec<_> = files_of(&folder.join("libibverbs")).collect();
    let names = ["libefa.", "libhns.", "libmana.", "libmlx4.", "libmlx5."];
    all.extend(files_of(&folder).filter(|path| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| names.iter().any(|start| name.starts_with(start)))
    }));
    all.retain(|path| path.to_str().is_some_and(|path| path.contains(".so")));
    all
}

/// `SOFTND_NEWER_RDMA_CORE` is where a release is unpacked, with the C library that it was built for.
#[test]
#[ignore = "needs a newer release of rdma-core, which .ci/newer-rdma-core fetches"]
fn drivers_load_with_every_name_that_they_need() {
    let release = std::env::var_os("SOFTND_NEWER_RDMA_CORE");
    let release = PathBuf::from(release.expect("SOFTND_NEWER_RDMA_CORE names a folder"));
    let Some(program) = CProgram::compile("drivers", &[], &["-ldl"]) else {
        return;
    };
    let drivers = drivers(&release);
    assert!(drivers.len() > 20, "only {drivers:?}");
    nd::build_libraries();
    let ours = nd::binary().with_file_name("libibverbs.so");
    // The release's own dynamic linker, because drivers may need a newer C library than this machine's. Libraries that the release lacks
    // are this machine's.
    let output = Command::new(release.join("usr/lib64/ld-linux-x86-64.so.2"))
        .arg("--library-path")
        .arg(release.join(LIBRARIES))
        .arg("--preload")
        .arg(ours)
        .arg(program.path())
        .args(&drivers)
        .output()
        .expect("the dynamic linker starts");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && stdout == "0 failures\n" && stderr.is_empty(),
        "{}\n{stdout}\n{stderr}",
        output.status
    );
}
