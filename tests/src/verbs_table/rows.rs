//! The pairs of commands. The test replaces `PORT` and `OTHER` by ports that it chooses, and `FOLDER` by a folder for the run of the pair.

/// A server and a client that run together.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The server's command; empty if the client needs none.
    pub server: &'static str,
    /// The client's command.
    pub client: &'static str,
    /// Clients that run at a time. Each begins when the one before has connected.
    pub clients: usize,
    /// A text that the client's output contains.
    pub says: &'static str,
    /// The server ends by itself, and successfully. Otherwise the test ends it.
    pub server_ends: bool,
    /// The options that both commands get for the run that is captured, so that it moves few octets. `None`: it is not captured.
    pub captured: Option<&'static str>,
    /// Devices present themselves as adapters for iWARP.
    pub as_iwarp: bool,
    /// Needs an IPv6 address.
    pub ipv6: bool,
    /// The port at which the server listens, if it has one built in.
    pub port: Option<&'static str>,
    /// The server takes ports below 32,768 only.
    pub low_port: bool,
    /// A file that both find in the folder: its name and its text.
    pub file: Option<(&'static str, &'static str)>,
    /// Commands that prepare the server when it listens. They run without `nd run`.
    pub prepare: &'static [&'static str],
    /// Commands that make the server end. Each is repeated until it succeeds.
    pub finish: &'static [&'static str],
}

impl Row {
    const fn new(server: &'static str, client: &'static str) -> Self {
        Self {
            server,
            client,
            clients: 1,
            says: "",
            server_ends: true,
            captured: None,
            as_iwarp: false,
            ipv6: false,
            port: None,
            low_port: false,
            file: None,
            prepare: &[],
            finish: &[],
        }
    }

    const fn captured(mut self, few: &'static str) -> Self {
        self.captured = Some(few);
        self
    }

    const fn says(mut self, text: &'static str) -> Self {
        self.says = text;
        self
    }

    const fn endless(mut self) -> Self {
        self.server_ends = false;
        self
    }

    const fn as_iwarp(mut self) -> Self {
        self.as_iwarp = true;
        self
    }
}

/// Programs of perftest with the same options on both sides.
macro_rules! perftest {
    ($($program:literal),* $(,)?) => {
        [$(Row::new(
            concat!($program, " -R -F -p PORT"),
            concat!($program, " -R -F -p PORT 127.0.0.1"),
        )),*]
    };
}

/// All rows, in the order of the table.
pub fn rows() -> Vec<Row> {
    let mut all = Vec::new();
    all.extend(alone());
    all.extend(connections());
    all.extend(perftest());
    all.extend(numbers());
    all.extend(datagrams());
    all.extend(over_ucx());
    all.extend(others());
    all.extend(iser());
    all.extend(dapl());
    all.extend(with_nd());
    all
}

fn alone() -> [Row; 4] {
    [
        Row::new("", "ibv_devices").says("softnd0"),
        Row::new("", "ibv_devinfo -v").says("RoCE v2"),
        Row::new("", "ibv_devinfo").says("iWARP (1)").as_iwarp(),
        Row::new("", "fi_info -p verbs -t FI_EP_MSG").says("softnd0"),
    ]
}

