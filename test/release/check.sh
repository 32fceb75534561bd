#!/usr/bin/env bash
# Checks the Debian package from inside of the machine that package.sh boots.
#
#   check.sh fresh VERSION     install, use, remove, install again
#   check.sh upgrade VERSION   upgrade and downgrade under load, kill -9
#   check.sh swaps             the chaos of leases and jobs while the package is replaced
#   check.sh rebooted          after a reboot
#   check.sh purge             nothing is left
#   check.sh others VERSION    the archive, and the rpm with its scripts
#
# It prints a line for each thing that it saw, and fails if one is not as it must be.
set -u
packages=/root/packages failed=0
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

check() { # check WHAT COMMAND…
	local what=$1
	shift
	if "$@" >/tmp/said 2>&1; then echo "ok      $what"; else
		echo "not ok  $what"
		sed 's/^/        /' /tmp/said | tail -20
		failed=$((failed + 1))
	fi
}
within() { # within SECONDS COMMAND…
	local last=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$last" ] || { "$@"; return 1; }
		sleep 0.1
	done
}
as() {
	local user=$1
	shift
	(cd "/home/$user" && exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups --reset-env env PATH="$PATH" "$@")
}
get() { apt-get install -y -q --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confold "$packages/$1.deb"; }
says() { berth version | grep -qF "berth $1 "; }
serves() { [ "$(berth status --json | sed -n 's/^ *"version": "\(.*\)",*/\1/p' | head -1)" = "$1" ]; }
main_process() { systemctl show -p MainPID --value berth; }
simulate() {
	sed -i 's/^  #devices: auto/  devices: "sim:4"/' /etc/berth/berth.yaml
	systemctl restart berth
	within 60 berth leases
}
# Nothing listens beyond this machine: addresses of listening sockets in /proc/net.
alone() {
	local listening
	listening=$(awk '$4 == "0A" { print $2 }' /proc/net/tcp; awk '$4 == "0A" { print $2 }' /proc/net/tcp6)
	echo "$listening"
	[ -n "$listening" ] && ! grep -qvE '^(0100007F|00000000000000000000000001000000):' <<<"$listening"
}
exposure() {
	local got
	got=$(systemd-analyze security --no-pager berth.service | sed -n 's/.*Overall exposure level for berth.service: \([0-9.]*\) .*/\1/p')
	echo "it is $got"
	awk -v got="$got" 'BEGIN { exit !(got > 0 && got <= 3.6) }'
}
holds() { berth leases | grep -q "$1"; }
running() { [ "$(as worker berth job "$job" --json | sed -n 's/^ *"state": "\(.*\)",*/\1/p' | head -1)" = running ]; }
one() { [ "$(pgrep -fxc 'sleep 86399')" = 1 ]; }

