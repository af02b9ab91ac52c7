//! Certificates and trust of the adapters over UDP, from the options to the errors.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use netdirect::Status;
use softnd::security::{Credentials, Fingerprint, KeyLog, Security, SecurityError, Trust};

use crate::args::SecurityArgs;
use crate::errors::{Failure, Result, one_line, refusal};
use crate::stderr::{Remarks, note};

/// The fingerprint of this text, in its printed form.
pub fn fingerprint(text: &str) -> Result<String, String> {
    match text.parse::<Fingerprint>() {
        Ok(fingerprint) => Ok(fingerprint.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The fingerprint of this certificate, which is DER.
#[cfg(feature = "udp")]
pub fn fingerprint_of(certificate: &[u8]) -> String {
    Fingerprint::from_certificate(certificate).to_string()
}

/// The fingerprint of the certificate that this process shows unless it is given another one.
pub fn own_fingerprint() -> Result<String> {
    match Credentials::of_process() {
        Ok(credentials) => Ok(credentials.fingerprint().to_string()),
        Err(error) => Err(Failure::new(
            format!("cannot make a certificate: {error}"),
            "use an adapter over TCP",
        )),
    }
}

/// The security of an adapter. Refused peers are recorded in `refusals`.
pub(super) fn security(args: &SecurityArgs, refusals: &Arc<Refusals>) -> Result<Security> {
    let mut trust = Trust::own_process();
    for pin in &args.pins {
        let pin: Fingerprint = pin.parse().map_err(|error| {
            let advice = "copy what the other side prints when it listens";
            wrong("--pin", &error, advice)
        })?;
        trust = trust.pin(pin);
    }
    for file in &args.authorities {
        trust = trust.authorities(file).map_err(|error| {
            let advice = "give the file with the certificate of the authority, as PEM or DER";
            wrong("--ca", &error, advice)
        })?;
    }
    let mut security = Security::default();
    if args.trusts_some() {
        security = security
            .trust_servers(trust.clone())
            .demand_client_certificate(trust);
    }
    if args.insecure {
        security = security.insecure();
    }
    if let Some(name) = &args.server_name {
        let named = security.server_name(name);
        security = named.map_err(|error| {
            wrong(
                "--server-name",
                &error,
                "give the name that stands in the server's certificate",
            )
        })?;
    }
    if let (Some(certificate), Some(key)) = (&args.certificate, &args.key) {
        let credentials = Credentials::from_files(certificate, key).map_err(|error| {
            let advice = "give a certificate and its private key, each in a file of PEM or DER";
            let options = match &error {
                SecurityError::File { path, .. } if path == key && path != certificate => "--key",
                SecurityError::File { .. } => "--cert",
                _ => "--cert and --key",
            };
            wrong(options, &error, advice)
        })?;
        security = security.credentials(credentials);
    }
    if let Some(key_log) = key_log()? {
        security = security.key_log(key_log);
    }
    let refusals = Arc::clone(refusals);
    Ok(security.on_failure(move |peer, why| refusals.tell(peer, why)))
}

/// The key log that the environment names. The user is warned of it once.
fn key_log() -> Result<Option<KeyLog>> {
    static WARNED: Once = Once::new();
    let key_log = KeyLog::from_environment().map_err(|error| {
        let advice = "name a file that other users cannot read (chmod 600), or unset SSLKEYLOGFILE";
        wrong("SSLKEYLOGFILE", &error, advice)
    })?;
    if let Some(key_log) = &key_log {
        let path = key_log.path().display();
        WARNED.call_once(|| {
            note(format_args!(
                "warning: the keys of all connections go to {path}, as SSLKEYLOGFILE says: whoever reads it can read the \
                 connections"
            ));
        });
    }
    Ok(key_log)
}

fn wrong(option: &str, error: &dyn std::fmt::Display, advice: &'static str) -> Failure {
    Failure::new(format!("cannot use what {option} gives: {error}"), advice)
}

/// Why connections failed before there was a connection request: for each of the last peers, the last reason.
#[derive(Debug, Default)]
pub struct Refusals {
    over_udp: bool,
    reasons: Mutex<VecDeque<(SocketAddr, String)>>,
    /// Whether this side listens, so that none of its requests fails with the reason.
    aloud: AtomicBool,
    remarks: Remarks,
}

impl Refusals {
    /// The most peers that are remembered.
    const MOST: usize = 64;

    /// Those of adapters over UDP.
    pub(super) fn of_udp() -> Self {
        Self {
            over_udp: true,
            ..Self::default()
        }
    }

    fn tell(&self, peer: SocketAddr, why: &str) {
        if self.aloud.load(Ordering::Relaxed) {
            let RefusedConnect { what, advice } = RefusedConnect::from_cause(why, true);
            let text = format!("no connection with {peer}: {what}; {advice}");
            return self.remarks.remark(one_line(&text));
        }
        let mut reasons = self.reasons();
        reasons.retain(|(known, _)| *known != peer);
        if reasons.len() == Self::MOST {
            reasons.pop_front();
        }
        reasons.push_back((peer, why.to_owned()));
    }

    /// Has reasons printed from now on, because this side listens.
    pub fn print(&self) {
        self.aloud.store(true, Ordering::Relaxed);
    }

    /// Takes the reason why a Connect to this peer has ended with this status, if more is known than the status says.
    pub fn take(&self, peer: SocketAddr, status: Status) -> Option<RefusedConnect> {
        let mut reasons = self.reasons();
        if let Some(at) = reasons.iter().position(|(known, _)| *known == peer) {
            let (_, why) = reasons.remove(at)?;
            return Some(RefusedConnect::from_cause(&why, false));
        }
        (self.over_udp && status == Status::IO_TIMEOUT).then(|| RefusedConnect {
            what: "no answer came in time".to_owned(),
            advice: "check address and port, that the other side listens there with --udp, and that no firewall drops UDP"
                .to_owned(),
        })
    }

    fn reasons(&self) -> MutexGuard<'_, VecDeque<(SocketAddr, String)>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a connection failed, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusedConnect {
    /// The reason, without the name of the peer.
    pub what: String,
    /// What the user can do.
    pub advice: String,
}

impl RefusedConnect {
    /// The provider's own advice is replaced by one with the options of this program, for the side that listens or for the other
    /// one.
    fn from_cause(why: &str, listens: bool) -> Self {
        if let Some((what, advice)) = refusal(why) {
            let (what, advice) = (what.to_owned(), advice.to_owned());
            return Self { what, advice };
        }
        if why.contains("says that ")
            && let Some((what, remedy)) = why.rsplit_once(": ")
        {
            return Self {
                what: what.to_owned(),
                advice: remedy.to_owned(),
            };
        }
        let advice = [": if that is what", ": pin it at"];
        let ends = advice.iter().filter_map(|advice| why.find(advice)).min();
        let what = &why[..ends.unwrap_or(why.len())];
        let mut words = why
            .split([' ', ',', ':', ';'])
            .map(|word| format!("sha256:{word}"));
        let pin = words.find(|word| word.parse::<Fingerprint>().is_ok());
        let pin = pin.as_deref().unwrap_or("FINGERPRINT");
        let of_server = what.contains("the server shows the certificate");
        let of_name = what.contains("not valid for name");
        let (what, advice) = match (of_server, listens) {
            (true, true) => (
                "it does not trust the certificate of this side",
                format!(
                    "give it --pin {pin}, or the authority that signed the certificate with --ca"
                ),
            ),
            (true, false) if of_name => (
                what,
                format!(
                    "if the server has printed this fingerprint, add --pin {pin}; or give the name that the certificate is \
                     valid for with --server-name"
                ),
            ),
            (true, false) => (
                what,
                format!(
                    "if the server has printed this fingerprint, add --pin {pin}; or name the authority that signed the \
                     certificate with --ca"
                ),
            ),
            (false, _) if what.contains("the client shows the certificate") => (
                what,
                format!(
                    "if that is a client to be let in, give the server --pin {pin}; else give the client a certificate \
                     that the server trusts, with --cert and --key"
                ),
            ),
            (false, _) if what.contains("demands a certificate") => (
                what,
                "give the client a certificate with --cert and --key".to_owned(),
            ),
            (false, _) => (
                what,
                "check address and port: some other service may be there".to_owned(),
            ),
        };
        Self {
            what: what.to_owned(),
            advice,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(digits: &str) -> String {
        format!("sha256:{}", digits.repeat(32))
    }

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 7], port))
    }

    #[test]
    fn the_advice_names_the_fingerprint_and_the_options() {
        let pin = pin("5f");
        for (why, listens, what, advice) in [
            (
                format!(
                    "the server shows the certificate {pin}, which is not trusted: if that is what the server printed, pin it"
                ),
                false,
                format!("the server shows the certificate {pin}, which is not trusted"),
                format!("add --pin {pin}; or name the authority"),
            ),
            (
                format!(
                    "the server shows the certificate {pin}, which is not pinned and not valid by the given CA (certificate \
                     not valid for name \"192.0.2.7\"): if that is what the server printed, pin it"
                ),
                false,
                format!(
                    "the server shows the certificate {pin}, which is not pinned and not valid by the given CA (certificate \
                     not valid for name \"192.0.2.7\")"
                ),
                "with --server-name".to_owned(),
            ),
            (
                format!(
                    "the peer ended the connection: the server shows the certificate {pin}, which is not tru"
                ),
                true,
                "it does not trust the certificate of this side".to_owned(),
                format!("give it --pin {pin}"),
            ),
            (
                format!(
                    "the peer ended the connection: the client shows the certificate {pin}, which this server does not trust: \
                     pin it at the server, or"
                ),
                false,
                format!(
                    "the peer ended the connection: the client shows the certificate {pin}, which this server does not trust"
                ),
                format!("give the server --pin {pin}; else give the client"),
            ),
            (
                "the peer ended the connection: it says that its key is lost (in its words, a: b): try again".to_owned(),
                false,
                "the peer ended the connection: it says that its key is lost (in its words, a: b)".to_owned(),
                "try again".to_owned(),
            ),
            (
                "the peer does not speak QUIC version 1".to_owned(),
                false,
                "the peer does not speak QUIC version 1".to_owned(),
                "check address and port".to_owned(),
            ),
        ] {
            let refusal = RefusedConnect::from_cause(&why, listens);
            assert_eq!(refusal.what, what);
            assert!(refusal.advice.contains(&advice), "{refusal:?}");
        }
    }

    #[test]
    fn the_last_reason_of_each_peer_is_told_once_and_few_are_kept() {
        let refusals = Refusals::of_udp();
        for port in 1..1000 {
            refusals.tell(peer(port), "the first");
            refusals.tell(peer(port), "the second");
        }
        let take = |port| refusals.take(peer(port), Status::CONNECTION_REFUSED);
        assert_eq!(refusals.reasons().len(), Refusals::MOST);
        assert_eq!(
            take(999).map(|refusal| refusal.what),
            Some("the second".to_owned())
        );
        assert_eq!(take(999), None);
        assert_eq!(take(1), None, "the oldest was forgotten");
    }

    #[test]
    fn over_udp_a_missing_answer_has_advice_of_its_own() {
        let take = |refusals: &Refusals| refusals.take(peer(1), Status::IO_TIMEOUT);
        let advice = take(&Refusals::of_udp()).map(|refusal| refusal.advice);
        assert!(advice.is_some_and(|advice| advice.contains("--udp")));
        assert_eq!(take(&Refusals::default()), None);
    }

    #[test]
    fn fingerprints_are_shown_in_one_form() {
        let colons = format!("sha256:{}", ["5F"; 32].join(":"));
        assert_eq!(fingerprint(&colons), Ok(pin("5f")));
        assert!(fingerprint("5f").is_err_and(|text| text.contains("sha256:")));
    }
}
