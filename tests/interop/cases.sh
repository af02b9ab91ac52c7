#!/bin/bash
# softnd against the soft-iWARP driver of the Linux kernel: every case, one after the other, in a guest that has siw.
#
# Runs as root in a folder that holds `nd`, `siw_peer` and `groups`, the names of the groups of cases to run. Prints one
# line per case:
#
#     PASS|FAIL PORT CRC REFUSAL NAME [FIGURE]
#
# CRC: on or off, as it has to be on the wire. REFUSAL: none, or who sends a Terminate against what: siw:read,
# siw:write, softnd:read, softnd:write. FIGURE: what the other program has measured, or why the case failed. What both
# programs said in a case that failed is printed behind it. The traffic of each group of cases is left in
# out/GROUP.pcap. Exit status 0 when all cases passed.
set -u

readonly v4=10.77.0.1 v6=fd00:77::1
readonly limit=60      # seconds for one program; what a good case takes is a few
readonly suite_limit=300 # the same for the conformance suite, whose good cases take two minutes
readonly budget=780    # seconds for all cases
readonly count=10      # pings of the cases of siw_peer
readonly pings=100     # pings of the cases of nd rping
out=$PWD/out
work=$(mktemp -d)
cp nd siw_peer groups "$work"
if [[ -e libibverbs.so ]]; then cp ./*.so "$work"; fi
cd "$work" || exit

port=7200 failed=0
# What nobody writes to.
mkfifo quiet
exec {quiet}<>quiet

# siw_set PARAMETER VALUE: of the driver, for connections made from now on
siw_set() { echo "$2" >"/sys/module/siw/parameters/$1"; }

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

# pair: runs `server` and `client`, and leaves their logs and statuses
pair() {
    timeout "$limit" "${server[@]}" >server.log 2>&1 &
    local pid=$!
    : >client.log
    client_status=none
    if listening "$pid"; then
        timeout "$limit" "${client[@]}" >client.log 2>&1
        client_status=$?
    fi
    wait "$pid"
    server_status=$?
}

# verdict CRC REFUSAL NAME WHY: `figure` is told of a case that passed
verdict() {
    if [[ -z $4 ]]; then
        echo "PASS $port $1 $2 $3${figure:+ $figure}"
        return
    fi
    failed=1
    echo "FAIL $port $1 $2 $3 $4"
    { echo "== $3"; head -c 2000 server.log; head -c 2000 client.log; } | tr -d '\0'
}

# next CRC REFUSAL NAME: takes a port of its own for the case; fails when there is no time left
next() {
    ((port += 1))
    figure=''
    if ((SECONDS < budget)); then return 0; fi
    : >server.log >client.log
    verdict "$1" "$2" "$3" "no time left"
    return 1
}

# judge CRC REFUSAL NAME OWN_STATUS RPING_STATUS WANTED_STATUS RPING_LOG WANTED_TEXT
judge() {
    local why='' rping=$5
    # At its end rping may close what its thread still reads from: that is no failure, though it exits with 255.
    if [[ $5 == 255 ]] && grep -q '^rdma_get_cm_event: Bad file descriptor' "$7"; then rping=$6; fi
    if [[ $4 != 0 ]]; then why="softnd's side ends with $4"; fi
    if [[ $rping != "$6" ]]; then why+="${why:+, }rping ends with $5 instead of $6"; fi
    if [[ -n $8 ]] && ! grep -qF -- "$8" "$7"; then why+="${why:+, }rping does not say '$8'"; fi
    verdict "$1" "$2" "$3" "$why"
}

# softnd_connects CRC REFUSAL CASE SIZE ADDRESS RPING_SIZE RPING_STATUS RPING_TEXT: rping is the server
softnd_connects() {
    local crc=$1 refusal=$2 what=$3 size=$4 address=$5 options=() to=$5
    if [[ $crc == off ]]; then options=(--no-crc); fi
    if [[ $address == *:* ]]; then to="[$address]"; fi
    local name="softnd-connects/$what/$size/crc-$crc${note:+/$note}"
    next "$crc" "$refusal" "$name" || return
    server=(rping -s -a "$address" -p "$port" -S "$6" -C "$count")
    client=(./siw_peer client "$what" --from "$address" --to "$to:$port" --size "$size" --count "$count" "${options[@]}")
    pair
    judge "$crc" "$refusal" "$name" "$client_status" "$server_status" "$7" server.log "$8"
}

# siw_connects SOFTND_CRC SIW_CRC P2P REFUSAL CASE SIZE ADDRESS RPING_COUNT RPING_STATUS RPING_TEXT: rping is the client
siw_connects() {
    local refusal=$4 what=$5 size=$6 address=$7 options=() at=$7 crc=on
    if [[ $1 == off ]]; then options=(--no-crc); fi
    if [[ $1$2 == offoff ]]; then crc=off; fi
    if [[ $address == *:* ]]; then at="[$address]"; fi
    local name="siw-connects/$what/$size/softnd-crc-$1/siw-crc-$2/p2p-$3${note:+/$note}"
    next "$crc" "$refusal" "$name" || return
    siw_set mpa_crc_required "$([[ $2 == on ]] && echo Y || echo N)"
    siw_set peer_to_peer "$([[ $3 == on ]] && echo Y || echo N)"
    server=(./siw_peer server "$what" --at "$at:$port" --size "$size" --count "$count" "${options[@]}")
    client=(rping -c -V -a "$address" -p "$port" -S "$size" -C "$8")
    pair
    judge "$crc" "$refusal" "$name" "$server_status" "$client_status" "$9" client.log "${10}"
}

link_mtu() { ip link set lo mtu "$1" && ip link set dummy0 mtu "$1"; }

softnd_cases() {
    local size crc note=''
    # Up to 65535: rping takes no more.
    for size in 64 65535; do
        for crc in on off; do
            softnd_connects $crc none ping $size $v4 $size 0 'server DISCONNECT EVENT'
        done
    done
    for crc in on off; do
        softnd_connects $crc siw:read read-bad-key 64 $v4 64 0 'server DISCONNECT EVENT'
        softnd_connects $crc siw:write write-bad-key 64 $v4 64 0 'server DISCONNECT EVENT'
        softnd_connects $crc softnd:read offer-bad-source 64 $v4 64 0 'wait for RDMA_READ_COMPLETE'
        softnd_connects $crc softnd:write offer-unwritable 64 $v4 64 0 'server DISCONNECT EVENT'
    done
    softnd_connects on softnd:read offer-long-source 64 $v4 128 0 'wait for RDMA_READ_COMPLETE'
    softnd_connects on softnd:read offer-unreadable 64 $v4 64 0 'wait for RDMA_READ_COMPLETE'
    softnd_connects on none bogus 64 $v4 64 255 'Received bogus data'
    note=ipv6
    softnd_connects on none ping 64 $v6 64 0 'server DISCONNECT EVENT'
    note=mtu-1500
    link_mtu 1500
    softnd_connects on none ping 65535 $v4 65535 0 'server DISCONNECT EVENT'
    link_mtu 65536
}

siw_cases() {
    local size crc p2p note=''
    for p2p in off on; do
        for crc in on off; do
            for size in 64 65535; do
                siw_connects $crc $crc $p2p none ping $size $v4 $count 0 ''
            done
        done
        # Whoever asks for CRC gets it.
        siw_connects on off $p2p none ping 64 $v4 $count 0 ''
        siw_connects off on $p2p none ping 64 $v4 $count 0 ''
        siw_connects on on $p2p none disconnect 64 $v4 0 0 'client DISCONNECT EVENT'
        siw_connects on on $p2p none reject 64 $v4 $count 255 'RDMA_CM_EVENT_REJECTED'
        for crc in on off; do
            siw_connects $crc $crc $p2p siw:read read-bad-key 64 $v4 $count 0 'client DISCONNECT EVENT'
            siw_connects $crc $crc $p2p siw:write write-bad-key 64 $v4 $count 0 'client DISCONNECT EVENT'
        done
        siw_connects on on $p2p siw:read read-beyond 64 $v4 $count 0 'client DISCONNECT EVENT'
        siw_connects on on $p2p siw:write write-beyond 64 $v4 $count 0 'client DISCONNECT EVENT'
    done
    note=ipv6
    siw_connects on on on none ping 64 $v6 $count 0 ''
    note=mtu-1500
    link_mtu 1500
    siw_connects on on on none ping 65535 $v4 $count 0 ''
    link_mtu 65536
}

# --- nd rping against rping: what rping's users do

# nd_connects SIZE ADDRESS CRC MTU
nd_connects() {
    local size=$1 address=$2 crc=$3 options=()
    if [[ $crc == off ]]; then options=(--no-crc); fi
    local name="nd-rping-client/$size/$(family "$address")/crc-$crc/mtu-$4"
    next "$crc" none "$name" || return
    server=(rping -s -a "$address" -p "$port" -S "$size" -C "$pings")
    client=(./nd rping -c -a "$address" -p "$port" -S "$size" -C "$pings" "${options[@]}")
    pair
    figure=$(sed -n 's/.*pings, .* in \(.*\) (.*/\1/p' client.log)
    judge "$crc" none "$name" "$client_status" "$server_status" 0 server.log 'server DISCONNECT EVENT'
}

