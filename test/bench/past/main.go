// Command past writes a month of devices, of eight unless told otherwise, into the store of the past as the
// daemon does, and prints what that takes: space on disk, memory, time for each
// sample, and time for a graph of the whole month.
//
//	go run ./test/bench/past
//
// Of the days of which only half-minutes are left in the end, it writes every
// fifth second, unless -every is 1s.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	dir := flag.String("dir", "", "folder of the store; empty: a temporary one, which is removed")
	why := flag.Bool("explain", false, "also print which metrics take the most space")
	m := month{}
	flag.IntVar(&m.days, "days", 30, "how many days to write")
	flag.DurationVar(&m.every, "every", 5*time.Second, "time from one sample to the next, before the last days of which every second is kept")
	flag.DurationVar(&m.seconds, "seconds", 51*time.Hour, "of how much time before the end to write every second")
	flag.IntVar(&m.devices, "devices", 8, "how many devices")
	flag.StringVar(&m.name, "name", "GPU-", "what the UUIDs of devices begin with, before their index")
	flag.IntVar(&m.leases, "leases", 24, "leases that stand at any time; each lasts some hours")
	flag.TextVar(&m.end, "end", time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC), "when the month ends, as in 2026-05-31T12:00:00Z")
	only := flag.Bool("write", false, "write, and measure no graphs")
	beside := flag.Bool("beside", false, "also write the same samples into Prometheus' own storage, and compare the graphs")
	flag.Parse()
	if err := run(m, *dir, *why, *only, *beside); err != nil {
		fmt.Fprintln(os.Stderr, "past:", err)
		os.Exit(1)
	}
}

// month is what to write.
type month struct {
	days, devices, leases int
	every, seconds        time.Duration
	name                  string
	end                   time.Time
}

