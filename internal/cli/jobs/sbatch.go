package jobs

import (
	"bytes"
	"fmt"
	"strings"
)

// slurm begins a line of a file that has options for sbatch, which berth does not read.
const slurm = "#SBATCH"

// insteadOf has the options of sbatch, and what to write for each after #BERTH. What is
// missing has no counterpart.
var insteadOf = map[string]string{
	"--job-name": "--name NAME", "-J": "--name NAME", "--time": "--time, as in --time 4h", "-t": "--time, as in --time 4h",
	"--gres": "--gpus N", "--gpus": "--gpus N", "-G": "--gpus N", "--gpus-per-node": "--gpus N", "--gpus-per-task": "--gpus N",
	"--mem": "--host-memory, as in --host-memory 16GiB; memory of a GPU is --memory", "--mem-per-cpu": "--host-memory, as in --host-memory 16GiB; memory of a GPU is --memory", "--mem-per-gpu": "--host-memory, as in --host-memory 16GiB; memory of a GPU is --memory",
	"--cpus-per-task": "--cpus N", "-c": "--cpus N", "--cpus-per-gpu": "--cpus N",
	"--output": "--output FILE", "-o": "--output FILE", "--error": "--error FILE", "-e": "--error FILE", "--chdir": "--chdir FOLDER", "-D": "--chdir FOLDER",
	"--array": "--array, as in --array 1-20%4", "-a": "--array, as in --array 1-20%4", "--dependency": "--after, --after-any or --after-failed IDS", "-d": "--after, --after-any or --after-failed IDS",
	"--begin": "--begin, as in --begin 22:00", "-b": "--begin, as in --begin 22:00", "--hold": "--hold", "-H": "--hold", "--requeue": "--requeue", "--signal": "--signal, as in --signal USR1@60s",
	"--export": "--export all or none, and --env NAME=VALUE", "--comment": "--comment TEXT", "--wait": "--wait", "-W": "--wait", "--exclusive": "--exclusive",
	"--partition": "--where, as in --where 'name~H200'", "-p": "--where, as in --where 'name~H200'", "--constraint": "--where, as in --where 'name~H200'", "-C": "--where, as in --where 'name~H200'",
	"--priority": "--priority N", "--nice": "--priority N",
}

// ofSlurm returns the lines that a person reads about options for sbatch in a file.
func ofSlurm(name string, text []byte) (said []string) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		rest, marked := strings.CutPrefix(strings.TrimSpace(string(line)), slurm)
		option := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' || r == '=' })
		if !marked || len(option) == 0 {
			continue
		}
		instead, has := "", false
		if instead, has = insteadOf[option[0]]; !has && len(option[0]) > 2 && option[0][0] == '-' && option[0][1] != '-' { // -J and the name as one word
			instead, has = insteadOf[option[0][:2]]
		}
		what := "berth has nothing like it"
		if has {
			what = "write #BERTH " + instead
		}
		said = append(said, fmt.Sprintf("  line %d: %s: %s", number, strings.TrimSpace(slurm+rest), what))
	}
	if said != nil {
		said = append([]string{"berth: " + name + " has lines for Slurm, which berth does not read; write lines for berth:"}, said...)
	}
	return said
}
