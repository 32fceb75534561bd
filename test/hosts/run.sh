#!/usr/bin/env bash
# Batches over ssh on three machines, which are network namespaces on this one: each has an sshd, with
# keys and a configuration of its own in a folder that goes at the end, and a daemon with simulated GPUs.
# One machine is killed, one is cut off for a minute, one has half the speed, and the runner is killed and
# goes on. Then what goes wrong is said: a password, host keys, a full disk, other berths. As root.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" -eq 0 ] || { echo "make test-hosts needs root: it makes network namespaces" >&2; exit 1; }
deploy/tools.sh sshd
berth=$PWD/bin/berth
here=$PWD/test/hosts
records=${RECORDS:-200000} each=${EACH_MS:-3} cut=${CUT_SECONDS:-60}
dir=$(mktemp -d /tmp/berth-hosts.XXXXXX)
net=berth-$$
failures=0
runner=

host() { echo "$net-gpu$1"; }
end() { # ends every process in the namespaces of this script, and removes them
	[ -z "$runner" ] || kill -9 "$runner" 2>/dev/null || true
	for ns in "$net" $(host 1) $(host 2) $(host 3); do
		ip netns pids "$ns" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
		ip netns del "$ns" 2>/dev/null || true
	done
	umount "$dir/full" 2>/dev/null || true
	[ -n "${KEEP-}" ] || rm -rf "$dir"
}
trap end EXIT
say() { echo "== $*"; }
wrong() { echo "WRONG: $*" >&2; failures=$((failures + 1)); }
now() { date +%s.%N; }

# ---- the machines
mkdir -p /run/sshd "$dir/work" "$dir/full" # sshd wants the first
mount -t tmpfs -o size=64k tmpfs "$dir/full"
ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
cp "$dir/key.pub" "$dir/authorized"
ip netns add "$net"
ip -n "$net" link set lo up
ip -n "$net" link add bridge type bridge
ip -n "$net" addr add 10.77.0.1/24 dev bridge
ip -n "$net" link set bridge up

