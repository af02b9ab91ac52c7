//! The errors that users read: one line that says what happened, to what, and what to do.
//!
//! Every ND status has its text in `netdirect`, every `std::io` error in `io_advice`. Commands add only what they were
//! doing. No other module ends the process.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io;
use std::process::ExitCode;

use conform_report::is_printable;
use netdirect::{ConnectionEnd, Status};
use rustix::io::Errno;

/// The result of every step of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command failed, in words for its user.
#[derive(Clone, Debug)]
pub struct Failure {
    what: String,
    advice: Cow<'static, str>,
    /// Lines to be shown below the message.
    shown: String,
    status: Option<Status>,
    origin: Origin,
}

/// The origin of a failure, which decides who has to be informed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// This side: a peer, if there is one, does not know yet.
    Here,
    /// The peer, or the connection to it, has failed: the peer cannot be informed.
    Peer,
    /// The reader of our standard output is gone, so that a message would not be read either.
    Reader,
    /// The failure was already reported.
    Told,
}

/// Statuses that come with the end of a connection.
fn is_loss(status: Status) -> bool {
    matches!(
        status,
        Status::CANCELED
            | Status::IO_TIMEOUT
            | Status::REMOTE_ERROR
            | Status::CONNECTION_ABORTED
            | Status::CONNECTION_DISCONNECTED
            | Status::CONNECTION_INVALID
            | Status::CONNECTION_REFUSED
    )
}

impl Failure {
    /// A failure: what happened, to what, and what to do.
    pub fn new(what: impl Into<String>, advice: impl Into<Cow<'static, str>>) -> Self {
        Self {
            what: what.into(),
            advice: advice.into(),
            shown: String::new(),
            status: None,
            origin: Origin::Here,
        }
    }

    /// Adds lines below the message that show the place of the error.
    pub fn showing(self, lines: &str) -> Self {
        Self {
            shown: lines.replace('\t', " "),
            ..self
        }
    }

    /// A failure caused by the peer or by the loss of the connection.
    pub fn peer(what: impl Into<String>, advice: impl Into<Cow<'static, str>>) -> Self {
        Self {
            origin: Origin::Peer,
            ..Self::new(what, advice)
        }
    }

    /// A call of the provider that could not start: `cannot <doing>: …`.
    pub fn nd(doing: impl Display, error: &netdirect::Error) -> Self {
        Self::explained(doing, error.status(), error.what())
    }

    /// A request that ended with a status: `cannot <doing>: …`.
    pub fn status(doing: impl Display, status: Status) -> Self {
        Self::explained(doing, status, "")
    }

    /// A request that ended with a status because the connection ended, or that ended it: `cannot <doing>: …`. Without a known end, as
    /// [`status`](Self::status).
    pub fn ended(doing: impl Display, status: Status, end: Option<&ConnectionEnd>) -> Self {
        let Some(end) = end else {
            return Self::status(doing, status);
        };
        let what = format!("cannot {doing}: {} ({status})", end.what());
        Self {
            status: Some(status),
            ..Self::peer(what, end.hint())
        }
    }

    /// A connection that failed for a known reason: `cannot <doing>: …`.
    pub fn refused(doing: impl Display, status: Status, why: &str) -> Self {
        Self {
            status: Some(status),
            ..Self::peer(format!("cannot {doing}: {why} ({status})"), "")
        }
    }

    /// A message was refused into memory that is registered. siw has one status for everything that goes wrong with a message, wrong CRCs
    /// included, and writes the reason to the kernel's log alone.
    pub fn unexplained_receive(doing: impl Display) -> Self {
        let status = Status::ACCESS_VIOLATION;
        let what =
            format!("cannot {doing}: the adapter refused a message and gives no reason ({status})");
        Self {
            status: Some(status),
            ..Self::new(
                what,
                "look for the reason, such as a wrong CRC, in the kernel's log of this side (for siw: dmesg | grep siw)",
            )
        }
    }

