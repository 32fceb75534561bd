package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/test/bench/figure"
)

// table gathers the measurements.
type table struct {
	names   []string
	clients []int
	cells   map[cell][]measurement
}

type cell struct {
	name    string
	clients int
}

func newTable(all []running, clients []int) *table {
	t := &table{clients: clients, cells: map[cell][]measurement{}}
	for _, c := range all {
		t.names = append(t.names, c.name)
	}
	return t
}

func (t *table) add(name string, clients int, m measurement) {
	key := cell{name, clients}
	t.cells[key] = append(t.cells[key], m)
}

// rates returns the rate of each round, in order.
func (t *table) rates(name string, clients int) []float64 {
	var rates []float64
	for _, m := range t.cells[cell{name, clients}] {
		rates = append(rates, m.rate())
	}
	return rates
}

// ratios returns the ratio of the rates of each round. The two measurements of a
// round are close in time, so that other load on the machine hits both.
func (t *table) ratios(our, name string, clients int) []float64 {
	ours, theirs := t.rates(our, clients), t.rates(name, clients)
	for i := range ours {
		ours[i] /= theirs[i]
	}
	return ours
}

// times returns the sorted times of all rounds.
func (t *table) times(name string, clients int) []time.Duration {
	var all []time.Duration
	for _, m := range t.cells[cell{name, clients}] {
		all = append(all, m.times...)
	}
	slices.Sort(all)
	return all
}

// spread formats the median, the least and the most of values.
func spread(values []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+" to "+format+")", middle(values), slices.Min(values), slices.Max(values))
}

// middle returns the median.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// say says the figures of the contenders that took part.
func (t *table) say() {
	for _, clients := range t.clients {
		at := fmt.Sprintf(", %d at once", clients)
		for _, pair := range []struct{ name, our, other string }{
			{"durable lease ÷ Redis always", durable, everyChange},
			{"process-bound lease ÷ Redis everysec", processBound, everySecond},
			{"lease over REST ÷ stream", overHTTP, durable},
		} {
			if slices.Contains(t.names, pair.our) && slices.Contains(t.names, pair.other) {
				figure.Say(pair.name+at, middle(t.ratios(pair.our, pair.other, clients)), "ratio", figure.More)
			}
		}
		for _, name := range []string{durable, processBound} {
			if slices.Contains(t.names, name) {
				figure.Say(name+at, middle(t.rates(name, clients)), "ops/s", figure.More)
			}
		}
	}
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n| clients | | ops/s | p50 | p99 | %s does so many times as much |\n|---:|---|---:|---:|---:|---:|\n", t.names[0])
	for _, clients := range t.clients {
		for i, name := range t.names {
			ratio := ""
			if i > 0 {
				ratio = spread(t.ratios(t.names[0], name, clients), "%.2f")
			}
			times := t.times(name, clients)
			fmt.Fprintf(w, "| %d | %s | %s | %s | %s | %s |\n", clients, name, spread(t.rates(name, clients), "%.0f"),
				short(quantile(times, 0.5)), short(quantile(times, 0.99)), ratio)
		}
	}
}

// printPair prints the ratio of the rates of two contenders, if both took part.
func (t *table) printPair(w io.Writer, our, other string) {
	if !slices.Contains(t.names, our) || !slices.Contains(t.names, other) {
		return
	}
	fmt.Fprintf(w, "\n| clients | %s over %s |\n|---:|---:|\n", our, other)
	for _, clients := range t.clients {
		fmt.Fprintf(w, "| %d | %s |\n", clients, spread(t.ratios(our, other, clients), "%.2f"))
	}
}

func short(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%d µs", d.Microseconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// describe prints the machine and the versions of the contenders.
func describe(w io.Writer, dir string, o options) error {
	ours, err := exec.Command(o.berth, "version").Output()
	if err != nil {
		return fmt.Errorf("run %s version: %w; run make build first", o.berth, err)
	}
	var kernel unix.Utsname
	var disk unix.Statfs_t
	if err := unix.Uname(&kernel); err != nil {
		return err
	}
	if err := unix.Statfs(dir, &disk); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s", ours)
	fmt.Fprintf(w, "%s, %d CPUs (%s), Linux %s, %s, %s\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), cpu(),
		bytes.TrimRight(kernel.Release[:], "\x00"), fileSystem(disk.Type), runtime.Version())
	for _, program := range []string{"redis-server", "postgres", "etcd"} {
		fmt.Fprintln(w, version(program))
	}
	fmt.Fprintf(w, "%d rounds of %v: median (least to most), times over all rounds; an operation is one acquire or one release\n", o.rounds, o.each)
	return nil
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return string(line)
}

func cpu() string {
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

// fileSystem returns the name of a file system. In memory nothing is durable, and
// a comparison says nothing.
func fileSystem(kind int64) string {
	switch kind {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs (nothing is durable here: choose another folder with -dir)"
	}
	return fmt.Sprintf("file system %#x", kind)
}
