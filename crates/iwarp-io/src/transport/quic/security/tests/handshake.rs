//! The peers that may connect to each other, and the errors of both sides otherwise.

use quinn_proto::ConnectionError;
use rcgen::ExtendedKeyUsagePurpose;
use rustls::quic::{ClientConnection, ServerConnection, Version};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, Error, PeerMisbehaved};

use super::peers::{tls_of_client, tls_of_server};
use super::pump::{Pump, SERVER};
use super::*;

/// Alerts of TLS as codes of QUIC.
const UNKNOWN_CERTIFICATE: u64 = 0x12e;
const BAD_SIGNATURE: u64 = 0x133;
const NO_CERTIFICATE: u64 = 0x174;
const NO_PROTOCOL: u64 = 0x178;

/// An adapter with its own credentials, as in another process.
fn another() -> Security {
    Security::default().credentials(Credentials::generate().unwrap())
}

fn pin(security: &Security) -> Trust {
    Trust::own_process().pin(security.fingerprint().unwrap())
}

#[track_caller]
fn assert_connected(client: &Security, server: &Security) {
    let pump = Pump::shake_hands(client, server);
    let errors = (pump.client.error(), pump.server.error());
    assert_eq!(errors, (None, None));
    assert!(pump.client.is_connected() && pump.server.is_connected());
    assert!(pump.server.has_stream());
}

/// This side has found the error. Returns its text.
#[track_caller]
fn raised(error: Option<&ConnectionError>, code: u64) -> String {
    match error {
        Some(ConnectionError::TransportError(error)) if u64::from(error.code) == code => {
            error.reason.clone()
        }
        error => panic!("expected the error {code:#x} of this side: {error:?}"),
    }
}

/// The peer has reported the error to this side. Returns its text.
#[track_caller]
fn reason_sent(error: Option<&ConnectionError>, code: u64) -> String {
    match error {
        Some(ConnectionError::ConnectionClosed(close)) if u64::from(close.error_code) == code => {
            String::from_utf8(close.reason.to_vec()).unwrap()
        }
        error => panic!("expected the error {code:#x} of the peer: {error:?}"),
    }
}

/// The client refuses the server. Returns the reason, which both sides see.
#[track_caller]
fn client_refuses(pump: &Pump, code: u64) -> String {
    let reason = raised(pump.client.error(), code);
    assert_eq!(reason_sent(pump.server.error(), code), reason);
    assert!(!pump.client.is_connected() && !pump.server.is_connected());
    reason
}

/// The server refuses the client, although the client counts itself as connected and has sent octets. Returns the reason,
/// which both sides see.
#[track_caller]
fn server_refuses(pump: &Pump, code: u64) -> String {
    let reason = raised(pump.server.error(), code);
    assert_eq!(reason_sent(pump.client.error(), code), reason);
    assert!(pump.client.is_connected());
    assert!(!pump.server.is_connected() && !pump.server.has_stream());
    reason
}

#[test]
fn adapters_of_one_process_trust_each_other_without_options() {
    assert_connected(&Security::default(), &Security::default());
    let demanding = Security::default().demand_client_certificate(Trust::own_process());
    assert_connected(&Security::default(), &demanding);
}

#[test]
fn holders_of_the_same_credentials_trust_each_other() {
    let shared = another();
    let demanding = shared
        .clone()
        .demand_client_certificate(Trust::own_process());
    assert_connected(&shared, &demanding);
}

#[test]
fn an_unknown_server_is_refused_and_the_reason_has_its_fingerprint() {
    let server = another();
    let fingerprint = server.fingerprint().unwrap();
    let pump = Pump::shake_hands(&Security::default(), &server);
    let reason = client_refuses(&pump, UNKNOWN_CERTIFICATE);
    let text = format!(
        "the server shows the certificate {fingerprint}, which is not trusted: if that is what the server printed, pin it; or \
         give the CA that signed it"
    );
    assert!(reason.contains(&text), "{reason}");
    assert_eq!(explain(pump.client.error().unwrap()), text);
    let explained = format!("the peer ended the connection: {text}");
    assert_eq!(explain(pump.server.error().unwrap()), explained);
}

