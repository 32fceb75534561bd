#!/usr/bin/env bash
# Says whether this machine can keep a program away from the GPUs of others with a
# control group (isolation: cgroup): prints what is mounted, which control group
# this process is in, whether groups can be made below it, which capabilities it
# has, what the kernel answers when it is asked to load and to attach a device
# filter, and which device nodes there are. Needs Python. Changes nothing that
# stays: it makes one control group, berth-probe, and removes it.
set -u
say() { printf '\n== %s\n' "$*"; }

say "machine"
echo "kernel   $(uname -srm), $(nproc) CPUs, uid $(id -u)"
echo "virt     $(systemd-detect-virt 2>/dev/null || echo unknown), init is $(cat /proc/1/comm)"
[ -e /.dockerenv ] && echo "/.dockerenv exists"
nvidia-smi --query-gpu=index,name,uuid,driver_version --format=csv,noheader 2>&1 | head -8
grep -E '^(CapEff|CapBnd|Seccomp|NoNewPrivs):' /proc/self/status
echo "unprivileged_bpf_disabled $(cat /proc/sys/kernel/unprivileged_bpf_disabled 2>&1)"
for ns in cgroup pid user mnt; do echo "namespace $(readlink /proc/self/ns/$ns), of process 1 $(readlink /proc/1/ns/$ns 2>&1)"; done
cat /proc/self/uid_map

say "control groups"
grep -E ' cgroup2? ' /proc/self/mounts
echo "own:"; cat /proc/self/cgroup
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
if [ -n "$root" ]; then
  own=$root$(sed -n 's/^0:://p' /proc/self/cgroup)
  echo "own folder $own"
  ls -ld "$own"
  for file in cgroup.type cgroup.controllers cgroup.subtree_control; do echo "$file: $(cat "$own/$file" 2>&1)"; done
  echo "processes in it: $(wc -l <"$own/cgroup.procs" 2>&1)"
  [ -w "$own" ] && echo "writable by mode" || echo "not writable by mode"
else
  echo "no cgroup2 is mounted"
fi

say "device nodes"
ls -l /dev/nvidia* /dev/nvidia-caps /dev/null 2>/dev/null
cat /proc/driver/nvidia/gpus/*/information 2>/dev/null
grep -i nvidia /proc/devices

say "device filter"
python3 - "${root:-}" <<'PY'
import ctypes, errno, os, platform, struct, subprocess, sys

root = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 321, "aarch64": 280}[platform.machine()]
LOAD, ATTACH, DETACH, QUERY = 5, 8, 9, 16
CGROUP_DEVICE, ALLOW_MULTI = 15, 2  # program type; the attach type is 6


def answer(what, code):
    print("%-44s %s" % (what, "ok" if code >= 0 else "%s (%s)" % (errno.errorcode.get(-code, -code), os.strerror(-code))))
    return code


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    got = libc.syscall(number, command, buffer, 128)
    return (got if got >= 0 else -ctypes.get_errno()), buffer


def attempt(call, *arguments):
    try:
        call(*arguments)
        return 0
    except OSError as e:
        return -e.errno


# if (major == 195 && minor == 7) return 0; return 1
code = b"".join(struct.pack("<BBhi", *i) for i in [
    (0x61, 0x12, 4, 0),   # r2 = context.major
    (0x55, 0x02, 4, 195),
    (0x61, 0x13, 8, 0),   # r3 = context.minor
    (0x55, 0x03, 2, 7),
    (0xb7, 0x00, 0, 0),   # deny
    (0x95, 0x00, 0, 0),
    (0xb7, 0x00, 0, 1),   # allow
    (0x95, 0x00, 0, 0),
])
instructions = ctypes.create_string_buffer(code, len(code))
licence = ctypes.create_string_buffer(b"Apache-2.0")
program, _ = bpf(LOAD, struct.pack("<IIQQ", CGROUP_DEVICE, len(code) // 8, ctypes.addressof(instructions), ctypes.addressof(licence)))
answer("load a BPF program of type cgroup/dev", program)
if not root:
    sys.exit()
own = root + next(l.strip()[3:] for l in open("/proc/self/cgroup") if l.startswith("0::"))
try:
    fd = os.open(own, os.O_RDONLY)
    code, buffer = bpf(QUERY, struct.pack("<IIII", fd, 6, 1, 0))
    answer("ask for filters that count here", code)
    if code >= 0:
        print("%-44s %d" % ("  filters that count here", struct.unpack_from("<I", buffer, 24)[0]))
except OSError as e:
    answer("open " + own, -e.errno)
group = os.path.join(own, "berth-probe")
if answer("make " + group, attempt(os.mkdir, group)) < 0:
    sys.exit()
try:
    print("%-44s %s" % ("  its cgroup.type", open(group + "/cgroup.type").read().strip()))
    folder = os.open(group, os.O_RDONLY)
    attached = -1
    if program >= 0:
        attached = answer("attach the filter (ALLOW_MULTI)", bpf(ATTACH, struct.pack("<IIII", folder, program, 6, ALLOW_MULTI))[0])
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    def move(pid):
        with open(group + "/cgroup.procs", "w") as f:
            f.write(str(pid))
    answer("move a process into it", attempt(move, child.pid))
    child.stdin.close()
    child.wait()
    if attached >= 0:
        node = "/tmp/berth-probe-195-%d"
        made = [answer("make a device node 195:%d" % minor, attempt(os.mknod, node % minor, 0o20600, os.makedev(195, minor))) for minor in (6, 7)]
        script = "import os,sys,errno\nopen(sys.argv[1]+'/cgroup.procs','w').write('0')\nfor p in sys.argv[2:]:\n try: os.close(os.open(p,os.O_RDONLY)); print('   open %s: ok' % p)\n except OSError as e: print('   open %s: %s' % (p, errno.errorcode[e.errno]))"
        nodes = [node % m for m in (6, 7)] + [p for p in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/null") if os.path.exists(p)]
        subprocess.run([sys.executable, "-c", script, group] + nodes)
        for minor in (6, 7):
            attempt(os.unlink, node % minor)
finally:
    answer("remove it", attempt(os.rmdir, group))
PY
exit 0