fn connections() -> [Row; 9] {
    [
        Row::new(
            "rping -s -a 127.0.0.1 -p PORT -C 100 -V -S 65535",
            "rping -c -a 127.0.0.1 -p PORT -C 100 -V -S 65535",
        )
        .captured("-C 5"),
        Row::new(
            "rping -s -q -a 127.0.0.1 -p PORT -C 100 -V -S 65535",
            "rping -c -q -a 127.0.0.1 -p PORT -C 100 -V -S 65535",
        )
        .captured("-C 5"),
        Row {
            ipv6: true,
            ..Row::new(
                "rping -s -a ::1 -p PORT -C 100 -V -S 65535",
                "rping -c -a ::1 -p PORT -C 100 -V -S 65535",
            )
            .captured("-C 5")
        },
        // One begins after the other, because this server loses requests that come at the same moment: rdma-core has mended it in 2025
        // (linux-rdma/rdma-core, pull request 1568).
        Row {
            clients: 50,
            ..Row::new(
                "rping -s -P -a 127.0.0.1 -p PORT -V",
                "rping -c -a 127.0.0.1 -p PORT -C 100 -V",
            )
            .endless()
        },
        Row::new(
            "ucmatose -b 127.0.0.1 -p PORT -c 100 -C 10 -S 1000",
            "ucmatose -s 127.0.0.1 -p PORT -c 100 -C 10 -S 1000",
        )
        .says("return status 0")
        .captured("-c 3"),
        Row::new(
            "ucmatose -m -b 127.0.0.1 -p PORT -c 100 -C 10 -S 1000",
            "ucmatose -m -s 127.0.0.1 -p PORT -c 100 -C 10 -S 1000",
        )
        .says("return status 0")
        .captured("-c 3"),
        // Its server waits for connections until it is ended.
        Row::new(
            "cmtime -b 127.0.0.1 -p PORT -c 100",
            "cmtime -s 127.0.0.1 -p PORT -c 100",
        )
        .says("disconnect")
        .endless(),
        Row::new("rdma_server -p PORT", "rdma_client -s 127.0.0.1 -p PORT")
            .says("end 0")
            .captured(""),
        Row::new(
            "rdma_xserver -c r -p PORT",
            "rdma_xclient -c r -s 127.0.0.1 -p PORT",
        )
        .says("end 0")
        .captured(""),
    ]
}

const PERFTEST: [Row; 33] = perftest![
    "ib_send_lat",
    "ib_send_lat -a -n 20",
    "ib_send_lat -s 65536",
    "ib_send_lat -e",
    "ib_send_lat --use-srq",
    "ib_write_lat",
    "ib_write_lat -a -n 20",
    "ib_write_lat -s 65536",
    "ib_read_lat",
    "ib_read_lat -a -n 20",
    "ib_read_lat -s 65536",
    "ib_send_bw",
    "ib_send_bw -a -n 20",
    "ib_send_bw -s 65536",
    "ib_send_bw -e",
    "ib_send_bw --use-srq",
    "ib_send_bw -q 8",
    "ib_send_bw -b",
    // The number of messages has to be a multiple of the list's length.
    "ib_send_bw -l 16 -n 1600",
    "ib_write_bw",
    "ib_write_bw -a -n 20",
    "ib_write_bw -s 65536",
    "ib_write_bw -q 8",
    "ib_write_bw -b",
    "ib_write_bw -l 16 -n 1600",
    "ib_read_bw",
    "ib_read_bw -a -n 20",
    "ib_read_bw -s 65536",
    "ib_read_bw -q 8",
    "ib_read_bw -b",
    "ib_read_bw -l 16 -n 1600",
    "ib_atomic_lat -A CMP_AND_SWAP",
    "ib_atomic_bw -A FETCH_AND_ADD",
];

/// A capture of all sizes would have gigabytes.
fn perftest() -> impl Iterator<Item = Row> {
    PERFTEST
        .into_iter()
        .map(|row| match row.client.contains(" -a ") {
            true => row,
            false => row.captured("-n 16"),
        })
}

/// Programs with the same options on both sides.
macro_rules! numbers {
    ($($program:literal),* $(,)?) => {
        [$(Row::new(
            concat!($program, " -p PORT"),
            concat!($program, " -p PORT 127.0.0.1"),
        )),*]
    };
}

