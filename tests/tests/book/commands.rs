//! The commands that the pages show: each is run here as it stands, or named with what runs it or why nothing does.
//!
//! A page itself says why nothing here runs a block, by a comment above it: `<!-- not run: needs two hosts -->`. A block without this
//! comment has its lines in [`PAGES`], in the order of the page.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use softnd_tests::nd::{self, Nd};
use softnd_tests::own_network;
use softnd_tests::tool;

use Step::{
    After, By, Fails, Forever, Hidden, HiddenForever, HiddenServer, Not, Run, Server, Slow,
};

/// The beginning of the comment above a block that nothing here runs.
const MARK: &str = "<!-- not run: ";

/// The addresses that pages use, on this machine.
const NETWORK: &str =
    "ip link set lo up; for last in 1 2 7; do ip address add 192.0.2.$last/32 dev lo; done";

/// What happens to a line of a page, and what a reader does that the page does not show.
enum Step {
    /// Runs to its end, with success.
    Run(&'static str),
    /// As `Run`, but takes long: for the long checks only.
    Slow(&'static str),
    /// Prints its address, serves the following steps, and ends with success by itself.
    Server(&'static str),
    /// Prints its address, and serves until it is ended.
    Forever(&'static str),
    /// Ends without success, and says these words.
    Fails(&'static str, &'static str),
    /// This file has the same line, and runs it.
    By(&'static str, &'static str),
    /// Nothing runs it, for this reason.
    Not(&'static str, &'static str),
    /// As `Run`, and not on the page.
    Hidden(&'static str),
    /// As `Server`, and not on the page.
    HiddenServer(&'static str),
    /// As `Forever`, and not on the page.
    HiddenForever(&'static str),
    /// As `Hidden`, after all servers have ended.
    After(&'static str),
}

impl Step {
    /// The line as the page has it.
    fn shown(&self) -> Option<&'static str> {
        match self {
            Run(line)
            | Slow(line)
            | Server(line)
            | Forever(line)
            | Fails(line, _)
            | By(line, _)
            | Not(line, _) => Some(line),
            Hidden(_) | HiddenServer(_) | HiddenForever(_) | After(_) => None,
        }
    }
}

/// Steps in one folder, which is new, with servers that end with them.
type Session = &'static [Step];

const SAME: Step = After("cmp original.bin copy.bin");
const FIRST_PAGE: &str = "tests/tests/it/first_page.rs";

const PAGES: &[(&str, &[Session])] = &[
    (
        "README.md",
        &[&[
            By("cargo run --release -- demo", FIRST_PAGE),
            By("cargo test --workspace", FIRST_PAGE),
            By("cargo install --path crates/nd", FIRST_PAGE),
            By("cargo build --release", FIRST_PAGE),
            By("target/release/nd run -- ib_send_lat -R -F &", FIRST_PAGE),
            By(
                "target/release/nd run -- ib_send_lat -R -F 127.0.0.1",
                FIRST_PAGE,
            ),
            Run("nd conform softnd+sim://seed=1 --format junit --output nd.xml"),
        ]],
    ),
    ("docs/check/your-nic.md", &[&[Run("nd info")]]),
    (
        "docs/use/capture.md",
        &[&[
            Server("nd cat recv --listen 127.0.0.1:0 --out copy.bin --capture recv.pcapng"),
            Hidden("nd cat send original.bin 127.0.0.1:PORT"),
            SAME,
            Not("wireshark recv.pcapng", "needs a screen"),
            Run(
                "tshark -r recv.pcapng --enable-heuristic iwarp_mpa_tcp --disable-protocol rpcordma \
                 --disable-protocol smb_direct -o tcp.try_heuristic_first:TRUE",
            ),
            Hidden("cp recv.pcapng adapter-1.pcapng && cp recv.pcapng adapter-2.pcapng"),
            Run("mergecap -w all.pcapng adapter-?.pcapng"),
        ]],
    ),
    (
        "docs/use/ci.md",
        &[&[
            By("cargo build --release", ".ci/night"),
            Not(
                "echo \"$GITHUB_WORKSPACE/softnd/target/release\" >> \"$GITHUB_PATH\"",
                "has an effect on the machines of GitHub only",
            ),
            Not("cargo test", "tests the reader's program"),
            Hidden("cp /bin/true my_verbs_test"),
            Run("nd run -- ./my_verbs_test"),
            Run("nd conform softnd+sim://seed=1 --format junit --output nd.xml"),
        ]],
    ),
    (
        "docs/use/examples.md",
        &[
            &[
                Server("cargo run -p netdirect-async --example file_copy -- receive copy.bin"),
                Run(
                    "cargo run -p netdirect-async --example file_copy -- send original.bin 127.0.0.1:PORT",
                ),
                SAME,
            ],
            &[
                Forever(
                    "cargo run -p netdirect-async --example key_value -- serve apple=red pear=green",
                ),
                Run("cargo run -p netdirect-async --example key_value -- get 127.0.0.1:PORT pear"),
            ],
            &[
                Forever("cargo run -p netdirect-async --example many_clients -- serve"),
                Run(
                    "cargo run -p netdirect-async --example many_clients -- ask 127.0.0.1:PORT hello",
                ),
            ],
            &[
                Forever("cargo run -p netdirect-async --example journal -- serve"),
                Run(
                    "cargo run -p netdirect-async --example journal -- write 127.0.0.1:PORT 7 one two three",
                ),
                Run(
                    "SOFTND_FAULTS='when 2nd Send sent: reset' cargo run -p netdirect-async --example journal -- \
                     write 127.0.0.1:PORT 8 one two three",
                ),
            ],
        ],
    ),
    (
        "docs/use/faults.md",
        &[&[
            HiddenForever("nd cat recv --listen 127.0.0.1:7174 --out copy.bin"),
            Hidden("cp original.bin file"),
            Fails(
                "nd cat send --fault 'when 2nd FPDU of 3rd Write sent: flip bit 9 of payload' file 127.0.0.1:7174",
                "CRC",
            ),
        ]],
    ),
    (
        "docs/use/getting-started.md",
        &[
            &[
                By("cargo install --path crates/nd", ".ci/night"),
                Server("nd cat recv --listen 127.0.0.1:0 --out copy.bin"),
                Run("nd cat send original.bin 127.0.0.1:PORT"),
                SAME,
            ],
            &[
                Server("nd cat recv --udp --listen 127.0.0.1:0 --out copy.bin"),
                Run("nd cat send original.bin 127.0.0.1:PORT --udp --pin sha256:FINGERPRINT"),
                SAME,
            ],
            &[By("cargo test --workspace", ".ci/run")],
        ],
    ),
    (
        "docs/use/logs.md",
        &[&[Fails(
            "nd -v --log-format json cat send original.bin 192.0.2.1:7471",
            r#""message":"no connection","failure":"Connection refused"#,
        )]],
    ),
    (
        "docs/use/nd.md",
        &[
            &[Run("nd info"), Run("nd info softnd+tcp://127.0.0.1")],
            &[
                Server("nd cat recv --listen 192.0.2.7:0 --out copy.bin"),
                Run("nd cat send original.bin 192.0.2.7:PORT --via read"),
                SAME,
                HiddenServer("nd cat recv --listen 192.0.2.7:0 --out folder.tar"),
                Run("tar -c folder | nd cat send - 192.0.2.7:PORT"),
                After("tar -d -f folder.tar"),
            ],
            &[
                Not("nd perf local --baseline tcp", "measures for minutes"),
                Slow(
                    "nd perf local --op write --test bandwidth --size 64k,1M --crc off --mode poll --baseline tcp",
                ),
                Not(
                    "nd perf local --test scale --connections 10000",
                    "needs more descriptors than a test may open",
                ),
                Run("nd perf local --test setup"),
            ],
            &[
                Slow("nd conform softnd+tcp://192.0.2.1"),
                Run("nd conform softnd+sim://seed=7 --only MR,CQ-037 --jobs 2"),
                Slow(
                    "nd conform softnd+tcp://192.0.2.1 --peer softnd+tcp://192.0.2.2 --format html --output report.html",
                ),
                Not(
                    "nd conform com:///opt/vendor/libprovider.so",
                    "stands for a library of the reader's",
                ),
            ],
            &[
                Forever("nd wire-conform target softnd+tcp://192.0.2.1 --listen 192.0.2.1:4791"),
                Slow("nd wire-conform 192.0.2.1:4791"),
            ],
            &[
                Server("nd rping -s -a 192.0.2.7"),
                Run("nd rping -c -a 192.0.2.7 -C 100 -v"),
            ],
            &[
                Run(
                    "openssl req -x509 -newkey ed25519 -nodes -days 365 -subj /CN=me -keyout me.key -out me.pem",
                ),
                Run("openssl x509 -in me.pem -noout -fingerprint -sha256"),
                Server(
                    "nd cat recv --udp --listen 192.0.2.7:4791 --out copy.bin --cert me.pem --key me.key --pin sha256:OF_THE_SENDER",
                ),
                Run(
                    "nd cat send original.bin 192.0.2.7:4791 --udp --cert me.pem --key me.key --pin sha256:OF_THE_RECEIVER",
                ),
                SAME,
            ],
        ],
    ),
    (
        "docs/use/same-host.md",
        &[&[
            Server("nd cat recv --listen 127.0.0.1:0 --out copy.bin --same-host"),
            Run("nd cat send original.bin 127.0.0.1:PORT --same-host"),
            SAME,
        ]],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

/// A block of commands.
struct Block {
    /// The reason why nothing runs it, if the page has one.
    mark: Option<String>,
    lines: Vec<String>,
}

/// The blocks of commands of a page. Blocks of text are among them where they show a prompt, and workflows by their `run`.
///
/// # Panics
/// If commands are in a block that is not named `sh`, or a comment is above something else.
fn blocks(page: &str, text: &str) -> Vec<Block> {
    let (mut blocks, mut mark, mut inside) = (Vec::new(), None, None::<(String, String)>);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => {
                if let Some(reason) = html.trim().strip_prefix(MARK) {
                    let reason = reason.strip_suffix(" -->").expect(page).to_owned();
                    assert!(mark.replace(reason).is_none(), "{page}: two marks");
                }
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => {
                inside = Some((kind.into_string(), String::new()));
            }
            Event::Text(more) if inside.is_some() => {
                inside.as_mut().expect("inside").1.push_str(&more);
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some((kind, text)) = inside.take() else {
                    continue;
                };
                let is_shell = match kind.as_str() {
                    "sh" | "powershell" => true,
                    "yaml" => text.contains("- run: "),
                    "text" => text.lines().any(|line| line.starts_with("$ ")),
                    "bash" | "console" | "shell" | "" => panic!("{page}: name it sh: {text}"),
                    _ => false,
                };
                if is_shell {
                    let prompt = match kind.as_str() {
                        "text" => "$ ",
                        "yaml" => "- run: ",
                        _ => "",
                    };
                    let (mark, lines) = (mark.take(), commands(&text, prompt));
                    blocks.push(Block { mark, lines });
                }
            }
            Event::Start(Tag::Paragraph | Tag::Heading { .. } | Tag::Table(_)) => {
                assert!(mark.is_none(), "{page}: a mark without a block: {mark:?}");
            }
            _ => {}
        }
    }
    assert!(mark.is_none(), "{page}: a mark without a block: {mark:?}");
    blocks
}

/// The commands of a block, each of which begins behind the prompt, without comments. A command that goes on in the next line is one.
fn commands(text: &str, prompt: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let has_prompt = |line| match prompt {
        "" => Some(line),
        _ => str::trim_start(line).strip_prefix(prompt),
    };
    let lines = text.lines().filter_map(has_prompt);
    let plain = lines.map(|line| {
        let line = line.split(" #").next().unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    plain
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// All pages that have blocks of commands.
fn pages() -> BTreeMap<String, Vec<Block>> {
    let root = root();
    let mut files = crate::files(&root.join("docs"), "md");
    files.extend(
        [
            "README.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "samples/README.md",
        ]
        .map(|page| root.join(page)),
    );
    // mdBook writes into this folder.
    files.retain(|path| !path.starts_with(root.join("docs/book")));
    let pages = files.iter().map(|path| {
        let page = path
            .strip_prefix(&root)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let blocks = blocks(&page, &fs::read_to_string(path).unwrap());
        (page, blocks)
    });
    pages.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

/// The lines of a page that nothing explains, or that are explained and not there.
fn compare(page: &str, blocks: &[Block], sessions: &[Session]) -> Result<(), String> {
    let plain = blocks.iter().filter(|block| block.mark.is_none());
    let shown: Vec<_> = plain
        .flat_map(|block| block.lines.iter().map(String::as_str))
        .collect();
    let known = sessions.iter().flat_map(|session| session.iter());
    let known: Vec<_> = known.filter_map(Step::shown).collect();
    if shown == known {
        return Ok(());
    }
    let same = shown
        .iter()
        .zip(&known)
        .take_while(|(one, other)| one == other)
        .count();
    Err(format!(
        "{page}: the page has {:?} where the list of this test has {:?}; give the block a step or a comment `{MARK}REASON -->`",
        shown.get(same),
        known.get(same)
    ))
}

#[test]
fn each_command_of_the_book_has_a_runner_or_a_reason() {
    let (root, pages) = (root(), pages());
    assert!(pages.len() > 10, "{} pages", pages.len());
    for (page, blocks) in &pages {
        let listed = PAGES.iter().find(|(name, _)| name == page);
        let sessions = listed.map_or(&[][..], |(_, sessions)| sessions);
        compare(page, blocks, sessions).unwrap_or_else(|why| panic!("{why}"));
        for reason in blocks.iter().filter_map(|block| block.mark.as_deref()) {
            assert!(reason.len() > 10, "{page}: {reason}");
            let is_path = |word: &&str| word.contains('/');
            for path in reason.split([' ', ',', ';', ':']).filter(is_path) {
                assert!(root.join(path).exists(), "{page}: no {path}");
            }
        }
    }
    for (page, sessions) in PAGES {
        assert!(pages.contains_key(*page), "{page} has no commands");
        for step in sessions.iter().flat_map(|session| session.iter()) {
            match step {
                By(line, file) => {
                    let text = fs::read_to_string(root.join(file)).unwrap();
                    assert!(text.contains(line), "{page}: {file} has no {line:?}");
                }
                Not(line, reason) => assert!(reason.len() > 10, "{page}: {line}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_command_without_a_runner_and_a_reason_is_found() {
    let text = "<!-- not run: needs two hosts -->\n```sh\nnd x\n```\n- then\n\n  ```sh\n  nd \\\n    y   # why\n  ```\n```text\n$ nd z\nsaid\n```\n";
    let found = blocks("page", text);
    let lines: Vec<_> = found.iter().map(|block| block.lines.join(";")).collect();
    assert_eq!(lines, ["nd x", "nd y", "nd z"]);
    assert_eq!(found[0].mark.as_deref(), Some("needs two hosts"));
    assert!(compare("page", &found, &[&[Run("nd y"), Run("nd z")]]).is_ok());
    let wrong: [Session; 3] = [
        &[Run("nd y")],
        &[Run("nd y"), Run("nd w")],
        &[Run("nd x"), Run("nd y"), Run("nd z")],
    ];
    for session in wrong {
        assert!(compare("page", &found, &[session]).is_err());
    }
    assert!(compare("page", &found, &[]).is_err());
}

/// What the steps of a session know of each other.
struct Running {
    folder: tempfile::TempDir,
    servers: Vec<(Nd, bool)>,
    port: String,
    fingerprint: String,
    of_openssl: String,
}

impl Running {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let octets: Vec<u8> = (0..3_000_000_u32)
            .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1])
            .collect();
        fs::write(folder.path().join("original.bin"), octets).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        fs::write(folder.path().join("folder/one"), "one").unwrap();
        Self {
            folder,
            servers: Vec::new(),
            port: String::new(),
            fingerprint: String::new(),
            of_openssl: String::new(),
        }
    }

    /// Starts a line in the session's folder, with what earlier steps have printed in place of the page's words in capitals.
    fn start(&self, line: &str, head: &str) -> Nd {
        let mut line = line
            .replace(":PORT", &format!(":{}", self.port))
            .replace("sha256:FINGERPRINT", &self.fingerprint)
            .replace("OF_THE_SENDER", &self.of_openssl)
            .replace("OF_THE_RECEIVER", &self.of_openssl);
        let programs = nd::binary().parent().unwrap();
        if let Some((before, rest)) = line.split_once("cargo run -p netdirect-async --example ") {
            let (name, args) = rest.split_once(" -- ").expect("arguments");
            let program = programs.join("examples").join(name);
            line = format!("{before}{} {args}", program.display());
        }
        let (folder, programs) = (self.folder.path().display(), programs.display());
        nd::shell(&format!(
            "cd {folder} && export PATH={programs}:$PATH && {head}{line}"
        ))
    }

    fn serve(&mut self, line: &str, ends: bool) {
        let mut server = self.start(line, "exec ");
        self.port = server.address().port().to_string();
        if line.contains("--udp") && !line.contains("--pin") {
            self.fingerprint = server.wait_for(|line| {
                let mut words = line.split_whitespace();
                words
                    .find(|word| word.starts_with("sha256:"))
                    .map(str::to_owned)
            });
        }
        self.servers.push((server, ends));
    }

    fn run(&mut self, line: &str) {
        let ended = self.start(line, "").finish();
        ended.assert_success();
        if let Some((_, digits)) = ended.stdout.split_once("Fingerprint=") {
            self.of_openssl = digits.trim().to_owned();
        }
    }

    /// Waits for the servers that end, and ends the others.
    fn end(&mut self) {
        for (server, ends) in self.servers.drain(..) {
            if ends {
                server.finish().assert_success();
            }
        }
    }

    fn step(&mut self, step: &Step, with_slow: bool) {
        match step {
            Run(line) | Hidden(line) => self.run(line),
            Slow(line) if with_slow => self.run(line),
            Server(line) | HiddenServer(line) => self.serve(line, true),
            Forever(line) | HiddenForever(line) => self.serve(line, false),
            Fails(line, words) => {
                let ended = self.start(line, "").finish();
                assert!(
                    !ended.status.success() && ended.stderr.contains(words),
                    "{ended}"
                );
            }
            After(line) => {
                self.end();
                self.run(line);
            }
            Slow(_) | By(..) | Not(..) => {}
        }
    }
}

/// Runs the sessions of all pages.
fn run_all(with_slow: bool) {
    const TOOLS: [&str; 3] = ["tshark", "mergecap", "openssl"];
    for (page, sessions) in PAGES {
        for session in *sessions {
            let needs = |name: &&str| {
                session
                    .iter()
                    .filter_map(Step::shown)
                    .any(|line| line.starts_with(name))
            };
            if TOOLS
                .iter()
                .filter(|name| needs(name))
                .any(|name| tool::find(name).is_none())
            {
                continue;
            }
            eprintln!("{page}: {:?}", session.iter().find_map(Step::shown));
            let mut running = Running::new();
            for step in *session {
                running.step(step, with_slow);
            }
            running.end();
        }
    }
}

#[test]
fn the_commands_of_the_book_work() {
    nd::build_examples();
    own_network::inside("commands::the_commands_of_the_book_work", NETWORK, || {
        run_all(false)
    });
}

#[test]
#[ignore = "takes minutes: .ci/night book"]
fn the_commands_of_the_book_that_take_long_work() {
    nd::build_examples();
    own_network::inside(
        "commands::the_commands_of_the_book_that_take_long_work",
        NETWORK,
        || run_all(true),
    );
}
