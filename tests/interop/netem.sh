#!/bin/bash
# nd cat between two network namespaces, across a path that delays packets and loses some: one transfer after the other,
# in a guest whose kernel has veth and netem.
#
# Runs as root in a folder that holds `nd`, `original`, which is at least as long as the longest transfer, and
# `transfers`, a line of words for each transfer:
#
#     NAME OCTETS DELAY LOSS PREFIX RECEIVER_OPTION... -- SENDER_OPTION...
#
# DELAY and LOSS are netem's, and those of each direction. PREFIX stands before the addresses that nd cat gets, to choose
# the transport; it is - where nothing stands there. FINGERPRINT in an option of the sender is replaced by the fingerprint
# (sha256: and 64 digits) that the receiver has printed.
#
# Leaves in out/NAME, for the host to judge:
#
#     receiver.log, receiver.status   what the receiver's nd said, and its exit status
#     receiver.qdisc                  what tc says of netem, which has treated all packets that the receiver has sent
#     sender.log, sender.status, sender.qdisc
#     copied                          the names, sizes and SHA-256 of all files that the receiver has written
#     ping                            of the path, before the transfer
#     congestion                      the congestion control of TCP in the sender's namespace
set -u

readonly sender=10.78.0.1 receiver=10.78.0.2
# To end a hang only. nd itself gives up when no data has moved for `silence` seconds.
readonly limit=900 silence=120
out=$PWD/out

# What nobody writes to.
mkfifo quiet
exec {quiet}<>quiet

# nap: a fiftieth of a second, without a process for it
nap() { read -rt 0.02 -u "$quiet"; }

# join DELAY LOSS: two new namespaces with a veth pair between them; all that a side sends passes through netem. New ones
# for each transfer, because TCP remembers what it has learned of a path, and counters begin at 0.
join() {
    local side
    ip netns add sender && ip netns add receiver || return
    ip link add path netns sender type veth peer name path netns receiver || return
    ip -n sender addr add "$sender/24" dev path && ip -n receiver addr add "$receiver/24" dev path || return
    for side in sender receiver; do
        # netem decides about each packet that the kernel hands to the device, and what the kernel hands over may be many
        # packets of TCP or UDP in one. TCP is told not to do that. UDP cannot be told: the token bucket before netem takes
        # packets apart that are longer than its burst. Neither the bucket's rate nor any queue limits the transfer.
        ip -n $side link set path gso_max_segs 1 up &&
            tc -n $side qdisc add dev path root handle 1: tbf rate 1gbit burst 2000 limit 100mb &&
            tc -n $side qdisc add dev path parent 1: handle 2: netem limit 100000 delay "$1" loss "$2" || return
    done
}

# listens PID LOG: until the receiver has said where it listens, and its fingerprint if that is wanted; leaves them in
# `port` and `fingerprint`. Fails when the receiver ends before.
listens() {
    local said
    port='' fingerprint=''
    while kill -0 "$1" 2>/dev/null; do
        said=$(<"$2")
        if [[ $said =~ listening\ on\ [^[:space:]]*$receiver:([0-9]+) ]]; then port=${BASH_REMATCH[1]}; fi
        if [[ $said =~ sha256:[0-9a-f]{64} ]]; then fingerprint=${BASH_REMATCH[0]}; fi
        if [[ $port && ( $fingerprint || "${to_send[*]}" != *FINGERPRINT* ) ]]; then return 0; fi
        nap
    done
    return 1
}

# transfer NAME OCTETS DELAY LOSS PREFIX OPTION...: one line of `transfers`
transfer() {
    local left=$out/$1 octets=$2 prefix=${5#-} side port fingerprint
    local to_receive=() to_send=()
    if ! join "$3" "$4"; then
        echo "$1: the namespaces and the path between them cannot be made."
        echo 'A guest without veth and netem is of an older recipe: tests/interop/guest/make makes it anew.'
        return 1
    fi
    shift 5
    while [[ $1 != -- ]]; do
        to_receive+=("$1")
        shift
    done
    to_send=("${@:2}")
    mkdir -p "$left" copies
    head -c "$octets" original >sent
    ip netns exec sender ping -A -c 10 "$receiver" >"$left/ping"
    ip netns exec sender cat /proc/sys/net/ipv4/tcp_congestion_control >"$left/congestion"

    : >"$left/receiver.log"
    : >"$left/sender.log"
    ip netns exec receiver timeout "$limit" ./nd cat recv --listen "$prefix$receiver:0" --out copies/copy \
        --timeout "$silence" "${to_receive[@]}" >"$left/receiver.log" 2>&1 &
    local pid=$!
    echo none >"$left/sender.status"
    if listens "$pid" "$left/receiver.log"; then
        ip netns exec sender timeout "$limit" ./nd cat send sent "$prefix$receiver:$port" \
            --timeout "$silence" "${to_send[@]/FINGERPRINT/$fingerprint}" >"$left/sender.log" 2>&1
        echo $? >"$left/sender.status"
    fi
    wait "$pid"
    echo $? >"$left/receiver.status"

    for side in sender receiver; do tc -n $side -j -s qdisc show dev path >"$left/$side.qdisc"; done
    (cd copies && for file in * .[!.]*; do
        if [[ -e $file ]]; then echo "$file $(stat -c %s "$file") $(sha256sum <"$file")"; fi
    done) >"$left/copied"
    rm -rf copies sent
    ip netns del sender
    ip netns del receiver
}

./nd --help >/dev/null || exit
# From a descriptor of its own, so that no program reads the lines.
while read -r -a words -u 9; do transfer "${words[@]}" || exit; done 9<transfers