fresh() {
	local start=$EPOCHREALTIME
	check "apt install ./berth.deb && berth status" bash -c "apt-get install -y -q --no-install-recommends $packages/new.deb && berth status"
	echo "        that took $(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s"
	sed 's/^/        /' /tmp/said | tail -3
	check "it took less than 30 s" awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { exit !(b - a < 30) }'
	check "berth version says $1" says "$1"
	check "the daemon says $1" serves "$1"
	check "the unit is enabled" systemctl is-enabled berth
	check "the unit is active" systemctl is-active berth
	check "nothing listens beyond the machine" alone
	check "berth.yaml is for root alone" test "$(stat -c '%a %U' /etc/berth/berth.yaml)" = "600 root"
	check "systemd-analyze verify has nothing to say" bash -c 'said=$(systemd-analyze verify --man=no /lib/systemd/system/berth.service /lib/systemd/system/berth-front.service 2>&1); echo "$said"; ! grep -q berth <<<"$said"'
	check "systemd-analyze security rates it at most 3.6" exposure
	check "the user of the front is there" id berth-front
	check "the man page is there" bash -c 'zcat /usr/share/man/man1/berth-exec.1.gz | grep -q "SH EXAMPLES"'
	check "the pages are there" test -s /usr/share/doc/berth/docs/README.md
	check "the manual is in the program" bash -c 'berth help topics | grep -q "^  troubleshooting " && berth help troubleshooting | grep -q "berth doctor"'
	check "completions are there" bash -c 'source /usr/share/bash-completion/completions/berth && complete -p berth || grep -q __start_berth /usr/share/bash-completion/completions/berth'
	check "simulated GPUs, by berth.yaml" simulate
	check "root leases" berth allocate embeddings 4GiB --id roots
	check "an ordinary user runs a program under a lease" as worker berth exec --memory 1GiB -- true
	check "an ordinary user submits a job" bash -c "$(declare -f as); id=\$(as worker berth submit --memory 1GiB -- true) && as worker berth wait \$id"
	check "berth doctor has something to say" bash -c 'berth doctor | grep -q .'
	check "removal" apt-get remove -y -q berth
	check "removal leaves the state and the configuration" bash -c '[ -d /var/lib/berth/journal ] && grep -q sim:4 /etc/berth/berth.yaml'
	check "removal ends the daemon" bash -c '! pgrep -x berth-serve'
	check "it comes back" get new
	check "with its configuration and its leases" bash -c "$(declare -f within holds); within 30 holds roots"
	check "purging" bash -c 'apt-get purge -y -q berth && ! [ -e /var/lib/berth ]'
}

upgrade() {
	local n
	check "the older package installs" get old
	check "it says 0.0.9" says 0.0.9
	check "simulated GPUs" simulate
	check "a lease of root" berth allocate kept 4GiB --id kept
	job=$(as worker berth submit --memory 1GiB -- sleep 86399)
	check "a job of a user runs" within 30 running
	check "a pool" berth allocate pooled 8GiB --pool --id pool
	for n in 0 1 2 3; do berth allocate full 100GiB --gpu $n --id full-$n >/dev/null 2>&1; done
	as other berth exec --memory 100GiB --name patient -- touch /home/other/served &
	waiter=$!
	check "a request waits" within 30 bash -c 'berth leases | grep -q patient'
	check "upgrade" get new
	check "berth version says $1" says "$1"
	check "the daemon says $1" within 30 serves "$1"
	check "berth.yaml is as it was" grep -q sim:4 /etc/berth/berth.yaml
	check "the lease is there" holds kept
	check "the job runs, once" bash -c "$(declare -f running one as); job=$job; running && one"
	check "the request waits" within 60 bash -c 'berth leases | grep -q patient'
	check "a package that cannot read the journal is refused" bash -c "$(declare -f get); packages=$packages; get ancient >/tmp/refusal 2>&1; [ \$? != 0 ] && grep -q 'cannot read its' /tmp/refusal && grep -q 'install this package again' /tmp/refusal"
	sed -n '/^berth: /,/package again\.$/p' /tmp/refusal | sed 's/^/        /'
	check "and nothing has changed" bash -c "$(declare -f says serves holds); says $1 && serves $1 && holds kept && dpkg -l berth | grep -q '^ii.* $1 '"
	for n in 1 2 3 4 5; do
		check "downgrade $n" get old
		check "the daemon says 0.0.9" within 30 serves 0.0.9
		check "upgrade $n" get new
		check "the daemon says $1" within 30 serves "$1"
	done
	check "the lease, the pool and the job are there" bash -c "$(declare -f holds running one as); job=$job; holds kept && holds pool && running && one"
	check "whoever waited is still there" bash -c "kill -0 $waiter"
	berth release full-3 >/dev/null
	check "and is served" within 60 test -e /home/other/served
	local first
	first=$(main_process)
	kill -9 "$first"
	check "a killed daemon is back" within 60 bash -c "$(declare -f main_process); [ \$(main_process) != $first ] && [ \$(main_process) != 0 ] && berth leases"
	check "with the lease and the job" bash -c "$(declare -f holds running one as); job=$job; holds kept && running && one"
	check "disabled stays disabled after an upgrade" bash -c "$(declare -f get); packages=$packages; systemctl disable -q berth && get old && get new && ! systemctl is-enabled -q berth; ok=\$?; systemctl enable -q berth; exit \$ok"
}

