#!/bin/bash
# The provider over verbs on the kernel's soft-iWARP driver siw, in a guest: both suites, and every command of nd with softnd or
# a program of rdma-core at the other end.
#
# Runs as root in a folder that holds `nd`; `groups`, the names of the groups of cases to run; `again`, the checks of the group of this
# name; `transfers`, how many transfers of each kind the groups of transfers make; and for the group of the speed `compare` and `promises`,
# the pages to fill in, and `commit`, which names the state that is tested. Prints one line per case:
#
#     PASS|FAIL NAME [FIGURE]
#
# FIGURE is what the case has measured, or why it failed. What the programs said in a case that failed is printed behind it.
# The suites leave their reports in out/NAME.json. Exit status 0 when all cases passed.
set -u

readonly v4=10.77.0.1 v6=fd00:77::1
readonly nobody=192.0.2.77 # an address that the network says nobody has
readonly softnd=softnd+tcp://$v4 siw=verbs://siw0
readonly limit=120        # seconds for one program; what a good case takes is a few
readonly suite_limit=2400 # the same for a suite
readonly scale=2          # how much longer than usual the suite waits
readonly compared=64,4096,65536,1048576 # octets of the messages with which nd is compared with perftest
out=$PWD/out
work=$(mktemp -d)
cp nd groups again transfers commit ./*.md "$work"
for program in compare promises; do
    if [[ -e $program ]]; then cp $program "$work"; fi
done
cd "$work" || exit

port=9200 failed=0
# What nobody writes to.
mkfifo quiet
exec {quiet}<>quiet

# siw_set PARAMETER VALUE: of the driver, for connections made from now on
siw_set() { echo "$2" >"/sys/module/siw/parameters/$1"; }

# siw_modes CRC P2P: of siw, P2P as the client
siw_modes() {
    siw_set mpa_crc_required "$([[ $1 == on ]] && echo Y || echo N)"
    siw_set peer_to_peer "$([[ $2 == on ]] && echo Y || echo N)"
}

# to_siw: siw is the passive side now. It may leave a ready-to-receive message untouched until something follows it (MPA2-031), so
# that siw as the client must not send one. softnd as the passive side needs one where it speaks first.
to_siw() { siw_modes on off; }

# nap: a fiftieth of a second, without a process for it
nap() { read -rt 0.02 -u "$quiet"; }

# listening PID: until the port is listened on (state 0A in the kernel's table); fails when PID ends before
listening() {
    local local_address state _ hex
    printf -v hex ':%04X' "$port"
    while kill -0 "$1" 2>/dev/null; do
        while read -r _ local_address _ state _; do
            if [[ $local_address == *"$hex" && $state == 0A ]]; then return; fi
        done < <(cat /proc/net/tcp /proc/net/tcp6)
        nap
    done
    return 1
}

# verdict NAME WHY FIGURE
verdict() {
    if [[ -z $2 ]]; then
        echo "PASS $1${3:+ $3}"
        return
    fi
    failed=1
    echo "FAIL $1 $2"
    local log
    for log in server.log client.log; do
        if [[ -s $log ]]; then
            echo "== $log"
            tail -c 3000 $log | tr -d '\0'
        fi
    done
}

# pair NAME: runs `server` and `client`, which both have to succeed; fails with a verdict otherwise
pair() {
    local why='' status=none pid
    timeout "$limit" "${server[@]}" >server.log 2>&1 &
    pid=$!
    : >client.log
    if listening "$pid"; then
        timeout "$limit" "${client[@]}" >client.log 2>&1
        status=$?
    fi
    wait "$pid"
    server_status=$?
    # At its end rping may close what its thread still reads from: that is no failure, though it exits with 255.
    if [[ $server_status == 255 ]] && grep -q '^rdma_get_cm_event: Bad file descriptor' server.log; then server_status=0; fi
    if [[ $status == 255 ]] && grep -q '^rdma_get_cm_event: Bad file descriptor' client.log; then status=0; fi
    if [[ $server_status != 0 ]]; then why="the server ends with $server_status"; fi
    if [[ $status != 0 ]]; then why+="${why:+, }the client ends with $status"; fi
    if [[ -z $why ]]; then return 0; fi
    verdict "$1" "$why"
    return 1
}

# --- nd cat, of a file that is sent by either provider

# cat_case SENDER VIA CRC P2P MIB: SENDER is verbs or softnd, and the other provider receives
cat_case() {
    local sender=$1 via=$2 crc=$3 p2p=$4 size=$5 from to option=()
    local name="cat/$sender-sends/$via/${size}MiB/crc-$crc/p2p-$p2p"
    ((port += 1))
    siw_modes "$crc" "$p2p"
    if [[ $crc == off ]]; then option=(--no-crc); fi
    from=("$siw") to=("$softnd" "${option[@]}")
    if [[ $sender == softnd ]]; then from=("$softnd" "${option[@]}") to=("$siw"); fi
    if [[ ! -f file.$size ]]; then head -c "$((size << 20))" /dev/urandom >"file.$size"; fi
    rm -f copy
    server=(./nd cat recv --listen "$v4:$port" --out copy --url "${to[@]}")
    client=(./nd cat send "file.$size" "$v4:$port" --via "$via" --url "${from[@]}")
    pair "$name" || return
    local why=''
    cmp "file.$size" copy >client.log 2>&1 || why='the copy differs'
    verdict "$name" "$why" "$(sed -n 's/^received .* in \(.*\)/\1/p' server.log)"
}

cat_some_cases() {
    cat_case verbs send on on 1
    cat_case verbs write off off 1
    cat_case verbs read on off 1
    cat_case softnd send off on 1
    cat_case softnd write on off 1
    cat_case softnd read off on 1
}

cat_matrix_cases() {
    local sender via crc p2p
    for sender in verbs softnd; do
        for crc in on off; do
            for p2p in on off; do
                for via in send write read; do cat_case $sender $via $crc $p2p 1; done
            done
        done
    done
}

cat_large_cases() {
    local sender via
    for sender in verbs softnd; do
        for via in send write read; do cat_case $sender $via off on 100; done
    done
}

# transfers SENDER: 20 MiB by each operation, with and without CRC. None is tried again, and all of them have ports of their own.
transfers() {
    local via crc count n
    count=$(<transfers)
    for ((n = 1; n <= count; n++)); do
        echo "round $n of $count"
        for via in send write read; do
            for crc in on off; do cat_case "$1" $via $crc on 20; done
        done
    done
}

transfers_to_siw_cases() { transfers softnd; }
transfers_from_siw_cases() { transfers verbs; }

# --- the commands for two sides, with softnd and with programs of rdma-core at the other end

# both NAME: runs `server` and `client`, with what `figure` finds in a log
both() {
    ((port += 1))
    server=("${server[@]//PORT/$port}")
    client=("${client[@]//PORT/$port}")
    pair "$1" || return
    verdict "$1" '' "$(sed -n 's/.*pings, .* in \(.*\) (.*/\1/p' client.log server.log | head -n 1)"
}

