"""Says when it heard of an event: through the library, or of a byte on a bare socket."""
import socket
import sys
import time

way, address = sys.argv[1:]


def say(name, at):
    sys.stdout.write("%s %d\n" % (name, at))
    sys.stdout.flush()


if way == "bare":
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        say("ready", 0)
        while line.recv(1):
            say("byte", time.time_ns())
else:
    import berth

    berth.on("lease_granted", lambda event: say(event.lease, time.time_ns()), client=berth.Client(socket=address))
    say("ready", 0)
    sys.stdin.read()  # until the benchmark ends
