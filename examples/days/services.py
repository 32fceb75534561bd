"""The day of an operator with four services on two GPUs.

    make build
    python3 examples/days/services.py

The operator takes the configuration along, allocates for each service, and starts
them as always. Each is counted once and kept to its limits. Status, export, report and
metrics say who uses what; when a service takes too much, an alert fires.
docs/start/services.md explains the commands.
"""

import json
import os
import re
import sys
import urllib.request

from machine import ROOT, Machine, say, see, until, use

import berth

CONFIGURATION = """
gpu:
  monitor_interval: 0.1
  throttle_cooldown_seconds: 0
  critical_pause_seconds: 0
services:
  embedding_service: {min_memory_mb: 2048, max_memory_mb: 61440, preferred_device: null, priority: 10}
  ocr-service: {max_memory_mb: 16GiB, preferred_device: 1}
  rerank_service: {min_memory_mb: 4096, max_memory_mb: 8192}
  llm-service:
    max_memory_mb: 100GiB
    match: {program: model_server.py}
hooks:
  pager:
    command: [sh, -c, 'cat >>alerts']
    codes: [lease_over_limit]
"""

RULES = ROOT / "deploy" / "prometheus" / "berth.rules.yml"

# What each service is allocated, the script that it is started with, and what it uses.
SERVICES = {
    "embedding-service": ("60GiB", "embedding_service.py", 50000),
    "ocr-service": ("8GiB", "ocr_service.py", 7000),
    "rerank-service": ("1GiB", "rerank_service.py", 3000),
    "llm-service": ("80GiB", "model_server.py", 75000),
}


def service():
    """A service, which knows nothing of berth. It loads a model, and a larger one
    when it is told to."""
    gpu, memory = sys.argv[1:]
    use(gpu, int(memory))
    for line in sys.stdin:
        use(gpu, int(line))


def day(machine):
    alerts = machine.folder / "alerts"
    free = sum(gpu.available_mb for gpu in berth.available())

    leases, promised = {}, 0
    for name, (memory, _, _) in SERVICES.items():
        leases[name] = json.loads(machine.berth("--json", "allocate", name, memory))["parts"][0]
        promised += leases[name]["memory_mb"]
    see(leases["rerank-service"]["memory_mb"] == 4096, "berth raises the request for 1 GiB to min_memory_mb")
    see("SIM-h200-1" == leases["ocr-service"]["gpu"], "ocr-service is on its preferred_device")
    again = machine.berth("allocate", "embedding-service", "60GiB")
    see("stands already" in again, "the start script finds the allocation that stands: " + again)
    see(left() == free - promised, "%d MiB are left, and not %d" % (free - promised, left()))
    say("four services have %d MiB" % promised)

    running = {}
    for name, (_, script, memory) in SERVICES.items():
        (machine.folder / script).symlink_to(os.path.abspath(__file__))
        running[name] = machine.start(sys.executable, machine.folder / script, leases[name]["gpu"], memory)
    for name, (_, _, memory) in SERVICES.items():
        until(lambda: measured(name) == memory, "%s is measured under its lease with %d MiB" % (name, memory))
    see(left() == free - promised, "each service is counted once: %d MiB are left, and not %d" % (free - promised, left()))
    see(not berth.orphans().orphans, "every process belongs to a lease")
    why = machine.berth("leases", "--processes")
    see(re.search("llm-service.*matches its service", why), "berth leases --processes says why model_server.py belongs:\n" + why)
    say("each of them is started as always, and counted once")

    refused = machine.berth("allocate", "rerank_service", "20GiB", "--another", code=4)
    see("max_memory_mb" in refused, "the refusal names the limit: " + refused)
    machine.configuration.write_text(machine.configuration.read_text().replace("8192}", "24GiB}"))
    machine.berth("config", "reload")
    machine.berth("allocate", "rerank_service", "20GiB", "--another")
    machine.berth("deallocate", "rerank-service", berth.find_lease("rerank-service-2").parts[0].gpu, "--id", "rerank-service-2")
    say("limits hold, and a reload changes them")

    shown = machine.berth("status")
    for name in SERVICES:
        see(name in shown, "berth status shows %s:\n%s" % (name, shown))
    machine.berth("export", machine.folder / "machine.json")
    kept = (machine.folder / "machine.json").read_text()
    held = {lease["holder"]["service"] for lease in json.loads(kept)["leases"]}
    see(held == set(SERVICES), "the export has the leases of every service, and not of %s" % held)
    report = machine.berth("report")
    see(all(name in report for name in SERVICES), "the report has every service:\n" + report)
    with berth.operation(service="embedding-service", gpu=0):
        pass
    until(lambda: metric("gpu_throughput_ops_total", "embedding-service") == 1, "the work of a service is counted")
    see(metric("gpu_service_memory_measured_mb", "llm-service") == 75000, "the metrics show what a service uses")
    say("status, export, report and metrics name all four")

    running["ocr-service"].stdin.write("70000\n")
    running["ocr-service"].stdin.flush()
    until(lambda: alerts.exists() and alerts.read_text().endswith("\n"), "the alert fires")
    alert = json.loads(alerts.read_text().splitlines()[0])
    see(alert["lease"] == "ocr-service", "the alert names the lease: %s" % alert)
    rule = "100 * gpu_memory_usage_mb / gpu_memory_total_mb > 90"
    see(rule in RULES.read_text(), "the rule for memory is " + rule)
    used, total = (metric(name, "SIM-h200-1") for name in ("gpu_memory_usage_mb", "gpu_memory_total_mb"))
    see(100 * used / total > 90, "the metrics make HighGPUMemoryUsage true: %d of %d MiB" % (used, total))
    say("the pager has: " + alert["text"])

    for name, process in running.items():
        process.stdin.close()
        process.wait()
        machine.berth("deallocate", name, leases[name]["gpu"])
    until(lambda: left() == free, "everything is free at the end of the day")
    see({lease.holder.service for lease in berth.past_leases()} == set(SERVICES), "the daemon remembers who had what")
    say("everything is free again, and the daemon remembers who had what")


def left():
    return sum(gpu.available_mb for gpu in berth.available())


def measured(name):
    return berth.find_lease(name).parts[0].measured_mb


def metric(name, label):
    """The sum of a metric over the lines with a label on the page for Prometheus."""
    with urllib.request.urlopen(machine.url + "/metrics") as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{") and '"%s"' % label in line)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        service()
    else:
        with Machine("sim:2", CONFIGURATION) as machine:
            day(machine)
