//! The certificate of a run over UDP, and whom its processes trust, as the libraries read them from the environment.

use std::ffi::OsString;
use std::path::{self, Path};

use softnd::security::Credentials;

use super::args::ProgramArgs;
use crate::errors::Failure;
use crate::provider;
use crate::stderr::note;

/// Set in runs over UDP.
pub(super) const UDP: &str = "SOFTND_VERBS_UDP";

const VARIABLES: [&str; 8] = [
    UDP,
    "SOFTND_VERBS_UDP_CREDENTIALS",
    "SOFTND_VERBS_UDP_CERT",
    "SOFTND_VERBS_UDP_KEY",
    "SOFTND_VERBS_UDP_PINS",
    "SOFTND_VERBS_UDP_CA",
    "SOFTND_VERBS_UDP_SERVER_NAME",
    "SOFTND_VERBS_UDP_INSECURE",
];

/// The variables of a run: those to set, and those of a run around this one to take away.
pub(super) struct Variables {
    pub(super) set: Vec<(&'static str, OsString)>,
    pub(super) removed: Vec<&'static str>,
}

/// Checks the options, and says by which fingerprint peers can trust the run. `is_within` is true in a run over UDP.
pub(super) fn variables(args: &ProgramArgs, is_within: bool) -> Result<Variables, Failure> {
    let none = Variables {
        set: Vec::new(),
        removed: Vec::new(),
    };
    if !args.udp {
        check_without(args)?;
        return Ok(none);
    }
    if args.security.given().is_none() && is_within {
        // A run in a run: the processes of both trust each other.
        return Ok(none);
    }
    let security = &args.security;
    let mut fingerprint = provider::check_security(security)?;
    let mut set: Vec<(&'static str, OsString)> = vec![(UDP, "1".into())];
    if let (Some(certificate), Some(key)) = (&security.certificate, &security.key) {
        set.push(("SOFTND_VERBS_UDP_CERT", absolute(certificate)?));
        set.push(("SOFTND_VERBS_UDP_KEY", absolute(key)?));
    } else {
        let (credentials, text) = Credentials::generate_text().map_err(|error| {
            Failure::new(
                format!("cannot make a certificate: {error}"),
                "leave out --udp, and connect over TCP",
            )
        })?;
        set.push(("SOFTND_VERBS_UDP_CREDENTIALS", text.into()));
        fingerprint = credentials.fingerprint().to_string();
    }
    if !security.pins.is_empty() {
        set.push(("SOFTND_VERBS_UDP_PINS", security.pins.join(",").into()));
    }
    let authorities = security.authorities.iter();
    let authorities: Vec<_> = authorities
        .map(|file| absolute(file))
        .collect::<Result<_, _>>()?;
    if !authorities.is_empty() {
        set.push(("SOFTND_VERBS_UDP_CA", authorities.join("\n".as_ref())));
    }
    if let Some(name) = &security.server_name {
        set.push(("SOFTND_VERBS_UDP_SERVER_NAME", name.into()));
    }
    if security.insecure {
        set.push(("SOFTND_VERBS_UDP_INSECURE", "1".into()));
    }
    note(format_args!(
        "programs of other runs connect to this one with --udp --pin {fingerprint}"
    ));
    let is_set = |name: &&str| set.iter().any(|(known, _)| known == name);
    let removed = VARIABLES.into_iter().filter(|name| !is_set(name)).collect();
    Ok(Variables { set, removed })
}

/// Refuses options for connections over UDP in a run over TCP.
fn check_without(args: &ProgramArgs) -> Result<(), Failure> {
    match args.security.given() {
        None => Ok(()),
        Some(option) => Err(Failure::new(
            format!("{option} is for connections over UDP, and this run connects over TCP"),
            format!("leave out {option}, or add --udp"),
        )),
    }
}

/// The name of a file for processes in other folders. The libraries read it as text, a name in each line.
fn absolute(file: &Path) -> Result<OsString, Failure> {
    let name = path::absolute(file)
        .map_err(|error| Failure::io(format_args!("find {}", file.display()), &error))?;
    match name.to_str() {
        Some(text) if !text.contains('\n') => Ok(name.into()),
        _ => Err(Failure::new(
            format!("cannot pass on the name {}", name.display()),
            "name a file whose path is UTF-8 and one line",
        )),
    }
}
