#!/usr/bin/env bash
# Checks jobs and services under a real systemd, from inside of the machine that run.sh boots: a real
# daemon is berth.service, and ordinary users submit jobs to it.
#
#   check.sh services    a service behind berth-front.service
#   check.sh jobs        jobs, but for what follows
#   check.sh shutdown    leave jobs for a shutdown
#   check.sh rebooted    look what the shutdown made of them
#   check.sh limits      --host-memory and --cpus; also outside of the machine, with a
#                        daemon that BERTH_SOCKET names, as the user JOB_USER in JOB_HOME
#
# It prints a line for each thing that it saw, and fails if one is not as it must be.
set -u
new=/opt/berth-new # the programs of the next version
failed=0 number=0

# as runs a command as a user, as from a new shell in the user's home.
as() {
  local user=$1
  shift
  (cd "${JOB_HOME:-/home/$user}" && exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups --reset-env \
    env ${BERTH_SOCKET:+BERTH_SOCKET="$BERTH_SOCKET"} PATH="$PATH" "$@")
}
worker() { as "${JOB_USER:-worker}" "$@"; }
submit() { worker berth submit --memory 1GiB "$@"; } # prints the id
show() { worker berth job "$1"; }
field() { worker berth job "$1" --json | sed -n "s/^ *\"$2\": \"*\([^\",]*\).*/\1/p"; }
state() { field "$1" state; }
minder() { field "$1" pid; }

# within repeats a command until it succeeds, for some seconds.
within() {
  local last=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$last" ] || return 1
    sleep 0.05
  done
}
up() { within 30 worker berth leases; }
want() { # want WHAT GOT WANTED
  [ "$2" = "$3" ] || { printf '        %s is “%s”, and not “%s”\n' "$1" "$2" "$3"; return 1; }
}
ends() { # ends ID CODE: waits for the end of a job
  local code=0
  said=$(worker timeout 60 berth wait "$1") || code=$?
  want "the exit code of $1 ($said)" "$code" "$2"
}
check() { # check WHAT COMMAND…
  local what=$1
  shift
  if "$@"; then echo "ok      $what"; else echo "not ok  $what"; failed=$((failed + 1)); fi
}
main_process() { systemctl show -p MainPID --value berth; }
living() { pgrep -fx "sleep $1" | wc -l; }
count() { [ "$(living "$1")" = "$2" ]; }

own_unit() {
  local id run
  id=$(submit --name unit -- sh -c 'sed -n s/^0:://p /proc/self/cgroup; pwd; id -un; echo $BERTH_JOB; exit 7')
  ends "$id" 7 || return
  run=berth-job-${id#unit-}.0.1.service
  want "its log" "$(worker berth logs "$id")" "/berth.slice/$run"$'\n/home/worker\nworker\n'"$id" &&
    within 10 sh -c "systemctl show -p LoadState --value $run | grep -qx not-found" &&
    want "what is left of its run" "$(ls /var/lib/berth/jobs/runs)" ""
}

# What a program may do, by its own words.
free='umask; touch /tmp/of-$1 ~/of-$1 && echo wrote; sudo -n id -u 2>/dev/null; grep -E "^(NoNewPrivs|Seccomp|CapInh|CapPrm|CapEff|CapBnd|CapAmb|SigBlk|Groups):" /proc/self/status
  printf "SigIgn: %x\n" "$((0x$(sed -n "s/^SigIgn:.//p" /proc/self/status) & ~0x180000000))" # without 32 and 33, which belong to the C library
  nice; cat /proc/self/oom_score_adj; unshare -Ur true && echo namespaces; ls /dev | wc -l; stat -c %d /tmp /home; readlink /proc/self/ns/mnt'
as_free() {
  local id
  id=$(submit -- sh -c "$free" free job)
  ends "$id" 0 || return
  want "what a job may do" "$(worker berth logs "$id")" "$(systemd-run --quiet --pipe --wait --uid=worker --working-directory=/home/worker -E HOME=/home/worker -p IgnoreSIGPIPE=no \
    sh -c "${free//\$/\$\$}" free shell)" &&
    worker berth logs "$id" | grep -qx wrote && [ -f /tmp/of-job ] && [ -f /home/worker/of-job ] &&
    worker berth logs "$id" | grep -qx 0 && worker berth logs "$id" | grep -qx namespaces
}

# A bundle for runc, whose files are those of this machine.
container() {
  local id folder=/home/worker/box
  worker sh -c "rm -rf box; mkdir -p box/root; cat >box/config.json" <<J
{"ociVersion": "1.0.2",
 "process": {"terminal": false, "user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/usr/bin:/bin"], "noNewPrivileges": true,
  "args": ["/bin/sh", "-c", "echo uid \$(id -u), pid \$\$, for \$(id -un); exit 9"]},
 "root": {"path": "root"},
 "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}$(for d in usr bin lib lib64 etc; do printf ', {"destination": "/%s", "type": "none", "source": "/%s", "options": ["rbind", "ro"]}' $d $d; done)],
 "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "user"}, {"type": "ipc"}, {"type": "uts"}],
  "uidMappings": [{"containerID": 0, "hostID": $(id -u worker), "size": 1}], "gidMappings": [{"containerID": 0, "hostID": $(id -g worker), "size": 1}]}}
J
  id=$(submit --chdir "$folder" -- runc --root "$folder/state" run box)
  ends "$id" 9 && want "its log" "$(worker berth logs "$id")" "uid 0, pid 1, for root" && echo "        with $(runc --version | head -1), as the user alone"
}

