// Package synonyms has what berth has for words of other tools, and for plain ones.
//
// The help of the command and the search of the manual read it.
package synonyms

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Meaning is what berth has for a word.
type Meaning struct {
	See    []string // commands and topics of the manual, best first
	Answer string   // what berth lacks, and what comes nearest; empty if it has what the word means
}

// meaning is what berth has for some words that are neither commands nor topics.
type meaning struct {
	words  string // separated by commas, in small letters
	see    string // commands and topics, separated by blanks, best first
	answer string // what berth lacks, and what comes nearest; empty if it has what the words mean
}

// meanings is what berth has for words. Those that are not here are looked for in the manual.
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
	{"partition", "placement configuration", Instead["partition"]},
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

// Nearest has commands of other tools (ps, Slurm, gflow, pueue, Ollama, llama-swap) and
// words for what berth calls otherwise, and the commands of berth
// that come nearest.
var Nearest = map[string][]string{
	"ps": {"jobs", "leases", "top"}, "list": {"jobs", "leases"}, "ls": {"jobs", "leases"}, "queue": {"jobs", "leases"}, "gqueue": {"jobs", "leases"},
	"squeue": {"jobs", "leases"}, "sacct": {"jobs", "report"}, "sinfo": {"status"}, "nvidia-smi": {"status", "top"}, "smi": {"status", "top"},
	"kill": {"cancel", "release"}, "scancel": {"cancel", "release"}, "stop": {"cancel", "release"}, "gcancel": {"cancel", "release"},
	"sbatch": {"submit", "exec"}, "srun": {"exec"}, "salloc": {"allocate"}, "gbatch": {"submit", "exec"}, "add": {"submit", "exec"}, "scontrol": {"job", "leases"},
	"models": {"services"}, "load": {"start", "services"}, "unload": {"stop"}, "pipeline": {"plan"}, "pipelines": {"plan"}, "batch": {"run", "submit"}, "map": {"run"},
	"users": {"quota", "whoami"}, "limits": {"quota"}, "roles": {"whoami", "token"}, "login": {"open", "token"}, "web": {"open"}, "ui": {"open"},
	"past": {"query", "report"}, "history": {"query", "jobs"}, "metrics": {"query", "status"}, "usage": {"report"}, "gpus": {"status"}, "devices": {"status"}, "dump": {"backup", "export"}, "daemon": {"serve"},
}

// Instead has words for what no command of berth does, and what does it.
var Instead = map[string]string{
	"upgrade": upgrade, "update": upgrade, "self-update": upgrade,
	"reserve": reserve, "reservation": reserve, "reservations": reserve, "book": reserve, "calendar": reserve,
	"attach": attach, "tail": attach, "foreground": attach, "fg": attach,
	"notify": notify, "mail": notify, "email": notify, "slack": notify, "webhook": notify, "webhooks": notify,
	"budget": budget, "budgets": budget, "account": budget, "accounts": budget, "project": budget, "projects": budget, "bill": budget, "billing": budget, "invoice": budget,
	"pause": pause, "suspend": pause, "stash": pause,
	"uninstall":  "what installed berth removes it: sudo apt remove berth or sudo dnf remove berth; in Python, pip uninstall berth-gpu. berth help operate says what stays",
	"prometheus": "Prometheus scrapes /metrics of the daemon, and berth query asks in its language: berth help monitoring", "grafana": "Grafana asks the daemon as it asks Prometheus: berth help monitoring",
	"docker": "start a container with a lease: berth help docker", "kubernetes": "berth has a driver for Kubernetes: berth help kubernetes",
	"ssh": "berth has no login to other machines: berth status --urls and berth run --hosts know several", "node": "berth has no nodes but those of Kubernetes: berth help nodes", "nodes": "berth status --kubernetes shows the nodes of a cluster, and berth status --urls several machines",
	"record":    "berth export writes the samples of the last ten minutes, as in berth export samples.csv --since 10m; of longer ago, berth query tells, as in berth query gpu_temperature_celsius --range 1d",
	"partition": "berth has no partitions: write --where, as in berth submit --where 'name~H200' -- python train.py", "partitions": "berth has no partitions: write --where, as in berth submit --where 'name~H200' -- python train.py",
	"pull": "berth downloads no models: a service names the program and the file of its model: berth help models",
	"chat": "berth is no client of models: any client of OpenAI's API asks the front: berth help models",
}

