use std::io;
use std::path::{MAIN_SEPARATOR, Path};

use super::pump::Pump;
use super::*;

/// Made by openssl 3.0:
///
/// - `certificate.pem`, `key.pem`: `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj /CN=host.example`
/// - `ec_key.pem`, `encrypted_ec_key.pem`: the same key from `openssl ec`
/// - `encrypted_key.pem`: the same key from `openssl pkey -aes128`
fn openssl(name: &str) -> PathBuf {
    let folder = "src/transport/quic/security/tests/openssl";
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join(name)
}

/// The output of `openssl x509 -noout -fingerprint -sha256` for the certificate, with the beginning in small letters.
const FINGERPRINT: &str = "sha256:79:1D:7F:20:C3:3A:01:36:68:89:58:B9:FB:C4:F3:F1:02:32:99:B3:8F:98:BE:55:9E:62:09:D7:B3:1E:D4:EA";

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, octets) in files {
        fs::write(folder.path().join(name), octets).unwrap();
    }
    folder
}

#[track_caller]
fn assert_serves(credentials: Credentials) {
    let fingerprint = credentials.fingerprint();
    let server = Security::default().credentials(credentials);
    let client = Security::default().trust_servers(Trust::own_process().pin(fingerprint));
    assert!(Pump::shake_hands(&client, &server).server.is_connected());
}

#[test]
fn files_of_openssl_are_understood() {
    let fingerprint: Fingerprint = FINGERPRINT.parse().unwrap();
    for key in ["key.pem", "ec_key.pem"] {
        let credentials =
            Credentials::from_files(openssl("certificate.pem"), openssl(key)).unwrap();
        assert_eq!(credentials.fingerprint(), fingerprint);
        assert_serves(credentials);
    }
    assert!(
        Trust::own_process()
            .authorities(openssl("certificate.pem"))
            .is_ok()
    );
}

#[test]
fn credentials_may_be_in_files_of_either_form_or_in_one() {
    let (certificate, key) = self_signed();
    let as_pem = [
        pem("CERTIFICATE", &certificate),
        pem("PRIVATE KEY", key.secret_der()),
    ];
    let files = folder(&[
        ("certificate.der", &*certificate),
        ("key.der", key.secret_der()),
        ("certificate.pem", as_pem[0].as_bytes()),
        ("key.pem", as_pem[1].as_bytes()),
        ("both.pem", as_pem.concat().as_bytes()),
    ]);
    for (of_certificate, of_key) in [
        ("certificate.der", "key.der"),
        ("certificate.der", "key.pem"),
        ("certificate.pem", "key.der"),
        ("certificate.pem", "both.pem"),
        ("both.pem", "both.pem"),
    ] {
        let path = |name| files.path().join(name);
        let credentials = Credentials::from_files(path(of_certificate), path(of_key)).unwrap();
        assert_eq!(
            credentials.fingerprint(),
            Fingerprint::from_certificate(&certificate)
        );
        assert_serves(credentials);
    }
}

/// The beginning of the paths of files in a folder.
fn prefix(folder: &TempDir) -> String {
    format!("{}{MAIN_SEPARATOR}", folder.path().display())
}

/// Checks the text of the error of credentials in two files, after the name of the folder.
#[track_caller]
fn assert_wrong_identity(files: &TempDir, certificate: &str, key: &str, expected: &str) {
    let error = Credentials::from_files(files.path().join(certificate), files.path().join(key));
    let folder = prefix(files);
    assert_eq!(
        error.unwrap_err().to_string().replace(&folder, ""),
        expected
    );
}