#[test]
fn a_pinned_server_is_trusted_and_no_other() {
    let (one, other) = (another(), another());
    assert_connected(&another().trust_servers(pin(&one)), &one);
    let both = pin(&one).pin(other.fingerprint().unwrap());
    assert_connected(&another().trust_servers(both.clone()), &one);
    assert_connected(&another().trust_servers(both), &other);
    let pump = Pump::shake_hands(&another().trust_servers(pin(&one)), &other);
    client_refuses(&pump, UNKNOWN_CERTIFICATE);
}

#[test]
fn an_insecure_client_connects_to_every_server() {
    assert_connected(&another().insecure(), &another());
    let pump = Pump::shake_hands(
        &another().insecure().trust_servers(pin(&another())),
        &another(),
    );
    client_refuses(&pump, UNKNOWN_CERTIFICATE);
}

#[test]
fn a_pinned_certificate_may_be_expired_and_of_another_name() {
    let server =
        Security::default().credentials(Authority::new().sign(&["elsewhere"], (1970, 1980)));
    assert_connected(&another().trust_servers(pin(&server)), &server);
    let client = Security::default().credentials(Authority::new().sign(&[], (4000, 4010)));
    let demanding = another().demand_client_certificate(pin(&client));
    let client = client.trust_servers(pin(&demanding));
    assert_connected(&client, &demanding);
}

#[test]
fn an_authority_makes_a_server_trusted_for_its_address_or_name() {
    let authority = Authority::new();
    let client = another().trust_servers(authority.trust());
    let server_for = |names: &[&str]| Security::default().credentials(authority.sign(names, NOW));
    assert_connected(&client, &server_for(&["192.0.2.7"]));
    assert_connected(&client, &server_for(&["host.example", "192.0.2.7"]));
    let named = client.server_name("host.example").unwrap();
    assert_connected(&named, &server_for(&["host.example"]));
    let named = named.server_name("one.hosts.example").unwrap();
    assert_connected(&named, &server_for(&["*.hosts.example"]));
}

#[test]
fn a_server_of_another_name_is_refused() {
    let authority = Authority::new();
    let client = another().trust_servers(authority.trust());
    let server =
        Security::default().credentials(authority.sign(&["host.example", "192.0.2.8"], NOW));
    let reason = client_refuses(&Pump::shake_hands(&client, &server), UNKNOWN_CERTIFICATE);
    let fingerprint = server.fingerprint().unwrap().to_string();
    for part in [
        &fingerprint,
        "not valid for name \"192.0.2.7\"",
        "host.example",
        "pin it",
    ] {
        assert!(reason.contains(part), "{part} is missing: {reason}");
    }
    let named = client.server_name("other.example").unwrap();
    let reason = client_refuses(&Pump::shake_hands(&named, &server), UNKNOWN_CERTIFICATE);
    assert!(reason.contains("\"other.example\""), "{reason}");
}

#[test]
fn a_server_that_is_not_valid_now_is_refused() {
    let authority = Authority::new();
    let client = another().trust_servers(authority.trust());
    for (years, text) in [
        ((1970, 1980), "it expired "),
        ((4000, 4010), "it becomes valid in "),
    ] {
        let server = Security::default().credentials(authority.sign(&["192.0.2.7"], years));
        let reason = client_refuses(&Pump::shake_hands(&client, &server), UNKNOWN_CERTIFICATE);
        assert!(reason.contains(text), "{reason}");
        let fingerprint = server.fingerprint().unwrap().to_string();
        assert!(reason.contains(&fingerprint), "{reason}");
    }
}