const (
	reserve = "berth has no reservations. To begin later, write berth submit --begin 22:00 -- COMMAND; to keep others off a GPU, berth drain GPU --reason TEXT; to hold one now, berth allocate NAME SIZE"
	attach  = "berth has no terminal of a job: berth logs -f ID shows what it prints, and berth job ID how it stands"
	notify  = "berth sends no messages to single users: berth wait ID returns at the end of a job, as in berth wait train-17; mail me. For the administrator, hooks send events: berth help events"
	budget  = "berth has no budgets and no accounts: berth report shows what each user used, and users.NAME and groups.NAME in berth.yaml limit what they hold at a time"
	pause   = "to keep a job that waits from starting, write berth hold ID; to take a running program off its GPU, berth park LEASE"
)

const upgrade = "what installed berth upgrades it: sudo apt install ./berth_….deb or sudo dnf install ./berth-….rpm with the new package; from the archive, sudo install bin/berth bin/berth-serve /usr/local/bin/ and sudo systemctl restart berth; in Python, pip install --upgrade berth-gpu. What runs goes on: berth help install"

// known has the meaning of each word.
var known = sync.OnceValue(func() map[string]Meaning {
	all := map[string]Meaning{}
	for word, commands := range Nearest {
		all[word] = Meaning{See: commands}
	}
	for word := range Instead {
		all[word] = Meaning{See: all[word].See}
	}
	for _, m := range meanings {
		for word := range strings.SplitSeq(m.words, ", ") {
			all[word] = Meaning{strings.Fields(m.see), m.answer}
		}
	}
	for word, answer := range Instead {
		m := all[word]
		if m.See == nil {
			m.See = all[strings.TrimSuffix(word, "s")].See
		}
		all[word] = Meaning{m.See, cmp.Or(answer, m.Answer)}
	}
	return all
})

// Of returns what berth has for words in any case, or of several things. It returns false
// if they are not known.
func Of(asked string) (Meaning, bool) {
	asked = strings.ToLower(strings.Join(strings.Fields(asked), " "))
	m, is := known()[asked]
	if !is {
		m, is = known()[strings.TrimSuffix(asked, "s")]
	}
	return m, is
}

// All returns all words, in their order, with what berth has for them.
func All() iter.Seq2[string, Meaning] {
	return func(yield func(string, Meaning) bool) {
		for _, word := range slices.Sorted(maps.Keys(known())) {
			if !yield(word, known()[word]) {
				return
			}
		}
	}
}

// topicsByCommand says which topic tells more about each command, in lines of the topic
// and its commands. A command below another one has the topic of that one unless it is
// listed with it.
const topicsByCommand = `
cli               berth, completion, help, version
looking           status, top, open, report
events-and-hooks  events, hooks
past              query, export
running-jobs      submit, jobs, job, logs, wait, cancel, redo, hold, unhold, priority
running-services  services, start, stop, restart, move
models            import
leasing           allocate, deallocate, exec, become, leases, release, renew, resize, adopt
troubleshooting   explain, doctor
sharing           pace, park, resume, optimize, loop
pipelines         plan
batch             run, work
access            whoami, quota, token, sessions, audit
assistants        mcp
alerting          alerts
health            check, drain, undrain
configuration     config
journal-format    journal
install           serve
operate           backup, restore, state
running-services  front
`

// Commands returns each topic that commands name, with the commands of which it tells more.
// A topic may come twice.
func Commands() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for line := range strings.Lines(strings.TrimSpace(topicsByCommand)) {
			topic, commands, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !yield(topic, strings.Split(strings.TrimSpace(commands), ", ")) {
				return
			}
		}
	}
}

// TopicOf returns the topic that tells more about a command; empty if none is listed.
func TopicOf(command string) string {
	for topic, commands := range Commands() {
		if slices.Contains(commands, command) {
			return topic
		}
	}
	return ""
}
