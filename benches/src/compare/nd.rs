//! softnd, raw TCP and a bare QUIC stream, by `nd perf`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nd_perf::process::{self, on_core};
use serde_json::Value;

use super::{Failure, Times};

/// Both sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<T> {
    /// softnd's.
    pub ours: T,
    /// That of raw TCP at its best, of a bare QUIC stream, or of perftest on a device.
    pub bare: T,
}

/// Outstanding messages in one direction. `nd perf` has a buffer for each message, `ucx_perftest` one for all. So there are
/// as many messages as come to a MiB, and at least two. Otherwise memory that is in no cache would be compared with memory
/// that is in one.
#[must_use]
pub fn depth(size: usize) -> usize {
    ((1 << 20) / size.max(1)).clamp(2, 32)
}

/// The transport of softnd, the program to compare with, and the choices of softnd's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Over TCP, compared with raw TCP.
    Tcp,
    /// Over TCP alone, with page-aligned memory.
    Aligned,
    /// Over TCP alone, with shared Receives.
    Shared,
    /// Over UDP, compared with a bare QUIC stream.
    Udp,
    /// Through shared memory, compared with the same adapter over TCP.
    Shm,
}

impl Way {
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Tcp => &["--baseline", "tcp"],
            Self::Aligned => &["--page-offset", "0"],
            Self::Shared => &["--receives", "shared"],
            Self::Udp => &["--udp", "--baseline", "quic"],
            Self::Shm => &["--same-host", "--baseline", "softnd-tcp"],
        }
    }
}

/// The program `nd` in the folder of this program.
///
/// # Errors
///
/// If it was not built.
pub fn program_beside_this() -> Result<PathBuf, Failure> {
    let here = std::env::current_exe().ok();
    let program = here
        .as_deref()
        .and_then(Path::parent)
        .map(|at| at.join("nd"));
    program.filter(|program| program.is_file()).ok_or_else(|| {
        Failure::new("nd is not built; run `cargo build --release` first, or name it with --nd")
    })
}

/// The program `nd`, and the options of every run.
#[derive(Clone, Debug)]
pub struct Nd {
    /// Where it is.
    pub program: PathBuf,
    /// CRC on or off.
    pub crc: bool,
    /// The length of a turn.
    pub turn: Duration,
    /// softnd and raw TCP have the system's default congestion control as well, and not the best that they may choose.
    pub systems_congestion: bool,
}

impl Nd {
    /// The `nd` in the folder of this program.
    ///
    /// # Errors
    ///
    /// If it was not built.
    pub fn beside_this(crc: bool, turn: Duration) -> Result<Self, Failure> {
        Ok(Self {
            program: program_beside_this()?,
            crc,
            turn,
            systems_congestion: false,
        })
    }

    /// `nd run` on a core, or on any, with the setting of CRCs; `--` and a program follow.
    #[must_use]
    pub fn run(&self, core: Option<usize>) -> Command {
        let mut command = match core {
            Some(core) => on_core(core, &self.program),
            None => Command::new(&self.program),
        };
        command.arg("run");
        if !self.crc {
            command.arg("--no-crc");
        }
        command
    }

    /// Adds the arguments of a run over TCP.
    pub fn arguments(&self, command: &mut Command) {
        self.arguments_of_all(command);
        command.args(["--crc", if self.crc { "on" } else { "off" }]);
    }

    /// Adds the arguments that are common to all runs.
    fn arguments_of_all(&self, command: &mut Command) {
        let seconds = self.turn.as_secs_f64().to_string();
        command
            .args(["perf", "local", "--mode", "poll", "--format", "json"])
            .args(["--turns", "1", "--duration", &seconds]);
        if self.systems_congestion {
            command.env("SOFTND_CONGESTION", "system");
        }
    }

    fn rows(&self, op: &str, test: &str, size: usize, way: Way) -> Result<Vec<Value>, Failure> {
        let mut command = Command::new(&self.program);
        if way == Way::Udp {
            // QUIC encrypts, and there are no CRCs.
            self.arguments_of_all(&mut command);
        } else {
            self.arguments(&mut command);
        }
        command
            .args(["--op", op, "--test", test])
            .args(["--size", &size.to_string()])
            .args(way.options());
        if test == "bandwidth" {
            command.args(["--depth", &depth(size).to_string()]);
        }
        rows(&process::run(command)?)
    }

