//! `nd run`: Debian's programs for verbs, unmodified, over softnd's libraries.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use softnd_tests::c_programs::CProgram;
use softnd_tests::verbs_programs::{Server, free_port, nd_run, open_trees, run};
use softnd_tests::{args, nd, tool};

/// Returns the output of a program that must succeed.
fn output(program: &[&str]) -> String {
    let output = nd_run(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn programs_find_a_device() {
    if tool::find("ibv_devices").is_none() {
        return;
    }
    let devices = output(&["ibv_devices"]);
    assert!(devices.contains("softnd0"), "{devices}");
    let info = output(&["ibv_devinfo", "-v"]);
    for line in [
        "InfiniBand (0)",
        "PORT_ACTIVE (4)",
        "link_layer:\t\tEthernet",
        "RoCE v2",
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
    let mut as_iwarp = Command::new(nd::binary());
    let as_iwarp = as_iwarp.args(["run", "--as", "iwarp", "--", "ibv_devinfo"]);
    let info = String::from_utf8(as_iwarp.output().unwrap().stdout).unwrap();
    assert!(info.contains("iWARP (1)"), "{info}");
}

#[test]
fn devices_have_the_names_that_are_asked_for() {
    nd::build_libraries();
    let mut named = Command::new(nd::binary());
    named.args(["run", "--names", "rxe", "--", "ls"]);
    named.args([
        "/sys/class/infiniband",
        "/sys/class/infiniband/rxe0/ports/1",
    ]);
    let listed = named.output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("/sys/class/infiniband:\nrxe0\n"),
        "{listed}"
    );
    assert!(listed.contains("gid_attrs"), "{listed}");
    if tool::find("ibv_devices").is_some() {
        let mut named = Command::new(nd::binary());
        named.args(["run", "--names", "siw", "--", "ibv_devices"]);
        let devices = String::from_utf8(named.output().unwrap().stdout).unwrap();
        assert!(devices.contains("siw0"), "{devices}");
        assert!(!devices.contains("softnd"), "{devices}");
    }
    for wrong in ["", "rxe0", "a/b", "7", "a b"] {
        let mut refused = Command::new(nd::binary());
        refused.args(["run", "--names", wrong, "--", "true"]);
        let refused = refused.output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("at most 32 letters"), "{said}");
    }
}

/// The runtime of AddressSanitizer ends a program if another library comes in front of it.
#[test]
fn programs_with_a_sanitizer_start() {
    let headers = ["infiniband/verbs.h", "rdma/rdma_cma.h"];
    let compile = |first| {
        let arguments = [first, "-libverbs", "-lrdmacm", "-pthread"];
        CProgram::compile("interfaces", &headers, &arguments)
    };
    let (Some(sanitized), Some(plain)) = (compile("-fsanitize=address"), compile("-O1")) else {
        return;
    };
    let listed = output(&[sanitized.path()]);
    assert!(listed.ends_with("0 failures\n"), "{listed}");
    // A user who preloads the runtime for other programs has it first, too.
    let runtime = Command::new("cc")
        .arg("-print-file-name=libasan.so")
        .output()
        .unwrap();
    let runtime = String::from_utf8(runtime.stdout).unwrap();
    let Ok(runtime) = fs::canonicalize(runtime.trim()) else {
        return tool::skip_here("the compiler has no libasan.so");
    };
    let mut preloads = nd_run(&[plain.path()]);
    preloads.env("LD_PRELOAD", runtime);
    preloads.env("ASAN_OPTIONS", "detect_leaks=0");
    let listed = preloads.output().unwrap();
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "{said}");
}

/// The arguments of both ends of an rping that verifies its data.
fn verifying(port: &str) -> [&str; 9] {
    [
        "-a",
        "127.0.0.1",
        "-p",
        port,
        "-C",
        "20",
        "-V",
        "-S",
        "4096",
    ]
}

#[test]
fn rping_verifies_its_data() {
    if tool::find("rping").is_none() {
        return;
    }
    let port = free_port();
    let common = verifying(&port);
    let server = Server::start(&[&["rping", "-s"][..], &common].concat());
    run(&[&["rping", "-c"][..], &common].concat());
    drop(server);
}

/// TCP reads without flags; the calls that list the interfaces have some.
#[test]
fn a_call_that_this_machine_refuses_is_named_and_is_no_rejection() {
    if tool::find("rping").is_none() {
        return;
    }
    let port = free_port();
    let server = Server::start(&["rping", "-s", "-a", "127.0.0.1", "-p", &port, "-C", "1"]);
    let refuses = env!("CARGO_BIN_EXE_refuse_calls");
    let mut client = nd_run_with(&["--explain"], &[refuses, "recvfrom:EPERM:3=0", "--"]);
    client.args(["rping", "-c", "-a", "127.0.0.1", "-p", &port, "-C", "1"]);
    let client = client.output().unwrap();
    let said = String::from_utf8_lossy(&client.stderr);
    assert!(said.contains("the system refuses recvfrom: "), "{said}");
    assert!(
        said.contains("RDMA_CM_EVENT_CONNECT_ERROR, error -1"),
        "{said}"
    );
    drop(server);
}

