#!/usr/bin/env bash
# Runs the daemon on this machine's NVIDIA GPU with the capabilities that the unit
# leaves it, and without any bound, and compares what the two can see and do: every
# field of the status, a program under a lease, and one under MPS as another user.
# As root, after make build.
set -u
cd "$(dirname "$0")/../../.."
folder=$(mktemp -d)
chmod 755 "$folder"
trap 'rm -rf "$folder"' EXIT
capabilities=$(sed -n 's/^CapabilityBoundingSet=//p' deploy/systemd/berth.service | tr 'A-Z' 'a-z' | sed 's/cap_/+/g; s/ /,/g')
failed=0

# try NAME COMMAND...: starts a daemon through a command, and uses it.
try() {
	local name=$1
	shift
	"$@" bin/berth-serve serve --state-dir "$folder/$name" --socket "$folder/$name.s" --listen 127.0.0.1:0 >"$folder/$name.log" 2>&1 &
	local daemon=$!
	export BERTH_SOCKET=$folder/$name.s
	until [ -S "$BERTH_SOCKET" ] || ! kill -0 $daemon 2>/dev/null; do sleep 0.1; done
	sleep 3 # metrics that are read rarely
	bin/berth status --json | grep -o '"[a-z_]*":' | sort -u >"$folder/$name.fields"
	{
		bin/berth exec --memory 1GiB -- /bin/true
		echo "a program under a lease ends with $?"
		su nobody -s /bin/sh -c "BERTH_SOCKET=$BERTH_SOCKET $PWD/bin/berth exec --enforce mps --memory 1GiB -- /bin/true"
		echo "a program of nobody under MPS ends with $?"
	} >"$folder/$name.did" 2>&1
	kill $daemon
	wait $daemon
}
try free env
try bound setpriv --bounding-set="-all,$capabilities" --no-new-privs
echo "capabilities: $capabilities"
for what in fields did; do
	if diff "$folder/free.$what" "$folder/bound.$what"; then
		echo "the same with and without the bound: $what ($(wc -l <"$folder/bound.$what") lines)"
	else
		failed=1
	fi
done
cat "$folder/bound.did"
exit $failed
