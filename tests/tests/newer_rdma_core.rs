//! Newer releases of rdma-core than the installed one: their drivers find every name that they need in softnd's library, and their programs
//! run over it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use softnd_tests::c_programs::CProgram;
use softnd_tests::nd;
use softnd_tests::verbs_programs::{Server, free_port, run};

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

/// Where a release is unpacked, with the C library that it was built for.
fn release() -> PathBuf {
    let release = std::env::var_os("SOFTND_NEWER_RDMA_CORE");
    PathBuf::from(release.expect("SOFTND_NEWER_RDMA_CORE names a folder"))
}

/// The release's own dynamic linker with its option, because what is newer may need a newer C library than this machine's. Libraries that
/// the release lacks are this machine's.
fn dynamic_linker(release: &Path) -> [String; 3] {
    let release = release.to_str().expect("the folder's name is valid UTF-8");
    let linker = format!("{release}/usr/lib64/ld-linux-x86-64.so.2");
    let libraries = format!("{release}/{LIBRARIES}");
    [linker, "--library-path".to_owned(), libraries]
}

#[test]
#[ignore = "needs a newer release of rdma-core, which .ci/newer-rdma-core fetches"]
fn drivers_load_with_every_name_that_they_need() {
    let release = release();
    let Some(program) = CProgram::compile("drivers", &[], &["-ldl"]) else {
        return;
    };
    let drivers = drivers(&release);
    assert!(drivers.len() > 20, "only {drivers:?}");
    nd::build_libraries();
    let ours = nd::binary().with_file_name("libibverbs.so");
    let [linker, library_path, libraries] = dynamic_linker(&release);
    let output = Command::new(linker)
        .args([library_path, libraries])
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

/// The names of a library at the versions for programs, as `name@@NODE`.
fn public_names(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .expect("nm comes with every C compiler");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", library.display());
    let lines = String::from_utf8(output.stdout).expect("names are ASCII");
    let names = lines.lines().filter_map(|line| line.split(' ').nth(2));
    names
        .filter(|name| name.contains("@@IBVERBS_1.") || name.contains("@@RDMACM_1."))
        .map(str::to_owned)
        .collect()
}

#[test]
#[ignore = "needs a newer release of rdma-core, which .ci/newer-rdma-core fetches"]
fn every_name_for_programs_exists() {
    nd::build_libraries();
    let ours = public_names(&nd::binary().with_file_name("libibverbs.so"));
    let libraries = release().join(LIBRARIES);
    let mut theirs = public_names(&libraries.join("libibverbs.so.1"));
    theirs.extend(public_names(&libraries.join("librdmacm.so.1")));
    assert!(theirs.len() > 100, "only {theirs:?}");
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
}

#[test]
#[ignore = "needs a newer release of rdma-core, which .ci/newer-rdma-core fetches"]
fn programs_connect() {
    let release = release();
    let [linker, option, libraries] = dynamic_linker(&release);
    // `nd run` wants a program that names a dynamic linker, which the linker itself does not.
    let before = ["env", &*linker, &*option, &*libraries];
    let of_release = |name| format!("{}/usr/bin/{name}", release.display());
    let port = free_port();
    let rping = of_release("rping");
    let common = ["-a", "127.0.0.1", "-p", &*port, "-C", "20", "-V"];
    let server = Server::start(&[&before[..], &[&*rping, "-s"], &common].concat());
    run(&[&before[..], &[&*rping, "-c"], &common].concat());
    drop(server);
    let port = free_port();
    let (server, client) = (of_release("rdma_server"), of_release("rdma_client"));
    let server = Server::start(&[&before[..], &[&*server, "-p", &*port]].concat());
    run(&[&before[..], &[&*client, "-s", "127.0.0.1", "-p", &*port]].concat());
    server.ends_well();
}