    /// The prefix of the names of the bare stream's figures.
    fn bare(&self, way: Way) -> &'static str {
        if self.systems_congestion && way == Way::Tcp {
            "default_"
        } else {
            "baseline_"
        }
    }

    fn ping_pong_row(&self, size: usize, way: Way) -> Result<Value, Failure> {
        one(&self.rows("send", "latency", size, way)?, "send")
    }

    /// One turn of Send ping-pong, compared with raw TCP.
    ///
    /// # Errors
    ///
    /// When `nd` fails, or prints something else than its rows. The same holds for all turns below.
    pub fn ping_pong(&self, size: usize) -> Result<Row<Times>, Failure> {
        times(&self.ping_pong_row(size, Way::Tcp)?, self.bare(Way::Tcp))
    }

    /// The same over UDP, beside a bare QUIC stream.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`].
    pub fn udp_ping_pong(&self, size: usize) -> Result<Row<Times>, Failure> {
        times(&self.ping_pong_row(size, Way::Udp)?, self.bare(Way::Udp))
    }

    /// The same through shared memory, beside the same adapter over TCP.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`]; also if the connection does not go through shared memory.
    pub fn shm_ping_pong(&self, size: usize) -> Result<Row<Times>, Failure> {
        let row = self.ping_pong_row(size, Way::Shm)?;
        through_shared_memory(&row)?;
        times(&row, self.bare(Way::Shm))
    }

    /// Ping-pong over TCP with page-aligned memory, without raw TCP.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`].
    pub fn aligned_ping_pong(&self, size: usize) -> Result<Times, Failure> {
        side_times(&self.ping_pong_row(size, Way::Aligned)?, "")
    }

    /// Ping-pong over TCP with shared Receives, without raw TCP.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`].
    pub fn shared_ping_pong(&self, size: usize) -> Result<Times, Failure> {
        side_times(&self.ping_pong_row(size, Way::Shared)?, "")
    }

    /// One turn of ping-pong, or of Reads one after the other, over TCP: the median of half a round trip of a Send or a Write, or of a whole
    /// one of a Read, in nanoseconds. `mode` is how the sides wait: `poll`, `event` or `memory`.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`].
    pub fn latency(&self, op: &str, size: usize, mode: &str) -> Result<f64, Failure> {
        let size = size.to_string();
        let more = [
            "--op", op, "--test", "latency", "--size", &size, "--mode", mode,
        ];
        number(&self.row(op, &more)?, "p50_ns")
    }

    /// One turn one way over TCP, in octets per second. `depth` is the number of outstanding messages.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`].
    pub fn bandwidth_at(&self, op: &str, size: usize, depth: usize) -> Result<f64, Failure> {
        let (size, depth) = (size.to_string(), depth.to_string());
        let more = [
            "--op",
            op,
            "--test",
            "bandwidth",
            "--size",
            &size,
            "--depth",
            &depth,
        ];
        number(&self.row(op, &more)?, "bytes_per_s")
    }

    /// The row of an operation, in the last mode that is named: `nd perf` runs all modes that it is given.
    ///
    /// Its memory begins with a page, as that of most programs does. That is not the best place on every processor.
    fn row(&self, op: &str, more: &[&str]) -> Result<Value, Failure> {
        let mut command = Command::new(&self.program);
        self.arguments(&mut command);
        command.args(Way::Aligned.options()).args(more);
        let mut rows = rows(&process::run(command)?)?;
        rows.reverse();
        one(&rows, op)
    }

    /// One turn of Send and one of Write, one way, in octets per second, compared with raw TCP.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`].
    pub fn one_way(&self, size: usize) -> Result<[Row<f64>; 2], Failure> {
        self.both_ways(size, Way::Tcp)
    }

    /// The same over UDP, beside a bare QUIC stream.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`].
    pub fn udp_one_way(&self, size: usize) -> Result<[Row<f64>; 2], Failure> {
        self.both_ways(size, Way::Udp)
    }

    /// The same with Reads too, through shared memory, beside the same adapter over TCP.
    ///
    /// # Errors
    ///
    /// See [`Nd::shm_ping_pong`].
    pub fn shm_one_way(&self, size: usize) -> Result<[Row<f64>; 3], Failure> {
        let rows = self.rows("send,write,read", "bandwidth", size, Way::Shm)?;
        rows.iter().try_for_each(through_shared_memory)?;
        let rate = |op| rate(&one(&rows, op)?, self.bare(Way::Shm));
        Ok([rate("send")?, rate("write")?, rate("read")?])
    }

    fn both_ways(&self, size: usize, way: Way) -> Result<[Row<f64>; 2], Failure> {
        let rows = self.rows("send,write", "bandwidth", size, way)?;
        let rate = |op| rate(&one(&rows, op)?, self.bare(way));
        Ok([rate("send")?, rate("write")?])
    }

    /// One turn of Send and one of Write over TCP with page-aligned memory, one way, in octets per second.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`].
    pub fn aligned_one_way(&self, size: usize) -> Result<[f64; 2], Failure> {
        let rows = self.rows("send,write", "bandwidth", size, Way::Aligned)?;
        let rate = |op| number(&one(&rows, op)?, "bytes_per_s");
        Ok([rate("send")?, rate("write")?])
    }

    /// One turn of Send over TCP with shared Receives, one way, in octets per second.
    ///
    /// # Errors
    ///
    /// See [`Nd::ping_pong`].
    pub fn shared_one_way(&self, size: usize) -> Result<f64, Failure> {
        let rows = self.rows("send", "bandwidth", size, Way::Shared)?;
        number(&one(&rows, "send")?, "bytes_per_s")
    }
}

