package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// results are what was measured.
type results struct {
	published time.Duration
	loads     []load
	rest      *rest
	taints    *taints
	random    *random
	failures  []string
}

// verdict returns an error if something did not hold that must.
func (f *fleet) verdict() error {
	f.seen.mu.Lock()
	broken := slices.Clone(f.seen.sums.broken)
	f.seen.mu.Unlock()
	for _, b := range broken[:min(len(broken), 5)] {
		f.fail("%s", b)
	}
	if len(f.result.failures) > 0 {
		return errors.New(strings.Join(f.result.failures, "\n       "))
	}
	return nil
}

// broken returns how often a device gave more than it has.
func (f *fleet) broken() int {
	f.seen.mu.Lock()
	defer f.seen.mu.Unlock()
	return len(f.seen.sums.broken)
}

// write writes the results.
func (f *fleet) write(w io.Writer, failed error) {
	line := func(format string, a ...any) { fmt.Fprintf(w, format+"\n", a...) }
	line("berth %s (%s, %s/%s)", f.o.commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	line("%s, %d CPUs (%s), Linux %s, %s of memory", f.began.UTC().Format(time.DateOnly), runtime.NumCPU(), first("/proc/cpuinfo", "model name\t: "), strings.TrimSpace(first("/proc/sys/kernel/osrelease", "")), gib(first("/proc/meminfo", "MemTotal:")))
	line("%s; etcd without fsync; limits of requests of scheduler and controller manager: %s", f.o.versions, f.o.limits)
	line("%d nodes of %d GPUs (%d more for the random claims) that exist in the API only, one slice controller per node, seed %d, %s in all", f.o.nodes, f.o.gpus, max(len(f.nodes)-f.o.nodes, 0), f.o.seed, round(time.Since(f.began)))
	line("The control plane, kwok and this program share the CPUs; every time is taken when the event arrives here.")
	line("")
	if f.result.published > 0 {
		line("%d slices with %d devices were published in %s", len(f.nodes), len(f.nodes)*f.o.gpus, round(f.result.published))
		line("")
	}
	f.writeLoads(line)
	if r := f.result.rest; r != nil {
		line("")
		line("at rest for %s with %d pods: %d computations of devices from changing measurements, %d slices written", round(r.lasted), f.o.pods, r.computed, r.writes)
		line("  requests about slices: %s; all requests: %.0f, most of them %s (leases are the heartbeats of nodes)", verbs(r.requests), r.all, strings.Join(r.most, ", "))
		line("  processor time: %s", busy(r.busy))
	}
	if t := f.result.taints; t != nil {
		line("")
		line("%d devices on %d nodes tainted NoExecute at once, %d pods on them", t.devices, t.nodes, t.pods)
		line("  to the last taint in a slice      %8s", round(t.published))
		line("  to half of the pods deleted       %8s", round(t.half))
		line("  to the last pod deleted           %8s", round(t.deleted))
		line("  to the last pod and claim gone    %8s", round(t.gone))
		line("  pods on other devices deleted     %8d", t.others)
		line("  to the last taint lifted          %8s, from the recovery on", round(t.healed))
		line("  claims that Kubernetes had made twice for their pod, and left out here: %d", t.replaced)
	}
	if r := f.result.random; r != nil {
		line("")
		line("%d random claims for 4 nodes of %d GPUs: %d fit a device and %d of them were allocated, %d do not and were not; %s, at most %d pods at a time", r.claims, f.o.gpus, r.fitting, r.allocated, r.never, round(r.elapsed), r.most)
		line("  devices that gave more memory or slots than they have: %d, at %d changes of a claim; claims that did not consume exactly what they asked for: %d", f.broken(), r.changes, r.wrong)
	}
	f.writeMemory(line)
	line("")
	if failed != nil {
		line("FAILED: %v", failed)
	} else {
		line("everything held")
	}
}

// writeLoads writes the table of the loads.
func (f *fleet) writeLoads(line func(string, ...any)) {
	if len(f.result.loads) == 0 {
		return
	}
	line("| pods | n | created in | bound a second | create to bound: p50 | p99 | longest | create to allocated: p50 | p99 | claims allocated a second |")
	line("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for i, l := range f.result.loads {
		allocated := "| | | |"
		if len(l.allocated) > 0 {
			allocated = fmt.Sprintf("| %s | %s | %.1f |", round(quantile(l.allocated, 0.5)), round(quantile(l.allocated, 0.99)), float64(l.pods)/l.allocatedIn.Seconds())
		}
		line("| %s | %d | %s | %.1f | %s | %s | %s %s", l.name, l.pods, round(l.created), l.rate(), round(quantile(l.bound, 0.5)), round(quantile(l.bound, 0.99)), round(quantile(l.bound, 1)), allocated)
		if i%2 == 1 {
			plain := f.result.loads[i-1]
			line("| ratio, with to without | | %.2f | %.2f | %.2f | %.2f | %.2f | | | |", l.created.Seconds()/plain.created.Seconds(), l.rate()/plain.rate(), ratio(l, plain, 0.5), ratio(l, plain, 0.99), ratio(l, plain, 1))
		}
	}
	line("At once: 16 requests at a time, so the API server decides how fast pods are created.")
	line("")
	line("processor time:")
	for _, l := range f.result.loads {
		line("  %-36s %s", l.name, busy(l.busy))
	}
}

// writeMemory writes the table of the memory.
func (f *fleet) writeMemory(line func(string, ...any)) {
	line("")
	line("| resident memory | %s |", strings.Join(processes, " | "))
	line("|---|%s", strings.Repeat("---:|", len(processes)))
	var peak mark
	for _, m := range f.usage.marks {
		row := "| " + m.name
		for _, p := range processes {
			row += " | " + mb(m.of[p].resident)
		}
		line("%s |", row)
		peak = m
	}
	row := "| most"
	for _, p := range processes {
		row += " | " + mb(peak.of[p].peak)
	}
	line("%s |", row)
}

func ratio(a, b load, share float64) float64 {
	return quantile(a.bound, share).Seconds() / quantile(b.bound, share).Seconds()
}

func mb(bytes int64) string { return fmt.Sprintf("%d MB", bytes/1e6) }

// busy writes processor times in the order of the processes.
func busy(of map[string]time.Duration) string {
	var all []string
	for _, p := range processes {
		all = append(all, fmt.Sprintf("%s %.1f s", p, of[p].Seconds()))
	}
	return strings.Join(all, ", ")
}

// verbs writes counts of requests.
func verbs(of map[string]float64) string {
	var all []string
	for _, v := range []string{"GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "DELETE"} {
		all = append(all, fmt.Sprintf("%s %.0f", v, of[v]))
	}
	return strings.Join(all, ", ")
}

// first returns what follows a prefix in a file.
func first(file, prefix string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for l := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(l, prefix); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// gib writes an amount that the kernel gives in kB.
func gib(kib string) string {
	var n int64
	if _, err := fmt.Sscanf(kib, "%d kB", &n); err != nil {
		return "an unknown amount"
	}
	return fmt.Sprintf("%d GiB", (n+1<<19)>>20)
}
