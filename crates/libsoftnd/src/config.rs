//! The configuration of the library, from the environment and a file.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netdirect::Provider;
use netdirect_com::environment;
use serde::Deserialize;
use softnd::bounded_file;
use softnd::capture::CaptureOptions;
use softnd::faults::Plan;
use softnd::security::{Credentials, Fingerprint, Security, Trust};
use softnd::{Options, Profile};
use toml::{Table, Value};

const PREFIX: &str = "SOFTND_COM_";

/// The variable that names the file.
const FILE: &str = "SOFTND_COM_CONFIG";

/// The error is a line that names the problem and its place. That of a fault plan has more lines, which show the place in the plan.
type Result<T> = std::result::Result<T, String>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    #[default]
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Strictness {
    #[default]
    Lenient,
    Strict,
}

/// The configuration of the provider; the readme has a table of it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    protocol: Protocol,
    addresses: Vec<IpAddr>,
    profile: Strictness,
    crc: Option<bool>,
    same_host: Option<bool>,
    congestion: Option<String>,
    capture: Option<PathBuf>,
    capture_limit: Option<u64>,
    capture_files: Option<u32>,
    faults: Option<String>,
    pins: Vec<String>,
    authorities: Vec<PathBuf>,
    server_name: Option<String>,
    insecure: bool,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    time_limit: Option<f64>,
    patience: Option<f64>,
    largest_registration: Option<u64>,
    undelivered_limit: Option<u64>,
    undelivered_limit_per_peer: Option<u64>,
    log: Option<String>,
}

/// Parses the text of a variable to its value.
type Parse = fn(&str) -> Option<Value>;

/// The keys, and the parsers of their variables in the environment.
const KEYS: &[(&str, Parse)] = &[
    ("protocol", text),
    ("addresses", list),
    ("profile", text),
    ("crc", switch),
    ("same_host", switch),
    ("congestion", text),
    ("capture", text),
    ("capture_limit", number),
    ("capture_files", number),
    ("faults", text),
    ("pins", list),
    ("authorities", list),
    ("server_name", text),
    ("insecure", switch),
    ("certificate", text),
    ("key", text),
    ("time_limit", number),
    ("patience", number),
    ("largest_registration", number),
    ("undelivered_limit", number),
    ("undelivered_limit_per_peer", number),
    ("log", text),
];

#[expect(clippy::unnecessary_wraps, reason = "one of several kinds of values")]
fn text(value: &str) -> Option<Value> {
    Some(Value::String(value.to_owned()))
}

#[expect(clippy::unnecessary_wraps, reason = "one of several kinds of values")]
fn list(value: &str) -> Option<Value> {
    let parts = value.split(',').map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    Some(Value::Array(
        parts.map(|part| Value::String(part.to_owned())).collect(),
    ))
}

fn switch(value: &str) -> Option<Value> {
    match value {
        "on" | "true" | "1" => Some(Value::Boolean(true)),
        "off" | "false" | "0" => Some(Value::Boolean(false)),
        _ => None,
    }
}

/// Whole numbers are kept as integers, because some keys need one.
fn number(value: &str) -> Option<Value> {
    let whole = value.parse().map(Value::Integer).ok();
    whole.or_else(|| value.parse().map(Value::Float).ok())
}

