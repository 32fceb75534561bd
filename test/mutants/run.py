#!/usr/bin/env python3
"""Run tests with each mutant of test/mutants, and write which of them a test killed.

    run.py dist/mutants                           # the tests of each mutant's package
    run.py dist/mutants --survivors result.tsv -o world.tsv --seconds 150 -- \\
        dist/mutants/world.test -test.run TestWorld -world.for 60s -test.timeout 0

The folder holds mutants.tsv and a binary for each package, such as internal-lease.test, which runs
in the folder of that package, below this one. A command runs in this one, and kills by ending
with another number than 0. A run that takes too long, or more than 6 GiB of addresses, kills as
well. Nothing counts unless all passes without a mutant.
"""

import argparse
import collections
import concurrent.futures
import csv
import os
import pathlib
import re
import signal
import subprocess
import sys
import time


def run(command, folder, mutant, seconds):
    """Return what became of a run, the seconds that it took, and what it printed."""
    begun = time.monotonic()
    limited = ["sh", "-c", 'ulimit -v 6291456; exec "$0" "$@"', *command]
    # As many run as there are processors.
    env = dict(os.environ, BERTH_MUTANT=mutant, GOMAXPROCS=os.environ.get("GOMAXPROCS", "2"))
    process = subprocess.Popen(
        limited, cwd=folder, env=env, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said, _ = process.communicate(timeout=seconds)
        outcome = "killed" if process.returncode else "survived"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        outcome = "timed out"
    return outcome, time.monotonic() - begun, said.decode(errors="replace")


def tests(folder, package):
    """Return the command for the tests of a package."""
    binary = folder / (package.replace("/", "-") + ".test")
    command = [str(binary), "-test.run", ".", "-test.failfast"]
    if b"rapid.shrinktime" in binary.read_bytes():  # how it fails is nobody's question here
        command += ["-rapid.shrinktime", "0s", "-rapid.nofailfile"]
    return command


def main():
    parser = argparse.ArgumentParser(
        usage="%(prog)s [options] FOLDER [-- COMMAND...]", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("-j", type=int, default=os.cpu_count(), metavar="N", help="run so many at once")
    parser.add_argument("-o", metavar="FILE", help="what to write (default: result.tsv in the folder)")
    parser.add_argument("--seconds", type=float, default=120, metavar="S", help="the most that one run may take")
    parser.add_argument("--survivors", metavar="FILE", help="only those that survived in this result")
    options, command = sys.argv[1:], []
    if "--" in options:
        at = options.index("--")
        options, command = options[:at], options[at + 1 :]
    args = parser.parse_args(options)
    folder = args.folder.resolve()
    with open(args.survivors or folder / "mutants.tsv", newline="") as file:
        mutants = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if args.survivors:
        mutants = [m for m in mutants if m["outcome"] == "survived"]
    packages = list(dict.fromkeys(m["package"] for m in mutants))
    commands = {p: command or tests(folder, p) for p in packages}
    cwd = {p: "." if command else p for p in packages}

    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        limit = {p: args.seconds for p in packages}
        plain = {p: pool.submit(run, commands[p], cwd[p], "0", args.seconds) for p in (packages[:1] if command else packages)}

        def passed():
            for p, one in plain.items():
                outcome, took, said = one.result()
                print(f"{command[0] if command else p}: {took:.1f} s without a mutant", flush=True)
                if outcome != "survived":
                    pool.shutdown(cancel_futures=True)
                    sys.exit(f"{said}\nIt {outcome} without a mutant, so nothing counts.")
                if not command:
                    limit[p] = min(args.seconds, max(20, 5 * took))

        if not command:
            passed()
        mutants.sort(key=lambda m: -limit[m["package"]])  # what takes longest begins first
        running = {}
        for m in mutants:
            p = m["package"]
            running[pool.submit(run, commands[p], cwd[p], m["mutant"], limit[p])] = m
        count = collections.defaultdict(collections.Counter)
        with open(args.o or folder / "result.tsv", "w") as file:
            columns = ["mutant", "package", "place", "kind", "was", "is", "outcome", "seconds", "by"]
            print(*columns, sep="\t", file=file)
            for one in concurrent.futures.as_completed(running):
                m = running[one]
                m["outcome"], took, said = one.result()
                by = re.search(r"--- FAIL: (\S+)|^(?:panic|fatal error): .*", said, re.M)
                m["seconds"], m["by"] = f"{took:.1f}", "" if m["outcome"] != "killed" or not by else by[1] or by[0]
                print(*(m[c] for c in columns), sep="\t", file=file, flush=True)
                count[m["package"]][m["outcome"]] += 1
        if command:
            passed()
    for p, of in count.items():
        print(f"{p}: {of['killed']} killed, {of['timed out']} timed out, {of['survived']} survived")


if __name__ == "__main__":
    main()