    fn explained(doing: impl Display, status: Status, detail: &str) -> Self {
        let row = explain(status);
        if let Some((refusal, advice)) = refusal(detail) {
            let what = format!("cannot {doing}: {refusal} ({status})");
            return Self {
                status: Some(status),
                ..Self::new(what, advice)
            };
        }
        if status == Status::UNSUCCESSFUL && !detail.is_empty() {
            // The status says nothing that the provider does not say better.
            let what = format!("cannot {doing}: {} ({status})", without_numbers(detail));
            let advice = if detail.contains("netlink") {
                NO_NETLINK
            } else {
                row.advice
            };
            return Self {
                status: Some(status),
                ..Self::new(what, advice)
            };
        }
        let advice = if is_shortage_of_threads(status, detail) {
            MORE_THREADS
        } else {
            row.advice
        };
        let detail = without_number(detail);
        let colon = if detail.is_empty() { "" } else { ": " };
        let what = format!("cannot {doing}: {} ({status}{colon}{detail})", row.meaning);
        let origin = if is_loss(status) {
            Origin::Peer
        } else {
            Origin::Here
        };
        Self {
            status: Some(status),
            origin,
            ..Self::new(what, advice)
        }
    }

    /// An error of the operating system: `cannot <doing>: …`.
    pub fn io(doing: impl Display, error: &io::Error) -> Self {
        Self::new(
            format!("cannot {doing}: {}", io_text(error)),
            io_advice(error),
        )
    }

    /// A thread or a process that could not be started: `cannot start <what>: …`.
    pub fn start(what: impl Display, error: &io::Error) -> Self {
        let failure = Self::io(format_args!("start {what}"), error);
        if error.raw_os_error() == Some(EAGAIN) {
            failure.advise(MORE_THREADS)
        } else {
            failure
        }
    }

    /// An error of a socket: `cannot <doing>: …`.
    pub fn socket(doing: impl Display, error: &io::Error) -> Self {
        let failure = Self::io(doing, error);
        match error.kind() {
            // Ports below 1024, and addresses that stand for all hosts of a network, to which connecting is forbidden.
            io::ErrorKind::PermissionDenied => failure.advise(
                "name the address of one host and a port above 1023, or look for a rule of this machine that forbids it (its firewall and \
                 routes, seccomp, SELinux) or, over IPv6, for a firewall on the way",
            ),
            io::ErrorKind::ConnectionRefused => {
                failure.advise("check address and port, and that the other side listens there")
            }
            _ if Errno::from_io_error(error).is_some_and(is_missing) => failure.advise(MISSING),
            _ => failure,
        }
    }

    /// Standard output could not be written. If the reader of a pipe is gone, the program ends without a message, as a program that SIGPIPE
    /// ends.
    pub fn stdout(error: &io::Error) -> Self {
        let origin = if error.kind() == io::ErrorKind::BrokenPipe {
            Origin::Reader
        } else {
            Origin::Here
        };
        Self {
            origin,
            ..Self::io("write to standard output", error)
        }
    }

    /// Replaces the table's advice, where the command knows a better one.
    pub fn advise(self, advice: impl Into<Cow<'static, str>>) -> Self {
        Self {
            advice: advice.into(),
            ..self
        }
    }

    /// The ND status behind the failure, if there is one.
    pub fn nd_status(&self) -> Option<Status> {
        self.status
    }

    /// Returns true if the peer should be informed before the connection ends.
    pub fn is_ours(&self) -> bool {
        self.origin == Origin::Here
    }

    /// Returns true if the failure is only that standard output has no reader any more.
    pub fn is_unread(&self) -> bool {
        self.origin == Origin::Reader
    }

    /// Marks the failure as one of the peer, which need not be informed.
    pub fn by_peer(self) -> Self {
        Self {
            origin: Origin::Peer,
            ..self
        }
    }

    /// Marks the failure as already reported: it only sets the exit status.
    pub fn already_reported(self) -> Self {
        Self {
            origin: Origin::Told,
            ..self
        }
    }