# rping_connects SIZE ADDRESS CRC MTU P2P
rping_connects() {
    local size=$1 address=$2 crc=$3 options=()
    if [[ $crc == off ]]; then options=(--no-crc); fi
    local name="nd-rping-server/$size/$(family "$address")/crc-$crc/mtu-$4/p2p-$5"
    next "$crc" none "$name" || return
    siw_modes "$crc" "$5"
    server=(./nd rping -s -V -a "$address" -p "$port" "${options[@]}")
    client=(rping -c -V -a "$address" -p "$port" -S "$size" -C "$pings")
    pair
    figure=$(sed -n 's/.*pings, .* in \(.*\) (.*/\1/p' server.log)
    judge "$crc" none "$name" "$server_status" "$client_status" 0 client.log ''
}

family() { if [[ $1 == *:* ]]; then echo ipv6; else echo ipv4; fi; }

# siw_modes CRC P2P: of siw as the client
siw_modes() {
    siw_set mpa_crc_required "$([[ $1 == on ]] && echo Y || echo N)"
    siw_set peer_to_peer "$([[ $2 == on ]] && echo Y || echo N)"
}

# both_ways SIZE ADDRESS CRC MTU: p2p takes turns
both_ways() {
    nd_connects "$@"
    rping_connects "$@" "$turn"
    if [[ $turn == on ]]; then turn=off; else turn=on; fi
}

