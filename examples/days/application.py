"""The day of an application with a local model on one card of 8 GB, over TCP.

    make build
    python3 examples/days/application.py

It allocates and loads its model; another program gets what is left. It crashes, and
starts again under the same id. Its card gets hot: it slows down when the daemon says
so, and resumes when the card has cooled. docs/start/applications.md explains the calls.
"""

import os
import signal
import sys
import threading

from machine import Machine, say, see, until, use

import berth

CONFIGURATION = """
gpu:
  monitor_interval: 0.1
  throttle_cooldown_seconds: 1
  critical_pause_seconds: 1
"""

# A minute passes in a second, in a hot room, behind a dusty fan.
SCENARIO = """
devices: rtx-4060
speed: 60
timeline:
  - {device: 0, ambient_celsius: 40, cooling: 0.6}
"""


def application():
    """The application itself. It obeys the words on its standard input."""
    allocation = berth.allocate("assistant", 4096)
    gpu = allocation.gpu
    use(gpu, 3900)  # a real one loads its model here
    say("allocated %d" % allocation.memory_mb)
    hot, cool = threading.Event(), threading.Event()
    berth.on("throttle", lambda event: hot.set(), gpu=0)
    berth.on("resume", lambda event: cool.set(), gpu=0)
    for word in sys.stdin:
        if word.strip() == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if word.strip() == "work":
            use(gpu, 3900, load=100)
            hot.wait()
            see(berth.throttle(0).should_throttle, "should_throttle is true after the event throttle")
            say("throttles")
            use(gpu, 3900, load=0)
            cool.wait()
            see(not berth.throttle(0).should_throttle, "should_throttle is false after the event resume")
            say("resumes")
            use(gpu, 3900, load=10)
        if word.strip() == "end":
            berth.deallocate("assistant")
            return


def day(machine):
    def start():
        running = machine.start(sys.executable, __file__, "application")
        see(running.stdout.readline() == "allocated 4096\n", "the application has 4096 MiB")
        until(lambda: measured() >= 3900, "the memory of the application is measured")
        return running

    def measured():
        return int(berth.metrics(0)[0].memory_used_mb)

    def order(running, word):
        running.stdin.write(word + "\n")
        running.stdin.flush()

    device = berth.devices()[0]
    free = berth.available()[0].available_mb
    say("%s has %d MiB, of which %d can be leased" % (device.name, device.memory_total_mb, free))

    app = start()
    left = berth.available()[0].available_mb
    see(abs(free - 4096 - left) <= 64, "4096 of %d MiB are counted once; %d are left" % (free, left))
    berth.allocate("second", 1024)
    berth.deallocate("second")
    say("the application uses 3900 of its 4096 MiB, and another one gets 1024")
    try:
        berth.allocate("third", 6000)
        see(False, "6000 MiB are refused")
    except berth.Problem as why:
        say("refused: %s" % why.detail)

    order(app, "crash")
    app.wait()
    until(lambda: berth.available()[0].available_mb >= free - 64, "the memory is free after the crash")
    app = start()
    say("it crashed, and started again under the same id")

    see(berth.status(0).state == "OPTIMAL", "the card is OPTIMAL before the work")
    order(app, "work")
    for word in ("throttles", "resumes"):
        heard = app.stdout.readline().strip()
        see(heard == word, "the application %s, and does not say %r" % (word, heard))
        say("the application %s, at %d °C" % (word, berth.metrics(0)[0].temperature_celsius))

    hottest = max(sample.temperature_celsius for sample in berth.history(0, since="10m"))
    see(hottest >= berth.config.get().temp_normal, "the history has the hot minutes, and not only %s °C" % hottest)
    try:
        berth.config.set(temp_throttle=82)
        see(False, "an application on TCP cannot change the configuration")
    except berth.Problem as why:
        say("the card had at most %d °C. An application cannot change that:\n  %s" % (hottest, why.detail))
    machine.berth("--socket", machine.socket, "config", "set", "gpu.temp_throttle=82")
    see(berth.config.get().temp_throttle == 82, "the operator changes the configuration while the daemon runs")

    order(app, "end")
    app.wait()
    see(not berth.leases().leases, "nothing is leased at the end of the day")
    say("nothing outlives the application")


if __name__ == "__main__":
    if sys.argv[1:] == ["application"]:
        application()
    else:
        with Machine("", CONFIGURATION, SCENARIO) as machine:
            machine.over_tcp()
            day(machine)
