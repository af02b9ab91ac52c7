//! Measures what the project promises about its speed, and prints which promises hold.
//!
//! `cargo build --release && cargo run --release -p softnd-benches --bin promises`, on a machine that does nothing else; `benches/table`
//! does both. With `--write docs/reports/performance.md` the tables of that page are written as well.
#![forbid(unsafe_code)]

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use nd_perf::cores::Watch;
use softnd_benches::compare::Failure;
use softnd_benches::compare::nd::program_beside_this;
use softnd_benches::promises::measurer::{Measurer, Pace};
use softnd_benches::promises::rows::{self, Question};
use softnd_benches::promises::{self, page};

/// The remark about what was left out, with a device and without one.
const ELSEWHERE: [&str; 2] = [
    "Not measured here: other programs over TCP and UDP.",
    "Not measured here: an RDMA device compared with perftest (--device), and other programs over TCP and UDP.",
];

/// Measures the promises that the project makes about its speed, and says which of them hold. The exit status is 0 only if all do.
#[derive(Debug, Parser)]
struct Arguments {
    /// Takes fewer and shorter turns; repeat a row that does not hold without --quick
    #[arg(long)]
    quick: bool,

    /// Measures everything this many times, one run after the other; each row shows its worst run, and holds if it held in all
    #[arg(long, value_name = "N", default_value = "1")]
    runs: NonZeroU32,

    /// Answers only these questions [default: all; that about verbs only with --device]
    #[arg(long, value_enum, value_delimiter = ',')]
    question: Vec<Question>,

    /// The RDMA device for the question about verbs, which compares `nd perftest` over verbs:// with the programs of perftest
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Also writes the tables into a page, such as docs/reports/performance.md, each between its two marks
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Writes into the parts of the page whose names end with this text, for tables of the same machine used in another way
    #[arg(long, value_name = "TEXT", requires = "write")]
    variant: Option<String>,

    /// The program nd [default: the one in the folder of this program]
    #[arg(long, value_name = "FILE")]
    nd: Option<PathBuf>,
}

impl Arguments {
    fn measurer(&self) -> Result<Measurer, Failure> {
        let nd = match &self.nd {
            Some(nd) => nd.clone(),
            None => program_beside_this()?,
        };
        let pace = if self.quick { Pace::QUICK } else { Pace::WHOLE };
        Ok(Measurer { nd, pace })
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("promises: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let device = arguments.device.as_deref();
    let questions = promises::asked(&arguments.question, device)?;
    let variant = arguments.variant.as_deref();
    if let Some(path) = &arguments.write {
        // Checked now, not after an hour of measuring.
        page::filled(path, variant, &questions, &[], "")?;
        page::check_writable(path)?;
    }
    let measurer = arguments.measurer()?;
    measurer.check()?;
    let machine = nd_perf::machine::summary();
    let mut rows = rows::rows();
    rows.retain(|row| questions.contains(&row.question));
    let runs = arguments.runs.get();
    let (mut lines, mut cores) = (Vec::new(), Watch::default());
    for run in 1..=runs {
        let of_runs = if runs > 1 {
            format!("run {run} of {runs}, ")
        } else {
            String::new()
        };
        let mut say = |what: &str| eprintln!("{of_runs}{what}");
        let of_run = measurer.run(&rows, device, &mut cores, &mut say)?;
        promises::add(&mut lines, of_run);
    }
    print!("{}", promises::tables(&lines));
    println!("A row holds if the worse quartile of its turns does, in every run.");
    if cores != Watch::default() {
        println!("{cores}");
    }
    println!("{}", ELSEWHERE[usize::from(device.is_none())]);
    let (all, broken) = (lines.len(), promises::count_broken(&lines));
    println!("{} of {all} hold", all - broken);
    if let Some(path) = &arguments.write {
        let turns = measurer.turns(!rows.is_empty(), device.is_some());
        let remark = page::remark(&turns, runs, &machine, &cores);
        let text = page::filled(path, variant, &questions, &lines, &remark)?;
        page::write(path, &text)?;
    }
    promises::verdict(&lines)
}
