"""Runs a command on a GPU of its own, under a memory lease.

    python lease.py 4GiB nvidia-smi

The GPU goes back when the command ends, or this program does, even by kill -9.
"""

import subprocess
import sys

import berth


def main():
    if len(sys.argv) < 3:
        return "usage: lease.py MEMORY COMMAND …"
    memory, command = sys.argv[1], sys.argv[2:]
    try:
        with berth.lease(memory=memory, name="example", timeout=60) as gpu:
            print("%s has %d MiB on %s" % (gpu.id, gpu.memory_mb, gpu.uuid), flush=True)
            return subprocess.run(command, env=gpu.environ(), check=False).returncode
    except (berth.BerthError, ValueError) as why:
        return str(why)


if __name__ == "__main__":
    sys.exit(main())
