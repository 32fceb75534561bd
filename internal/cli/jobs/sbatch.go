package jobs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// slurm begins a line of a file that has options for sbatch, which berth does not read.
const slurm = "#SBATCH"

// insteadOf has the options of sbatch, and what to write for each after #BERTH. A word in
// capitals at the end stands for the value. What is missing has no counterpart.
var insteadOf = map[string]string{
	"--job-name": "--name NAME", "-J": "--name NAME", "--time": "--time TIME", "-t": "--time TIME",
	"--gres": "--gpus N", "--gpus": "--gpus N", "-G": "--gpus N", "--gpus-per-node": "--gpus N", "--gpus-per-task": "--gpus N",
	"--mem": "--host-memory, as in --host-memory 16GiB; memory of a GPU is --memory", "--mem-per-cpu": "--host-memory, as in --host-memory 16GiB; memory of a GPU is --memory", "--mem-per-gpu": "--host-memory, as in --host-memory 16GiB; memory of a GPU is --memory",
	"--cpus-per-task": "--cpus N", "-c": "--cpus N", "--cpus-per-gpu": "--cpus N",
	"--output": "--output FILE", "-o": "--output FILE", "--error": "--error FILE", "-e": "--error FILE", "--chdir": "--chdir FOLDER", "-D": "--chdir FOLDER",
	"--array": "--array NUMBERS", "-a": "--array NUMBERS", "--dependency": "--after, --after-any or --after-failed IDS", "-d": "--after, --after-any or --after-failed IDS",
	"--begin": "--begin, as in --begin 22:00", "-b": "--begin, as in --begin 22:00", "--hold": "--hold", "-H": "--hold", "--requeue": "--requeue", "--signal": "--signal, as in --signal USR1@60s",
	"--export": "--export all or none, and --env NAME=VALUE", "--comment": "--comment TEXT", "--wait": "--wait", "-W": "--wait", "--exclusive": "--exclusive",
	"--partition": "--where, as in --where 'name~H200'", "-p": "--where, as in --where 'name~H200'", "--constraint": "--where, as in --where 'name~H200'", "-C": "--where, as in --where 'name~H200'",
	"--priority": "--priority N", "--nice": "--priority, as in --priority -5",
}

// withValue puts the value that sbatch has in the place of the last word, if berth takes it.
func withValue(instead, value string) string {
	flag, what, _ := strings.Cut(instead, " ")
	switch what {
	case "N": // of gpu:2 and h200:2, the number
		value = value[strings.LastIndexByte(value, ':')+1:]
		if _, err := strconv.ParseUint(value, 10, 16); err != nil {
			return instead
		}
	case "TIME":
		length, known := slurmTime(value)
		if !known {
			return flag + ", as in " + flag + " 4h"
		}
		value = length
	case "NUMBERS", "NAME", "FILE", "FOLDER":
		if value == "" || strings.ContainsAny(value, `"'`) {
			return instead
		}
	default:
		return instead
	}
	return flag + " " + value
}

// slurmTime writes a time limit of sbatch as berth takes it: minutes, minutes:seconds,
// hours:minutes:seconds, or days- before hours.
func slurmTime(value string) (string, bool) {
	days, rest, withDays := strings.Cut(value, "-")
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	if !withDays {
		days, rest = "0", value
		if strings.Count(rest, ":") < 2 {
			units = units[1:]
		}
	}
	parts := append([]string{days}, strings.Split(rest, ":")...)
	units = append([]time.Duration{24 * time.Hour}, units...)
	var length time.Duration
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil || i >= len(units) {
			return "", false
		}
		length += time.Duration(n) * units[i]
	}
	text := length.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text, length > 0
}

// ofSlurm returns the lines that a person reads about options for sbatch in a file.
func ofSlurm(name string, text []byte) (said []string) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		rest, marked := strings.CutPrefix(strings.TrimSpace(string(line)), slurm)
		words := strings.Fields(strings.Replace(rest, "=", " ", 1))
		if !marked || len(words) == 0 {
			continue
		}
		option, value := words[0], ""
		if len(words) > 1 {
			value = words[1]
		}
		instead, has := insteadOf[option]
		if !has && len(option) > 2 && option[0] == '-' && option[1] != '-' { // -J and the name as one word
			value = option[2:]
			instead, has = insteadOf[option[:2]]
		}
		what := "berth has nothing like it"
		if has {
			what = "write #BERTH " + withValue(instead, value)
		}
		said = append(said, fmt.Sprintf("  line %d: %s: %s", number, strings.TrimSpace(slurm+rest), what))
	}
	if said != nil {
		said = append([]string{"berth: " + name + " has lines for Slurm, which berth does not read; write lines for berth:"}, said...)
	}
	return said
}