/// The printed objects.
fn rows(printed: &str) -> Result<Vec<Value>, Failure> {
    let lines = printed.lines().filter(|line| !line.trim().is_empty());
    let rows = lines.map(|line| match serde_json::from_str(line) {
        Ok(row @ Value::Object(_)) => Ok(row),
        Ok(_) => Err(Failure::new(format!("nd printed no object: {line}"))),
        Err(error) => Err(Failure::new(format!(
            "nd printed no JSON ({error}): {line}"
        ))),
    });
    rows.collect()
}

/// The complete row of an operation.
fn one(rows: &[Value], op: &str) -> Result<Value, Failure> {
    let row = rows.iter().find(|row| row["op"] == op);
    row.filter(|row| row["complete"] == true)
        .cloned()
        .ok_or_else(|| Failure::new(format!("nd printed no complete row for {op}")))
}

/// Checks what has carried the connection of a row, whatever option was given.
fn through_shared_memory(row: &Value) -> Result<(), Failure> {
    match row["transport"].as_str() {
        Some("shm") => Ok(()),
        _ => Err(Failure::new(format!(
            "a connection within this machine was over {}; nd -vv perf local --same-host says why",
            row["transport"]
        ))),
    }
}

fn number(row: &Value, name: &str) -> Result<f64, Failure> {
    row[name]
        .as_f64()
        .filter(|number| *number > 0.0)
        .ok_or_else(|| Failure::new(format!("nd printed no {name}: {row}")))
}

fn times(row: &Value, bare: &str) -> Result<Row<Times>, Failure> {
    Ok(Row {
        ours: side_times(row, "")?,
        bare: side_times(row, bare)?,
    })
}

/// The times of the side whose figures have names that begin so.
fn side_times(row: &Value, prefix: &str) -> Result<Times, Failure> {
    Ok(Times {
        p50: Some(number(row, &format!("{prefix}p50_ns"))?),
        mean: number(row, &format!("{prefix}mean_ns"))?,
    })
}

fn rate(row: &Value, bare: &str) -> Result<Row<f64>, Failure> {
    Ok(Row {
        ours: number(row, "bytes_per_s")?,
        bare: number(row, &format!("{bare}bytes_per_s"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = r#"{"op":"send","test":"latency","size":8,"complete":true,"p50_ns":4100.5,"mean_ns":4300,"baseline_p50_ns":4000,"baseline_mean_ns":4200,"bytes_per_s":null}"#;
    const BANDWIDTH: &str = r#"{"op":"write","test":"bandwidth","size":65536,"complete":true,"bytes_per_s":9000000000,"baseline_bytes_per_s":10000000000,"p50_ns":null}"#;

    #[test]
    fn rows_are_read_by_name() {
        let all = rows(&format!("{LATENCY}\n{BANDWIDTH}\n")).unwrap();
        let send = times(&one(&all, "send").unwrap(), "baseline_").unwrap();
        assert_eq!((send.ours.p50, send.bare.mean), (Some(4100.5), 4200.0));
        let write = rate(&one(&all, "write").unwrap(), "baseline_").unwrap();
        assert_eq!((write.ours, write.bare), (9e9, 1e10));
        assert!(one(&all, "read").is_err());
    }

    #[test]
    fn what_was_cut_short_is_no_result() {
        let cut = LATENCY.replace("\"complete\":true", "\"complete\":false");
        assert!(one(&rows(&cut).unwrap(), "send").is_err());
        let without = rows(BANDWIDTH).unwrap();
        assert!(
            times(&without[0], "baseline_")
                .unwrap_err()
                .to_string()
                .contains("p50_ns")
        );
    }

    #[test]
    fn a_row_over_tcp_is_none_of_shared_memory() {
        let row = |transport| serde_json::json!({ "transport": transport });
        assert!(through_shared_memory(&row("shm")).is_ok());
        for other in ["tcp", "1 shm, 2 tcp"] {
            let failure = through_shared_memory(&row(other)).unwrap_err().to_string();
            assert!(failure.contains(&format!("over {other:?}")), "{failure}");
        }
    }

    #[test]
    fn other_output_is_quoted() {
        for bad in ["oops", "7", "{\"op\":"] {
            assert!(rows(bad).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }

    #[test]
    fn only_what_runs_over_tcp_has_crcs() {
        let nd = Nd {
            program: PathBuf::from("nd"),
            crc: true,
            turn: Duration::from_millis(50),
            systems_congestion: true,
        };
        let mut command = Command::new("nd");
        nd.arguments(&mut command);
        assert!(command.get_args().any(|argument| argument == "--crc"));
        let mut command = Command::new("nd");
        nd.arguments_of_all(&mut command);
        assert!(command.get_args().all(|argument| argument != "--crc"));
        assert_eq!(
            [Way::Tcp, Way::Udp].map(|way| nd.bare(way)),
            ["default_", "baseline_"]
        );
    }
}