#[test]
fn a_server_of_another_authority_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let client = another().trust_servers(authority.trust());
    let server = Security::default().credentials(other.sign(&["192.0.2.7"], NOW));
    let reason = client_refuses(&Pump::shake_hands(&client, &server), UNKNOWN_CERTIFICATE);
    assert!(reason.contains("the CA has not signed it"), "{reason}");
    let of_same_name = Authority::named(authority.name());
    let pretended = Security::default().credentials(of_same_name.sign(&["192.0.2.7"], NOW));
    let reason = client_refuses(&Pump::shake_hands(&client, &pretended), UNKNOWN_CERTIFICATE);
    assert!(
        reason.contains("a CA of the same name, with another key, has signed it"),
        "{reason}"
    );
    let both = authority.trust().authorities(other.file()).unwrap();
    assert_connected(&another().trust_servers(both), &server);
    let pinned = authority.trust().pin(server.fingerprint().unwrap());
    assert_connected(&another().trust_servers(pinned), &server);
}

#[test]
fn the_certificate_of_an_authority_is_no_server_s_unless_it_is_pinned() {
    let authority = Authority::new();
    let server = Security::default().credentials(authority.itself());
    let client = another().trust_servers(authority.trust());
    let reason = client_refuses(&Pump::shake_hands(&client, &server), UNKNOWN_CERTIFICATE);
    assert!(
        reason.contains("it is the certificate of a CA itself"),
        "{reason}"
    );
    assert_connected(&client.trust_servers(pin(&server)), &server);
}

#[test]
fn a_certificate_for_another_use_is_refused() {
    let authority = Authority::new();
    let client = another().trust_servers(authority.trust());
    let server_for = |purpose| {
        let credentials = authority.sign_for(&["192.0.2.7"], NOW, &[purpose]);
        Security::default().credentials(credentials)
    };
    assert_connected(&client, &server_for(ExtendedKeyUsagePurpose::ServerAuth));
    let server = server_for(ExtendedKeyUsagePurpose::ClientAuth);
    let reason = client_refuses(&Pump::shake_hands(&client, &server), UNKNOWN_CERTIFICATE);
    assert!(reason.contains("key usage"), "{reason}");
}

#[test]
fn a_client_that_is_not_trusted_is_refused_before_the_server_sees_anything_of_it() {
    let server = Security::default().demand_client_certificate(Trust::own_process());
    let client = another();
    let fingerprint = client.fingerprint().unwrap();
    let pump = Pump::shake_hands(&client, &server);
    let reason = server_refuses(&pump, UNKNOWN_CERTIFICATE);
    let text =
        format!("the client shows the certificate {fingerprint}, which this server does not trust");
    assert!(reason.contains(&text), "{reason}");
    let explained = explain(pump.client.error().unwrap());
    assert!(
        explained.starts_with("the peer ended the connection: the client shows"),
        "{explained}"
    );
}

#[test]
fn both_sides_may_be_pinned() {
    let (client, server) = (another(), another());
    let demanding = server.clone().demand_client_certificate(pin(&client));
    let client = client.trust_servers(pin(&server));
    assert_connected(&client, &demanding);
    let stranger = another().trust_servers(pin(&server));
    server_refuses(
        &Pump::shake_hands(&stranger, &demanding),
        UNKNOWN_CERTIFICATE,
    );
}

#[test]
fn both_sides_may_be_of_an_authority() {
    let authority = Authority::new();
    let server = Security::default()
        .credentials(authority.sign(&["192.0.2.7"], NOW))
        .demand_client_certificate(authority.trust());
    let client_with = |credentials| {
        Security::default()
            .credentials(credentials)
            .trust_servers(authority.trust())
    };
    assert_connected(&client_with(authority.sign(&["a client"], NOW)), &server);
    let for_clients = authority.sign_for(&[], NOW, &[ExtendedKeyUsagePurpose::ClientAuth]);
    assert_connected(&client_with(for_clients), &server);
    for (credentials, text) in [
        (authority.sign(&[], (1970, 1980)), "it expired "),
        (authority.sign(&[], (4000, 4010)), "it becomes valid in "),
        (Authority::new().sign(&[], NOW), "the CA has not signed it"),
        (
            authority.sign_for(&[], NOW, &[ExtendedKeyUsagePurpose::ServerAuth]),
            "key usage",
        ),
    ] {
        let fingerprint = credentials.fingerprint().to_string();
        let reason = server_refuses(
            &Pump::shake_hands(&client_with(credentials), &server),
            UNKNOWN_CERTIFICATE,
        );
        assert!(
            reason.contains(text) && reason.contains(&fingerprint),
            "{reason}"
        );
    }
}

