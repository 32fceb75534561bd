package cli

import (
	"slices"
	"strings"
)

// meaning is what berth has for some words that are neither commands nor topics.
type meaning struct {
	words  string // separated by commas, in small letters
	see    string // commands and topics, separated by blanks, best first
	answer string // what berth lacks, and what comes nearest; empty if it has what the words mean
}

// meanings is what the help has for words of other tools, and for plain ones.
// berth help WORD also searches the manual for a word that is not here.
var meanings = []meaning{
	{"prometheus, grafana, scrape, exporter, dcgm, dcgm-exporter, telemetry", "monitoring past metrics", ""},
	{"promql", "past query", ""},
	{"alert, pagerduty, alertmanager", "alerting alerts monitoring", ""},
	{"webhook, callback", "events-and-hooks hooks", ""},
	{"mail, email, e-mail, notify, notification, message, slack, teams, discord, ntfy", "wait events-and-hooks hooks",
		notify},
	{"uninstall, remove, purge, deinstall", "install operate", ""},
	{"upgrade, update, downgrade", "install operate compatibility", ""},
	{"attach, tmux, screen, reattach", "logs job", attach},
	{"reservation, reserve, calendar, booking, book", "submit drain",
		reserve},
	{"budget, allowance", "quota report", budget},
	{"accounting, billing, bill, cost, chargeback, usage", "report energy", ""},
	{"project, account", "access quota", budget},
	{"partition", "placement configuration", otherwise["partition"]},
	{"cluster, multi-node, multinode, mpi", "nodes hosts kubernetes comparison", "berth has no cluster of its own: each daemon decides about one machine. Nearest: one table of several machines, batches over ssh, and Kubernetes."},
	{"sso, oidc, oauth, saml, ldap, kerberos", "access token", "berth has no single sign-on. Nearest: users of the machine are known by the kernel, and others by tokens and certificates."},
	{"windows, macos, mac, wsl, android, phone", "access python", "The daemon runs on Linux only. Nearest: the page, the REST API and the Python package reach it from elsewhere, with an address and a token."},
	{"sbatch, slurm, gbatch, gflow, qsub, pueue, task-spooler", "shared-machine submit running-jobs", ""},
	{"srun, interactive, shell, ssh", "exec", ""},
	{"squeue, sacct, gqueue, queue, pending, waiting, stuck", "jobs leases explain", ""},
	{"scancel, kill, abort, terminate", "cancel release", ""},
	{"array, sweep, dependency, retry, hyperparameter", "running-jobs submit", ""},
	{"time limit, walltime, timelimit, deadline, timeout", "submit exec leasing", ""},
	{"out of memory, oom, cuda out of memory, outofmemoryerror", "troubleshooting enforcement", ""},
	{"limit, limits of users", "quota access", ""},
	{"container, podman, compose, docker-compose", "docker kubernetes", ""},
	{"pod, k8s, helm, kubectl, dra", "kubernetes", ""},
	{"notebook, jupyterlab, jupyterhub, ipython, colab, vscode", "jupyter python sharing", ""},
	{"llm, openai, anthropic, llama-swap, llamaswap, proxy, gateway, inference", "models running-services import", ""},
	{"claude, copilot, cursor, assistant, agent", "assistants mcp", ""},
	{"login, password, auth, authentication, permission, role, rights", "access roles token", ""},
	{"tls, https, ssl, certificate", "access install", ""},
	{"settings, setting, options, yaml, berth.yaml", "configuration config", ""},
	{"temperature, thermal, throttling, fan, cooling, overheat, hot", "heat pace", ""},
	{"power, watt, kwh, electricity, carbon", "energy report", ""},
	{"xid, ecc, quarantine, fault, broken", "health check troubleshooting", ""},
	{"maintenance, cordon", "drain health", ""},
	{"preempt, preemption, suspend, checkpoint, swap, time slicing, oversubscribe", "sharing park", ""},
	{"mps, limit memory, isolation", "enforcement", ""},
	{"mig, amd, rocm, intel, nvidia", "vendors", ""},
	{"fair, fairness, fair share, fairshare, starvation, backfill", "leasing sharing", ""},
	{"affinity, topology, nvlink, numa", "placement explain", ""},
	{"dashboard, browser, web, ui, gui", "looking open top", ""},
	{"nvidia-smi, nvtop, nvitop, gpustat", "status top looking", ""},
	{"ray, kueue, hami, alternative, alternatives", "comparison", ""},
	{"api, http, curl, openapi, swagger", "rest python", ""},
	{"migrate, migration, disaster", "operate backup", ""},
	{"fake, simulate, demo, no gpu", "simulator", ""},
	{"gpumanager, get_gpu_manager, get_gpu_status, allocate_memory, should_throttle_processing, register_callback, acquire_gpu_slot, release_gpu_slot, gpu_registry, run_multi_gpu, preferred_device_id, gpu-optimizer-config, gpu-resource-optimizer", "earlier-names", ""},
}

// meaningOf returns what berth has for words in any case, or of several things. It returns
// false if they are not among meanings.
func meaningOf(asked string) (meaning, bool) {
	asked = strings.ToLower(strings.Join(strings.Fields(asked), " "))
	for _, m := range meanings {
		known := strings.Split(m.words, ", ")
		if slices.Contains(known, asked) || slices.Contains(known, strings.TrimSuffix(asked, "s")) {
			return m, true
		}
	}
	return meaning{}, false
}