    /// The message without the advice. This is for the peer, whose user cannot follow the advice.
    pub fn what(&self) -> String {
        one_line(&self.what)
    }

    /// Prints the line and returns the exit status.
    pub fn report(&self) -> ExitCode {
        match self.origin {
            Origin::Reader => return ExitCode::from(141), // 128 + SIGPIPE, as shells show it
            Origin::Told => {}
            Origin::Here | Origin::Peer => crate::stderr::note(format_args!("error: {self}")),
        }
        ExitCode::FAILURE
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", one_line(&self.what), one_line(&self.advice))?;
        let mut shown = self.shown.lines();
        shown.try_for_each(|line| write!(f, "\n{}", one_line(line)))
    }
}

/// Text from file names and from peers, fit for a terminal: characters that are not printable become escapes.
pub fn one_line(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut line, c| {
            if !is_printable(c) {
                line.extend(c.escape_default())
            } else {
                line.push(c)
            }
            line
        })
}

/// A status in words.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The meaning of the status, as text behind a colon.
    pub meaning: &'static str,
    /// The advice to the user.
    pub advice: &'static str,
}

/// The text for `status`. A status that ND2 does not name gets a general text.
pub fn explain(status: Status) -> Row {
    Row {
        meaning: status
            .meaning()
            .unwrap_or("the adapter reported an unknown status"),
        advice: status.hint().unwrap_or(REPORT),
    }
}

const REPORT: &str = "this should not happen: run again with -vv and report what it says";
/// The error of starting a thread or a process when the user has as many as the system allows, or when there is no address
/// space for the stack (pthread_create(3), fork(2)).
const EAGAIN: i32 = if cfg!(target_os = "linux") {
    11
} else if cfg!(windows) {
    164 // ERROR_MAX_THRDS_REACHED
} else {
    35
};

const MORE_THREADS: &str =
    "end other programs, or raise the limits of threads and of memory (ulimit -u, ulimit -v)";

/// Returns true if the resource that an adapter lacks is a thread. Of all resources that an adapter asks the system for, only
/// threads give this error.
fn is_shortage_of_threads(status: Status, detail: &str) -> bool {
    status == Status::INSUFFICIENT_RESOURCES && detail.contains(&format!("(os error {EAGAIN})"))
}

/// The call that the system refuses, if that is what a provider says, and what to do. `None` for errors whose status says more.
pub fn refusal(detail: &str) -> Option<(&str, &'static str)> {
    let refusal = &detail[detail.find("the system refuses ")?..];
    let (text, number) = refusal.rsplit_once(" (os error ")?;
    let errno = number.strip_suffix(')')?.parse().ok()?;
    let errno = Errno::from_raw_os_error(errno);
    match io::Error::from(errno).kind() {
        io::ErrorKind::PermissionDenied => Some((text, FORBIDDEN)),
        _ if errno == Errno::MSGSIZE => Some((text, NARROW)),
        _ if is_missing(errno) => Some((text, MISSING)),
        _ => None,
    }
}

/// Returns true for the errors of calls and options that the system does not have.
fn is_missing(errno: Errno) -> bool {
    [Errno::NOPROTOOPT, Errno::OPNOTSUPP].contains(&errno)
        || io::Error::from(errno).kind() == io::ErrorKind::Unsupported // ENOSYS
}

const MISSING: &str = "run it on a newer system, or in a sandbox that has this call";

const NO_NETLINK: &str = "name the address to use, or let the program have netlink sockets (in a unit of systemd: \
    RestrictAddressFamilies=AF_NETLINK)";

/// The least that QUIC needs: 1,200 octets in a datagram (RFC 9000 §14), and the headers of UDP and IPv6.
const NARROW: &str = "the way to the peer is too narrow for QUIC: raise the MTU of the interface or the route that leads there to 1280 or \
    more, or connect over TCP";

const UNREACHABLE: &str = "there is no such host, or a firewall refuses to let it be reached: check the address, this machine's network, that \
    the host is up, and the firewalls on the way";

