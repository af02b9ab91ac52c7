//! Every file of every corpus goes through its target, so that findings of the fuzzers cannot return.

use std::fs;
use std::path::Path;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", folder.display());
    for file in files {
        let octets = fs::read(&file).expect("a readable file");
        // A failure shows the name of the file.
        println!("{}, {} octets", file.display(), octets.len());
        target(&octets);
    }
}

#[test]
fn corpus_of_codec() {
    replay("codec", softnd_fuzz::codec);
}

#[test]
fn corpus_of_engine() {
    replay("engine", softnd_fuzz::engine);
}

#[test]
fn corpus_of_pair() {
    replay("pair", softnd_fuzz::pair);
}

#[test]
fn corpus_of_startup() {
    replay("startup", softnd_fuzz::startup);
}

#[test]
fn corpus_of_fault_plan() {
    replay("fault_plan", softnd_fuzz::fault_plan);
}

#[test]
fn corpus_of_initiator() {
    replay("initiator", softnd_fuzz::initiator);
}

#[test]
fn corpus_of_responder() {
    replay("responder", softnd_fuzz::responder);
}

#[test]
fn corpus_of_preamble() {
    replay("preamble", softnd_fuzz::preamble);
}

#[test]
fn corpus_of_datagrams() {
    replay("datagrams", softnd_fuzz::datagrams);
}

#[test]
fn corpus_of_number_call() {
    replay("number_call", softnd_fuzz::number_call);
}

#[test]
fn corpus_of_verbs() {
    replay("verbs", softnd_fuzz::verbs);
}

#[cfg(target_os = "linux")]
#[test]
fn corpus_of_ring() {
    replay("ring", softnd_fuzz::ring);
}

#[cfg(target_os = "linux")]
#[test]
fn corpus_of_same_host() {
    replay("same_host", softnd_fuzz::same_host);
}

#[cfg(unix)]
#[test]
fn corpus_of_com() {
    replay("com", softnd_fuzz::com);
}
