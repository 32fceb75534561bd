# env.sh is sourced by the other scripts. LAB has the binaries, RUN has the state of one
# cluster: clusters with different RUN folders do not see each other.
LAB=${LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/berth-k8s-1.36.3}
RUN=${RUN:-$LAB/run}
B=$LAB/bin
# All processes of the cluster are in this control group, each node in one below it.
CG=berth-k8s-$(printf %s "$RUN" | sha256sum | cut -c1-8)
export LAB RUN
[ ! -e "$RUN/settings" ] || . "$RUN/settings" # what up.sh was started with: GATES, IMAGES
case $RUN/ in /run/*|/var/run/*|/etc/*|/var/lib/*|/var/log/*) echo "RUN=$RUN does not work: each node has its own /run, /etc, /var/lib and /var/log. Choose another folder." >&2; exit 1;; esac

# hierarchies prints the folders of the control group file systems: one for each
# controller (version 1), or one for all.
hierarchies() { if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo /sys/fs/cgroup; else for d in /sys/fs/cgroup/*/; do d=${d%/}; [ -L "$d" ] || [ ! -e "$d/cgroup.procs" ] || [ "${d##*/}" = unified ] || echo "$d"; done; fi; }

# cgroup PATH makes a control group in each hierarchy. A new cpuset is empty, and no
# process can enter it before it has processors and memory.
cgroup() {
  local h p part
  for h in $(hierarchies); do
    p=$h
    for part in ${1//\// }; do
      [ ! -e "$p/cgroup.subtree_control" ] || sed 's/[^ ]*/+&/g' "$p/cgroup.controllers" > "$p/cgroup.subtree_control" 2>/dev/null || true
      mkdir -p "$p/$part"
      if [ -f "$p/cpuset.cpus" ] && [ -f "$p/$part/cpuset.cpus" ] && [ ! -e "$p/cgroup.controllers" ]; then
        for f in cpuset.cpus cpuset.mems; do [ -n "$(cat "$p/$part/$f")" ] || cat "$p/$f" > "$p/$part/$f"; done
      fi
      p=$p/$part
    done
  done
}
# join PATH moves the calling shell into a control group.
join() { local h; for h in $(hierarchies); do echo 0 > "$h/$1/cgroup.procs" 2>/dev/null || true; done; }
# members PATH prints the processes in a control group and those below it.
members() { local h; for h in $(hierarchies); do [ ! -d "$h/$1" ] || find "$h/$1" -name cgroup.procs -exec cat {} + 2>/dev/null; done | sort -un; }
# ungroup PATH removes a control group without processes, and those below it.
ungroup() { local h; for h in $(hierarchies) /sys/fs/cgroup/unified; do [ ! -d "$h/$1" ] || find "$h/$1" -depth -type d -exec rmdir {} + 2>/dev/null; done; return 0; }
# forget removes the files of the cluster, and nothing else that somebody may keep in $RUN.
forget() { (cd "$RUN" && rm -rf --one-file-system node-[0-9]* etcd apiserver-certs log pids admin.kubeconfig sa.key tokens.csv settings ready results.json init.pid); }
