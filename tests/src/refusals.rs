//! System calls that the kernel refuses to a program, by a filter of seccomp: what a sandbox, an old kernel or a policy does.

use std::fmt;
use std::str::FromStr;

use rustix::io::Errno;
use seccompiler::{BpfMap, apply_filter, compile_from_json};
use serde_json::json;

/// The errors with which calls are refused, by name.
const ERRNOS: [(&str, Errno); 9] = [
    ("EACCES", Errno::ACCESS),
    ("EAFNOSUPPORT", Errno::AFNOSUPPORT),
    ("EHOSTUNREACH", Errno::HOSTUNREACH),
    ("EMFILE", Errno::MFILE),
    ("EMSGSIZE", Errno::MSGSIZE),
    ("ENOMEM", Errno::NOMEM),
    ("ENOPROTOOPT", Errno::NOPROTOOPT),
    ("ENOSYS", Errno::NOSYS),
    ("EPERM", Errno::PERM),
];

/// A call that is refused: `CALL:ERRNO`, or `CALL:ERRNO:ARG=VALUE,...` for the call with these arguments, which count from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the call.
    pub call: String,
    /// The name of the error that the call returns.
    pub errno: String,
    /// Arguments by index. Where there are some, other calls are let through.
    pub args: Vec<(u8, u32)>,
}

impl FromStr for Refusal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not CALL:ERRNO or CALL:ERRNO:ARG=VALUE,...");
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let call = part().ok_or_else(wrong)?.to_owned();
        let errno = part().ok_or_else(wrong)?.to_owned();
        let pairs = part().map(|pairs| pairs.split(',')).into_iter().flatten();
        let args = pairs.map(|pair| {
            let (index, value) = pair.split_once('=')?;
            Some((index.parse().ok()?, value.parse().ok()?))
        });
        let args = args.collect::<Option<_>>().ok_or_else(wrong)?;
        Ok(Self { call, errno, args })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.call, self.errno)?;
        let mut sign = ':';
        for (index, value) in &self.args {
            write!(f, "{sign}{index}={value}")?;
            sign = ',';
        }
        Ok(())
    }
}

/// Has the kernel refuse these calls to this thread from now on, and to every program that it starts.
///
/// # Errors
/// If there is no such call or error, or if the kernel takes no filter.
pub fn refuse(refusals: &[Refusal]) -> Result<(), String> {
    for refusal in refusals {
        let named = ERRNOS.iter().find(|(name, _)| *name == refusal.errno);
        let (_, errno) = named.ok_or_else(|| format!("{refusal}: no such error"))?;
        let args = refusal.args.iter().map(
            |(index, value)| json!({ "index": index, "type": "dword", "op": "eq", "val": value }),
        );
        let mut filter = json!({ "syscall": refusal.call });
        if !refusal.args.is_empty() {
            filter["args"] = args.collect();
        }
        // One filter for each, because all calls of a filter have one error.
        let filter = json!({ "refuse": {
            "mismatch_action": "allow",
            "match_action": { "errno": errno.raw_os_error() },
            "filter": [filter],
        }});
        let arch = std::env::consts::ARCH.try_into();
        let arch = arch.map_err(|error| format!("{refusal}: {error}"))?;
        let compiled: Result<BpfMap, _> = compile_from_json(filter.to_string().as_bytes(), arch);
        let compiled = compiled.map_err(|error| format!("{refusal}: {error}"))?;
        apply_filter(&compiled["refuse"]).map_err(|error| format!("{refusal}: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_as_it_is_written() {
        for text in ["connect:EACCES", "setsockopt:ENOPROTOOPT:1=6,2=4"] {
            let refusal: Refusal = text.parse().unwrap();
            assert_eq!(refusal.to_string(), text);
        }
        for wrong in ["", "connect", "connect:", "a:b:c", "a:b:1=x"] {
            assert!(wrong.parse::<Refusal>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_call_that_is_refused_fails_in_this_thread() {
        let refused = std::thread::spawn(|| {
            refuse(&["socket:ENOSYS:0=2".parse().unwrap()]).map(|()| {
                let other = std::net::UdpSocket::bind("[::1]:0").err();
                let refused = std::net::UdpSocket::bind("127.0.0.1:0").unwrap_err();
                (
                    other.and_then(|error| Errno::from_io_error(&error)),
                    Errno::from_io_error(&refused),
                )
            })
        });
        let (other, refused) = refused.join().unwrap().unwrap();
        assert_ne!(other, Some(Errno::NOSYS));
        assert_eq!(refused, Some(Errno::NOSYS));
        assert!(refuse(&["no_such_call:EPERM".parse().unwrap()]).is_err());
        assert!(refuse(&["socket:EOTHER".parse().unwrap()]).is_err());
    }
}
