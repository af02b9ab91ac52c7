//! The scripts that fetch Debian's packages choose versions that fit each other, on days when one package is newer or older than the
//! others. apt itself reads made-up archives here, in which that is so for each package in turn.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest as _, Sha256};
use softnd_tests::tool;
use tempfile::TempDir;

/// A package of a made-up archive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    source: String,
    depends: String,
}

impl Package {
    fn new(source: &str, name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            source: source.to_owned(),
            depends: String::new(),
        }
    }

    fn depends(mut self, on: &str) -> Self {
        on.clone_into(&mut self.depends);
        self
    }

    /// What the archive and the package itself say of it.
    fn control(&self) -> String {
        let mut control = format!(
            "Package: {}\nSource: {}\nVersion: {}\nArchitecture: amd64\nMaintainer: tests <tests@localhost>\nDescription: made up\n",
            self.name, self.source, self.version
        );
        if !self.depends.is_empty() {
            control += &format!("Depends: {}\n", self.depends);
        }
        control
    }
}

/// Packages as files, and one archive after the other that lists some of them.
struct Archives {
    folder: TempDir,
    suite: &'static str,
}

/// A day: the packages that the archive has, and its name for messages.
struct Day {
    name: String,
    packages: Vec<Package>,
}

/// The days on which one package of those after the last has appeared already, and those on which one package of the last is missing. `others`
/// are in the archive every day.
fn days(before: &[Package], last: &[Package], next: &[Package], others: &[Package]) -> Vec<Day> {
    let mut days = Vec::new();
    let usual = [before, last, others].concat();
    for package in next {
        days.push(Day {
            name: format!("{} is newer", package.name),
            packages: [&usual[..], std::slice::from_ref(package)].concat(),
        });
    }
    for package in last {
        days.push(Day {
            name: format!("{} is older", package.name),
            packages: usual
                .iter()
                .filter(|other| *other != package)
                .cloned()
                .collect(),
        });
    }
    days.push(Day {
        name: "all are there".to_owned(),
        packages: usual,
    });
    days
}

