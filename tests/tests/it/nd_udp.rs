//! The commands of `nd` over UDP: trust, the messages without trust, and the options.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use softnd_tests::nd::{self, Finished, Nd};
use softnd_tests::proxy::noise;

/// The fingerprint of no existing certificate.
const NOBODY: &str = "sha256:5f78c33274e43fa9de5659265c1d917e25c03722dcb0b8d27db8d5feaa813953";

/// A folder with a file to send, and with certificates.
struct Setting(tempfile::TempDir);

impl Setting {
    fn new() -> Self {
        let setting = Self(tempfile::tempdir().unwrap());
        fs::write(setting.path("original"), noise(300_000)).unwrap();
        setting
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes the files `NAME.pem` and `NAME.key` of a certificate for these names, signed by an authority whose own
    /// certificate is in `NAME.ca`. Returns the options that show the certificate.
    fn certify(&self, name: &str, names: &[&str]) -> [String; 4] {
        let authority = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let common_name = format!("the authority of {name}");
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        let root = params.self_signed(&authority).unwrap();
        let issuer = Issuer::new(params, authority);
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap();
        let certificate = certificate.signed_by(&key, &issuer).unwrap();
        let write = |kind: &str, text: String| {
            let file = format!("{name}.{kind}");
            fs::write(self.path(&file), text).unwrap();
            self.text(&file)
        };
        write("ca", root.pem());
        let (pem, key) = (
            write("pem", certificate.pem()),
            write("key", key.serialize_pem()),
        );
        ["--cert".to_owned(), pem, "--key".to_owned(), key]
    }

    fn receiver(&self, options: &[&str]) -> Receiver {
        let copy = self.text("copy");
        let line = [
            "cat",
            "recv",
            "--udp",
            "--listen",
            "127.0.0.1:0",
            "--out",
            &copy,
        ];
        let mut process = nd::start(line.iter().chain(options));
        let address = process.address();
        let pin = process.wait_for(|line| {
            let (_, pin) = line.split_once("--udp --pin ")?;
            pin.split([',', '\n']).next().map(str::to_owned)
        });
        Receiver {
            process,
            address,
            pin,
        }
    }

    /// Sends the file.
    fn send(&self, to: &Receiver, options: &[&str]) -> Finished {
        let (file, address) = (self.text("original"), to.address.to_string());
        let line = ["cat", "send", &file, &address];
        nd::run(line.iter().chain(options))
    }

    /// Sends the file to a receiver, which gets it.
    fn arrives(&self, receiver: Receiver, options: &[&str]) {
        self.send(&receiver, options).assert_success();
        let receiver = receiver.process.finish();
        receiver.assert_success();
        let same = fs::read(self.path("copy")).unwrap() == fs::read(self.path("original")).unwrap();
        assert!(same, "{receiver}");
    }
}

struct Receiver {
    process: Nd,
    address: SocketAddr,
    /// The fingerprint that it prints.
    pin: String,
}

fn words(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

#[test]
fn the_demo_over_udp_needs_no_option() {
    for option in [&["--udp"][..], &["--url", "softnd+udp://127.0.0.1"]] {
        let demo = nd::run(["demo"].iter().chain(option));
        demo.assert_success();
        assert!(demo.stdout.contains("every byte checked"), "{demo}");
        assert!(demo.stderr.is_empty(), "{demo}");
    }
}

#[test]
fn a_file_arrives_at_a_receiver_whose_certificate_is_pinned() {
    for via in ["send", "write", "read"] {
        let setting = Setting::new();
        let receiver = setting.receiver(&[]);
        let pin = receiver.pin.clone();
        setting.arrives(receiver, &["--udp", "--pin", &pin, "--via", via]);
    }
}

#[test]
fn an_unknown_certificate_is_named_with_what_to_do() {
    let setting = Setting::new();
    let receiver = setting.receiver(&[]);
    let pin = receiver.pin.clone();
    for options in [&["--udp"][..], &["--udp", "--pin", NOBODY]] {
        let sender = setting.send(&receiver, options);
        sender.assert_failure(&format!(
            "the server shows the certificate {pin}, which is not trusted"
        ));
        sender.assert_failure(&format!("add --pin {pin}"));
        sender.assert_failure("--ca");
    }
    // One of several pins is enough, and the receiver is none the worse.
    setting.arrives(receiver, &["--udp", "--pin", NOBODY, "--pin", &pin]);
}

#[test]
fn the_receiver_says_that_it_was_not_trusted() {
    let setting = Setting::new();
    let mut receiver = setting.receiver(&[]);
    let sender = setting.send(&receiver, &["--udp"]);
    assert!(!sender.status.success(), "{sender}");
    let pin = format!("--pin {}", receiver.pin);
    receiver.process.wait_for(|line| {
        let was_reported =
            line.contains("it does not trust the certificate of this side") && line.contains(&pin);
        was_reported.then_some(())
    });
}

#[test]
fn who_is_insecure_connects_to_everybody() {
    let setting = Setting::new();
    let receiver = setting.receiver(&[]);
    setting.arrives(receiver, &["--udp", "--insecure"]);
}

#[test]
fn an_authority_vouches_for_addresses_and_names() {
    let setting = Setting::new();
    let by_address = setting.certify("address", &["127.0.0.1"]);
    let by_name = setting.certify("name", &["receiver.example"]);
    let (address_ca, name_ca) = (setting.text("address.ca"), setting.text("name.ca"));
    let receiver = setting.receiver(&words(&by_address));
    setting.arrives(receiver, &["--udp", "--ca", &address_ca]);

    let receiver = setting.receiver(&words(&by_name));
    let sender = setting.send(&receiver, &["--udp", "--ca", &address_ca]);
    sender.assert_failure("the CA has not signed it");
    let sender = setting.send(&receiver, &["--udp", "--ca", &name_ca]);
    sender.assert_failure("not valid for name");
    sender.assert_failure("--server-name");
    let named = [
        "--udp",
        "--ca",
        &name_ca,
        "--server-name",
        "receiver.example",
    ];
    setting.arrives(receiver, &named);
}

#[test]
fn a_receiver_that_trusts_some_accepts_nobody_else() {
    let setting = Setting::new();
    let client = setting.certify("client", &["somebody"]);
    let other = setting.certify("other", &["somebody"]);
    let ca = setting.text("client.ca");
    let pin = fingerprint(&setting.path("client.pem"));
    for trust in [["--ca", &ca], ["--pin", &pin]] {
        let mut receiver = setting.receiver(&trust);
        let server = receiver.pin.clone();
        let trusting = ["--udp", "--pin", &server];
        let stranger = setting.send(&receiver, &trusting);
        stranger.assert_failure("the client shows the certificate sha256:");
        stranger.assert_failure("--cert and --key");
        let other = [&trusting[..], &words(&other)].concat();
        setting
            .send(&receiver, &other)
            .assert_failure("the client shows the certificate sha256:");
        receiver.process.wait_for(|line| {
            let was_reported =
                line.contains("the client shows the certificate") && line.contains("--pin sha256:");
            was_reported.then_some(())
        });
        setting.arrives(receiver, &[&trusting[..], &words(&client)].concat());
    }
}

/// The fingerprint of the certificate in a file of PEM, as a receiver that shows it prints it.
fn fingerprint(certificate: &Path) -> String {
    let key = certificate.with_extension("key");
    let show = softnd::security::Credentials::from_files(certificate, key);
    show.unwrap().fingerprint().to_string()
}

#[test]
fn other_programs_ping_and_measure_over_udp() {
    let mut server = nd::start(["rping", "-s", "-a", "127.0.0.1", "-p", "0", "--udp", "-V"]);
    let (port, pin) = announced(&mut server);
    let line = format!("rping -c -a 127.0.0.1 -p {port} -C 20 --udp --pin {pin}");
    let client = nd::run(line.split(' '));
    client.assert_success();
    assert!(client.stdout.contains("20 pings, "), "{client}");
    server.finish().assert_success();

    let test = ["perftest", "send_lat", "-n", "100", "--udp"];
    let listen = ["--listen", "127.0.0.1", "--port", "0"];
    let mut server = nd::start(test.iter().chain(&listen));
    let (port, pin) = announced(&mut server);
    let client = nd::run(
        test.iter()
            .chain(&["--port", &port, "--pin", &pin, "127.0.0.1"]),
    );
    client.assert_success();
    server.finish().assert_success();
}

/// The port and the fingerprint that a server prints.
fn announced(server: &mut Nd) -> (String, String) {
    let port = server.address().port().to_string();
    let pin = server.wait_for(|line| Some(line.split_once("--pin ")?.1.trim().to_owned()));
    (port, pin)
}

#[test]
fn options_of_trust_are_refused_over_tcp() {
    let setting = Setting::new();
    let certificate = setting.certify("any", &["127.0.0.1"]);
    let ca = setting.text("any.ca");
    let server_name = ["--ca", &ca, "--server-name", "x"];
    for (options, named) in [
        (&["--pin", NOBODY][..], "--pin"),
        (&["--ca", &ca], "--ca"),
        (&server_name, "--ca"),
        (&["--insecure"], "--insecure"),
        (&words(&certificate), "--cert"),
    ] {
        let line = ["cat", "send", "/dev/null", "127.0.0.1:9"];
        let refused = nd::run(line.iter().chain(options));
        refused.assert_failure(&format!("softnd+tcp:// do not know {named}: "));
        refused.assert_failure("connect over UDP with --udp");
    }
    let over_udp = nd::run([
        "cat",
        "send",
        "/dev/null",
        "127.0.0.1:9",
        "--udp",
        "--no-crc",
    ]);
    over_udp.assert_failure("softnd+udp:// do not know --no-crc: ");
}

#[test]
fn what_is_wrong_with_certificates_and_fingerprints_is_said() {
    let setting = Setting::new();
    setting.certify("one", &["127.0.0.1"]);
    setting.certify("two", &["127.0.0.1"]);
    let [one, key, other_key] = ["one.pem", "one.key", "two.key"].map(|name| setting.text(name));
    let missing = setting.text("missing");
    for (options, what) in [
        (&["--pin", "5f78"][..], "does not begin with `sha256:`"),
        (&["--pin", "sha256:5f78"], "60 digits are missing"),
        (&["--ca", &missing], "missing: cannot be read"),
        (&["--ca", &key], "holds no certificate"),
        (&["--cert", &one, "--key", &missing], "--key gives: "),
        (&["--cert", &missing, "--key", &key], "--cert gives: "),
        (
            &["--cert", &one, "--key", &other_key],
            "the key is not the one of the certificate",
        ),
        (&["--cert", &one], "--key"),
        (&["--insecure", "--pin", NOBODY], "--insecure"),
        (
            &["--ca", &one, "--server-name", "a b"],
            "neither an IP address nor a DNS name",
        ),
    ] {
        let line = ["cat", "send", "/dev/null", "127.0.0.1:9", "--udp"];
        nd::run(line.iter().chain(options)).assert_failure(what);
    }
}

#[test]
fn a_key_log_is_private_and_a_line_warns_of_it() {
    let setting = Setting::new();
    let receiver = setting.receiver(&[]);
    let (file, address) = (setting.text("original"), receiver.address.to_string());
    let line = [
        "cat",
        "send",
        &file,
        &address,
        "--udp",
        "--pin",
        &receiver.pin,
    ];
    let keys = setting.path("keys");
    let preparation = format!("export SSLKEYLOGFILE='{}'", keys.display());
    let sent = nd::start_after(&preparation, line).finish();
    sent.assert_success();
    receiver.process.finish().assert_success();
    let warnings: Vec<_> = sent
        .stderr
        .lines()
        .filter(|line| line.contains("SSLKEYLOGFILE"))
        .collect();
    assert_eq!(warnings.len(), 1, "{sent}");
    assert!(warnings[0].contains(keys.to_str().unwrap()), "{sent}");
    assert!(warnings[0].contains("can read the connections"), "{sent}");
    let logged = fs::read_to_string(&keys).unwrap();
    assert!(logged.contains("CLIENT_TRAFFIC_SECRET"), "{logged}");
    let mode = fs::metadata(&keys).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn commands_that_need_one_network_say_so() {
    nd::run(["demo", "--url", "softnd+sim://seed=7"]).assert_failure("a network of its own");
}

#[test]
fn an_adapter_is_shown_once_with_a_url_for_each_protocol() {
    let info = nd::run(["info"]);
    info.assert_success();
    for scheme in ["softnd+tcp", "softnd+udp"] {
        let url = format!("{scheme}://127.0.0.1 ");
        let lines = info.stdout.lines().map(|line| format!("{line} "));
        assert_eq!(
            lines.filter(|line| line.contains(&url)).count(),
            1,
            "{info}"
        );
    }
    let rows = info
        .stdout
        .lines()
        .filter(|line| line.contains("127.0.0.1, ") || line.ends_with("127.0.0.1"));
    assert!(rows.count() <= 2, "{info}");
    assert!(info.stdout.contains("softnd+udp://127.0.0.1\n"), "{info}");
}