const FORBIDDEN: &str = "a rule of this machine forbids it: look at its firewall and routes, and at the sandbox or container \
    that the program runs in (seccomp, SELinux)";

/// The system's text, without the number that Rust appends and without the full stop of Windows' texts.
fn io_text(error: &io::Error) -> String {
    without_number(&error.to_string()).to_owned()
}

fn without_number(text: &str) -> &str {
    match text.find(" (os error ") {
        Some(at) if text.ends_with(')') => without_full_stop(&text[..at]),
        _ => text,
    }
}

/// Removes the system's numbers, wherever they are in the text.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.truncate(without_full_stop(&plain).len());
        plain += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    plain
}

/// Windows ends the text of an error with a full stop, behind which our sentence goes on.
fn without_full_stop(text: &str) -> &str {
    text.strip_suffix('.').unwrap_or(text)
}

/// Advice about an error of the operating system.
fn io_advice(error: &io::Error) -> &'static str {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound => "check the path",
        Kind::PermissionDenied => "check the permissions of the file and of its directory",
        Kind::AlreadyExists => "choose another name",
        Kind::IsADirectory | Kind::NotADirectory => "name a file",
        Kind::StorageFull | Kind::QuotaExceeded => "free some space, or choose another place",
        Kind::FileTooLarge => "raise the limit of file sizes (ulimit -f), or choose another place",
        Kind::ReadOnlyFilesystem => "choose a place that can be written to",
        Kind::OutOfMemory => "free some memory, or raise its limits (ulimit -v, ulimit -d)",
        Kind::AddrInUse => "choose another port",
        Kind::AddrNotAvailable => "see this machine's addresses with `nd info`",
        Kind::NetworkUnreachable | Kind::HostUnreachable => UNREACHABLE,
        Kind::InvalidFilename => "choose another name",
        Kind::BrokenPipe => "look at why the reader ended",
        _ => "correct that and try again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_words() {
        for status in Status::ALL {
            let meaning = status.meaning();
            assert!(meaning.is_some_and(|text| !text.is_empty()), "{status}");
            assert_ne!(status.hint(), Some(""), "{status}");
        }
    }

    #[test]
    fn the_page_about_failures_has_each_status_that_a_user_can_act_on() {
        let page = include_str!("../pages/troubleshooting.md");
        let advised = Status::ALL.iter().filter(|status| status.hint().is_some());
        assert!(advised.clone().count() > 20);
        for status in advised {
            let Row { meaning, advice } = explain(*status);
            let line = format!("| `{status}` | {meaning} | {advice} |");
            assert!(
                page.contains(&line),
                "docs/use/troubleshooting.md lacks: {line}"
            );
        }
    }

    #[test]
    fn an_unknown_status_is_printed_with_its_number() {
        let text = Failure::status("do it", Status::from_bits(0xC123_4567)).to_string();
        assert!(text.contains("0xc1234567"), "{text}");
    }

    #[test]
    fn a_failure_says_what_to_what_and_what_to_do() {
        let error = netdirect::Error::new(Status::SHARING_VIOLATION, "port 7 is taken");
        assert_eq!(
            Failure::nd("listen on [::1]:7", &error).to_string(),
            "cannot listen on [::1]:7: the address is in use (ND_SHARING_VIOLATION: port 7 is taken); \
             choose another port (0 for any free one), or stop the program that uses it"
        );
    }

    #[test]
    fn system_errors_lose_their_number_and_gain_advice() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let text = Failure::io("write x", &full).to_string();
        assert!(
            text.starts_with("cannot write x: ")
                && text.ends_with("; free some space, or choose another place")
        );
        let missing = io::Error::from_raw_os_error(2);
        assert!(
            !Failure::io("open x", &missing)
                .to_string()
                .contains("os error")
        );
    }

    #[test]
    fn texts_of_windows_lose_their_full_stop() {
        let denied = "Access is denied. (os error 5)";
        assert_eq!(without_number(denied), "Access is denied");
        let both = format!("cannot open a: {denied}; cannot open b.c: {denied} (ND_UNSUCCESSFUL)");
        assert_eq!(
            without_numbers(&both),
            "cannot open a: Access is denied; cannot open b.c: Access is denied (ND_UNSUCCESSFUL)"
        );
        assert_eq!(without_number("its text ends here."), "its text ends here.");
    }

    #[test]
    fn a_shortage_of_threads_is_told_as_one() {
        let again = io::Error::from_raw_os_error(EAGAIN);
        let failed = netdirect::Error::new(
            Status::INSUFFICIENT_RESOURCES,
            format!("cannot open the adapter: {again}"),
        );
        for text in [
            Failure::start("a thread", &again).to_string(),
            Failure::nd("open the adapter of ::1", &failed).to_string(),
        ] {
            assert!(
                text.contains("ulimit -u") && !text.contains("ulimit -n"),
                "{text}"
            );
        }
        let other = netdirect::Error::new(Status::INSUFFICIENT_RESOURCES, "no descriptors");
        assert!(Failure::nd("x", &other).to_string().contains("ulimit -n"));
    }

    #[cfg(unix)]
    const EPERM: Errno = Errno::PERM;
    #[cfg(unix)]
    const ENOSYS: Errno = Errno::NOSYS;
    // Windows' own numbers: ERROR_ACCESS_DENIED and ERROR_CALL_NOT_IMPLEMENTED.
    #[cfg(windows)]
    const EPERM: Errno = Errno::from_raw_os_error(5);
    #[cfg(windows)]
    const ENOSYS: Errno = Errno::from_raw_os_error(120);

    #[test]
    fn a_call_that_the_system_refuses_is_named_with_a_remedy_that_fits() {
        let text = |errno: Errno| {
            let error = io::Error::from(errno);
            let what = format!("cannot open the adapter: the system refuses eventfd2: {error}");
            let error = netdirect::Error::new(Status::UNSUCCESSFUL, what);
            Failure::nd("open the adapter of ::1", &error).to_string()
        };
        let forbidden = text(EPERM);
        let begins = "cannot open the adapter of ::1: the system refuses eventfd2: ";
        assert!(forbidden.starts_with(begins), "{forbidden}");
        assert!(forbidden.contains(" (ND_UNSUCCESSFUL); a rule of this machine forbids it"));
        assert!(text(ENOSYS).ends_with(MISSING));
        assert!(text(Errno::MSGSIZE).ends_with(NARROW));
        // A shortage keeps the advice of its status.
        assert!(!text(Errno::MFILE).contains("rule"));
    }

    #[test]
    fn a_host_that_lists_no_interfaces_needs_a_name_for_the_address() {
        let errno = io::Error::from(Errno::AFNOSUPPORT);
        let what = format!("no list without a netlink socket: {errno}; name one");
        let error = netdirect::Error::new(Status::UNSUCCESSFUL, what);
        let text = Failure::nd("list the adapters", &error).to_string();
        assert!(!text.contains("os error"), "{text}");
        assert!(text.contains("; name one (ND_UNSUCCESSFUL); "), "{text}");
        assert!(text.ends_with(NO_NETLINK), "{text}");
    }

    #[test]
    fn no_permission_for_a_socket_is_no_matter_of_files() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let text = Failure::socket("find a way to 255.255.255.255:7", &denied).to_string();
        assert!(
            text.contains("the address of one host") && !text.contains("file"),
            "{text}"
        );
    }

    #[test]
    fn a_failure_is_one_line_whatever_names_contain() {
        let failure = Failure::new("cannot open a\nb\u{1b}[31m", "rename\rit");
        let text = failure.to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
        assert_eq!(text, "cannot open a\\nb\\u{1b}[31m; rename\\rit");
        let reordered = Failure::new("a\u{202e}b\u{2066}c\u{61c}\u{200f}", "\u{fffe}\u{ffff}");
        let text = "a\\u{202e}b\\u{2066}c\\u{61c}\\u{200f}; \\u{fffe}\\u{ffff}";
        assert_eq!(reordered.to_string(), text);
    }
}