listen() { # machine, port, further settings: starts an sshd
	local at=$dir/gpu$1-$2
	mkdir -p "$at"
	[ -f "$at/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$at/key"
	{
		printf '%s\n' "ListenAddress 10.77.0.1$1" "Port $2" "HostKey $at/key" "AuthorizedKeysFile $dir/authorized" "${@:3}" \
			'StrictModes no' 'UsePAM no' 'PermitRootLogin yes' 'PidFile none' 'KbdInteractiveAuthentication no' 'LogLevel ERROR'
	} >"$at/config"
	ip netns exec "$(host "$1")" /usr/sbin/sshd -D -e -f "$at/config" >>"$at/log" 2>&1 &
}
machine() { # number, speed: makes a machine
	local ns at=$dir/gpu$1
	ns=$(host "$1")
	mkdir -p "$at/cache"
	ip netns add "$ns"
	ip -n "$ns" link set lo up
	ip -n "$net" link add "gpu$1" type veth peer name eth0 netns "$ns"
	ip -n "$net" link set "gpu$1" master bridge up
	ip -n "$ns" addr add "10.77.0.1$1/24" dev eth0
	ip -n "$ns" link set eth0 up
	ip netns exec "$ns" "$berth" serve --devices sim:2 --socket "$at/berth.sock" --listen '' --state-dir "$at/state" >"$at/serve.log" 2>&1 &
	environment[$1]="SetEnv BERTH_SOCKET=$at/berth.sock XDG_CACHE_HOME=$at/cache SPEED=$2 PATH=$PWD/bin:/usr/local/bin:/usr/bin:/bin"
	listen "$1" 22 "${environment[$1]}" 'PasswordAuthentication no'
	cat >>"$dir/config" <<-EOF
		Host gpu$1
		  HostName 10.77.0.1$1
	EOF
	echo "10.77.0.1$1 $(cut -d' ' -f1,2 "$at-22/key.pub")" >>"$dir/known"
}
alias_of() { # name, machine, port, further settings: another name for a machine
	printf 'Host %s\n  HostName 10.77.0.1%s\n  Port %s\n' "$1" "$2" "$3" >>"$dir/config"
	printf '  %s\n' "${@:4}" >>"$dir/config"
}
declare -A environment
machine 1 1
machine 2 1
machine 3 0.5
listen 3 2201 "${environment[3]}" 'PubkeyAuthentication no' 'PasswordAuthentication yes'
listen 3 2202 "SetEnv BERTH_SOCKET=$dir/gpu3/berth.sock XDG_CACHE_HOME=$dir/full PATH=$PWD/bin:/usr/bin:/bin" 'PasswordAuthentication no'
listen 3 2203 "SetEnv BERTH_SOCKET=$dir/nowhere.sock XDG_CACHE_HOME=$dir/gpu3/cache PATH=$PWD/bin:/usr/bin:/bin" 'PasswordAuthentication no'
for port in 2201 2202 2203; do
	echo "[10.77.0.13]:$port $(cut -d' ' -f1,2 "$dir/gpu3-$port/key.pub")" >>"$dir/known"
done
echo "changed $(cut -d' ' -f1,2 "$dir/gpu1-22/key.pub")" >>"$dir/known"
alias_of password 3 2201
alias_of full 3 2202
alias_of daemonless 3 2203
alias_of changed 3 22 'HostKeyAlias changed'
alias_of unknown 3 22 'HostKeyAlias unknown'
alias_of nobody 9 22
printf 'Host *\n  User root\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile /dev/null\n  LogLevel ERROR\n' "$dir/key" "$dir/known" >>"$dir/config"
export BERTH_SSH="ssh -F $dir/config"
berth() { ip netns exec "$net" "$berth" "$@"; }
for i in 1 2 3; do
	for _ in $(seq 600); do [ -S "$dir/gpu$i/berth.sock" ] && ip netns exec "$net" $BERTH_SSH -o BatchMode=yes "gpu$i" true 2>/dev/null && continue 2; sleep 0.2; done
	cat "$dir/gpu$i-22/log" "$dir/gpu$i/serve.log" >&2
	wrong "gpu$i does not come up"
	exit 1
done
cp "$here/worker.py" "$dir/work/"
cd "$dir/work"

# ---- every record once, whatever goes
say "$records records over three machines: one killed, one cut off for ${cut} s, one at half the speed, the runner killed"
seq 0 $((records - 1)) | sed 's/.*/{"n":&}/' >in.jsonl
start() {
	ip netns exec "$net" "$berth" run --hosts gpu1,gpu2,gpu3 --files worker.py --input in.jsonl --output out.jsonl --ordered -- python3 worker.py "$each" 2>>run.log &
	runner=$!
}
mark() { echo "$1 $(now)" >>marks; }
pause() { # seconds, unless the run ends
	for _ in $(seq $(($1 * 5))); do kill -0 "$runner" 2>/dev/null || return 0; sleep 0.2; done
}
mark start
start
pause 20
mark killed
ip -n "$net" link set gpu1 down
ip netns pids "$(host 1)" | xargs -r kill -9
pause 5
mark cut
ip -n "$net" link set gpu2 down
pause "$cut"
ip -n "$net" link set gpu2 up
mark back
pause 15
kill -9 "$runner" || wrong "the run ended before the runner was killed"
mark dead
wait "$runner" 2>/dev/null || true
start
mark again
if wait "$runner"; then mark end; else wrong "the run failed"; fi
runner=
cat run.log
if cmp -s in.jsonl out.jsonl; then say "every record once, in order"; else wrong "the output is not the input: $(wc -l <out.jsonl) records"; fi
python3 - "$records" "$each" <<-'EOF' || wrong "the makespan is more than 1.1 of the bound"
	import sys
	records, each = int(sys.argv[1]), float(sys.argv[2]) / 1000
	at = {name: float(t) for name, t in (line.split() for line in open("marks"))}
	one = 2 / each  # records a second of a machine with two GPUs
	def rate(t):
	    if at["dead"] <= t < at["again"]:
	        return 0
	    return (one if t < at["killed"] else 0) + (0 if at["cut"] <= t < at["back"] else one) + one / 2
	moments = sorted(at.values())
	left, t = records, at["start"]
	while left > 0:
	    until = min([m for m in moments if m > t] or [float("inf")])
	    if until == float("inf") or rate(t) * (until - t) >= left:
	        t += left / rate(t)
	        break
	    left -= rate(t) * (until - t)
	    t = until
	bound, took = t - at["start"], at["end"] - at["start"]
	print("== makespan %.1f s, bound %.1f s: ratio %.3f" % (took, bound, took / bound))
	sys.exit(took > 1.1 * bound)
EOF

# ---- what goes wrong is said
head -200 in.jsonl >few.jsonl
head -c 200000 /dev/urandom >big
printf '#!/bin/sh\necho "berth: berth has no command \\"$1\\"" >&2; exit 2\n' >"$dir/old"
printf '#!/bin/sh\necho "motd"; echo "berth work: {\\"berth\\":\\"0.1\\",\\"newest\\":0,\\"oldest\\":0}"; cat >/dev/null\n' >"$dir/older"
chmod +x "$dir/old" "$dir/older"
fails() { # what, the sentence, arguments
	local what=$1 sentence=$2 said
	shift 2
	rm -rf few.out few.out.berth
	if said=$(timeout 120 ip netns exec "$net" "$berth" run --input few.jsonl --output few.out "$@" -- python3 worker.py 0 2>&1); then
		wrong "$what: the run went well"
	elif grep -qF "$sentence" <<<"$said"; then
		say "$what: $(grep -F "$sentence" <<<"$said" | tail -1)"
	else
		wrong "$what: it said: $said"
	fi
}
fails "a password" "password: ssh would have to ask for a password" --hosts password --files worker.py
fails "another host key" "changed: its host key is not the one that ssh knows" --hosts changed --files worker.py
fails "an unknown host key" "unknown: ssh does not know its host key" --hosts unknown --files worker.py
fails "a full disk" "full: the disk with $dir/full/berth/files is full" --hosts full --files worker.py,big
fails "an old berth" "gpu3: its berth is too old: it has no berth work" --hosts gpu3 --files worker.py --berth-path "$dir/old"
fails "an old protocol" "gpu3: its berth (0.1) is too old" --hosts gpu3 --files worker.py --berth-path "$dir/older"
fails "no berth" "gpu3: there is no $dir/none" --hosts gpu3 --files worker.py --berth-path "$dir/none"
fails "no daemon" "daemonless: " --hosts daemonless --files worker.py
rm -rf few.out few.out.berth
berth run --hosts password,gpu3:1,nobody,gpu2 --same-files --input few.jsonl --output few.out --ordered -- python3 worker.py 5 || wrong "two good hosts beside two bad ones: the run failed"
cmp -s few.jsonl few.out || wrong "two good hosts beside two bad ones: the output is not the input"

[ "$failures" = 0 ] || { echo "$failures things are wrong" >&2; exit 1; }
say "all is well"
