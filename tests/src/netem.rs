//! Transfers by `nd cat` in the guest, between two network namespaces that a veth pair joins, with netem on both ends.
//!
//! The guest's part is `tests/interop/netem.sh`.

use std::fmt::{self, Display, Write as _};
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::guest::Guest;
use crate::proxy::noise;

/// How long a transfer may take, which only ends a hang. It is longer than what the guest's script allows both programs.
const HANG: Duration = Duration::from_secs(1_000);

/// The damage that netem does to packets. Both directions have the same delay and the same loss, so a round trip takes twice the delay, and
/// acknowledgements are lost as often as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossyPath {
    /// Milliseconds from one end to the other.
    pub delay: u32,
    /// Percent of the packets that do not arrive, each packet by itself.
    pub loss: u32,
}

/// The arguments of `nd cat` for a transport.
#[derive(Clone, Copy, Debug)]
pub struct Transport {
    /// The name in tables and folders.
    pub name: &'static str,
    /// The prefix of both addresses, such as the scheme of a URL.
    pub prefix: &'static str,
    /// Further options of `nd cat recv`, each without white space.
    pub receiver: &'static [&'static str],
    /// Further options of `nd cat send`. The script replaces `FINGERPRINT` in them by the fingerprint of a certificate that
    /// the receiver has printed: `sha256:` and 64 digits.
    pub sender: &'static [&'static str],
}

/// A file of `octets` octets that has to cross a path.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The transport of the file.
    pub transport: Transport,
    /// The path of the packets.
    pub path: LossyPath,
    /// The size of the file.
    pub octets: usize,
}

/// A transfer that went well.
#[derive(Debug)]
pub struct Outcome {
    /// Which one.
    pub transfer: Transfer,
    /// The time that the receiver has measured, and its rate.
    pub rate: String,
    /// The congestion control of TCP in the sender's namespace.
    pub congestion: String,
    /// The packets that the sender has sent, and those of the receiver.
    pub packets: [Packets; 2],
}

/// The counts of netem in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets {
    /// Those that were lost.
    pub lost: u64,
    /// All packets, with those that were lost.
    pub sent: u64,
}

/// Runs the transfers one after the other in one guest, and checks each.
///
/// # Panics
/// If the guest fails, or a transfer did not go as it has to.
pub fn run(guest: &Guest, program: &Path, transfers: &[Transfer]) -> Vec<Outcome> {
    let folder = tempfile::tempdir().expect("a folder");
    let share = folder.path().join("share");
    fs::create_dir(&share).expect("a folder to share");
    let longest = transfers.iter().map(|transfer| transfer.octets).max();
    let content = noise(longest.expect("a transfer"));
    fs::write(share.join("original"), &content).expect("a file to send");
    let lines: String = transfers.iter().map(Transfer::line).collect();
    fs::write(share.join("transfers"), lines).expect("the transfers are named");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/netem.sh");
    fs::copy(script, share.join("main")).expect("the guest's script is copied");
    fs::copy(program, share.join("nd")).expect("nd is copied");
    let out = folder.path().join("out");
    let limit = HANG * (u32::try_from(transfers.len()).expect("a few transfers") + 1);
    let said = guest.run(2, limit, &share, &out);
    assert!(
        said.status.success(),
        "guest: {}\n{}\n{}",
        said.status,
        said.text,
        said.errors
    );
    transfers
        .iter()
        .map(|transfer| transfer.check(&out.join(transfer.name()), &content))
        .collect()
}

impl Transfer {
    /// The name of the folder with what the transfer has left.
    fn name(&self) -> String {
        let LossyPath { delay, loss } = self.path;
        format!("{}-{delay}ms-{loss}%-{}", self.transport.name, self.octets)
    }

    /// The transfer as the guest's script reads it.
    fn line(&self) -> String {
        let LossyPath { delay, loss } = self.path;
        let prefix = match self.transport.prefix {
            "" => "-",
            prefix => prefix,
        };
        let (name, octets) = (self.name(), self.octets);
        let mut line = format!("{name} {octets} {delay}ms {loss}% {prefix}");
        for word in self.transport.receiver.iter().chain([&"--"]) {
            let _ = write!(line, " {word}");
        }
        for word in self.transport.sender {
            let _ = write!(line, " {word}");
        }
        line + "\n"
    }