/// `nd run` with options in front of the program.
fn nd_run_with(options: &[&str], program: &[&str]) -> Command {
    nd::build_libraries();
    let mut command = Command::new(nd::binary());
    command.arg("run").args(options).arg("--").args(program);
    command.stdin(Stdio::null());
    command
}

/// The sentence has those that there are, and the variable if that chooses.
#[test]
fn a_congestion_control_that_connections_cannot_have_is_refused_before_the_start() {
    let said = |options: &[&str], variable: &str| {
        let mut run = nd_run_with(options, &["echo", "started"]);
        let output = run.env("SOFTND_CONGESTION", variable).output().unwrap();
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{options:?}: {output:?}"
        );
        String::from_utf8(output.stderr).unwrap()
    };
    let option = said(&["--congestion", "no_such"], "");
    assert!(
        option.contains("\"no_such\"") && option.contains("reno"),
        "{option}"
    );
    assert!(!option.contains("SOFTND_CONGESTION"), "{option}");
    let variable = said(&[], "no_such");
    assert!(
        variable.contains("SOFTND_CONGESTION") && variable.contains("reno"),
        "{variable}"
    );
    let over_udp = said(&["--udp", "--congestion", "reno"], "");
    assert!(over_udp.contains("cubic, bbr or newreno"), "{over_udp}");
    // The option comes before the variable.
    let mut run = nd_run_with(&["--congestion", "reno"], &["echo", "started"]);
    let output = run.env("SOFTND_CONGESTION", "no_such").output().unwrap();
    assert_eq!(output.stdout, b"started\n", "{output:?}");
}

#[test]
fn a_fault_plan_says_in_a_sentence_what_it_does() {
    if tool::find("rping").is_none() {
        return;
    }
    let port = free_port();
    let common = ["-a", "127.0.0.1", "-p", &port, "-C", "3"];
    let server = Server::start(&[&["rping", "-s"][..], &common].concat());
    for (plan, sentence) in [
        (
            "when 1st connect: refuse",
            "a fault plan refuses the connection",
        ),
        ("when 3rd Send sent: reset", ": when 3rd Send sent: reset"),
    ] {
        let options = ["--explain", "--fault", plan];
        let mut client = nd_run_with(&options, &[&["rping", "-c"][..], &common].concat());
        let said = client.output().unwrap();
        let said = String::from_utf8_lossy(&said.stderr);
        let happens = "line 1 of the fault plan happens to the connection with 127.0.0.1";
        assert!(said.contains(happens) && said.contains(sentence), "{said}");
    }
    drop(server);
    let plan = "when 1st Register called: remove device";
    let wrong = nd_run_with(&["--fault", plan], &["true"]).output().unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(!wrong.status.success());
    let words = "programs for verbs make no calls of NetworkDirect, found `Register`";
    assert!(
        said.contains(words) && said.ends_with("           ^\n"),
        "{said}"
    );
}