swap() { if says 0.0.9; then get new; else get old; fi; }
swaps() {
	check "a package for the chaos, the older one: its programs do not know every section of the newer file" get old
	sed -i 's/^  #devices: auto/  devices: "sim:4xrtx-4060"/; s/^  #max_pipelines: null/  max_pipelines: 6/' /etc/berth/berth.yaml
	systemctl restart berth
	check "the chaos of leases and jobs, the package replaced ten times each way in both" /root/chaos -replace "/bin/bash /root/check.sh swap" \
		-scenes leases,jobs -seconds 30 -clients 32 -kills 20 -job-kills 20
	sed 's/^/        /' /tmp/said
	check "it goes" apt-get purge -y -q berth
}

rebooted() {
	check "the daemon is up after a reboot" within 60 systemctl is-active berth
	check "the lease is there" within 30 holds kept
	check "no job is said to run that does not" bash -c "$(declare -f as); jobs=\$(as worker berth jobs --json) || exit; ! grep -q '\"state\": \"running\"' <<<\"\$jobs\" || pgrep -fx 'sleep 86399'"
}

purge() {
	check "the way back that the refusal names works" bash -c "$(declare -f get within); packages=$packages; systemctl stop berth && mv /var/lib/berth/journal /var/lib/berth/journal.newer && get ancient && dpkg -l berth | grep -q '^ii.* 0.0.8 ' && within 30 berth leases && ! berth leases | grep -q kept"
	check "purge" apt-get purge -y -q berth
	check "nothing is left" bash -c 'left=$(find / -xdev \( -path /proc -o -path /sys -o -path /root -o -path /tmp -o -path /home -o -path /var/log \) -prune -o -name "*berth*" -print; ls -d /run/berth 2>/dev/null; getent passwd berth-front; systemctl list-units --all --plain --no-legend "berth*" | grep -v not-found); echo "$left"; [ -z "$left" ]'
	check "no program of it runs" bash -c '! pgrep -l berth'
}

others() {
	local folder=/root/archive
	rm -rf "$folder"
	mkdir "$folder"
	tar -xzf "$packages/archive.tar.gz" -C "$folder" --strip-components=1
	check "the archive: install by docs/start/install.md" bash -c "cd $folder && install bin/berth bin/berth-serve /usr/local/bin/ && install -D -m 600 berth.yaml /etc/berth/berth.yaml && install -m 644 systemd/berth.service /etc/systemd/system/ && systemctl daemon-reload && systemctl enable -q --now berth"
	check "the archive: it says $1" within 30 serves "$1"
	systemctl disable -q --now berth
	rm -rf /usr/local/bin/berth* /etc/berth /etc/systemd/system/berth.service /var/lib/berth /run/berth
	cp -a /root/rpm/usr /root/rpm/etc /
	check "the rpm: its script for an installation" sh /root/rpm/scripts/post 1
	check "the rpm: the daemon starts" systemctl start berth
	check "the rpm: it says $1" within 30 serves "$1"
	check "the rpm: its scripts for an upgrade" bash -c 'before=$(systemctl show -p MainPID --value berth); sh /root/rpm/scripts/post 2 && sh /root/rpm/scripts/preun 1 && sh /root/rpm/scripts/postun 1 && [ "$(systemctl show -p MainPID --value berth)" != "$before" ] && systemctl is-active berth'
	check "the rpm: its scripts for a removal" bash -c 'sh /root/rpm/scripts/preun 0; sh /root/rpm/scripts/postun 0; ! systemctl is-active -q berth'
	(cd /root/rpm && find usr etc -type f) | sed 's,^,/,' | xargs rm -f
	rm -rf /var/lib/berth /run/berth /etc/berth
	userdel berth-front
	systemctl daemon-reload
}

"$@"
exit $((failed > 0))