fn certified(credentials: &Credentials) -> CertifiedKey {
    (*credentials.certified()).clone()
}

/// The certificate of one peer with the key of another.
fn stolen(credentials: &Credentials) -> CertifiedKey {
    let key = certified(&Credentials::generate().unwrap()).key;
    CertifiedKey::new(certified(credentials).cert, key)
}

/// Connects a client with this TLS to a server.
fn from_client(tls: rustls::ClientConfig, server: &Security) -> Pump {
    let config = quinn_proto::ClientConfig::new(provider::client_crypto(tls).unwrap());
    let mut pump = Pump::between(config, server.server_config().unwrap(), "192.0.2.7");
    pump.run();
    pump
}

/// Connects a client to a server with this TLS.
fn to_server(client: &Security, tls: rustls::ServerConfig) -> Pump {
    let config = provider::server(provider::server_crypto(tls).unwrap()).unwrap();
    let name = client.name_of(SERVER);
    let mut pump = Pump::between(client.client_config().unwrap(), config, &name);
    pump.run();
    pump
}

#[test]
fn a_client_without_certificate_is_refused_where_one_is_demanded() {
    let tls = || tls_of_client(&[ALPN], None);
    let pump = from_client(tls(), &Security::default());
    assert!(pump.server.is_connected() && pump.server.has_stream());
    let authority = Authority::new();
    for trust in [Trust::own_process(), pin(&another()), authority.trust()] {
        let server = Security::default().demand_client_certificate(trust);
        let pump = from_client(tls(), &server);
        server_refuses(&pump, NO_CERTIFICATE);
        assert_eq!(
            explain(pump.server.error().unwrap()),
            "this side demands a certificate of clients, and the client shows none"
        );
        assert_eq!(
            explain(pump.client.error().unwrap()),
            "the peer ended the connection: the peer demands a certificate of clients, and the client shows none"
        );
    }
}

#[test]
fn a_trusted_certificate_is_worth_nothing_without_its_key() {
    let credentials = Credentials::generate().unwrap();
    let owner = Security::default().credentials(credentials.clone());
    for client in [another().trust_servers(pin(&owner)), another().insecure()] {
        let whole = to_server(&client, tls_of_server(&[ALPN], certified(&credentials)));
        assert!(whole.server.is_connected());
        let pump = to_server(&client, tls_of_server(&[ALPN], stolen(&credentials)));
        client_refuses(&pump, BAD_SIGNATURE);
    }
    let server = Security::default().demand_client_certificate(pin(&owner));
    let pump = from_client(
        tls_of_client(&[ALPN], Some(certified(&credentials))),
        &server,
    );
    assert!(pump.server.is_connected());
    let pump = from_client(tls_of_client(&[ALPN], Some(stolen(&credentials))), &server);
    server_refuses(&pump, BAD_SIGNATURE);
}

#[test]
fn a_server_refuses_clients_of_other_protocols() {
    for offered in [&[b"h3".as_slice()][..], &[]] {
        let pump = from_client(tls_of_client(offered, None), &Security::default());
        let reason = raised(pump.server.error(), NO_PROTOCOL);
        assert_eq!(reason_sent(pump.client.error(), NO_PROTOCOL), reason);
        assert!(pump.server.connection.is_none(), "it was not accepted");
        assert!(!pump.client.is_connected());
        const TEXT: &str = "the two sides have no protocol in common (ALPN; iWARP is iwarp/1)";
        assert_eq!(explain(pump.server.error().unwrap()), TEXT);
        let explained = explain(pump.client.error().unwrap());
        assert_eq!(explained, format!("the peer ended the connection: {TEXT}"));
    }
    let offered: &[&[u8]] = &[b"h3", ALPN];
    let pump = from_client(tls_of_client(offered, None), &Security::default());
    assert!(pump.server.is_connected());
}

