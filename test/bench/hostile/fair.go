package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/test/bench/figure"
)

// fairness says how long to measure.
type fairness struct {
	rounds  int
	length  time.Duration // of each half of a round
	kinds   string        // what the hostile user does, separated by commas; empty: everything
	queries bool          // many hostile users ask queries instead
}

const (
	hostileProcesses = 8
	hostileAskers    = 32 // processes, and users, with queries
	ratioLimit       = 3
	lateLimit        = 2 // intervals from one evaluation of a group of rules to the next
)

// faults are the errors of the machine during the measurement: the driver
// reports a memory error of the last device every few seconds.
const faults = `
devices: 4xh200
timeline:
  - {at: 2s, repeat: 4s, device: 3, ecc: {uncorrected: 1}}
`

// measureFairness measures how long an honest user waits for a lease while a
// hostile user does everything at full speed from 8 processes, and while 8
// processes only compute. The two take turns, and the median of the rounds
// counts.
func measureFairness(ctx context.Context, o options) error {
	if err := printMachine(o.berth); err != nil {
		return err
	}
	g, err := newGrounds(o.berth)
	if err != nil {
		return err
	}
	defer g.close()
	a, err := g.arena("fair", false)
	if err != nil {
		return err
	}
	defer a.close()
	scenario := filepath.Join(a.dir, "faults.yaml")
	if err := os.WriteFile(scenario, []byte(faults), 0o644); err != nil {
		return err
	}
	d, err := a.serve(ctx, setup{devices: "sim:" + scenario, config: "gpu: {max_pipelines: 1000}", asUnit: true})
	if err != nil {
		return err
	}
	// This lease makes some requests wait.
	if err := d.root(ctx, "POST", "/api/leases", `{"id":"room","memory_mb":50000,"slots":0,"gpu":"0","binding":"named"}`, nil); err != nil {
		return err
	}
	f := &fair{daemon: d, fairness: o.fair, most: map[string]api.QuotaLimit{}}
	return f.measure(ctx)
}

// fair is a running measurement.
type fair struct {
	*daemon
	fairness
	peak, files int     // the most that the daemon had: MB, and open files
	late        float64 // the most intervals since a group of rules was evaluated

	most map[string]api.QuotaLimit // by limit: when the hostile user had most of it
}

