package cli

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/text/synonyms"
	"github.com/berth-gpu/berth/internal/text/words"
)

// foreignFlags has flags of other tools, or of other commands where a command is named, and
// what to write instead.
var foreignFlags = map[string]string{
	"--mem": "memory of a GPU is --memory, as in --memory 8GiB", "--gres": "write --gpus 2 for two GPUs", "--nodelist": "write --gpu 1 for one GPU, or --where 'name~H200'",
	"-n": "write --gpus 2 for two GPUs, or --name NAME", "-w": "write --gpu 1 for one GPU, or --where 'name~H200'",
	"-g": "write --gpus 2 for two GPUs, or --gpu 1 for that one", "-t": "write --time 2h", "-J": "write --name NAME", "-p": "write --priority 10", "--partition": "berth has no partitions: write --where 'name~H200'",
	"--no-wait": "to take what is free or give up at once, write --timeout 0", "--mine": "yours alone: --user and your name", "--me": "yours alone: --user and your name", "--last": "write --since, as in --since 1d",
	"status --gpu": "write berth status 0 for GPU 0", "cancel --all": "name them, as in berth cancel train-17 eval-18: berth jobs lists them", "plan --dry-run": "berth plan runs nothing without --run", "create --for": "write --expires 7d",
	"wait --timeout": "to wait for a time, write timeout 5m berth wait ID", "submit --notify": synonyms.Instead["notify"], "submit --mail-type": synonyms.Instead["notify"], "submit --mail-user": synonyms.Instead["notify"], "--account": synonyms.Instead["budget"], "-A": synonyms.Instead["budget"], "top --sort": "press s in berth top to sort", "submit --dependency": "write --after train-17, or --after-any or --after-failed", "submit -d": "write --after train-17", "submit -a": "write --array 1-20", "submit -o": "write --output FILE", "submit --nodes": "a job runs on this machine: write --gpus 2 for two GPUs", "submit -N": "a job runs on this machine: write --gpus 2 for two GPUs", "submit --reservation": synonyms.Instead["reserve"], "--tail": "write --lines 50, as in berth logs train-17 --lines 50",
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
	if hint := synonyms.Instead[command]; hint != "" {
		return console.Hinted(console.Usage("berth has no command %q", command), hint)
	}
	var near []string
	all := cmd.Root().Commands()
	for _, name := range synonyms.Nearest[command] {
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