# distant COMMAND...: while it runs, packets take as long as between distant machines. As the passive side siw leaves untouched what the
# peer sends before siw_accept has ended, and the connection waits for ever. netdirect-verbs helps itself with a Read of no octets, which
# the connections of perftest do not allow. Within a machine the peer can be that quick; from a distance it cannot.
distant() {
    tc qdisc add dev lo root netem delay 10ms
    "$@"
    tc qdisc delete dev lo root
}

tools_cases() {
    local test how
    siw_modes on on
    server=(./nd rping -s -a "$v4" -p PORT --url "$softnd")
    client=(./nd rping -c -a "$v4" -p PORT -S 4096 -C 100 --url "$siw")
    both rping/verbs-to-softnd
    to_siw
    server=(./nd rping -s -a "$v4" -p PORT --url "$siw")
    client=(./nd rping -c -a "$v4" -p PORT -S 4096 -C 100 --url "$softnd")
    both rping/softnd-to-verbs
    server=(./nd rping -s -a "$v4" -p PORT --url "$siw")
    client=(./nd rping -c -a "$v4" -p PORT -S 4096 -C 100 --url "$siw")
    both rping/verbs-to-verbs
    server=(rping -s -a "$v4" -p PORT -S 4096 -C 100)
    client=(./nd rping -c -a "$v4" -p PORT -S 4096 -C 100 --url "$siw")
    both rping/verbs-to-rdma-core
    server=(./nd rping -s -a "$v4" -p PORT --url "$siw")
    client=(rping -c -V -a "$v4" -p PORT -S 4096 -C 100)
    both rping/rdma-core-to-verbs
    for test in send_bw write_bw read_bw send_lat write_lat read_lat; do
        how=(-n 100 -s 4096)
        to_siw
        server=("ib_$test" -R -F -p PORT "${how[@]}")
        client=(./nd perftest "$test" "$v4" -p PORT "${how[@]}" --url "$siw")
        both "perftest/$test/verbs-to-rdma-core"
        server=(./nd perftest "$test" --listen "$v4" -p PORT "${how[@]}" --url "$siw")
        client=("ib_$test" -R -F -p PORT "${how[@]}" "$v4")
        distant both "perftest/$test/rdma-core-to-verbs"
        siw_modes on on
        server=(./nd perftest "$test" --listen "$v4" -p PORT "${how[@]}" --url "$softnd")
        client=(./nd perftest "$test" "$v4" -p PORT "${how[@]}" --url "$siw")
        both "perftest/$test/verbs-to-softnd"
    done
}