# survives starts a job that waits at a pipe, does something to the daemon, and lets the
# job end.
survives() {
  local id gate=/home/worker/gate-$((number += 1)) before
  worker mkfifo "$gate"
  id=$(submit -- sh -c "echo once; read line < $gate; exit 11") && within 20 sh -c "grep -qx once /home/worker/berth-$id.log" || return
  before=$(minder "$id")
  "$@" && up || return
  want "its state afterwards" "$(state "$id")" running && want "its minder" "$(minder "$id")" "$before" || return
  timeout 20 sh -c "echo go > $gate"
  ends "$id" 11 && want "its log" "$(worker berth logs "$id")" once
}
restart() { systemctl restart berth; }
kill_daemon() {
  local before
  before=$(main_process)
  kill -9 "$before"
  within 20 sh -c "p=\$(systemctl show -p MainPID --value berth); [ \$p != 0 ] && [ \$p != $before ]"
}
stopped_for_a_while() { systemctl stop berth && sleep 2 && systemctl start berth; }
upgrade() {
  waiting=$(submit --hold --name waiting -- sh -c 'exit 4')
  echo "        the daemon has the version $(version)"
  install -m 755 "$new"/berth "$new"/berth-serve /usr/local/bin/ && systemctl restart berth && up || return
  echo "        and now $(version); a minder runs from $(readlink /proc/"$(pgrep -f 'berth-serve minder' | head -1)"/exe)"
  want "the version" "$(version)" next
}
version() { berth status --json | sed -n 's/^ *"version": "\(.*\)",*$/\1/p'; }
upgraded() { worker berth unhold "$waiting" >/dev/null && ends "$waiting" 4; }

# Each job says that it runs, while the daemon is killed again and again.
kills() {
  local id ids=() all
  for _ in $(seq 10); do
    all=
    until all=$(submit --name kill -- sh -c 'echo $BERTH_JOB >> ran; exit 3' 2>/dev/null); do sleep 0.1; done
    ids+=("$all")
    kill_daemon || return
  done
  up
  for id in "${ids[@]}"; do
    ends "$id" 3 && want "how often $id ran" "$(grep -cx "$id" /home/worker/ran)" 1 || return
  done
  want "the leases that are left" "$(worker berth leases --json | grep -c '"id"')" 0
}

killed_minder() {
  local id at=$((100000 + RANDOM))
  id=$(submit -- sh -c "sleep $at & setsid -f sleep $at; sudo -n sleep $at & wait")
  within 20 count $at 3 || { echo "        $(living $at) of 3 run: $(show "$id" | head -1)"; return 1; }
  worker kill -9 "$(minder "$id")" # the user may
  ends "$id" 123 && within 10 count $at 0 || { echo "        $(living $at) live on"; return 1; }
}
left_behind() {
  local id at=$((200000 + RANDOM))
  id=$(submit -- sh -c "sleep $at & setsid -f sleep $at; exit 0")
  ends "$id" 0 && within 10 count $at 0
}
cancelled() {
  local id at=$((300000 + RANDOM))
  id=$(submit -- sh -c "trap 'exit 5' TERM; sleep $at & wait")
  within 20 count $at 1 && worker berth cancel "$id" >/dev/null && ends "$id" 122 && within 10 count $at 0
}
stopped_unit() {
  local id
  id=$(submit --name stop -- sh -c "trap 'exit 5' TERM; echo ready; sleep 1000 & wait")
  within 20 grep -qx ready "/home/worker/berth-$id.log" && systemctl stop "berth-job-${id#stop-}.0.1" && ends "$id" 5
}