/// Programs that exchange the numbers of their queue pairs by themselves.
fn numbers() -> Vec<Row> {
    let mut all = Vec::from(numbers![
        "ibv_rc_pingpong -g 0 -c",
        "ibv_rc_pingpong -g 0 -c -e",
        "ibv_rc_pingpong -g 0 -c -N",
        "ibv_rc_pingpong -g 0 -c -s 1000000 -n 100",
        "ibv_srq_pingpong -g 0 -c",
        "ib_send_lat -F",
        "ib_send_bw -F",
        "ib_write_lat -F",
        "ib_write_bw -F",
        "ib_read_lat -F",
        "ib_read_bw -F",
        "ib_send_lat -F --use_old_post_send",
        "ib_write_bw -F --use_old_post_send",
        "ib_read_bw -F --use_old_post_send",
        "ib_send_bw -F -q 64 -n 100",
        "ib_write_bw -F -q 64 -n 100",
        "ib_read_bw -F -q 64 -n 100",
        "ib_atomic_lat -F -A CMP_AND_SWAP",
        "ib_atomic_lat -F -A FETCH_AND_ADD",
        "ib_atomic_bw -F -A CMP_AND_SWAP",
        "ib_atomic_bw -F -A FETCH_AND_ADD",
        "ib_atomic_bw -F -A CMP_AND_SWAP --use_old_post_send",
        "ib_atomic_bw -F -q 8",
    ]);
    const UCX: [&str; 7] = [
        "ucx_perftest 127.0.0.1 -p PORT -d softnd0:1 -x rc_verbs -t am_lat -n 1000",
        "ucx_perftest 127.0.0.1 -p PORT -d softnd0:1 -x rc_verbs -t am_bw -n 1000",
        "ucx_perftest 127.0.0.1 -p PORT -d softnd0:1 -x rc_verbs -t put_lat -D short -n 1000",
        "ucx_perftest 127.0.0.1 -p PORT -d softnd0:1 -x rc_verbs -t put_bw -D zcopy -n 1000",
        "ucx_perftest 127.0.0.1 -p PORT -d softnd0:1 -x rc_verbs -t get -D zcopy -s 4096 -n 1000",
        "ucx_perftest 127.0.0.1 -p PORT -d softnd0:1 -x rc_verbs -t fadd -n 1000",
        "ucx_perftest 127.0.0.1 -p PORT -d softnd0:1 -x rc_verbs -t cswap -n 1000",
    ];
    all.extend(UCX.map(|client| Row::new("ucx_perftest -p PORT", client).says("Final:")));
    all
}

/// Queue pairs for datagrams, and unreliable connected ones.
fn datagrams() -> Vec<Row> {
    let mut all = Vec::from(numbers![
        "ibv_ud_pingpong -g 0",
        "ib_send_lat -c UD -F",
        "ib_send_lat -c UD -F --use_old_post_send",
        "ibv_uc_pingpong -g 0 -c",
        "ib_send_lat -c UC -F",
        "ib_write_lat -c UC -F",
        "ib_write_bw -c UC -F",
        "ib_send_lat -c UD -R -F",
    ]);
    all.push(Row {
        port: Some("7174"),
        ..Row::new("udaddy -b 127.0.0.1 -c 10", "udaddy -s 127.0.0.1 -c 10").says("test complete")
    });
    all.push(
        Row::new(
            "fi_pingpong -p verbs -e dgram -c -B PORT",
            "fi_pingpong -p verbs -e dgram -c -P PORT 127.0.0.1",
        )
        .says("1k "),
    );
    all.push(
        Row::new(
            "fi_pingpong -p \"verbs;ofi_rxd\" -e rdm -c -B PORT",
            "fi_pingpong -p \"verbs;ofi_rxd\" -e rdm -c -P PORT 127.0.0.1",
        )
        .says("1m "),
    );
    all
}