    /// Checks what the transfer has left in a folder: both programs have succeeded, the receiver has written the file once
    /// and nothing else, and the path was as it should be. `content` begins with the file.
    fn check(&self, left: &Path, content: &[u8]) -> Outcome {
        let name = self.name();
        let read = |file: &str| {
            fs::read_to_string(left.join(file))
                .unwrap_or_else(|error| panic!("{name}: {file}: {error}"))
        };
        let (receiver, sender) = (read("receiver.log"), read("sender.log"));
        let said = format!("{name}\n-- receiver\n{receiver}\n-- sender\n{sender}");
        for side in ["receiver", "sender"] {
            let status = read(&format!("{side}.status"));
            assert_eq!(status.trim(), "0", "status of the {side}: {said}");
        }
        let digest: String = Sha256::digest(&content[..self.octets])
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        for side in [&receiver, &sender] {
            assert!(side.contains(&digest), "no {digest}: {said}");
        }
        let copied = read("copied");
        let wanted = format!("copy {} {digest}  -\n", self.octets);
        assert_eq!(copied, wanted, "what was written: {said}");

        let round_trip = shortest_ping(&read("ping"));
        assert!(
            round_trip >= f64::from(2 * self.path.delay),
            "{name}: a round trip of {round_trip} ms"
        );
        let packets = ["sender.qdisc", "receiver.qdisc"].map(|file| {
            let text = read(file);
            self.path
                .packets(&text)
                .unwrap_or_else(|why| panic!("{name}: {file}: {why}: {text}"))
        });
        if let Err(why) = self.path.check_data(packets[0], self.octets) {
            panic!("{name}: {why}: {packets:?}");
        }
        Outcome {
            transfer: *self,
            rate: rate(&receiver).unwrap_or_else(|| panic!("no rate: {said}")),
            congestion: read("congestion").trim().to_owned(),
            packets,
        }
    }
}

/// The shortest of the round trips, in milliseconds, at the end of what `ping` says.
fn shortest_ping(text: &str) -> f64 {
    let figures = text.lines().find_map(|line| {
        line.strip_prefix("round-trip min/avg/max = ")?
            .split('/')
            .next()
    });
    let shortest = figures.and_then(|figure| figure.parse().ok());
    shortest.unwrap_or_else(|| panic!("nothing came back: {text}"))
}

/// Time and rate, from the last words of the line in which `nd cat recv` says what it has received.
fn rate(log: &str) -> Option<String> {
    let line = log.lines().find(|line| line.starts_with("received "))?;
    let (_, figures) = line.rsplit_once(" in ")?;
    Some(figures.to_owned())
}

impl LossyPath {
    /// Reads the JSON of `tc` about the packets of one direction. `Err` if netem is not set as this path has it, or if packets were lost
    /// elsewhere.
    fn packets(self, text: &str) -> Result<Packets, String> {
        let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let find = |kind: &str| {
            let mut disciplines = all.as_array().into_iter().flatten();
            let found = disciplines.find(|discipline| discipline["kind"] == kind);
            found.ok_or_else(|| format!("there is no {kind}"))
        };
        let (bucket, netem) = (find("tbf")?, find("netem")?);
        let equals = |value: &Value, wanted: f64| {
            value
                .as_f64()
                .is_some_and(|found| (found - wanted).abs() < 1e-9)
        };
        let options = &netem["options"];
        if !equals(&options["delay"]["delay"], f64::from(self.delay) / 1000.0)
            || !equals(
                &options["loss-random"]["loss"],
                f64::from(self.loss) / 100.0,
            )
        {
            return Err(format!("netem does not do what {self} says"));
        }
        let count = |discipline: &Value, what: &str| {
            let found = discipline[what].as_u64();
            found.ok_or_else(|| format!("there is no number of {what}"))
        };
        let lost = count(netem, "drops")?;
        // The bucket counts what netem has dropped, and what does not fit into the bucket's own queue.
        if count(bucket, "drops")? != lost {
            return Err("the token bucket has dropped packets".to_owned());
        }
        Ok(Packets {
            lost,
            sent: count(netem, "packets")? + lost,
        })
    }

    /// Checks the direction of the data: there were as many packets as the file needs, and netem has lost about as many of
    /// them as it should. The limits are half and twice this number. Chance leads beyond them less than once in ten million
    /// times if 100 losses are expected, which is the fewest that this accepts.
    fn check_data(self, packets: Packets, octets: usize) -> Result<(), String> {
        /// Of an IP packet on Ethernet.
        const LONGEST: u64 = 1_500;
        let needed = octets as u64 / LONGEST;
        if packets.sent - packets.lost < needed {
            return Err(format!(
                "the file needs {needed} packets: netem got several in one"
            ));
        }
        let expected = packets.sent * u64::from(self.loss) / 100;
        if expected < 100 {
            return Err(format!(
                "{expected} lost packets are too few to tell chance from a fault"
            ));
        }
        if packets.lost < expected / 2 || packets.lost > expected * 2 {
            return Err(format!("about {expected} packets should be lost"));
        }
        Ok(())
    }
}

impl Display for LossyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { delay, loss } = self;
        write!(f, "{delay} ms delay and {loss} % loss in each direction")
    }
}

impl Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.lost, self.sent)
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transfer {
            transport,
            path,
            octets,
        } = self.transfer;
        let [data, back] = self.packets;
        write!(
            f,
            "{octets} octets over {} with {path}: {}; lost packets: {data} to the receiver, {back} to the sender; TCP's \
             congestion control here: {}",
            transport.name, self.rate, self.congestion
        )
    }
}