logs() {
  local id
  id=$(submit --output /tmp/of-the-worker.log -- sh -c 'chmod 600 /tmp/of-the-worker.log; echo secret')
  ends "$id" 0 && want "the log in /tmp" "$(worker berth logs "$id")" secret || return
  if as other berth logs "$id" 2>/dev/null; then return 1; fi
  worker ln -sf /etc/shadow /tmp/of-the-worker.log
  if worker berth logs "$id" 2>/dev/null; then return 1; fi
  id=$(submit --output /etc/of-the-worker.log -- echo)
  if worker berth wait "$id" >/dev/null; then return 1; fi
  [ ! -e /etc/of-the-worker.log ]
}
two_users() {
  local one two
  one=$(submit -- id -u) two=$(as other berth submit --memory 1GiB -- id -u)
  ends "$one" 0 && as other berth wait "$two" >/dev/null &&
    want "the users" "$(cat /home/worker/berth-"$one".log /home/other/berth-"$two".log | tr '\n' ' ')" "$(id -u worker) $(id -u other) "
}

limits() {
  local refused hog neighbour slow
  if ! refused=$(submit --host-memory 64MiB -- true 2>&1); then
    echo "        refused at submit: $refused"
    grep -q 'has no controller memory' <<<"$refused" && want "the jobs that were taken" "$(worker berth jobs --json | grep -c '"state": "[sr]')" 0
    return
  fi
  neighbour=$(submit --host-memory 64MiB -- sh -c 'head -c 20m /dev/zero | tail -c 20m | wc -c; while [ ! -e go ]; do sleep 0.1; done')
  hog=$(submit --host-memory 64MiB -- sh -c 'head -c 300m /dev/zero | tail -c 300m | wc -c; exit 1')
  worker timeout 60 berth wait "$hog" | sed 's/^/        /'
  show "$hog" | grep -q 'out of memory of the machine' || { show "$hog"; return 1; }
  want "the neighbour" "$(state "$neighbour")" running || return
  worker touch go
  ends "$neighbour" 0 && worker rm -f go
  # A program that never waits gets half a CPU.
  slow=$(submit --cpus 0.5 -- sh -c 'timeout 4 sh -c "while :; do :; done"; times')
  ends "$slow" 0 || return
  echo "        with --cpus 0.5 a loop of 4 s used (user, system): $(worker berth logs "$slow" | tail -1)"
  worker berth logs "$slow" | tail -1 | awk '{ sub("s", "", $1); split($1, t, "m"); exit !(t[2] > 0 && t[2] < 3) }'
}

for_shutdown() {
  local id at
  for at in asked again; do
    rm -f /home/worker/$at
    id=$(submit --name $at $([ $at = again ] && echo --requeue) -- sh -c "trap 'echo asked; exit 6' TERM; echo x >> $at; [ \$(grep -c x $at) = 1 ] || exit 8; sleep 1000 & wait") || return
    within 20 grep -q x /home/worker/$at || return
  done
  sleep 0.5 # until both shells wait
}
rebooted() {
  up && ends asked 6 && show asked | grep -q 'the machine was shut down' && want "its log" "$(worker berth logs asked)" asked || { show asked; return 1; }
  ends again 8 && want "its tries" "$(grep -c x /home/worker/again)" 2
}

