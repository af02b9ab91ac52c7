//! What `nd run --udp` has put into the environment: the certificate of the run, and whom its processes trust.

use rdma_buffer::environment;
use softverbs::security::{Credentials, Security, SecurityError, Trust};

use crate::border::explain_words;

/// The security of connections over UDP; `None` if the run uses TCP.
pub(crate) fn security() -> Option<Result<Security, String>> {
    environment::variable("SOFTND_VERBS_UDP")?;
    Some(of_environment().map_err(|error| error.to_string()))
}

fn of_environment() -> Result<Security, SecurityError> {
    let credentials = match environment::text("SOFTND_VERBS_UDP_CREDENTIALS") {
        Some(text) => Credentials::from_text(&text)?,
        None => Credentials::from_files(
            environment::variable("SOFTND_VERBS_UDP_CERT").unwrap_or_default(),
            environment::variable("SOFTND_VERBS_UDP_KEY").unwrap_or_default(),
        )?,
    };
    // The processes of a run trust each other.
    let own = Trust::own_process().pin(credentials.fingerprint());
    let mut trust = own.clone();
    let mut trusts_others = false;
    for pin in environment::text("SOFTND_VERBS_UDP_PINS")
        .unwrap_or_default()
        .split(',')
    {
        if let Ok(pin) = pin.parse() {
            trust = trust.pin(pin);
            trusts_others = true;
        }
    }
    for file in environment::text("SOFTND_VERBS_UDP_CA")
        .unwrap_or_default()
        .lines()
    {
        trust = trust.authorities(file)?;
        trusts_others = true;
    }
    let mut security = Security::default().credentials(credentials);
    security = match trusts_others {
        true => security
            .trust_servers(trust.clone())
            .demand_client_certificate(trust),
        false => security.trust_servers(own),
    };
    if environment::variable("SOFTND_VERBS_UDP_INSECURE").is_some() {
        security = security.insecure();
    }
    if let Some(name) = environment::text("SOFTND_VERBS_UDP_SERVER_NAME") {
        security = security.server_name(&name)?;
    }
    Ok(security.on_failure(|peer, why| {
        explain_words(&format!("no encrypted connection with {peer}: {why}"));
    }))
}
