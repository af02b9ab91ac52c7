#!/bin/bash
# softnd against the soft-iWARP driver of the Linux kernel: every case, one after the other, in a guest that has siw.
#
# Runs as root in a folder that holds `siw_peer`. Prints one line per case:
#
#     PASS|FAIL PORT CRC REFUSAL NAME [WHY]
#
# CRC: on or off, as it has to be on the wire. REFUSAL: none, or who sends a Terminate against what: siw:read, siw:write,
# softnd:read, softnd:write. What both programs said in a case that failed goes to standard error. The traffic of all
# cases is left in siw.pcap. Exit status 0 when all cases passed.
set -u

readonly v4=10.77.0.1 v6=fd00:77::1
readonly limit=30      # seconds for one program; what a good case takes is below one
readonly budget=150    # seconds for all cases
readonly count=10
share=$PWD
work=$(mktemp -d)
cp siw_peer "$work"
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

# verdict CRC REFUSAL NAME WHY
verdict() {
    if [[ -z $4 ]]; then
        echo "PASS $port $1 $2 $3"
        return
    fi
    failed=1
    echo "FAIL $port $1 $2 $3: $4"
    { echo "== $3"; head -c 2000 server.log client.log; } | tr -d '\0' >&2
}

# next CRC REFUSAL NAME: takes a port of its own for the case; fails when there is no time left
next() {
    ((port += 1))
    if ((SECONDS < budget)); then return 0; fi
    : >server.log >client.log
    verdict "$1" "$2" "$3" "no time left"
    return 1
}

# judge CRC REFUSAL NAME PEER_STATUS RPING_STATUS WANTED_STATUS RPING_LOG WANTED_TEXT
judge() {
    local why='' rping=$5
    # At its end rping may close what its thread still reads from: that is no failure, though it exits with 255.
    if [[ $5 == 255 ]] && grep -q '^rdma_get_cm_event: Bad file descriptor' "$7"; then rping=$6; fi
    if [[ $4 != 0 ]]; then why="siw_peer ends with $4"; fi
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

if ! ./siw_peer --help >/dev/null; then
    echo "siw_peer does not run here" >&2
    exit 1
fi
ip -6 addr add "$v6/64" dev dummy0 nodad
tcpdump -i lo -B 65536 -U -w siw.pcap tcp portrange 7200-7299 2>tcpdump.log &
dump=$!
until grep -q 'listening on' tcpdump.log; do
    if ! kill -0 "$dump"; then exit 1; fi
    nap
done
softnd_cases
siw_cases
# tcpdump leaves behind what it has not read when it is stopped: wait until it has seen a last packet of no case.
{ : <"/dev/tcp/$v4/7299"; } 2>/dev/null
until [[ -n $(tcpdump -r siw.pcap -c 1 tcp port 7299 2>/dev/null) ]]; do
    if ! kill -0 "$dump"; then exit 1; fi
    nap
done
kill -INT "$dump"
wait "$dump"
if ! grep -q '^0 packets dropped' tcpdump.log; then
    cat tcpdump.log >&2
    failed=1
fi
cp siw.pcap "$share"
exit "$failed"
