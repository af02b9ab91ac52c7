//! Connections within this machine through shared memory: which adapters have them, and what the system refuses of it.

use netdirect::{Adapter, AdapterExtensions};

use super::schemes::{is_over_udp, may_share_memory};

/// The name of the adapters over TCP where connections through shared memory are compared with theirs.
pub const OVER_TCP: &str = "softnd-tcp";

/// Returns true if the adapter has the option: it counts its connections through shared memory then.
pub fn has_shared_memory(adapter: &dyn Adapter) -> bool {
    let counters = adapter.extensions().map(AdapterExtensions::counters);
    counters.is_some_and(|counters| counters.get("same_host.connections").is_some())
}

/// The call that the system refuses and that connections through shared memory need, with the reason, if there is one.
pub fn refusal_of_shared_memory() -> Option<String> {
    softnd::check_same_host()
        .err()
        .map(|error| error.to_string())
}

/// Whether connections of the adapter of this URL go through shared memory, in words. `has_option` is true if the adapter has the option,
/// and `refusal` is the call that the system refuses.
pub fn shared_memory(url: &str, has_option: bool, refusal: Option<&str>) -> String {
    if is_over_udp(url).unwrap_or(false) {
        return "no, whatever SOFTND_SAME_HOST says".to_owned();
    }
    match (has_option, refusal) {
        (false, _) if !may_share_memory(url) => "no".to_owned(),
        (true, None) => "yes".to_owned(),
        (true, Some(refusal)) => format!("no, although the option is set: {refusal}"),
        (false, None) => "no: set --same-host, or SOFTND_SAME_HOST=1".to_owned(),
        (false, Some(refusal)) => format!("no: {refusal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_say_whether_memory_is_shared_or_what_the_system_refuses() {
        let refusal = Some("the system refuses memfd_create: Operation not permitted");
        let tcp =
            |has_option, refusal| shared_memory("softnd+tcp://127.0.0.1", has_option, refusal);
        assert_eq!(tcp(true, None), "yes");
        assert_eq!(
            tcp(false, None),
            "no: set --same-host, or SOFTND_SAME_HOST=1"
        );
        let on = tcp(true, refusal);
        assert!(
            on.starts_with("no, although the option is set: the system refuses"),
            "{on}"
        );
        assert!(tcp(false, refusal).starts_with("no: the system refuses memfd_create"));
        let udp = shared_memory("softnd+udp://127.0.0.1", false, None);
        assert_eq!(udp, "no, whatever SOFTND_SAME_HOST says");
        assert_eq!(shared_memory("verbs://siw0", false, None), "no");
        // A library counts what it does, and has options of its own.
        assert_eq!(shared_memory("com:///lib.so", true, None), "yes");
    }
}