# ask asks the front for a path of the service chat, and prints the last line that comes:
# the process of the server. An ordinary user asks: of root, berth would have to know the
# one process that has the connection.
front=8080
ask() {
  worker timeout 30 bash -c "exec 3<>/dev/tcp/127.0.0.1/$front && printf 'GET /services/chat$1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3 && tail -1 <&3" | tr -dc 0-9
}
served() { # served PID: the server answers, and is still that one
  want "the server" "$(ask /x)" "$1"
}
front_process() { systemctl show -p MainPID --value berth-front; }
settings() { # settings PORT: what the daemon reads when it starts next
  front=$1
  cat >/etc/berth/berth.yaml <<Y
daemon: {devices: "sim:4"}
front: {listen: "127.0.0.1:$front"}
services:
  chat: {command: [python3, /usr/local/bin/server.py, "\${PORT}"], user: worker, memory: 2GiB, ready: {path: /health}}
Y
}
comes() {
  settings 8080 && systemctl restart berth && up || return
  server=$(ask /x)
  echo "        the server is process $server in $(sed -n s/^0:://p "/proc/$server/cgroup"), the front process $(front_process)"
  [ -n "$server" ] && want "the user of the server" "$(ps -o user= -p "$server")" worker &&
    want "the user of the front" "$(ps -o user:20= -p "$(front_process)")" berth-front &&
    want "the capabilities of the front" "$(sed -n 's/^CapBnd:.//p' "/proc/$(front_process)/status")" 0000000000000000
}
# streaming opens a stream into /tmp/stream, and pieces counts what has come.
streaming() {
  worker bash -c "exec 3<>/dev/tcp/127.0.0.1/$front && printf 'GET /services/chat/stream HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3 && exec cat <&3" >/tmp/stream &
  stream=$!
  within 10 sh -c '[ $(grep -c data /tmp/stream) -gt 2 ]'
}
flows() { # flows: more comes, from the same server
  local before
  before=$(grep -c data /tmp/stream)
  within 10 sh -c "[ \$(grep -c data /tmp/stream) -gt $((before + 5)) ]" && want "other servers in the stream" "$(grep data /tmp/stream | grep -vcx "data: $server")" 0
}
daemon_dies() {
  streaming || return
  kill -9 "$(main_process)"
  served "$server" && flows && up && served "$server" && flows # at once, and with the next daemon
  local code=$?
  kill "$stream"
  wait "$stream" 2>/dev/null
  return $code
}
front_dies() {
  local before began
  before=$(front_process)
  began=$(date +%s%N)
  kill -9 "$before"
  until [ "$(ask /x 2>/dev/null)" = "$server" ]; do
    [ $(($(date +%s%N) - began)) -lt 30000000000 ] || return 1
    sleep 0.02
  done
  echo "        it answers again $((($(date +%s%N) - began) / 1000000)) ms after it was killed"
  [ "$(front_process)" != "$before" ] && served "$server"
}
both_die() {
  kill -9 "$(main_process)" "$(front_process)"
  within 30 served "$server" && up && systemctl restart berth berth-front && up && within 30 served "$server"
}
other_settings() {
  systemctl stop berth && served "$server" || return # the front and the server go on
  settings 8081 && systemctl start berth && up && within 30 served "$server"
}
all_end() {
  berth stop --all --why maintenance | sed 's/^/        /'
  [ ! -e "/proc/$server" ] || { echo "        the server lives"; return 1; }
  systemctl stop berth-front berth
  want "what is left" "$(pgrep -f 'server.py|berth-serve')" "" || return
  systemctl start berth && up && berth start --all >/dev/null && within 30 ask /x && [ "$(ask /x)" != "$server" ]
}
no_services() { # the machine is as before
  berth stop --all >/dev/null
  echo 'daemon: {devices: "sim:4"}' >/etc/berth/berth.yaml
  systemctl restart berth && up && within 60 sh -c '[ "$(systemctl show -p ActiveState --value berth-front)" = inactive ]'
}

case $1 in
services)
  up || { systemctl status berth; exit 1; }
  check "a request through berth-front.service brings a service, each as its own user" comes
  check "a stream and requests go on while the daemon is killed with -9" daemon_dies
  check "the front is killed with -9, and is back" front_dies
  check "both are killed with -9 and restarted, and the server goes on" both_die
  check "the front takes settings that have changed while no daemon ran" other_settings
  check "berth stop --all and systemctl stop leave nothing; berth start --all brings it back" all_end
  check "without services there is no front" no_services
  ;;
jobs)
  up || { systemctl status berth; exit 1; }
  check "a job has a unit of its own in berth.slice, and leaves nothing" own_unit
  check "jobs of two users run as those" two_users
  check "a job is as free as a shell of its user: /tmp, home, sudo, namespaces, devices" as_free
  check "a job starts a container" container
  check "a job goes on while the daemon is restarted" survives restart
  check "… while the daemon is killed" survives kill_daemon
  check "… while the daemon is away" survives stopped_for_a_while
  check "… while berth is replaced by another version" survives upgrade
  check "a job that waited meanwhile begins then" upgraded
  check "jobs that are submitted between kills of the daemon run once, with their exit codes" kills
  check "a killed minder takes everything of its job with it, also what became root" killed_minder
  check "what a job leaves behind ends with it" left_behind
  check "a cancelled job ends" cancelled
  check "a job whose unit is stopped is asked by SIGTERM, and its exit code is kept" stopped_unit
  check "logs are read and written with the rights of the user, also in /tmp" logs
  check "limits hold, or are refused with the reason" limits
  ;;
shutdown) check "two jobs are left for the shutdown" for_shutdown ;;
rebooted) check "a job that a shutdown ends has its exit code; one with --requeue runs again" rebooted ;;
limits)
  up || exit 1
  check "--host-memory ends the job that takes too much and not its neighbour; --cpus holds" limits
  ;;
esac
[ "$failed" = 0 ]