impl Archives {
    /// `None` if this machine has no apt, after a message that names the skipped test.
    fn new(suite: &'static str) -> Option<Self> {
        for program in ["apt-get", "apt-cache", "dpkg-deb", "bash"] {
            tool::find(program)?;
        }
        let folder = tempfile::tempdir().unwrap();
        let archives = Self { folder, suite };
        for name in [
            "pool",
            "state/lists/partial",
            "cache/archives/partial",
            "etc/apt.conf.d",
            "etc/preferences.d",
        ] {
            fs::create_dir_all(archives.path(name)).unwrap();
        }
        fs::write(archives.path("status"), "").unwrap();
        let root = archives.folder.path().display();
        let source = format!("deb [trusted=yes] copy:{root} {suite} main\n");
        fs::write(archives.path("etc/sources.list"), source).unwrap();
        // The archive has no signature.
        let configuration = format!(
            "Dir::State \"{root}/state\";\nDir::State::status \"{root}/status\";\nDir::Cache \"{root}/cache\";\nDir::Etc \"{root}/etc\";\n\
             APT::Architecture \"amd64\";\nAPT::Architectures {{ \"amd64\"; }};\nAPT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n\
             Acquire::AllowInsecureRepositories \"true\";\nAPT::Get::AllowUnauthenticated \"true\";\n"
        );
        fs::write(archives.path("apt.conf"), configuration).unwrap();
        Some(archives)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file of the package, which says its version in `versions/NAME` when it is unpacked.
    fn file(&self, package: &Package) -> PathBuf {
        let file = self.path(&format!("pool/{}_{}.deb", package.name, package.version));
        if file.exists() {
            return file;
        }
        let tree = tempfile::tempdir().unwrap();
        for folder in ["DEBIAN", "versions"] {
            fs::create_dir(tree.path().join(folder)).unwrap();
        }
        fs::write(tree.path().join("DEBIAN/control"), package.control()).unwrap();
        fs::write(
            tree.path().join("versions").join(&package.name),
            &package.version,
        )
        .unwrap();
        let built = Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .args([tree.path(), &file])
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
        file
    }

    /// From now on this is what the archive has, and apt knows it.
    fn publish(&self, packages: &[Package]) {
        let mut index = String::new();
        for package in packages {
            let octets = fs::read(self.file(package)).unwrap();
            index += &format!(
                "{}Filename: pool/{}_{}.deb\nSize: {}\nSHA256: {}\n\n",
                package.control(),
                package.name,
                package.version,
                octets.len(),
                hex(&octets)
            );
        }
        let suite = self.path("dists").join(self.suite);
        fs::create_dir_all(suite.join("main/binary-amd64")).unwrap();
        fs::write(suite.join("main/binary-amd64/Packages"), &index).unwrap();
        let release = format!(
            "Origin: Debian\nLabel: Debian\nSuite: {0}\nCodename: {0}\nArchitectures: amd64\nComponents: main\n\
             Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {1} {2} main/binary-amd64/Packages\n",
            self.suite,
            hex(index.as_bytes()),
            index.len()
        );
        fs::write(suite.join("Release"), release).unwrap();
        let lists = self.path("state/lists");
        fs::remove_dir_all(&lists).unwrap();
        fs::create_dir_all(lists.join("partial")).unwrap();
        self.runs(Command::new("apt-get").args(["-qq", "update"]));
    }

    /// The output of a command whose apt knows these archives alone.
    fn output(&self, command: &mut Command) -> Output {
        command.env("APT_CONFIG", self.path("apt.conf"));
        command.output().unwrap()
    }

    /// Standard output of such a command, which succeeds.
    fn runs(&self, command: &mut Command) -> String {
        let output = self.output(command);
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The SHA-256 of octets as text.
fn hex(octets: &[u8]) -> String {
    let digest = Sha256::digest(octets);
    digest.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The packages that are unpacked in `folder`, with their versions.
fn unpacked(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder.join("versions")).unwrap();
    files
        .map(|file| {
            let file = file.unwrap();
            let version = fs::read_to_string(file.path()).unwrap();
            (file.file_name().into_string().unwrap(), version)
        })
        .collect()
}

/// The kernel's packages whose names have its number.
fn kernel(number: u32, version: &str) -> Vec<Package> {
    let release = format!("6.1.0-{number}");
    vec![
        Package::new(
            "linux-signed-amd64",
            &format!("linux-image-{release}-amd64"),
            version,
        ),
        Package::new("linux", &format!("linux-headers-{release}-amd64"), version),
        Package::new("linux", &format!("linux-headers-{release}-common"), version),
    ]
}

/// Those whose names are the same for every version. The first one names the image.
fn unnumbered(number: u32, version: &str) -> Vec<Package> {
    let image = format!("linux-image-6.1.0-{number}-amd64 (= {version})");
    vec![
        Package::new("linux-signed-amd64", "linux-image-amd64", version).depends(&image),
        Package::new("linux", "linux-kbuild-6.1", version),
        Package::new("linux", "linux-source-6.1", version),
    ]
}

fn rdma_core(version: &str) -> Vec<Package> {
    let names = [
        "libibverbs1",
        "librdmacm1",
        "ibverbs-providers",
        "rdmacm-utils",
        "libibverbs-dev",
        "librdmacm-dev",
    ];
    names
        .map(|name| Package::new("rdma-core", name, version))
        .to_vec()
}

/// The lines of `make --packages`, after a check that apt has each of the kernel's packages.
fn chosen_for_guest(archives: &Archives) -> Vec<String> {
    let said =
        archives.runs(Command::new(root().join("tests/interop/guest/make")).arg("--packages"));
    let mut lines: Vec<_> = said.lines().map(str::to_owned).collect();
    let rdma_core = lines.pop().unwrap();
    let fetched = archives.runs(
        Command::new("apt-get")
            .args(["-qq", "download", "--print-uris"])
            .args(&lines),
    );
    assert_eq!(fetched.lines().count(), 5, "{lines:?}: {fetched}");
    lines.push(rdma_core);
    lines
}

/// What `make --packages` says if it takes these.
fn guest_of(number: u32, kernel: &str, kbuild: &str, source: &str) -> Vec<String> {
    vec![
        format!("linux-image-6.1.0-{number}-amd64={kernel}"),
        format!("linux-headers-6.1.0-{number}-amd64={kernel}"),
        format!("linux-headers-6.1.0-{number}-common={kernel}"),
        format!("linux-kbuild-6.1={kbuild}"),
        format!("linux-source-6.1={source}"),
        "rdma-core=44.0-2".to_owned(),
    ]
}

#[test]
fn the_guest_is_made_of_packages_that_fit() {
    let Some(archives) = Archives::new("bookworm") else {
        return;
    };
    let [before, last, next] = ["6.1.192-1", "6.1.192-2", "6.1.192-3"];
    let all = |number, version| [unnumbered(number, version), kernel(number, version)].concat();
    for day in days(
        &all(55, before),
        &all(56, last),
        &all(57, next),
        &rdma_core("44.0-2"),
    ) {
        archives.publish(&day.packages);
        let wanted = match day.name.as_str() {
            "linux-image-6.1.0-56-amd64 is older"
            | "linux-headers-6.1.0-56-amd64 is older"
            | "linux-headers-6.1.0-56-common is older" => guest_of(55, before, before, before),
            "linux-kbuild-6.1 is older" => guest_of(56, last, before, last),
            "linux-source-6.1 is older" => guest_of(56, last, last, before),
            _ => guest_of(56, last, last, last),
        };
        assert_eq!(chosen_for_guest(&archives), wanted, "{}", day.name);
    }
}

#[test]
fn the_guest_takes_the_nearest_source_and_the_headers_of_its_image() {
    let Some(archives) = Archives::new("bookworm") else {
        return;
    };
    let package = |name: &str, version: &str| Package::new("linux", name, version);
    let [before, last] = [("6.1.190-1"), ("6.1.192-2")];
    let usual = [
        kernel(54, before),
        kernel(56, last),
        rdma_core("44.0-2"),
        unnumbered(56, last)[..1].to_vec(),
    ]
    .concat();
    let [kbuild, source] = ["linux-kbuild-6.1", "linux-source-6.1"];
    // kbuild is as here and the source as here: the one of these that is taken.
    for (there, nearest) in [
        (&["6.1.192-3", "6.1.187-1"][..], "6.1.192-3"),
        (&["6.1.193-1", "6.1.192-1"], "6.1.192-1"),
        (&["6.1.200-1", "6.1.193-1", "6.1.190-1"], "6.1.193-1"),
        (&["6.1.190-1", "6.1.9-1"], "6.1.190-1"),
    ] {
        let those = there
            .iter()
            .flat_map(|version| [package(kbuild, version), package(source, version)]);
        archives.publish(&[usual.clone(), those.collect()].concat());
        let wanted = guest_of(56, last, nearest, nearest);
        assert_eq!(chosen_for_guest(&archives), wanted, "{there:?}");
    }
    // Headers of another version have the name of the image's.
    let others: Vec<_> = usual
        .iter()
        .cloned()
        .map(|mut package| {
            if package.name == "linux-headers-6.1.0-56-amd64" {
                "6.1.192-2+b1".clone_into(&mut package.version);
            }
            package
        })
        .chain([package(kbuild, last), package(source, last)])
        .collect();
    archives.publish(&others);
    assert_eq!(
        chosen_for_guest(&archives),
        guest_of(54, before, last, last)
    );
    // None fits.
    let others = |package: &Package| !package.name.starts_with("linux-headers");
    archives.publish(&usual.into_iter().filter(others).collect::<Vec<_>>());
    let make = root().join("tests/interop/guest/make");
    let refused = archives.output(Command::new(make).arg("--packages"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(77), "{said}");
    assert!(said.contains("with its headers"), "{said}");
}

#[test]
fn the_guest_has_programs_and_headers_of_one_rdma_core() {
    let Some(archives) = Archives::new("bookworm") else {
        return;
    };
    let [before, last, next] = ["44.0-1", "44.0-2", "44.0-3"];
    let kernel = [unnumbered(56, "6.1.192-2"), kernel(56, "6.1.192-2")].concat();
    for day in days(
        &rdma_core(before),
        &rdma_core(last),
        &rdma_core(next),
        &kernel,
    ) {
        archives.publish(&day.packages);
        let wanted = if day.name.ends_with("older") {
            before
        } else {
            last
        };
        let chosen = chosen_for_guest(&archives).pop().unwrap();
        assert_eq!(chosen, format!("rdma-core={wanted}"), "{}", day.name);
    }
}

#[test]
fn the_compiler_and_its_sources_are_of_one_version() {
    let Some(archives) = Archives::new("bookworm") else {
        return;
    };
    let [before, last, next] = ["1.95.0-1", "1.96.0-1", "1.97.0-1"];
    let all = |version: &str| {
        let package = |name: &str| Package::new("rustc-web", name, version);
        vec![
            package("rustc-web").depends(&format!("libstd-rust-web-dev (= {version})")),
            package("cargo-web").depends(&format!("rustc-web (= {version})")),
            package("rust-web-src"),
            package("libstd-rust-web-dev"),
        ]
    };
    for day in days(&all(before), &all(last), &all(next), &[]) {
        archives.publish(&day.packages);
        let compiler = tempfile::tempdir().unwrap();
        archives.runs(
            Command::new("bash")
                .args(["-euo", "pipefail", "-c"])
                .arg("cannot() { echo \"$1\" >&2; exit 77; }; source .ci/compiler; unpack")
                .current_dir(root())
                .env("SOFTND_COMPILER", compiler.path()),
        );
        let wanted = if day.name.ends_with("older") {
            before
        } else {
            last
        };
        let wanted = all(wanted)
            .into_iter()
            .map(|package| (package.name, package.version))
            .collect();
        assert_eq!(
            unpacked(&compiler.path().join("root")),
            wanted,
            "{}",
            day.name
        );
    }
}

#[test]
fn a_newer_rdma_core_is_of_one_version() {
    let Some(archives) = Archives::new("trixie") else {
        return;
    };
    if !Path::new("/usr/share/keyrings/debian-archive-keyring.gpg").exists() {
        tool::skip("the keys of Debian's archive are not installed");
        return;
    }
    let [before, last, next] = ["56.1-1", "56.1-2", "56.1-3"];
    let all = |version: &str| {
        let mut packages = rdma_core(version);
        // With times of 64 bits the library's package has another name.
        packages.retain(|package| package.name != "librdmacm1");
        packages.push(Package::new("rdma-core", "librdmacm1t64", version));
        packages
    };
    let libc = [Package::new("glibc", "libc6", "2.41-12")];
    for day in days(&all(before), &all(last), &all(next), &libc) {
        archives.publish(&day.packages);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".ci")).unwrap();
        for script in [".ci/newer-rdma-core", ".ci/packages"] {
            fs::copy(root().join(script), folder.path().join(script)).unwrap();
        }
        // Not as a program: a process that another thread has begun may have the copy open to be written (ETXTBSY).
        archives.runs(
            Command::new("bash")
                .arg(folder.path().join(".ci/newer-rdma-core"))
                .arg("trixie=56.1"),
        );
        let wanted = if day.name.ends_with("older") {
            before
        } else {
            last
        };
        let wanted = all(wanted)
            .into_iter()
            .chain(libc.clone())
            .map(|package| (package.name, package.version))
            .collect();
        let root = folder.path().join("target/newer/56.1/root");
        assert_eq!(unpacked(&root), wanted, "{}", day.name);
    }
}

/// The tests above know each script that fetches packages without installing them.
#[test]
fn each_script_that_fetches_packages_is_tested_here() {
    let mut found = Vec::new();
    for folder in [".ci", "tests/interop", "tests/interop/guest", "tests/wine"] {
        for file in fs::read_dir(root().join(folder)).unwrap() {
            let path = file.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            if text.contains("apt-get") && text.contains("download") {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    // The night takes one package, in the version that is installed.
    let tested = [
        ".ci/compiler",
        ".ci/newer-rdma-core",
        ".ci/night",
        "tests/interop/guest/make",
    ];
    assert_eq!(found, tested.map(PathBuf::from));
}