# perf SERVED MEASURES: nd perf, in which SERVED and MEASURES are the adapters of the two sides
perf() {
    local op
    for op in send write read; do
        server=(./nd perf serve --listen "$v4:PORT" --url "$1" --once)
        client=(./nd perf run "$v4:PORT" --op "$op" --test latency --size 64 --mode poll --crc on --url "$2")
        both "perf/$op/${2%%:*}-to-${1%%:*}"
    done
}

perf_cases() {
    siw_modes on on
    perf "$softnd" "$siw"
    to_siw
    perf "$siw" "$softnd"
    perf "$siw" "$siw"
}

info_cases() {
    ./nd info -v >client.log 2>&1
    local status=$? why=''
    : >server.log
    if [[ $status != 0 ]]; then why="nd info ends with $status"; fi
    if ! grep -q "$siw" client.log; then why+="${why:+, }no line names $siw"; fi
    verdict info "$why"
    ip link add dummy1 type dummy
    rdma link add siw1 type siw netdev dummy1
    unusable address-and-port siw1 'the RDMA device siw1 has no address, and its port is down'
    ip link set dummy1 up
    unusable address siw1 'the RDMA device siw1 has no address'
    ip addr add 10.78.0.1/24 dev dummy1
    ./nd info verbs://siw1 >client.log 2>&1
    status=$? why=''
    if [[ $status != 0 ]] || ! grep -q 10.78.0.1 client.log; then why="nd info verbs://siw1 ends with $status"; fi
    verdict info/usable "$why"
    ip link set dummy1 down
    unusable port siw1 'the port of the RDMA device siw1 is down'
    rdma link delete siw1
    ip link delete dummy1
    unusable name siw1 'this machine has no RDMA device siw1, but siw0'
    rdma link delete siw0
    unusable device siw0 'this machine has no RDMA device'
    rdma link add siw0 type siw netdev dummy0
}

# unusable NAME DEVICE SENTENCE: nd says, of the device and among all adapters, why the device cannot be used. What is not there at all
# is told of the device, and in the log.
unusable() {
    local name=$1 device=$2 sentence=$3 why='' status
    ./nd info "verbs://$device" >client.log 2>&1
    status=$?
    if [[ $status == 0 ]]; then why="verbs://$device can be used"; fi
    if ! grep -qF -e "$sentence)" -e "$sentence:" -e "$sentence;" client.log; then why+="${why:+, }its error is another"; fi
    ./nd info -v >server.log 2>&1
    if grep -q "^ *[0-9].*verbs://$device" server.log; then why+="${why:+, }it is listed"; fi
    if [[ $name != name ]] && ! grep -qF -e "$sentence: " -e "$sentence; " server.log; then why+="${why:+, }the list does not say why"; fi
    verdict "info/no-$name" "$why"
}