rping_cases() {
    local mtu crc address turn=off
    for mtu in 1500 65536; do
        link_mtu $mtu
        for crc in on off; do
            for address in $v4 $v6; do
                nd_connects 64 $address $crc $mtu
                rping_connects 64 $address $crc $mtu off
                rping_connects 64 $address $crc $mtu on
                both_ways 4096 $address $crc $mtu
                # Up to 65535: rping takes no more. These fill the capture.
                if [[ $address == "$v4" || $crc == on ]]; then both_ways 65535 $address $crc $mtu; fi
            done
        done
    done
}

# --- nd perftest against perftest's programs

# perftest TEST CRC ROLE MTU P2P: ROLE is nd's
perftest() {
    local test=$1 crc=$2 role=$3 options=() how log
    if [[ $crc == off ]]; then options=(--no-crc); fi
    case $test in
        *_bw) how=(-n 100 -s 65536) ;;
        *_lat) how=(-n 100 -s 64) ;;
    esac
    local name="nd-perftest-$role/ib_$test/${how[3]}/crc-$crc/mtu-$4"
    if [[ $role == server ]]; then name+="/p2p-$5"; fi
    next "$crc" none "$name" || return
    siw_modes "$crc" "$5"
    if [[ $role == client ]]; then
        server=("ib_$test" -R -F -p "$port" "${how[@]}")
        client=(./nd perftest "$test" "$v4" -p "$port" "${how[@]}" "${options[@]}")
        log=server.log
    else
        server=(./nd perftest "$test" --listen "$v4" -p "$port" "${how[@]}" "${options[@]}")
        client=("ib_$test" -R -F -p "$port" "${how[@]}" "$v4")
        log=client.log
    fi
    pair
    local why=''
    if [[ $server_status != 0 ]]; then why="the server ends with $server_status"; fi
    if [[ $client_status != 0 ]]; then why+="${why:+, }the client ends with $client_status"; fi
    figure=$(perftest_figure "$log" "${how[3]}" "${how[1]}")
    # The server of a Read latency test measures nothing: nd, the client, has.
    if [[ $test == read_lat && $role == client ]]; then figure=$(nd_figure client.log "${how[3]}" "${how[1]}"); fi
    if [[ -z $why && -z $figure ]]; then why="no figures"; fi
    verdict "$crc" none "$name" "$why"
}

