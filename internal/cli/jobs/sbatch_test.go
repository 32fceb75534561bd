package jobs

import (
	"strings"
	"testing"
)

// What to write for a line of sbatch has the value of that line, if berth takes it.
func TestLinesForSlurm(t *testing.T) {
	for line, want := range map[string]string{
		"--job-name=finetune":    "#BERTH --name finetune",
		"-J train":               "#BERTH --name train",
		"-Jtrain":                "#BERTH --name train",
		"--gres=gpu:1":           "#BERTH --gpus 1",
		"--gres=gpu:h200:4":      "#BERTH --gpus 4",
		"--gres=gpu":             "#BERTH --gpus N",
		"--time=4:00:00":         "#BERTH --time 4h",
		"--time=4:30:00":         "#BERTH --time 4h30m",
		"-t 2-12:00:00":          "#BERTH --time 60h",
		"-t 1-0":                 "#BERTH --time 24h",
		"-t 90":                  "#BERTH --time 1h30m",
		"-t 10:30":               "#BERTH --time 10m30s",
		"-t 100:00:00:00":        "#BERTH --time, as in --time 4h",
		"-t UNLIMITED":           "#BERTH --time, as in --time 4h",
		"--output=out-%j.log":    "#BERTH --output out-%j.log",
		"--array=1-20%4":         "#BERTH --array 1-20%4",
		"--cpus-per-task=8":      "#BERTH --cpus 8",
		"--comment=two words":    "#BERTH --comment TEXT",
		"--mem=16G":              "#BERTH --host-memory, as in --host-memory 16GiB; memory of a GPU is --memory",
		"--nice=100":             "#BERTH --priority, as in --priority -5",
		"--mail-user=a@b.c":      "berth has nothing like it",
		"--hold":                 "#BERTH --hold",
		`--job-name="two words"`: "#BERTH --name NAME",
	} {
		said := ofSlurm("job.sh", []byte("#!/bin/sh\n#SBATCH "+line+"\n"))
		if len(said) != 2 || !strings.HasSuffix(said[1], "#SBATCH "+line+": write "+want) && !strings.HasSuffix(said[1], ": "+want) {
			t.Errorf("%s: %q", line, said)
		}
	}
}