/// Servers that are made with rustls never choose a wrong protocol. So the test changes the server's message before it is encrypted.
#[test]
fn a_client_refuses_servers_that_choose_another_protocol_or_none() {
    /// The extension of EncryptedExtensions by which a server chooses (RFC 7301 §3.1).
    const CHOICE: &[u8] = b"\x00\x10\x00\x0a\x00\x08\x07iwarp/1";
    /// Type, length (3 octets) and the length of all extensions (2 octets).
    const HEADER: usize = 6;
    let security = Security::default();
    let answered = |change: &dyn Fn(&mut Vec<u8>)| {
        let name = security.name_of(SERVER).try_into().unwrap();
        let client = security.client_tls().unwrap().into();
        let mut client = ClientConnection::new(client, Version::V1, name, vec![]).unwrap();
        let server = security.server_tls().unwrap().into();
        let mut server = ServerConnection::new(server, Version::V1, vec![]).unwrap();
        let (mut hello, mut answer, mut encrypted) = (Vec::new(), Vec::new(), Vec::new());
        assert!(client.write_hs(&mut hello).is_none());
        server.read_hs(&hello).unwrap();
        assert!(server.write_hs(&mut answer).is_some());
        assert!(server.write_hs(&mut encrypted).is_some());
        client.read_hs(&answer).unwrap();
        change(&mut encrypted);
        let outcome = client.read_hs(&encrypted);
        (outcome, client.alert())
    };
    let at = |octets: &[u8]| {
        octets
            .windows(CHOICE.len())
            .position(|window| window == CHOICE)
    };

    assert_eq!(answered(&|_| ()), (Ok(()), None));
    let none = answered(&|octets| {
        let at = at(octets).unwrap();
        octets.drain(at..at + CHOICE.len());
        let removed = u8::try_from(CHOICE.len()).unwrap();
        octets[HEADER - 3] -= removed;
        octets[HEADER - 1] -= removed;
    });
    let expected = (
        Err(Error::NoApplicationProtocol),
        Some(AlertDescription::NoApplicationProtocol),
    );
    assert_eq!(none, expected);
    let (outcome, _) = answered(&|octets| {
        let at = at(octets).unwrap() + CHOICE.len() - 1;
        octets[at] = b'2';
    });
    let unoffered = PeerMisbehaved::SelectedUnofferedApplicationProtocol;
    assert_eq!(outcome, Err(Error::PeerMisbehaved(unoffered)));
}

#[test]
fn another_version_of_quic_is_answered_by_the_endpoint_itself() {
    const DRAFT_32: u32 = 0xff00_0020;
    let config = || Security::default().endpoint_config().unwrap();
    let mut other = config();
    other.supported_versions(vec![DRAFT_32]);
    let server = Security::default().server_config().unwrap();
    let mut pump = Pump::with_configs(other, config(), server);
    let mut client = Security::default().client_config().unwrap();
    client.version(DRAFT_32);
    pump.connect(client, "192.0.2.7");
    pump.run();
    assert_eq!(pump.client.error(), Some(&ConnectionError::VersionMismatch));
    assert!(pump.server.connection.is_none() && pump.server.error().is_none());
}

#[test]
fn handshakes_of_generated_credentials_have_equal_sizes() {
    let sizes = || {
        let (client, server) = (another(), another());
        let demanding = server.clone().demand_client_certificate(pin(&client));
        let pump = Pump::shake_hands(&client.trust_servers(pin(&server)), &demanding);
        assert!(pump.server.has_stream());
        (pump.client.sent, pump.server.sent)
    };
    let first = sizes();
    assert!(first.0.len() > 2 && first.1.len() > 1, "{first:?}");
    for _ in 0..20 {
        assert_eq!(sizes(), first);
    }
}