func run(m month, dir string, why, only, beside bool) error {
	if dir == "" {
		temporary, err := os.MkdirTemp("", "past")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	}
	fmt.Printf("%s, %s/%s, %d CPUs, %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly))
	settings := past.Settings{Recent: 48 * time.Hour, Long: 90 * 24 * time.Hour, Size: 4096}
	p, err := past.Open(dir, past.Options{Settings: settings, Event: func(e gpu.Event) { fmt.Println(e.Text) }})
	if err != nil {
		return err
	}
	defer p.Close()
	begin := m.end.AddDate(0, 0, -m.days)
	if err := write(p.Write, p.Tidy, begin, m); err != nil {
		return err
	}
	fmt.Printf("%d series\n", p.Cost().Series)
	if only {
		return nil
	}
	if err := sizes(dir, m, p.Cost()); err != nil {
		return err
	}
	if why {
		for _, store := range []string{"recent", "long"} {
			if err := explain(dir, store); err != nil {
				return err
			}
		}
	}
	figure.Say(fmt.Sprintf("the past, %d days of %d devices, on disk", m.days, m.devices), float64(p.Cost().Bytes)/1e6, "MB", figure.Less)
	var theirs storage.Queryable
	if beside {
		folder, err := os.MkdirTemp("", "peer")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		other, err := openPeer(folder)
		if err != nil {
			return err
		}
		defer other.db.Close()
		fmt.Println("Prometheus' own storage:")
		if err := write(other.write, func(time.Time) {}, begin, m); err != nil {
			return err
		}
		theirs = other.db
	}
	return graphs(p.Queryable(), theirs, begin, m.end)
}

// write makes up the samples of a machine, hands them to put, and tells what that took.
func write(put func(time.Time, []series.Sample) error, tidy func(time.Time), begin time.Time, which month) error {
	m, end := newMachine(which.devices, which.name, which.leases), which.end
	from, samples, calls := cpu(), 0, 0
	started := time.Now()
	var tidying time.Duration
	seconds := end.Add(-which.seconds)
	step := which.every
	for at := begin; at.Before(end); at = at.Add(step) {
		if at.After(seconds) {
			step = time.Second
		}
		list := m.samples(at, step)
		if err := put(at, list); err != nil {
			return err
		}
		samples += len(list)
		calls++
		if at.Unix()%300 < int64(step/time.Second) {
			before := time.Now()
			tidy(at)
			tidying += time.Since(before)
		}
	}
	tidy(end)
	took, used := time.Since(started), cpu()-from
	fmt.Printf("wrote %d samples in %.0f s, %.0f s of them to join files; %.2f µs of CPU for each sample, made up and stored, %.0f µs for a second of %d devices\n",
		samples, took.Seconds(), tidying.Seconds(), used.Seconds()*1e6/float64(samples), used.Seconds()*1e6/float64(calls), which.devices)
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	fmt.Printf("memory: %d MB of heap in use, %s\n", mem.HeapInuse>>20, resident())
	return nil
}

// sizes prints what takes how much space.
func sizes(dir string, m month, c past.Cost) error {
	fmt.Printf("size: %.1f MB for %d days of %d devices (limit for 30 days of 8: 300 MB), back to %v\n", float64(c.Bytes)/1e6, m.days, m.devices, c.Oldest.UTC().Format(time.DateTime))
	for _, name := range []string{"recent", "long", "recent/wal", "recent/wbl", "recent/chunks_head", "long/wal", "long/wbl", "long/chunks_head"} {
		blocks := 0
		list, err := filepath.Glob(filepath.Join(dir, name, "*", "meta.json"))
		if err != nil {
			return err
		}
		blocks += len(list)
		fmt.Printf("  %-20s %7.1f MB", name, float64(past.Size(filepath.Join(dir, name)))/1e6)
		if blocks > 0 {
			index := int64(0)
			for _, meta := range list {
				info, err := os.Stat(filepath.Join(filepath.Dir(meta), "index"))
				if err != nil {
					return err
				}
				index += info.Size()
			}
			fmt.Printf(" in %d blocks, of which indices %.1f MB", blocks, float64(index)/1e6)
		}
		fmt.Println()
	}
	return nil
}

// graphs measures the questions that a page asks for a month, and the same ones of another
// storage in turns; nil: there is none. The best of three counts.
func graphs(ours, theirs storage.Queryable, begin, end time.Time) error {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	step := end.Sub(begin) / 1000
	window := step.Round(time.Second).String()
	whole := fmt.Sprintf("graph of %.0f days", end.Sub(begin).Hours()/24)
	for _, expr := range []string{
		`gpu_temperature_celsius{gpu="GPU-0"}`,
		`gpu_temperature_celsius:max{gpu="GPU-0"}`,
		`avg_over_time(gpu_utilization_percent{gpu="GPU-0"}[` + window + `])`,
		`max_over_time(gpu_temperature_celsius:max{gpu="GPU-0"}[` + window + `])`,
		`rate(gpu_energy_joules_total{gpu="GPU-0"}[` + window + `])`,
		`sum(gpu_power_usage_watts)`,
		`{gpu="GPU-0",__name__=~"gpu_.*_celsius|gpu_power_usage_watts|gpu_utilization_percent"}`,
	} {
		best, other := time.Hour, time.Hour
		points := 0
		for range 3 {
			took, n, err := ask(engine, ours, expr, begin, end, step)
			if err != nil {
				return err
			}
			best, points = min(best, took), n
			if theirs == nil {
				continue
			}
			if took, _, err = ask(engine, theirs, expr, begin, end, step); err != nil {
				return err
			}
			other = min(other, took)
		}
		fmt.Printf("graph of the whole time in %4d ms (limit 1000), %6d points: %s\n", best.Milliseconds(), points, expr)
		figure.Say(whole+", "+expr, best.Seconds()*1e3, "ms", figure.Less)
		if theirs != nil && !strings.Contains(expr, ":max") { // which berth alone has
			ratio := float64(best) / float64(other)
			fmt.Printf("                      %4d ms with Prometheus' storage, %.2f times as long with berth's\n", other.Milliseconds(), ratio)
			figure.Say(whole+" ÷ Prometheus, "+expr, ratio, "ratio", figure.Less)
		}
	}
	fmt.Println("after the graphs:", resident())
	return nil
}

// ask makes one graph.
func ask(engine *promql.Engine, from storage.Queryable, expr string, begin, end time.Time, step time.Duration) (took time.Duration, points int, err error) {
	started := time.Now()
	q, err := engine.NewRangeQuery(context.Background(), from, nil, expr, begin, end, step)
	if err != nil {
		return 0, 0, err
	}
	defer q.Close()
	answer := q.Exec(context.Background())
	if answer.Err != nil {
		return 0, 0, fmt.Errorf("%s: %w", expr, answer.Err)
	}
	matrix, err := answer.Matrix()
	if err != nil {
		return 0, 0, err
	}
	return time.Since(started), matrix.TotalSamples(), nil
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident returns what the kernel says about the memory of this process.
func resident() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err.Error()
	}
	var parts []string
	for line := range strings.Lines(string(text)) {
		for name, word := range map[string]string{"VmRSS:": "resident", "RssAnon:": "of it its own", "RssFile:": "files"} {
			if rest, is := strings.CutPrefix(line, name); is {
				parts = append(parts, word+" "+strings.Join(strings.Fields(rest), " "))
			}
		}
	}
	return strings.Join(parts, ", ")
}