/// UCX's workers, which set their connections up by datagrams.
fn over_ucx() -> Vec<Row> {
    macro_rules! over {
        ($transport:literal, $($test:literal),* $(,)?) => {
            [$(Row::new(
                concat!("env UCX_TLS=", $transport, ",self UCX_NET_DEVICES=softnd0:1 ucx_perftest -p PORT"),
                concat!(
                    "env UCX_TLS=", $transport, ",self UCX_NET_DEVICES=softnd0:1 ucx_perftest 127.0.0.1 -p PORT -n 1000 -t ",
                    $test
                ),
            ).says("Final:")),*]
        };
    }
    let mut all = Vec::from(over![
        "rc_v",
        "tag_lat",
        "tag_bw -s 65536",
        "ucp_put_bw",
        "ucp_get",
        "ucp_fadd",
    ]);
    all.extend(over!["ud_v", "tag_lat", "tag_bw -s 65536"]);
    all
}

fn others() -> [Row; 9] {
    const FIO: &str = "fio --name=s --ioengine=rdma --bindname=127.0.0.1 --port=PORT --rw=read --bs=64k --size=256m";
    [
        Row::new(
            "qperf -lp PORT",
            "qperf 127.0.0.1 -lp PORT -t 1 -cm 1 rc_lat",
        )
        .endless()
        .says("latency")
        .captured(""),
        Row::new(
            "qperf -lp PORT",
            "qperf 127.0.0.1 -lp PORT -t 1 -cm 1 rc_lat rc_bw rc_rdma_read_lat rc_rdma_read_bw rc_rdma_write_lat \
             rc_rdma_write_bw rc_rdma_write_poll_lat",
        )
        .endless()
        .says("rc_rdma_write_poll_lat:\n    latency"),
        Row::new(
            FIO,
            "fio --name=c --ioengine=rdma --hostname=127.0.0.1 --port=PORT --verb=write --rw=write --bs=64k --size=256m --iodepth=16",
        )
        .says("err= 0")
        .captured("--size=1m"),
        Row::new(
            FIO,
            "fio --name=c --ioengine=rdma --hostname=127.0.0.1 --port=PORT --verb=read --rw=write --bs=64k --size=256m --iodepth=16",
        )
        .says("err= 0")
        .captured("--size=1m"),
        Row::new(
            FIO,
            "fio --name=c --ioengine=rdma --hostname=127.0.0.1 --port=PORT --verb=send --rw=write --bs=64k --size=256m --iodepth=16",
        )
        .says("err= 0")
        .captured("--size=1m"),
        Row::new(
            "fi_pingpong -p verbs -e msg -c -B PORT",
            "fi_pingpong -p verbs -e msg -c -P PORT 127.0.0.1",
        )
        .says("1m ")
        .captured("-S 64"),
        Row::new(
            "fi_pingpong -p \"verbs;ofi_rxm\" -e rdm -c -B PORT",
            "fi_pingpong -p \"verbs;ofi_rxm\" -e rdm -c -P PORT 127.0.0.1",
        )
        .says("1m ")
        .captured("-S 64"),
        Row::new(
            "ucx_perftest -p PORT",
            "ucx_perftest 127.0.0.1 -p PORT -t tag_lat -n 1000",
        )
        .says("Final:"),
        Row::new("", "mpiexec.mpich -n 2 NPmpich2 -o /dev/null -l 1 -u 65536").says("65536 bytes"),
    ]
}

