//! A short run without a fuzzer: files of the corpora, changed at random places. The generator starts from a fixed number, so
//! that every run is the same run.

use std::fs;
use std::path::Path;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).expect("below a usize")
    }

    fn octet(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("a corpus")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| fs::read(file).expect("a readable file"))
        .collect()
}

/// One to eight changes: an octet, a piece left out, a piece of another file put in.
fn mutate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(8) {
        let at = random.below(input.len());
        match random.below(4) {
            0 | 1 => {
                if let Some(octet) = input.get_mut(at) {
                    *octet = random.octet();
                }
            }
            2 => {
                let end = input.len().min(at + random.below(16));
                input.drain(at..end);
            }
            _ => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                let to = other.len().min(from + random.below(32));
                input.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    input
}

fn run(name: &str, rounds: usize, target: fn(&[u8])) {
    let corpus = corpus(name);
    let mut random = Random(1);
    for round in 0..rounds {
        let input = mutate(&mut random, &corpus);
        // Shown only when the round fails.
        println!("round {round}: {input:02x?}");
        target(&input);
    }
}

#[test]
fn mutations_of_codec() {
    run("codec", 4000, softnd_fuzz::codec);
}

#[test]
fn mutations_of_engine() {
    run("engine", 1500, softnd_fuzz::engine);
}

#[test]
fn mutations_of_pair() {
    run("pair", 1000, softnd_fuzz::pair);
}

#[test]
fn mutations_of_startup() {
    run("startup", 4000, softnd_fuzz::startup);
}

#[test]
fn mutations_of_fault_plan() {
    run("fault_plan", 20_000, softnd_fuzz::fault_plan);
}

#[test]
fn mutations_of_initiator() {
    run("initiator", 20_000, softnd_fuzz::initiator);
}

#[test]
fn mutations_of_responder() {
    run("responder", 20_000, softnd_fuzz::responder);
}

#[test]
fn mutations_of_number_call() {
    run("number_call", 20_000, softnd_fuzz::number_call);
}

#[test]
fn mutations_of_preamble() {
    run("preamble", 150, softnd_fuzz::preamble);
}

#[test]
fn mutations_of_datagrams() {
    run("datagrams", 150, softnd_fuzz::datagrams);
}

#[test]
fn mutations_of_verbs() {
    run("verbs", 500, softnd_fuzz::verbs);
}

#[cfg(target_os = "linux")]
#[test]
fn mutations_of_ring() {
    run("ring", 4000, softnd_fuzz::ring);
}

#[cfg(target_os = "linux")]
#[test]
fn mutations_of_same_host() {
    run("same_host", 500, softnd_fuzz::same_host);
}

#[cfg(unix)]
#[test]
fn mutations_of_com() {
    run("com", 300, softnd_fuzz::com);
}