/// The page `docs/reports/lossy-paths.md`. `versions` are programs and their versions.
///
/// # Panics
/// If there is no outcome.
pub fn page(versions: &[(&str, String)], outcomes: &[Outcome]) -> String {
    let mut page = String::from(INTRODUCTION);
    for (program, version) in versions {
        let _ = writeln!(page, "| {program} | {version} |");
    }
    let congestion = &outcomes.first().expect("an outcome").congestion;
    let _ = writeln!(page, "| congestion control of TCP | {congestion} |");
    page.push_str(
        "\n| delay | loss | file | transport | time and rate | lost to the receiver | lost to the sender |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for outcome in outcomes {
        let Transfer {
            transport,
            path,
            octets,
        } = outcome.transfer;
        let [data, back] = outcome.packets;
        let _ = writeln!(
            page,
            "| {} ms | {} % | {} MiB | {} | {} | {data} packets | {back} packets |",
            path.delay,
            path.loss,
            octets >> 20,
            transport.name,
            outcome.rate
        );
    }
    page
}

const INTRODUCTION: &str = "\
# Lossy paths

The test `netem` of the package `softnd-tests` writes this page. In a guest, `nd cat` moves files between two network namespaces
that a veth pair joins. Linux's netem delays every packet and loses some at random, each packet by itself. Delay and loss below are
those of each direction. So a round trip takes twice the delay, and acknowledgements are lost as often as data. A transfer passes only
if

- the receiver has written the file once and nothing else, and the file has the sender's size and SHA-256,
- a ping shows the delay, and netem has counted about as many lost packets as it should lose.

To repeat it, on Debian 12 as root:

```sh
tests/interop/guest/make        # once
cargo make netem                # SOFTND_REPORT=1 cargo make netem also rewrites this page
```

The guest's processors are emulated and the machine did other work at the same time. Delay and loss limit these rates, not the
processors. All transfers are of one run of the guest.

| | |
|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: LossyPath = LossyPath { delay: 20, loss: 1 };

    /// The output of `tc -j -s qdisc show`, without the fields that are not used here.
    fn counted(loss: &str, bucket: u64, netem: u64) -> String {
        format!(
            r#"[{{"kind":"tbf","root":true,"options":{{"rate":125000000}},"packets":11783,"drops":{bucket}}},
            {{"kind":"netem","parent":"1:","options":{{"delay":{{"delay":0.02,"jitter":0}},"loss-random":{{"loss":{loss}}}}},
            "packets":11783,"drops":{netem}}}]"#
        )
    }

    #[test]
    fn a_transfer_is_a_line_for_the_script() {
        let transport = Transport {
            name: "TCP",
            prefix: "",
            receiver: &[],
            sender: &[],
        };
        let mut transfer = Transfer {
            transport,
            path: PATH,
            octets: 5,
        };
        assert_eq!(transfer.line(), "TCP-20ms-1%-5 5 20ms 1% - --\n");
        transfer.transport = Transport {
            name: "other",
            prefix: "other://",
            receiver: &["--a", "b"],
            sender: &["--c", "FINGERPRINT"],
        };
        assert_eq!(
            transfer.line(),
            "other-20ms-1%-5 5 20ms 1% other:// --a b -- --c FINGERPRINT\n"
        );
    }

    #[test]
    fn packets_are_counted_only_where_netem_does_what_it_should() {
        let packets = PATH.packets(&counted("0.01", 120, 120));
        let wanted = Packets {
            lost: 120,
            sent: 11_903,
        };
        assert_eq!(packets, Ok(wanted));
        for (text, why) in [
            (counted("0.05", 120, 120), "netem does not do"),
            (counted("0.01", 121, 120), "the token bucket has dropped"),
            ("[]".to_owned(), "there is no tbf"),
            (String::new(), "EOF"),
        ] {
            let error = PATH.packets(&text).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn too_few_packets_and_a_loss_beyond_chance_are_found() {
        let octets = 16 << 20;
        let check = |lost, sent| PATH.check_data(Packets { lost, sent }, octets);
        assert_eq!(check(120, 11_903), Ok(()));
        for (lost, sent, why) in [
            (120, 11_000, "several in one"),
            (0, 11_903, "about 119"),
            (58, 11_903, "about 119"),
            (239, 11_903, "about 119"),
        ] {
            let error = check(lost, sent).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        let short = PATH.check_data(Packets { lost: 1, sent: 900 }, 1 << 20);
        assert!(short.expect_err("too few").contains("too few"));
    }

    #[test]
    fn figures_are_read_from_what_the_programs_say() {
        let ping = "64 bytes from 10.78.0.2: seq=0 ttl=64 time=88.390 ms\n\
                    round-trip min/avg/max = 40.575/45.950/88.390 ms\n";
        assert!((shortest_ping(ping) - 40.575).abs() < 1e-9);
        let log = "listening on 10.78.0.2:61532\n\
                   received 16777216 bytes (16 MiB) from 10.78.0.1:51689 by write in 45.71 s, 367 kB/s\n";
        assert_eq!(rate(log).as_deref(), Some("45.71 s, 367 kB/s"));
        assert_eq!(rate("listening on 10.78.0.2:61532\n"), None);
    }
}
