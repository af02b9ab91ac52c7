//! No side sends or accepts data before the handshake is complete, and no session is resumed: requests cannot be replayed, and no
//! certificate is trusted for longer than it is valid.

use quinn_proto::{ClientConfig, ServerConfig};

use super::peers::{tls_of_client, tls_of_server};
use super::pump::{Pump, write};
use super::*;

/// A long chain of certificates. Its absence is visible in the number of octets.
fn long() -> Credentials {
    let (certificate, key) = self_signed();
    Credentials::new(vec![certificate; 10], key).unwrap()
}

/// A server that gives tickets and accepts early data.
fn accepting() -> ServerConfig {
    let mut tls = tls_of_server(&[ALPN], (*long().certified()).clone());
    tls.max_early_data_size = u32::MAX;
    provider::server(provider::server_crypto(tls).unwrap()).unwrap()
}

/// A client that resumes sessions and sends early data.
fn hasty() -> ClientConfig {
    let mut tls = tls_of_client(&[ALPN], None);
    tls.enable_early_data = true;
    ClientConfig::new(provider::client_crypto(tls).unwrap())
}

/// The outcome of a connection on which the client wrote before the first datagram, if it could.
#[derive(Debug, PartialEq)]
struct Early {
    offered: bool,
    accepted: bool,
    /// The server has received the octets that were written early.
    arrived: bool,
    /// The octets that the server has sent. They are fewer without the certificate.
    from_server: usize,
}

fn connect(client: &ClientConfig, server: &ServerConfig) -> Early {
    let mut pump = Pump::listening(server.clone());
    let connection = pump.connect(client.clone(), "192.0.2.7");
    let offered = connection.has_0rtt();
    if offered {
        write(connection, b"early");
    }
    pump.run();
    assert!(pump.server.is_connected());
    let received = pump.server.received();
    assert!(received.ends_with(b"octets"), "{received:?}");
    let (_, connection) = pump.client.connection.as_ref().unwrap();
    Early {
        offered,
        accepted: connection.accepted_0rtt(),
        arrived: received.starts_with(b"early"),
        from_server: pump.server.sent.iter().sum(),
    }
}

/// The first connection to a server, without a ticket.
#[track_caller]
fn assert_whole(early: &Early) {
    assert!(
        !early.offered && !early.accepted && !early.arrived,
        "{early:?}"
    );
}

#[test]
fn a_server_neither_gives_tickets_nor_accepts_early_data() {
    let (client, accepting) = (hasty(), accepting());
    let first = connect(&client, &accepting);
    assert_whole(&first);
    let second = connect(&client, &accepting);
    assert!(
        second.offered && second.accepted && second.arrived,
        "{second:?}"
    );
    assert!(
        second.from_server < first.from_server,
        "{first:?} {second:?}"
    );

    // The ticket of the other server is still there.
    let own = Security::default().credentials(long());
    let own = own.server_config().unwrap();
    let refused = connect(&client, &own);
    assert!(refused.offered, "{refused:?}");
    assert!(!refused.accepted && !refused.arrived, "{refused:?}");

    let client = hasty();
    let first = connect(&client, &own);
    assert_whole(&first);
    assert_eq!(
        connect(&client, &own),
        first,
        "the server shows its certificate again"
    );
}

#[test]
fn a_client_neither_resumes_sessions_nor_offers_early_data() {
    let insecure = Security::default().insecure();
    let (client, server) = (insecure.client_config().unwrap(), accepting());
    let first = connect(&client, &server);
    assert_whole(&first);
    assert_eq!(
        connect(&client, &server),
        first,
        "the server shows its certificate again"
    );
}
