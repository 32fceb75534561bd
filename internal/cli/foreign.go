package cli

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/text/words"
)

// foreign has commands of other tools (ps, Slurm, gflow, pueue, Ollama, llama-swap) and
// words for what berth calls otherwise, and the commands of berth
// that come nearest.
var foreign = map[string][]string{
	"ps": {"jobs", "leases", "top"}, "list": {"jobs", "leases"}, "ls": {"jobs", "leases"}, "queue": {"jobs", "leases"}, "gqueue": {"jobs", "leases"},
	"squeue": {"jobs", "leases"}, "sacct": {"jobs", "report"}, "sinfo": {"status"}, "nvidia-smi": {"status", "top"}, "smi": {"status", "top"},
	"kill": {"cancel", "release"}, "scancel": {"cancel", "release"}, "stop": {"cancel", "release"}, "gcancel": {"cancel", "release"},
	"sbatch": {"submit", "exec"}, "srun": {"exec"}, "salloc": {"allocate"}, "gbatch": {"submit", "exec"}, "add": {"submit", "exec"}, "scontrol": {"job", "leases"},
	"models": {"services"}, "load": {"start", "services"}, "unload": {"stop"}, "pipeline": {"plan"}, "pipelines": {"plan"}, "batch": {"run", "submit"}, "map": {"run"},
	"users": {"quota", "whoami"}, "limits": {"quota"}, "roles": {"whoami", "token"}, "login": {"open", "token"}, "web": {"open"}, "ui": {"open"},
	"past": {"query", "report"}, "history": {"query", "jobs"}, "metrics": {"query", "status"}, "usage": {"report"}, "gpus": {"status"}, "devices": {"status"}, "dump": {"backup", "export"}, "daemon": {"serve"},
}

// otherwise has words for what no command of berth does, and what does it.
var otherwise = map[string]string{
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

// foreignFlags has flags of other tools, or of other commands where a command is named, and
// what to write instead.
var foreignFlags = map[string]string{
	"--mem": "memory of a GPU is --memory, as in --memory 8GiB", "--gres": "write --gpus 2 for two GPUs", "--nodelist": "write --gpu 1 for one GPU, or --where 'name~H200'",
	"-n": "write --gpus 2 for two GPUs, or --name NAME", "-w": "write --gpu 1 for one GPU, or --where 'name~H200'",
	"-g": "write --gpus 2 for two GPUs, or --gpu 1 for that one", "-t": "write --time 2h", "-J": "write --name NAME", "-p": "write --priority 10", "--partition": "berth has no partitions: write --where 'name~H200'",
	"--no-wait": "to take what is free or give up at once, write --timeout 0", "--mine": "yours alone: --user and your name", "--me": "yours alone: --user and your name", "--last": "write --since, as in --since 1d",
	"status --gpu": "write berth status 0 for GPU 0", "cancel --all": "name them, as in berth cancel train-17 eval-18: berth jobs lists them", "plan --dry-run": "berth plan runs nothing without --run", "create --for": "write --expires 7d",
	"wait --timeout": "to wait for a time, write timeout 5m berth wait ID", "submit --notify": notify, "submit --mail-type": notify, "submit --mail-user": notify, "--account": budget, "-A": budget, "top --sort": "press s in berth top to sort", "submit --dependency": "write --after train-17, or --after-any or --after-failed", "submit -d": "write --after train-17", "submit -a": "write --array 1-20", "submit -o": "write --output FILE", "submit --nodes": "a job runs on this machine: write --gpus 2 for two GPUs", "submit -N": "a job runs on this machine: write --gpus 2 for two GPUs", "submit --reservation": reserve, "--tail": "write --lines 50, as in berth logs train-17 --lines 50",
	"jobs -u": "write --user NAME", "jobs -a": "write --all", "jobs --limit": "write --state or --user to see fewer",
}

// unknown finds what a wrong command line has that no command of berth has.
var unknown = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^unknown (?:command "([^"]+)" for "berth"|flag: (--[\w-]+)|shorthand flag: '(\w)' in)`)
})

// translated returns the error of a command line with the next step: for a word of another
// tool, what to write instead. cmd is the command that the framework found.
func translated(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	found := unknown().FindStringSubmatch(err.Error())
	if found == nil {
		return console.Mistake(cmd, err)
	}
	command, flag := found[1], found[2]
	if found[3] != "" {
		flag = "-" + found[3]
	}
	if hint := cmp.Or(foreignFlags[cmd.Name()+" "+flag], foreignFlags[flag]); hint != "" {
		return console.Hinted(console.Usage("%s has no %s", strings.TrimSpace(cmd.CommandPath()), flag), hint)
	}
	if hint := otherwise[command]; hint != "" {
		return console.Hinted(console.Usage("berth has no command %q", command), hint)
	}
	var near []string
	all := cmd.Root().Commands()
	for _, name := range foreign[command] {
		at := slices.IndexFunc(all, func(c *cobra.Command) bool { return c.Name() == name && !c.Hidden })
		if at >= 0 {
			near = append(near, "berth "+name+" ("+strings.ToLower(all[at].Short[:1])+all[at].Short[1:]+")")
		}
	}
	if len(near) == 0 {
		return console.Mistake(cmd, err)
	}
	return console.Hinted(console.Usage("berth has no command %q", command), "write "+words.Or(near))
}