# perftest_figure LOG SIZE COUNT: what perftest has measured, if it is above nothing. At its end perftest measures its clock
# as well, and where others use the processor at that time the clock is refused and every figure is 0. The messages have
# been exchanged nevertheless, and the wire shows them.
perftest_figure() {
    local size number rest
    if grep -q '^Correlation coefficient' "$1"; then
        echo "not measured: perftest has found no clock"
        return
    fi
    while read -r size number rest; do
        if [[ $size == "$2" && $number == "$3" ]]; then
            # shellcheck disable=SC2086
            set -- $rest
            # Of bandwidth: peak, average, rate. Of latency: least, most, typical, mean, ...
            if (($# == 3)) && [[ $2 != 0.00 ]]; then echo "$2 MiB/s"; fi
            if (($# > 3)) && [[ $3 != 0.00 ]]; then echo "$3 us"; fi
            return
        fi
    done <"$1"
}

# nd_figure LOG SIZE COUNT: the same of nd, of latency
nd_figure() {
    local size number _ typical
    while read -r size number _ _ typical _; do
        if [[ $size == "$2" && $number == "$3" && $typical != 0.00 ]]; then echo "$typical us"; fi
    done <"$1"
}

perftest_cases() {
    local mode mtu crc test
    for mode in '65536 on' '65536 off' '1500 on'; do
        read -r mtu crc <<<"$mode"
        link_mtu "$mtu"
        for test in send_bw write_bw read_bw send_lat write_lat read_lat; do
            perftest $test "$crc" client "$mtu" on
            perftest $test "$crc" server "$mtu" on
        done
    done
    link_mtu 65536
    # Without the peer-to-peer start-up the side that has accepted may not send first (RFC 5044 section 7.1.2), as the
    # server of write_lat does: that one is left out.
    for test in send_bw write_bw read_bw send_lat read_lat; do perftest $test on server 65536 off; done
}

# --- nd wire-conform against siw

# conform NAME CRC STATUS OPTION...: what the suite has found is left in out/NAME.json, and judged outside
conform() {
    local crc=$2 wanted=$3
    local name="wire-conform/$1"
    next "$crc" none "$name" || return
    siw_target --listen "$v4" "$port" >server.log 2>&1 &
    local pid=$! status=none why=''
    : >client.log
    if listening "$pid"; then
        timeout "$suite_limit" ./nd wire-conform "$v4:$port" --crc "$crc" --deviations siw-6.1 --format json \
            "${@:4}" >"$out/$1.json" 2>client.log
        status=$?
    fi
    if ! kill -0 "$pid"; then why="the target has ended"; fi
    if [[ $status != "$wanted" ]]; then why+="${why:+, }the suite ends with $status instead of $wanted"; fi
    if [[ -n $why ]]; then
        grep -E '"(lost|name|outcome|seen)": ' "$out/$1.json" | grep -B 1 -A 1 -E '"(lost|fail)' >>client.log
    fi
    verdict "$crc" none "$name" "$why"
}

conform_cases() {
    conform responder-crc-on on 0
    conform responder-crc-off off 0
}

# --- unmodified programs: one end by nd run over softnd, the other one over siw

# program PROGRAM CRC MTU: in both roles
program() {
    local name=$1 crc=$2 role side why crcs=() tries
    if [[ $crc == off ]]; then crcs=(--no-crc); fi
    for role in client server; do
        # A server of perftest listens anew for its second connection, and a client on siw that is faster is refused. That is a race of
        # the program's own, so such a pair is tried again.
        tries=3
        while :; do
            ((tries -= 1))
            program_pair "$@" || return
            if [[ -z $why || $tries == 0 ]] || ! grep -q '^ERRNO: Connection refused' client.log; then break; fi
        done
        verdict "$crc" none "programs-$role/$name/crc-$crc/mtu-$3" "$why"
    done
}

# program_pair PROGRAM CRC MTU: runs both sides, and leaves in `why` why the case failed, or nothing. `role` is softnd's.
program_pair() {
    next "$crc" none "programs-$role/$name/crc-$crc/mtu-$3" || return
    siw_modes "$crc" on
    case $name in
        rping)
            server=(rping -s -a "$v4" -p "$port" -S 4096 -C "$pings" -V)
            client=(rping -c -a "$v4" -p "$port" -S 4096 -C "$pings" -V)
            ;;
        ucmatose)
            server=(ucmatose -b "$v4" -p "$port" -c 10 -C 10 -S 1000)
            client=(ucmatose -s "$v4" -p "$port" -c 10 -C 10 -S 1000)
            ;;
        rdma_server)
            server=(rdma_server -s "$v4" -p "$port")
            client=(rdma_client -s "$v4" -p "$port")
            ;;
        qperf)
            # Its data goes to ports of its own choice, which are not captured. siw refuses the queue pairs of its other tests
            # ("failed to create QP"), also where both ends are siw's, and has no Write with Immediate Data. `quit` ends the server.
            server=(qperf -lp "$port")
            client=(qperf -lp "$port" "$v4" -cm 1 -t 1 rc_lat quit)
            ;;
        *)
            server=("ib_$name" -R -F -p "$port" -n 100 -s 4096)
            client=("${server[@]}" "$v4")
            ;;
    esac
    case $role in
        client) client=(./nd run --as iwarp "${crcs[@]}" -- "${client[@]}") ;;
        server) server=(./nd run --as iwarp "${crcs[@]}" -- "${server[@]}") ;;
    esac
    pair
    why=''
    for side in server client; do
        local status=${side}_status
        status=${!status}
        # At its end rping may close what its thread still reads from: that is no failure, though it exits with 255.
        if [[ $name == rping && $status == 255 ]] &&
            grep -q '^rdma_get_cm_event: Bad file descriptor' "$side.log"; then
            status=0
        fi
        if [[ $status != 0 ]]; then why+="${why:+, }the $side ends with $status"; fi
    done
    case $name in
        *_lat | *_bw) figure=$(perftest_figure client.log 4096 100) ;;
        qperf)
            figure=$(sed -n 's/^ *latency *= *//p' client.log)
            if [[ -z $figure ]]; then why+="${why:+, }qperf has measured nothing"; fi
            ;;
    esac
}