# --- the cost of this provider: nd beside perftest's own programs, both ends on siw

# What is written into the pages is judged outside: whether a promise holds says nothing of the provider here.
speed_cases() {
    to_siw
    # 0: all promises hold; 1: one does not.
    speed table performance.md 1 ./promises --runs 2 --question verbs --device siw0
    speed compare performance-compared.md 0 ./compare --device siw0 --size "$compared"
}

# speed NAME PAGE MOST COMMAND...: a command that writes into a page, and ends with MOST or less
speed() {
    local page=$2 most=$3 status why=''
    : >server.log
    SOFTND_COMMIT=$(<commit) timeout "$suite_limit" "${@:4}" --write "$page" >client.log 2>&1
    status=$?
    if ((status > most)); then why="it ends with $status"; fi
    if ! cp "$page" "$out/"; then why+="${why:+, }there is no page"; fi
    verdict "speed/$1" "$why" "$(grep ' hold$' client.log)"
}

# --- the suites

# suite NAME URL OPTION...: nd conform; its report is left in out/NAME.json, and judged outside
suite() {
    local name=$1 status why=''
    # As the driver comes.
    siw_modes off off
    : >server.log
    timeout "$suite_limit" ./nd conform "${@:2}" --time-scale "$scale" --unreachable-host "$nobody" --format json \
        >"$out/$name.json" 2>client.log
    status=$?
    cp client.log "$out/$name.log"
    # 0: nothing failed; 1: something did, which is judged outside.
    if ((status > 1)); then why="the suite ends with $status"; fi
    verdict "conform/$name" "$why"
}

# run RUN NAME OPTION...: the suite on the adapters of this run. Where softnd is one of them, it has to know that the other end is siw,
# or a check in which softnd leaves early stops siw's kernel (PEER-090).
run() {
    local adapters
    case $1 in
        siw) adapters=("$siw") ;;
        siw-with-softnd) adapters=("$siw" --peer "$softnd" --stack siw) ;;
        softnd-with-siw) adapters=("$softnd" --peer "$siw" --stack siw) ;;
    esac
    suite "$2" "${adapters[@]}" --deviations siw-6.1 "${@:3}"
}

conform_cases() { run siw siw; }

near_cases() { run siw-with-softnd siw-with-softnd --only CONN --only QP; }

far_cases() { run softnd-with-siw softnd-with-siw --only CONN --only QP; }

# Checks that siw's own races may have ended in another way, once more: the file `again` has lines of a run and the names of its checks,
# separated by commas.
again_cases() {
    local of checks
    while read -r of checks; do run "$of" "again-$of" --only "$checks" </dev/null; done <again
}

# wire NAME CRC: nd wire-conform against a target over verbs
wire() {
    local name=$1 crc=$2 pid status=none why=''
    ((port += 1))
    siw_modes "$crc" on
    ./nd wire-conform target "$siw" --listen "$v4:$port" >server.log 2>&1 &
    pid=$!
    : >client.log
    if listening "$pid"; then
        timeout "$suite_limit" ./nd wire-conform "$v4:$port" --crc "$crc" --deviations siw-6.1 --format json \
            >"$out/$name.json" 2>client.log
        status=$?
    fi
    if ! kill "$pid"; then why='the target has ended'; fi
    if [[ $status != 0 ]]; then why+="${why:+, }the suite ends with $status"; fi
    verdict "wire-conform/$name" "$why"
}

wire_cases() {
    wire wire-crc-on on
    wire wire-crc-off off
}

ip route add unreachable "$nobody"
if ! ./nd --help >/dev/null; then
    echo 'nd does not run here'
    exit 1
fi
for name in $(<groups); do
    "${name}_cases"
done
# Defects of siw can end in its kernel, after which nothing answers.
if ((failed)); then
    echo '== what the kernel says'
    dmesg | grep -m 1 -A 40 -E 'BUG|Oops|WARNING|protection fault|blocked for more' | head -c 4000
fi
exit "$failed"
