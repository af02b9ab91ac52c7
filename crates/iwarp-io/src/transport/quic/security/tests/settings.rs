use std::env;
use std::io;
use std::net::IpAddr;
use std::process::Command;

use rustls::CipherSuite;
use rustls::pki_types::PrivateKeyDer;

use super::pump::Pump;
use super::*;

#[test]
fn what_is_printed_has_no_key() {
    let (certificate, key) = self_signed();
    let PrivateKeyDer::Pkcs8(pkcs8) = &key else {
        panic!("{key:?}");
    };
    let octets = format!("{:?}", pkcs8.secret_pkcs8_der());
    let credentials = Credentials::new(vec![certificate], key).unwrap();
    let fingerprint = credentials.fingerprint();
    let security = Security::default().credentials(credentials);
    let printed = format!("{security:?}");
    let credentials = format!("credentials: Some(Credentials({fingerprint})), ");
    assert!(printed.contains(&credentials), "{printed}");
    let (_, rest) = printed.split_once(&credentials).unwrap();
    assert_eq!(
        rest,
        "servers: Some(Trust { pinned: [], authorities: None }), clients: None, server_name: None, key_log: None, on_failure: None }"
    );
    assert!(!printed.contains(&octets[1..octets.len() - 1]));
}

#[test]
fn the_process_has_credentials_of_its_own_and_generated_ones_differ() {
    let own = || Credentials::of_process().unwrap().fingerprint();
    assert_eq!(own(), own());
    assert_eq!(Security::default().fingerprint(), Ok(own()));
    let one = Credentials::generate().unwrap();
    assert_ne!(one.fingerprint(), own());
    assert_ne!(
        one.fingerprint(),
        Credentials::generate().unwrap().fingerprint()
    );
    let fingerprint = one.fingerprint();
    assert_eq!(
        Security::default().credentials(one).fingerprint(),
        Ok(fingerprint)
    );
}

/// AES-128 takes a tenth less time than the cipher that rustls prefers.
#[test]
fn aes_128_is_preferred() {
    let provider = provider::provider().unwrap();
    let suites = provider.cipher_suites.iter().map(|suite| suite.suite());
    assert_eq!(
        suites.collect::<Vec<_>>(),
        [
            CipherSuite::TLS13_AES_128_GCM_SHA256,
            CipherSuite::TLS13_AES_256_GCM_SHA384,
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        ]
    );
}

#[test]
fn all_generated_certificates_have_one_length() {
    let length = || {
        let (certificate, key) = self_signed();
        (certificate.len(), key.secret_der().len())
    };
    let first = length();
    for _ in 0..3000 {
        assert_eq!(length(), first);
    }
}

#[test]
fn a_server_is_asked_for_by_its_address_or_by_the_given_name() {
    let name =
        |security: &Security, address: &str| security.name_of(address.parse::<IpAddr>().unwrap());
    let default = Security::default();
    assert_eq!(name(&default, "192.0.2.7"), "192.0.2.7");
    assert_eq!(name(&default, "::ffff:192.0.2.7"), "192.0.2.7");
    assert_eq!(name(&default, "2001:db8::7"), "2001:db8::7");
    let named = default.server_name("host.example").unwrap();
    assert_eq!(name(&named, "192.0.2.7"), "host.example");
    let error = named.server_name("no name").unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"no name\" is neither an IP address nor a DNS name, so no certificate can be valid for it"
    );
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
}

/// The environment belongs to the process, so the test runs itself once more with the variable.
#[test]
fn the_environment_names_a_key_log_only_for_those_who_ask() {
    const THIS: &str = "transport::quic::security::tests::settings::the_environment_names_a_key_log_only_for_those_who_ask";
    const CHILD: &str = "SOFTND_TEST_LOGS_KEYS";
    let lines = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default();
    if env::var_os(CHILD).is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let mut child = Command::new(env::current_exe().unwrap());
        child
            .args(["--exact", THIS])
            .env(CHILD, "1")
            .env("SSLKEYLOGFILE", &path);
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
        assert!(!lines(&path).is_empty(), "the child has written keys");
        return;
    }
    let path = PathBuf::from(env::var_os("SSLKEYLOGFILE").unwrap());
    let silent = Security::default();
    assert!(Pump::shake_hands(&silent, &silent).server.is_connected());
    assert!(!path.exists(), "by default nothing is written");

    let key_log = KeyLog::from_environment().unwrap().unwrap();
    assert_eq!(key_log.path(), path);
    let logs = Security::default().key_log(key_log);
    assert!(Pump::shake_hands(&logs, &silent).server.is_connected());
    let of_client = lines(&path);
    for label in ["CLIENT_HANDSHAKE", "SERVER_HANDSHAKE", "CLIENT", "SERVER"] {
        let label = format!("{label}_TRAFFIC_SECRET");
        assert!(
            of_client.lines().any(|line| line.starts_with(&label)),
            "{of_client}"
        );
    }
    // A server that logs writes the same keys.
    assert!(Pump::shake_hands(&silent, &logs).server.is_connected());
    assert_eq!(lines(&path).lines().count(), 2 * of_client.lines().count());
}