programs_cases() {
    local mtu crc name
    for mtu in 1500 65536; do
        link_mtu $mtu
        for crc in on off; do
            for name in rping {send,write,read}_{lat,bw} ucmatose rdma_server qperf; do program $name $crc $mtu; done
        done
    done
}

half_open_cases() {
    # Takes the listener away: the suite has to see that, and says so by its status. The targets are left to the end of
    # the guest, since siw has let go of that listener already.
    conform responder-half-open on 1 --only SEC-031.half-open
}

# group NAME FIRST: runs the function NAME_cases on ports from FIRST + 1 on, and captures what they do
group() {
    local dump last=$(($2 + 199))
    port=$2
    tcpdump -i lo -B 65536 -U -w "$1.pcap" -Z root tcp portrange "$2-$last" 2>"$1.log" &
    dump=$!
    until grep -q 'listening on' "$1.log"; do
        if ! kill -0 "$dump"; then
            cat "$1.log"
            exit 1
        fi
        nap
    done
    "$1_cases"
    # tcpdump leaves behind what it has not read when it is stopped: wait until it has seen a last packet of no case.
    { : <"/dev/tcp/$v4/$last"; } 2>/dev/null
    until [[ -n $(tcpdump -n -Z root -r "$1.pcap" -c 1 tcp port "$last" 2>/dev/null) ]]; do
        if ! kill -0 "$dump"; then exit 1; fi
        nap
    done
    kill -INT "$dump"
    wait "$dump"
    if ! grep -q '^0 packets dropped' "$1.log"; then
        cat "$1.log"
        failed=1
    fi
    mv "$1.pcap" "$out"
}

for program in ./siw_peer ./nd; do
    if ! $program --help >/dev/null; then
        echo "$program does not run here"
        exit 1
    fi
done
misuse_cases() {
    softnd_cases
    siw_cases
}
for name in $(<groups); do
    case $name in
        misuse) group misuse 7200 ;;
        rping) group rping 7400 ;;
        perftest) group perftest 7600 ;;
        conform) group conform 7800 ;;
        half_open) group half_open 8000 ;;
        programs) group programs 8200 ;;
        *)
            echo "no group $name"
            exit 1
            ;;
    esac
done
# Defects of siw can end in its kernel, after which nothing answers.
if ((failed)); then
    echo '== what the kernel says'
    dmesg | grep -m 1 -A 40 -E 'BUG|Oops|WARNING|protection fault|blocked for more' | head -c 4000
fi
exit "$failed"
