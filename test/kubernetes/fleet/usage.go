package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// processes are the parts of the control plane, by the names of their files in pids/,
// and this program.
var processes = []string{"apiserver", "etcd", "scheduler", "kcm", "kwok", "fleet"}

// reading is the memory and the processor time of one process.
type reading struct {
	resident, peak int64 // bytes
	busy           time.Duration
}

// mark is what every process had taken at one moment.
type mark struct {
	name string
	at   time.Time
	of   map[string]reading
}

// usage reads what the processes take.
type usage struct {
	run   string
	marks []mark
}

// mark reads all processes. One that cannot be read is left out.
func (u *usage) mark(name string) mark {
	m := mark{name: name, at: time.Now(), of: map[string]reading{}}
	for _, p := range processes {
		pid := strconv.Itoa(os.Getpid())
		if p != "fleet" {
			b, err := os.ReadFile(filepath.Join(u.run, "pids", p))
			if err != nil {
				continue
			}
			pid = strings.TrimSpace(string(b))
		}
		if r, err := read("/proc/" + pid); err == nil {
			m.of[p] = r
		}
	}
	u.marks = append(u.marks, m)
	return m
}

// read reads the folder of a process in /proc.
func read(folder string) (reading, error) {
	var r reading
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return r, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			r.resident = kib << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			r.peak = kib << 10
		}
	}
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return r, err
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name may have blanks
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return r, fmt.Errorf("%s/stat has %d fields", folder, len(fields))
	}
	for _, f := range fields[11:13] { // user and system time in hundredths of a second
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return r, err
		}
		r.busy += time.Duration(ticks) * 10 * time.Millisecond
	}
	return r, nil
}

// asked is what requests ask for.
type asked struct{ resource, verb string }

// requests returns how many requests the API server has answered. It counts a watch
// when it ends.
func requests(ctx context.Context, client kubernetes.Interface) (map[asked]float64, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	all := map[asked]float64{}
	for line := range strings.Lines(string(text)) {
		labels, ok := strings.CutPrefix(line, "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, number, _ := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			return nil, fmt.Errorf("read the metrics of the API server: %w", err)
		}
		all[asked{label(labels, "resource"), label(labels, "verb")}] += n
	}
	return all, nil
}

// label returns the value of a label of a metric.
func label(labels, name string) string {
	for l := range strings.SplitSeq(labels, ",") {
		if value, ok := strings.CutPrefix(l, name+"="); ok {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}