#[test]
fn a_wrong_file_is_named_and_told_what_is_wrong_with_it() {
    let (certificate, key) = self_signed();
    let (other, _) = self_signed();
    let as_pem = pem("CERTIFICATE", &certificate);
    let cut = &as_pem[..as_pem.len() - 20];
    let files = folder(&[
        ("certificate", as_pem.as_bytes()),
        ("other", &*other),
        ("key", pem("PRIVATE KEY", key.secret_der()).as_bytes()),
        ("request", pem("CERTIFICATE REQUEST", b"request").as_bytes()),
        ("empty", b""),
        ("text", b"certificate\n"),
        ("cut", cut.as_bytes()),
        ("not base64", as_pem.replace('M', "%").as_bytes()),
        (
            "no begin",
            as_pem
                .replacen("CERTIFICATE-----", "CERTIFICATE", 1)
                .as_bytes(),
        ),
        (
            "not a certificate",
            pem("CERTIFICATE", b"no DER").as_bytes(),
        ),
        ("not a key", pem("PRIVATE KEY", b"no DER").as_bytes()),
    ]);
    const NO_CERTIFICATE: &str = "holds neither certificates as PEM (`-----BEGIN CERTIFICATE-----`) nor a certificate as DER";
    const NO_KEY: &str =
        "holds neither a private key as PEM (`-----BEGIN PRIVATE KEY-----`) nor one as DER";
    let absent = io::Error::from_raw_os_error(2); // on Windows, too
    let absent = format!("missing: cannot be read: {absent}");
    let wrong = |certificate, key, expected: &str| {
        assert_wrong_identity(&files, certificate, key, expected);
    };
    wrong("missing", "key", &absent);
    wrong("empty", "key", &format!("empty: {NO_CERTIFICATE}"));
    wrong("text", "key", &format!("text: {NO_CERTIFICATE}"));
    wrong(
        "key",
        "key",
        "key: holds no certificate, but \"PRIVATE KEY\"",
    );
    wrong(
        "request",
        "key",
        "request: holds no certificate, but \"CERTIFICATE REQUEST\"",
    );
    wrong(
        "cut",
        "key",
        "cut: the PEM is damaged: the line `-----END …` of a section is missing; copy the file again, or have it made anew",
    );
    wrong("certificate", "missing", &absent);
    wrong("certificate", "empty", &format!("empty: {NO_KEY}"));
    wrong("certificate", "text", &format!("text: {NO_KEY}"));
    wrong(
        "certificate",
        "certificate",
        "certificate: holds no private key, but \"CERTIFICATE\"",
    );
    wrong(
        "other",
        "key",
        "certificate other and private key key: the key is not the one of the certificate",
    );
    wrong(
        "certificate",
        "not a key",
        "certificate certificate and private key not a key: the key is damaged, or of a kind that is not known \
         here (known are Ed25519, ECDSA with P-256 and P-384, and RSA)",
    );
    wrong(
        "not a certificate",
        "key",
        "certificate not a certificate and private key key: the certificate cannot be used: it is damaged, or no certificate",
    );
    wrong(
        "no begin",
        "key",
        "no begin: the PEM is damaged: a line that begins a section has no `-----` at its end; copy the file again, \
         or have it made anew",
    );
    let path = files.path().join("not base64");
    let error = Credentials::from_files(&path, files.path().join("key")).unwrap_err();
    let SecurityError::File {
        path: named,
        problem,
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!(*named, path);
    assert_eq!(
        problem,
        "the PEM is damaged: a section holds something else than Base64; copy the file again, or have it made anew"
    );
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn an_encrypted_key_is_named_as_such() {
    for name in ["encrypted_key.pem", "encrypted_ec_key.pem"] {
        let error = Credentials::from_files(openssl("certificate.pem"), openssl(name)).unwrap_err();
        let expected = format!(
            "{}: the private key is encrypted: decrypt it first (`openssl pkey -in KEY -out NEW_KEY`)",
            openssl(name).display()
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_wrong_file_of_authorities_is_named_and_told_what_is_wrong_with_it() {
    let (certificate, _) = self_signed();
    let two = pem("CERTIFICATE", &certificate) + &pem("CERTIFICATE", b"no DER");
    let files = folder(&[("second", two.as_bytes()), ("empty", b"")]);
    let error = |name| {
        let path = files.path().join(name);
        let error = Trust::own_process()
            .authorities(&path)
            .unwrap_err()
            .to_string();
        error.replace(&prefix(&files), "")
    };
    assert!(error("missing").starts_with("missing: cannot be read: "));
    assert!(error("empty").starts_with("empty: holds neither certificates as PEM"));
    assert!(error("second").starts_with("second: certificate 2 cannot be used: "));
}
