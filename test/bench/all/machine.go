package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// ticks are the times of all processors since the machine started, from /proc/stat.
type ticks struct{ all, idle, stolen uint64 }

func readTicks(text string) (ticks, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return ticks{}, errors.New("/proc/stat does not begin with the times of all processors")
	}
	var t ticks
	for i, field := range fields[1:9] { // user nice system idle iowait irq softirq steal; guests are in user
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return t, fmt.Errorf("/proc/stat: %w", err)
		}
		t.all += n
		switch i {
		case 3, 4:
			t.idle += n
		case 7:
			t.stolen += n
		}
	}
	return t, nil
}

func nowTicks() (ticks, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, err
	}
	return readTicks(string(text))
}

// shares say what became of the processors during a run.
type shares struct{ busy, stolen float64 }

func (t ticks) since(before ticks) shares {
	all := float64(t.all - before.all)
	if all == 0 {
		return shares{}
	}
	taken := float64(t.stolen - before.stolen)
	return shares{busy: (all - float64(t.idle-before.idle) - taken) / all, stolen: taken / all}
}

// load returns how many processes ran or wanted to, on average over the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// machine says what was measured where. The first three lines tell whether two tables can be
// compared.
func machine(berth string) ([]string, error) {
	version, err := exec.Command(berth, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("run %s version: %w; run make build first", berth, err)
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return nil, err
	}
	commit, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude", "*").Output()
	if err != nil {
		commit = []byte("unknown")
	}
	return []string{
		fmt.Sprintf("machine: %d CPUs (%s), Linux %s", runtime.NumCPU(), processor(), bytes.TrimSpace(kernel)),
		fmt.Sprintf("commit: %s, %s", bytes.TrimSpace(commit), bytes.TrimSpace(version)),
		fmt.Sprintf("began: %s, load %s", time.Now().UTC().Format("2006-01-02 15:04 MST"), load()),
		peers(),
	}, nil
}

// peers says which of the programs that berth is compared with are missing: without one,
// its figures are gone.
func peers() string {
	var missing []string
	for _, program := range []string{"redis-server", "nginx", "tsp", "parallel", "prometheus-node-exporter", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if missing == nil {
		return "peers: none is missing"
	}
	return "peers that are not installed, and so not compared with: " + strings.Join(missing, ", ")
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(line, "model name"); found {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}