/// Both ends over UDP: each run has a certificate, which the other one trusts by its fingerprint.
#[test]
fn programs_connect_over_udp_and_trust_the_run_that_they_are_told_of() {
    if tool::find("rping").is_none() {
        return;
    }
    let port = free_port();
    let common = verifying(&port);
    let mut server = nd_run_with(&["--udp"], &[&["rping", "-s"][..], &common].concat());
    server.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(server.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    let (_, pin) = line.trim_end().rsplit_once("--udp --pin ").unwrap();
    let client = |options: &[&str]| {
        let program = [&["rping", "-c"][..], &common].concat();
        loop {
            let output = nd_run_with(options, &program).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // The server may not listen yet.
            if !said.contains("Connection refused") {
                return (output.status.success(), said);
            }
        }
    };
    let (_, stranger) = client(&["--udp", "--explain"]);
    let words = "which is not trusted: if that is what the server printed, pin it";
    assert!(stranger.contains(words), "{stranger}");
    let (worked, explained) = client(&["--udp", "--explain", "--pin", pin]);
    assert!(worked && !explained.contains("libibverbs"), "{explained}");
    drop(said);
    server.wait().unwrap();
    for (options, words) in [
        (
            &["--pin", pin][..],
            "--pin is for connections over UDP, and this run connects over TCP",
        ),
        (&["--udp", "--pin", "x"], "cannot use what --pin gives: "),
    ] {
        let said = refused(&mut nd_run_with(options, &["true"]));
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn ib_send_lat_measures() {
    if tool::find("ib_send_lat").is_none() {
        return;
    }
    let port = free_port();
    let common = ["ib_send_lat", "-R", "-F", "-n", "50", "-p", &port];
    let server = Server::start(&common);
    let measured = run(&[&common[..], &["127.0.0.1"]].concat());
    assert!(measured.contains("t_typical[usec]"), "{measured}");
    server.ends_well();
}

/// The table of programs has MPICH and UCX's own test, which need packages.
#[test]
fn ucx_listens_over_tcp_alone() {
    nd::build_libraries();
    let environment = |user: Option<&str>| {
        let mut shell = Command::new(nd::binary());
        shell.args(["run", "--", "sh", "-c"]);
        shell.arg("echo ${UCX_TLS-none} $UCX_SOCKADDR_TLS_PRIORITY");
        shell.env_remove("UCX_TLS");
        shell.env_remove("UCX_SOCKADDR_TLS_PRIORITY");
        if let Some(user) = user {
            shell.env("UCX_SOCKADDR_TLS_PRIORITY", user);
        }
        String::from_utf8(shell.output().unwrap().stdout).unwrap()
    };
    assert_eq!(environment(None), "none tcp\n");
    assert_eq!(environment(Some("rdmacm")), "none rdmacm\n");
}

#[test]
fn the_program_keeps_its_status_and_its_streams() {
    let mut shell = nd_run(&["sh", "-c", "cat; echo to stderr >&2; exit 7"]);
    shell.stdin(Stdio::null());
    let output = shell.output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stderr, b"to stderr\n");
    let killed = nd_run(&["sh", "-c", "kill -KILL $$"]).output().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&killed.status),
        Some(9)
    );
}

#[test]
fn what_cannot_be_run_is_one_line() {
    for (args, expected) in [
        (
            &["run", "--", "no-such-program"][..],
            "no program no-such-program in PATH",
        ),
        (
            &["run", "--interface", "none0", "--", "sh"],
            "no interface none0",
        ),
        (&["run", "--ports", "9-8", "--", "sh"], "9 is above 8"),
    ] {
        // The libraries have to be there.
        let _ = nd_run(&["true"]);
        let output = Command::new(nd::binary()).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{args:?}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// Returns the error of `nd run`, started by another program.
fn refused(by: &mut Command) -> String {
    let output = by.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn programs_that_take_no_libraries_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let set_uid = folder.path().join("set_uid");
    fs::copy("/bin/true", &set_uid).unwrap();
    fs::set_permissions(&set_uid, Permissions::from_mode(0o4755)).unwrap();
    let said = refused(&mut nd_run(&[set_uid.to_str().unwrap()]));
    assert!(said.contains("set-uid"), "{said}");
    let (source, linked) = (folder.path().join("a.c"), folder.path().join("static"));
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let Some(compiler) = tool::find("cc") else {
        return;
    };
    let mut compiler = Command::new(compiler);
    let compiled = compiler.arg("-static").arg("-o").args([&linked, &source]);
    if !compiled.output().unwrap().status.success() {
        return tool::skip_here("this machine links no static programs");
    }
    let said = refused(&mut nd_run(&[linked.to_str().unwrap()]));
    assert!(said.contains("linked statically"), "{said}");
}

#[test]
fn missing_libraries_are_named_with_the_command_that_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("nd");
    fs::copy(nd::binary(), &alone).unwrap();
    let said = refused(Command::new(alone).args(["run", "--", "true"]));
    for part in [
        "libraries for verbs programs",
        "cargo build --release",
        "lib/softnd",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn the_libraries_may_lie_in_a_folder_with_a_space() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a b");
    fs::create_dir(&folder).unwrap();
    let _ = nd_run(&["true"]);
    let built = nd::binary().parent().unwrap();
    for name in ["nd", "libibverbs.so", "librdmacm.so", "libnd_paths.so"] {
        fs::hard_link(built.join(name), folder.join(name))
            .or_else(|_| fs::copy(built.join(name), folder.join(name)).map(drop))
            .unwrap();
    }
    let shown = [
        "run",
        "--",
        "cat",
        "/sys/class/infiniband/softnd0/node_type",
    ];
    let output = Command::new(folder.join("nd"))
        .args(shown)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.is_empty(), "{said}");
    assert_eq!(output.stdout, b"1: CA\n");
}

/// The library that cargo builds where no linker takes version nodes is this file alone.
#[test]
fn libraries_that_were_built_empty_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let _ = nd_run(&["true"]);
    let nd = folder.path().join("nd");
    fs::hard_link(nd::binary(), &nd)
        .or_else(|_| fs::copy(nd::binary(), &nd).map(drop))
        .unwrap();
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/libibverbs/src/why_empty.rs"
    );
    let compiled = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "-Adead_code",
            "-o",
        ])
        .arg(folder.path().join("libibverbs.so"))
        .arg(source)
        .env("WHY_EMPTY", "no linker takes version nodes")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    for other in ["librdmacm.so", "libnd_paths.so"] {
        fs::write(folder.path().join(other), "").unwrap();
    }
    let said = refused(Command::new(&nd).args(["run", "--", "true"]));
    let expected = "libibverbs.so holds no functions: no linker takes version nodes";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_machine_without_addresses_is_one_line() {
    let Some(unshare) = tool::find("unshare") else {
        return;
    };
    let alone = ["--user", "--map-root-user", "--net"];
    let tried = Command::new(&unshare).args(alone).arg("true").output();
    if !tried.unwrap().status.success() {
        return tool::skip_here("this machine gives no network of its own");
    }
    let _ = nd_run(&["true"]);
    let mut command = Command::new(unshare);
    command
        .args(alone)
        .arg(nd::binary())
        .args(["run", "--", "true"]);
    let said = refused(&mut command);
    assert!(
        said.contains("no network interface has an address"),
        "{said}"
    );
}