func (f *fair) measure(ctx context.Context) error {
	watch, err := f.watchWarnings(ctx)
	if err != nil {
		return err
	}
	fmt.Println("Acquire and release by two honest users, one of them root, every 5 ms; the daemon has")
	fmt.Println("the priority that its systemd unit gives it (nice -5):")
	fmt.Println()
	fmt.Println("| round | n | p50 beside a CPU load | p99 | n | p50 beside a hostile user | p99 | p99 / p99 |\n|---:|---:|---:|---:|---:|---:|---:|---:|")
	var quiet, loud []summary
	var ratios []float64
	for round := range f.rounds {
		q, err := f.half(ctx, "spin", nil)
		if err != nil {
			return err
		}
		l, err := f.half(ctx, "load", watch)
		if err != nil {
			return err
		}
		ratio := float64(l.p99) / float64(q.p99)
		quiet, loud, ratios = append(quiet, q), append(loud, l), append(ratios, ratio)
		fmt.Printf("| %d | %d | %v | %v | %d | %v | %v | %.2f |\n", round+1, q.n, q.p50, q.p99, l.n, l.p50, l.p99, ratio)
	}
	slices.Sort(ratios)
	middle := func(all []summary, of func(summary) time.Duration) time.Duration {
		var times []time.Duration
		for _, s := range all {
			times = append(times, of(s))
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	p50 := func(s summary) time.Duration { return s.p50 }
	p99 := func(s summary) time.Duration { return s.p99 }
	ratio := ratios[len(ratios)/2]
	fmt.Printf("| median | | %v | %v | | %v | %v | %.2f |\n\n", middle(quiet, p50), middle(quiet, p99), middle(loud, p50), middle(loud, p99), ratio)
	missed := watch.finish(ctx)
	failed := 0
	for _, s := range loud {
		failed += s.failed
	}
	fmt.Printf("the daemon took at most %d MB and had at most %d files open; %d honest calls failed\n", f.peak, f.files, failed)
	fmt.Printf("at most %.1f intervals went from one evaluation of a group of rules to the next\n", f.late)
	if f.late > lateLimit {
		missed = append(missed, fmt.Errorf("rules were evaluated %.1f intervals after they were before; at most %d is allowed", f.late, lateLimit))
	}
	for _, name := range []string{"leases", "waiting"} {
		if f.queries {
			break
		}
		at := f.most[name]
		fmt.Printf("the hostile user had at most %.0f of %.0f %s\n", at.Used.Or(0), at.Limit.Or(0), name)
		if at.Used.Or(0) < at.Limit.Or(0) && f.kinds == "" {
			missed = append(missed, fmt.Errorf("the hostile user never was at the limit of %s", name))
		}
	}
	who := "a user at every limit makes"
	if f.queries {
		who = fmt.Sprintf("%d users with the largest queries make", hostileAskers)
	}
	kind := "at every limit"
	if f.queries {
		kind = "with the largest queries"
	}
	figure.Say("p99 of others beside a hostile user "+kind+" ÷ beside a CPU load", ratio, "ratio", figure.Less)
	figure.Say("daemon beside a hostile user "+kind+", resident at most", float64(f.peak), "MB", figure.Less)
	fmt.Printf("%s the p99 of others %.2f times as long as an equal CPU load does\n", who, ratio)
	if ratio > ratioLimit {
		missed = append(missed, fmt.Errorf("p99 is %.2f times as long; at most %d is allowed", ratio, ratioLimit))
	}
	if f.peak >= memoryLimitMB || f.files >= filesLimit {
		missed = append(missed, fmt.Errorf("the daemon took %d MB and had %d files open; it must stay under %d MB and %d files", f.peak, f.files, memoryLimitMB, filesLimit))
	}
	if failed > 0 {
		missed = append(missed, fmt.Errorf("%d calls of honest users failed", failed))
	}
	return errors.Join(missed...)
}

// half measures honest users while processes of the attacker run. While those are
// hostile, half causes warnings, which must not be lost.
func (f *fair) half(ctx context.Context, what string, watch *warnings) (summary, error) {
	processes := hostileProcesses
	if f.queries {
		processes = hostileAskers
	}
	for n := range processes {
		one, err := f.hostile(ctx, what, n)
		if err != nil {
			return summary{}, err
		}
		defer one.stop()
	}
	over, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer func() { stop(); others.Wait() }()
	others.Go(func() { f.sample(over) })
	if watch != nil {
		others.Go(func() { watch.cause(over, f.daemon) })
	}
	var mu sync.Mutex
	var all honest
	var failed error
	var users sync.WaitGroup
	for _, uid := range []int{0, victim} {
		users.Go(func() {
			var got honest
			err := f.arena.do(ctx, uid, 0, "honest", askHonest{Door: f.socket, Length: f.length}, &got)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			all.Times, all.Failed = append(all.Times, got.Times...), all.Failed+got.Failed
		})
	}
	users.Wait()
	if failed != nil {
		return summary{}, failed
	}
	return all.summary()
}

// hostile starts one of the processes beside which honest users are measured.
func (f *fair) hostile(ctx context.Context, what string, n int) (*actor, error) {
	if f.queries {
		calls := worst()
		calls = append(calls[n%len(calls):], calls[:n%len(calls)]...) // each begins with another one
		if what == "load" {
			what = "asking"
		}
		return f.arena.act(ctx, attacker-1000-n, 0, what, askQueries{Door: f.doors()[n%2], Calls: calls}, nil)
	}
	asked := askLoad{Doors: f.doors(), Number: n}
	if f.kinds != "" {
		asked.Kinds = strings.Split(f.kinds, ",")
	}
	return f.arena.act(ctx, attacker, 0, what, asked, nil)
}

// sampleRules records how late the groups of rules are.
func (f *fair) sampleRules(ctx context.Context) {
	var rules struct {
		Data struct {
			Groups []struct {
				Interval       float64   `json:"interval"`
				LastEvaluation time.Time `json:"lastEvaluation"`
			} `json:"groups"`
		} `json:"data"`
	}
	if f.root(ctx, "GET", "/api/v1/rules", "", &rules) != nil {
		return // the next one may be answered
	}
	for _, g := range rules.Data.Groups {
		if g.LastEvaluation.Year() > 2000 { // those before the first evaluation have none
			f.late = max(f.late, time.Since(g.LastEvaluation).Seconds()/g.Interval)
		}
	}
}

// sampleLimits records how near the hostile user is to the limits.
func (f *fair) sampleLimits(ctx context.Context) {
	var now api.Quota
	_ = f.root(ctx, "GET", fmt.Sprint("/api/quota?user=", attacker), "", &now) // the next one may be answered
	for _, l := range now.Limits {
		if l.Group == "" && l.Used.Or(0) >= f.most[l.Name].Used.Or(0) {
			f.most[l.Name] = l
		}
	}
}

// sample records the memory and open files of the daemon until ctx ends.
func (f *fair) sample(ctx context.Context) {
	for ctx.Err() == nil {
		if peak, err := f.peakMB(); err == nil {
			f.peak = max(f.peak, int(peak))
		}
		if files, err := f.daemon.files(); err == nil {
			f.files = max(f.files, files)
		}
		f.sampleLimits(ctx)
		f.sampleRules(ctx)
		time.Sleep(50 * time.Millisecond)
	}
}