impl Config {
    /// The settings in the environment of this process, and lines of a configuration file that precede it.
    pub(crate) fn of_environment(lines: &str) -> Result<Self> {
        let mut variables = BTreeMap::new();
        for (name, value) in environment::variables() {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
                continue;
            };
            let value = value
                .into_string()
                .map_err(|_| format!("the variable {name} is not UTF-8"))?;
            variables.insert(name.to_owned(), value);
        }
        Self::from_variables(&variables, lines)
    }

    fn from_variables(variables: &BTreeMap<String, String>, lines: &str) -> Result<Self> {
        let mut table = match variables.get(FILE) {
            Some(file) => read(file)?,
            None => Table::new(),
        };
        for (name, value) in variables {
            if name == FILE {
                continue;
            }
            let key = name[PREFIX.len()..].to_lowercase();
            let known = KEYS.iter().find(|(known, _)| *known == key);
            let Some((key, parse)) = known else {
                return Err(format!("there is no variable {name}; {}", names()));
            };
            let value = parse(value)
                .ok_or_else(|| format!("{name} is \"{value}\", which is no value for it"))?;
            table.insert((*key).to_owned(), value);
            // Each variable is parsed separately, so that the line names it.
            let alone = Table::from_iter([((*key).to_owned(), table[*key].clone())]);
            Self::from_table(alone).map_err(|why| format!("{name}: {why}"))?;
        }
        let lines: Table = lines
            .parse()
            .map_err(|error: toml::de::Error| one_line(error.message()))?;
        table.extend(lines);
        Self::from_table(table)
    }

    fn from_table(table: Table) -> Result<Self> {
        table
            .try_into()
            .map_err(|error: toml::de::Error| one_line(error.message()))
    }

    /// Makes the provider with this configuration.
    pub(crate) fn provider(self) -> Result<Arc<dyn Provider>> {
        if let Some(filter) = &self.log {
            log(filter)?;
        }
        let mut options = Options::default();
        if let Some(crc) = self.crc {
            options = options.crc(crc);
        }
        if let Some(same_host) = self.same_host {
            options = options.same_host(same_host);
        }
        if let Some(name) = &self.congestion {
            options = options.congestion(name);
        }
        if self.profile == Strictness::Strict {
            options = options.profile(Profile::Strict);
        }
        if !self.addresses.is_empty() {
            options = options.addresses(self.addresses.iter().copied());
        }
        if let Some(plan) = &self.faults {
            let plan = Plan::load(plan).map_err(|error| format!("faults: {error}"))?;
            options = options
                .faults(plan)
                .map_err(|error| format!("faults: {error}"))?;
        }
        if let Some(path) = &self.capture {
            let capture = self.capture_room().create(path).map_err(|error| {
                format!("cannot create the capture {}: {error}", path.display())
            })?;
            options = options.capture(capture);
        }
        if let Some(limit) = seconds("time_limit", self.time_limit)? {
            // Not for the connection below, as in `nd`: a lost datagram of a handshake takes QUIC a second.
            options = options.timeouts(|limits| {
                limits.reply = Some(limit);
                limits.request = Some(limit);
                limits.ready = Some(limit);
                limits.hold_ready = Some(limit);
                limits.disconnect = Some(limit);
            });
        }
        if let Some(patience) = seconds("patience", self.patience)? {
            options = options.timeouts(|limits| limits.hold_ready = Some(patience));
        }
        if let Some(octets) = self.largest_registration {
            options = options.limits(|limits| limits.registration_size = octets);
        }
        if let Some(octets) = self.undelivered_limit {
            options = options.undelivered_limit(octets);
        }
        if let Some(octets) = self.undelivered_limit_per_peer {
            options = options.undelivered_limit_per_peer(octets);
        }
        let security = self.security()?;
        Ok(match self.protocol {
            Protocol::Tcp => softnd::provider(options),
            Protocol::Udp => softnd::udp_provider(options.security(security)),
        })
    }

    fn capture_room(&self) -> CaptureOptions {
        // Without a log nothing else says it.
        let room = CaptureOptions::default().on_full(|text| {
            // The program may have closed its standard error.
            let _ = writeln!(io::stderr(), "softnd: {text}");
        });
        let room = room.limit(self.capture_limit.unwrap_or(CaptureOptions::LIMIT));
        room.files(self.capture_files.unwrap_or(1))
    }

    fn security(&self) -> Result<Security> {
        if self.protocol == Protocol::Tcp && self.names_security() {
            return Err("certificates and trust need the protocol udp".to_owned());
        }
        let mut trust = Trust::own_process();
        for pin in &self.pins {
            let pin: Fingerprint = pin
                .parse()
                .map_err(|error| one_line(&format!("pins: {error}")))?;
            trust = trust.pin(pin);
        }
        for file in &self.authorities {
            trust = trust
                .authorities(file)
                .map_err(|error| one_line(&format!("authorities: {error}")))?;
        }
        let mut security = Security::default();
        if !self.pins.is_empty() || !self.authorities.is_empty() {
            security = security
                .trust_servers(trust.clone())
                .demand_client_certificate(trust);
        }
        if self.insecure {
            security = security.insecure();
        }
        if let Some(name) = &self.server_name {
            security = security
                .server_name(name)
                .map_err(|error| one_line(&format!("server_name: {error}")))?;
        }
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let credentials = Credentials::from_files(certificate, key)
                    .map_err(|error| one_line(&format!("certificate and key: {error}")))?;
                security = security.credentials(credentials);
            }
            (None, None) => {}
            _ => return Err("certificate and key have to be given together".to_owned()),
        }
        Ok(security)
    }

    fn names_security(&self) -> bool {
        !self.pins.is_empty()
            || !self.authorities.is_empty()
            || self.server_name.is_some()
            || self.insecure
            || self.certificate.is_some()
            || self.key.is_some()
    }
}

fn seconds(key: &str, number: Option<f64>) -> Result<Option<Duration>> {
    let limit = number.map(Duration::try_from_secs_f64).transpose();
    limit.map_err(|error| format!("{key}: {error}"))
}

fn read(file: &str) -> Result<Table> {
    let text = bounded_file::read_text(file)
        .map_err(|error| format!("cannot read {file}, which {FILE} names: {error}"))?;
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| format!("{file}: {}", one_line(error.message())))?;
    Config::from_table(table.clone()).map_err(|why| format!("{file}: {why}"))?;
    Ok(table)
}

fn names() -> String {
    let names = KEYS.iter().map(|(key, _)| key.to_uppercase());
    format!(
        "the names after {PREFIX} are CONFIG, {}",
        names.collect::<Vec<_>>().join(", ")
    )
}

fn log(filter: &str) -> Result<()> {
    let parsed = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|error| format!("log: \"{filter}\": {error}"))?;
    // If the process has a second provider, or a log of the program, this fails and changes nothing.
    let mut lines = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr);
    if !std::io::stderr().is_terminal() {
        lines = lines.with_ansi(false);
    }
    let _ = lines.try_init();
    Ok(())
}

fn one_line(text: &str) -> String {
    text.trim().replace('\n', "; ")
}