/// A program that changes its folder before it uses a path from the environment, and names that are no UTF-8.
#[test]
fn paths_for_the_program_are_absolute_and_whole() {
    let Some(client) = tool::find("rping") else {
        return;
    };
    let parent = tempfile::tempdir().unwrap();
    let at = parent.path().canonicalize().unwrap();
    let name = OsStr::from_bytes(b"n\xFFm");
    fs::create_dir(at.join(name)).unwrap();
    let program = at.join(name).join(name);
    fs::copy(&client, &program).unwrap();
    // The client ends because nobody listens. It has made its objects, and with them the capture, before it connects.
    let script = "cd / && test -e /sys/class/infiniband/softnd0/node_type && env && \"$0\" -c -a 127.0.0.1 -p \"$1\"";
    let _ = nd_run(&["true"]);
    let mut command = Command::new(nd::binary());
    command.args([OsStr::new("run"), OsStr::new("--capture"), name]);
    command.args(["--", "sh", "-c", script]);
    command.arg(&program).arg(free_port());
    command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", name);
    let output = command
        .current_dir(&at)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    open_trees(&at);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("ld.so"), "{said}");
    let whole = at.join(name);
    let whole = whole.as_os_str().as_bytes();
    let mut lines = output.stdout.split(|octet| *octet == b'\n');
    assert!(lines.any(|line| line == [b"SOFTND_VERBS_CAPTURE=", whole].concat()));
    for variable in ["SOFTND_VERBS_PATHS", "LD_LIBRARY_PATH", "LD_PRELOAD"] {
        let start = [variable.as_bytes(), b"=", whole, b"/"].concat();
        let mut lines = output.stdout.split(|octet| *octet == b'\n');
        assert!(lines.any(|line| line.starts_with(&start)), "{variable}");
    }
    let captures: Vec<_> = fs::read_dir(at.join(name))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.as_bytes().ends_with(b".pcapng"))
        .collect();
    assert_eq!(captures.len(), 1, "{captures:?}");
    assert!(captures[0].as_bytes().starts_with(b"n\xFFm-"));
}

/// `verbs://` finds the Terminate in `vendor_err` of these libraries, at both ends.
#[test]
fn a_device_over_these_libraries_says_why_a_connection_ended() {
    nd::build_libraries();
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, vec![7; 3_000_000]).unwrap();
    let plan = "when 2nd FPDU of 3rd Write sent: flip bit 9 of payload";
    let run = |options: &[&str]| {
        let words = [&["run", "--as", "iwarp"], options, &["--"]].concat();
        let words = words.into_iter().map(OsString::from);
        let nd = nd::binary().as_os_str().to_owned();
        std::iter::once(nd).chain(words).collect::<Vec<_>>()
    };
    let device = ["--url", "verbs://softnd0"];

    // A device receives.
    let recv = args!["cat", "recv", "--listen", "127.0.0.1:0", "--out", &to];
    let mut recv = nd::start_by(
        &run(&[]),
        recv.into_iter().chain(device.map(OsString::from)),
    );
    let address = recv.address().to_string();
    nd::run(args!["cat", "send", &from, &address, "--fault", plan]).assert_failure("2/0/02");
    recv.finish()
        .assert_failure("this side found an error: it sent Terminate 2/0/02");

    // A device sends.
    let recv = args!["cat", "recv", "--listen", "127.0.0.1:0", "--out", &to];
    let mut recv = nd::start(recv);
    let address = recv.address().to_string();
    let send = args!["cat", "send", &from, &address];
    let send = nd::start_by(
        &run(&["--fault", plan]),
        send.into_iter().chain(device.map(OsString::from)),
    );
    let sent =
        "the peer found an error, most likely in what this side sent: it sent Terminate 2/0/02";
    send.finish().assert_failure(sent);
    recv.finish().assert_failure("2/0/02");
}