/// tgt's target for iSER, which admits an initiator by its name alone, with clients of libiscsi. iscsi-ls is not among them: it destroys its
/// completion queue and polls it afterwards.
fn iser() -> [Row; 3] {
    const TARGET: &str =
        "env TGT_IPC_SOCKET=FOLDER/control tgtd -f --iser port=PORT --iscsi portal=127.0.0.1:OTHER";
    let row = |client| Row {
        prepare: &[
            "truncate -s 16M FOLDER/disk",
            "env TGT_IPC_SOCKET=FOLDER/control tgtadm --lld iser --mode target --op new --tid 1 --targetname iqn.2026-11.test:disk",
            "env TGT_IPC_SOCKET=FOLDER/control tgtadm --lld iser --mode logicalunit --op new --tid 1 --lun 1 -b FOLDER/disk",
            "env TGT_IPC_SOCKET=FOLDER/control tgtadm --lld iser --mode target --op bind --tid 1 -I ALL",
            "env TGT_IPC_SOCKET=FOLDER/control tgtadm --lld iser --mode target --op bind --tid 1 -Q iqn.2026-11.test:client",
        ],
        finish: &[
            "env TGT_IPC_SOCKET=FOLDER/control tgtadm --lld iser --mode target --op delete --tid 1",
            "env TGT_IPC_SOCKET=FOLDER/control tgtadm --mode system --op delete",
        ],
        low_port: true,
        ..Row::new(TARGET, client)
    };
    [
        row("iscsi-inq -i iqn.2026-11.test:client iser://127.0.0.1:PORT/iqn.2026-11.test:disk/1")
            .says("Product:VIRTUAL-DISK")
            .captured(""),
        row(
            "iscsi-readcapacity16 -i iqn.2026-11.test:client iscsi://127.0.0.1:PORT/iqn.2026-11.test:disk/1?iser",
        )
        .says("Total size:16777216")
        .captured(""),
        row("iscsi-perf -i iqn.2026-11.test:client -t 2 -b 16 iser://127.0.0.1:PORT/iqn.2026-11.test:disk/1")
            .says("finished"),
    ]
}

/// Programs over DAPL. They listen at this port by TCP when they are ready, and exchange the others there. They succeed if their test fails.
fn dapl() -> [Row; 3] {
    let row = |server, client| Row {
        port: Some("15828"),
        file: Some((
            "dat.conf",
            "softnd u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"127.0.0.1 0\" \"\"\n",
        )),
        ..Row::new(server, client)
    };
    [
        row(
            "env DAT_OVERRIDE=FOLDER/dat.conf dtest -P softnd -s",
            "env DAT_OVERRIDE=FOLDER/dat.conf dtest -P softnd -h 127.0.0.1",
        )
        .says("DAPL Test Complete. PASSED")
        .captured(""),
        row(
            "env DAT_OVERRIDE=FOLDER/dat.conf dtest -P softnd -w -s",
            "env DAT_OVERRIDE=FOLDER/dat.conf dtest -P softnd -w -h 127.0.0.1",
        )
        .says("DAPL Test Complete. PASSED"),
        row(
            "env DAT_OVERRIDE=FOLDER/dat.conf dtestcm -P softnd -c 20 -s",
            "env DAT_OVERRIDE=FOLDER/dat.conf dtestcm -P softnd -c 20 -h 127.0.0.1",
        )
        .says("Num=20"),
    ]
}

/// `nd perftest` with a program of perftest, in both roles. The clients get the same size and number of messages as the servers.
macro_rules! with_perftest {
    ($($test:literal),* $(,)?) => {
        [$(
            Row::new(
                concat!("nd perftest ", $test, " --listen 127.0.0.1 -p PORT -n 100 -s 4096"),
                concat!("ib_", $test, " -R -F -p PORT -n 100 -s 4096 127.0.0.1"),
            )
            .as_iwarp()
            .captured(""),
            Row::new(
                concat!("ib_", $test, " -R -F -p PORT -n 100 -s 4096"),
                concat!("nd perftest ", $test, " -p PORT -n 100 -s 4096 127.0.0.1"),
            )
            .as_iwarp(),
        )*]
    };
}

fn with_nd() -> Vec<Row> {
    let mut all = vec![
        Row::new(
            "nd rping -s -a 127.0.0.1 -p PORT -C 20 -V",
            "rping -c -a 127.0.0.1 -p PORT -C 20 -V",
        )
        .captured(""),
        Row::new(
            "rping -s -a 127.0.0.1 -p PORT -C 20 -V",
            "nd rping -c -a 127.0.0.1 -p PORT -C 20 -V",
        ),
    ];
    all.extend(with_perftest![
        "send_lat",
        "write_lat",
        "read_lat",
        "send_bw",
        "write_bw",
        "read_bw",
    ]);
    all
}
