// Command heavy measures whether the samplers of a daemon keep their second on a heavy
// machine: 16 GPUs with 30 processes each, 5,000 processes and 10,000 control groups.
//
// The GPUs are simulated; the processes and the control groups are real. The same daemon is
// measured before and after they are made. As many are made as the kernel lets.
//
//	make build && go run ./test/bench/heavy   (as root)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/test/bench/daemon"
	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	runtime.LockOSThread() // the kernel ends the processes when the thread that made them ends
	var b bench
	flag.StringVar(&b.berth, "berth", "bin/berth", "the binary to measure")
	flag.IntVar(&b.gpus, "gpus", 16, "how many GPUs to simulate")
	flag.IntVar(&b.each, "each", 30, "how many processes each GPU has")
	flag.IntVar(&b.processes, "processes", 5000, "how many processes to make")
	flag.IntVar(&b.groups, "groups", 10000, "how many control groups to make")
	flag.DurationVar(&b.length, "length", 30*time.Second, "how long to watch the daemon each time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := b.run(ctx)
	b.clean()
	if err != nil {
		fmt.Fprintln(os.Stderr, "heavy:", err)
		os.Exit(1)
	}
}

// bench is one run, and what it has made.
type bench struct {
	berth                           string
	gpus, each, processes, groups   int
	length                          time.Duration
	folders                         []string // of the control groups, the outer ones first
	pids                            []int
	guests                          string // folder for the processes of the GPUs
	d                               *daemon.Daemon
	c                               *client.Client
	program                         string // which sleeps
	processesRefused, groupsRefused error  // why there are fewer
}

func (b *bench) run(ctx context.Context) error {
	machine, err := daemon.Machine(b.berth)
	if err != nil {
		return err
	}
	if b.program, err = exec.LookPath("sleep"); err != nil {
		return err
	}
	if b.guests, err = os.MkdirTemp("", "berth-guests-"); err != nil {
		return err
	}
	if err := os.Setenv("BERTH_SIM_GUESTS", b.guests); err != nil { // for the daemon
		return err
	}
	fmt.Println(machine)
	if b.d, err = daemon.Start(daemon.Setup{Berth: b.berth, Devices: fmt.Sprintf("sim:%d", b.gpus)}); err != nil {
		return err
	}
	if b.c, err = client.New(client.Options{Socket: b.d.Socket}); err != nil {
		return err
	}
	all, err := b.c.StatusAll(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, 25*time.Second); err != nil { // until the daemon has settled
		return err
	}
	light, err := b.measure(ctx)
	if err != nil {
		return err
	}
	if err := b.makeHeavy(ctx, all); err != nil {
		return err
	}
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	heavy, err := b.measure(ctx)
	if err != nil {
		return err
	}
	b.report(light, heavy)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// makeHeavy makes control groups, processes in them, and leases for those that use GPUs.
func (b *bench) makeHeavy(ctx context.Context, all api.StatusAll) error {
	inner, err := b.makeGroups()
	if err != nil {
		return err
	}
	for i := range b.processes {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pid, err := b.sleeper(inner, i)
		if err != nil {
			b.processesRefused = err
			break
		}
		b.pids = append(b.pids, pid)
	}
	next := 0
	for _, g := range all.GPUs {
		folder := filepath.Join(b.guests, g.Device.UUID)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		// This process holds a lease on each GPU, and what it has started belongs to that.
		if _, err := b.c.Acquire(ctx, api.LeaseRequest{GPU: gpu.Ref(g.Device.UUID), Memory: 64 << 10, PID: os.Getpid()}); err != nil {
			return fmt.Errorf("lease GPU %d: %w", g.Device.Index, err)
		}
		for range b.each {
			if next == len(b.pids) {
				return errors.New("there are fewer processes than the GPUs should have")
			}
			file := filepath.Join(folder, strconv.Itoa(b.pids[next]))
			if err := os.WriteFile(file, []byte(`{"memory_mb": 1024, "load": 1}`), 0o600); err != nil {
				return err
			}
			next++
		}
	}
	return nil
}

const prefix = "berth-heavy-"

// makeGroups makes control groups, a hundred in each outer one, and returns the inner ones.
// It first removes those of a run that was killed.
func (b *bench) makeGroups() (inner []string, err error) {
	top, err := unified()
	if err != nil {
		b.groupsRefused = err
		return nil, nil
	}
	left, _ := filepath.Glob(filepath.Join(top, prefix+"*")) // the pattern is valid
	for _, folder := range left {
		if pid, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(folder), prefix)); syscall.Kill(pid, 0) != nil {
			removeTree(folder)
		}
	}
	own := filepath.Join(top, prefix+strconv.Itoa(os.Getpid()))
	const within = 100
	for i := range b.groups {
		outer := filepath.Join(own, strconv.Itoa(i/within))
		folder := filepath.Join(outer, strconv.Itoa(i%within))
		if i == 0 {
			if err := b.mkdir(own); err != nil {
				b.groupsRefused = err
				return nil, nil
			}
		}
		if i%within == 0 {
			if err := b.mkdir(outer); err != nil {
				b.groupsRefused = err
				return inner, nil
			}
		}
		if err := b.mkdir(folder); err != nil {
			b.groupsRefused = err
			return inner, nil
		}
		inner = append(inner, folder)
	}
	return inner, nil
}

func (b *bench) mkdir(folder string) error {
	err := os.Mkdir(folder, 0o755)
	if err == nil {
		b.folders = append(b.folders, folder)
	}
	return err
}

// unified returns where cgroup v2 is mounted.
func unified() (string, error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 2 && words[2] == "cgroup2" {
			return words[1], nil
		}
	}
	return "", errors.New("cgroup v2 is not mounted")
}

// removeTree removes a control group and those below it, which have no processes.
func removeTree(folder string) {
	below, _ := os.ReadDir(folder)
	for _, each := range below {
		if each.IsDir() {
			removeTree(filepath.Join(folder, each.Name()))
		}
	}
	_ = os.Remove(folder)
}

// sleeper starts a process that sleeps, in a control group of its own if there is one. The
// kernel ends it with this program, whatever ends that.
func (b *bench) sleeper(groups []string, i int) (pid int, err error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if i < len(groups) {
		group, err := os.Open(groups[i])
		if err != nil {
			return 0, err
		}
		defer group.Close()
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(group.Fd())
	}
	return syscall.ForkExec(b.program, []string{"sleep", "infinity"}, &syscall.ProcAttr{Sys: attributes})
}

// clean removes what the run has made.
func (b *bench) clean() {
	if b.c != nil {
		b.c.Close()
	}
	if b.d != nil {
		b.d.Close()
	}
	for _, pid := range b.pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range b.pids {
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
	for i := len(b.folders) - 1; i >= 0; i-- {
		_ = os.Remove(b.folders[i])
	}
	if b.guests != "" {
		_ = os.RemoveAll(b.guests)
	}
}

// seen is what a daemon did while it was watched.
type seen struct {
	share    float64       // of a core
	resident float64       // MiB
	gaps     []float64     // seconds between two samples of a device
	fast     time.Duration // that reading a device once took, on average
	slow     time.Duration
	// simulator is the time of each second in which the daemon waited for its simulated
	// devices. It is processor time too, which a driver would not take.
	simulator float64
	charged   int // processes that the daemon sees on the GPUs
	all       int // processes of the machine
}

// measure watches the daemon.
func (b *bench) measure(ctx context.Context) (s seen, err error) {
	before, err := b.reads()
	if err != nil {
		return s, err
	}
	cpu, err := b.d.CPU()
	if err != nil {
		return s, err
	}
	began := time.Now()
	if err := pause(ctx, b.length); err != nil {
		return s, err
	}
	after, err := b.reads()
	if err != nil {
		return s, err
	}
	used, err := b.d.CPU()
	if err != nil {
		return s, err
	}
	s.share = float64(used-cpu) / float64(time.Since(began))
	s.fast, s.slow = after.mean(before, "fast"), after.mean(before, "slow")
	s.simulator = (after["fastsum"] + after["slowsum"] - before["fastsum"] - before["slowsum"]) / time.Since(began).Seconds()
	if s.resident, err = b.d.Resident(); err != nil {
		return s, err
	}
	all, err := b.c.StatusAll(ctx)
	if err != nil {
		return s, err
	}
	for _, g := range all.GPUs {
		history, err := b.c.History(ctx, client.HistoryQuery{GPU: g.Device.UUID, Since: began})
		if err != nil {
			return s, err
		}
		for i := 1; i < len(history.Samples); i++ {
			s.gaps = append(s.gaps, history.Samples[i].Time.Sub(history.Samples[i-1].Time).Seconds())
		}
		if g.Sample != nil {
			s.charged += len(g.Sample.Processes)
		}
	}
	if len(s.gaps) == 0 {
		return s, errors.New("the daemon has no samples")
	}
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			s.all++
		}
	}
	return s, err
}

// reads has the sum and the count of berth_sample_duration_seconds, by tier.
type reads map[string]float64

func (b *bench) reads() (reads, error) {
	page, err := b.c.Prometheus(context.Background())
	r := reads{}
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		for _, part := range []string{"sum", "count"} {
			if !strings.HasPrefix(name, "berth_sample_duration_seconds_"+part) {
				continue
			}
			for _, tier := range []string{"fast", "slow"} {
				if strings.Contains(name, `tier="`+tier+`"`) {
					number, err := strconv.ParseFloat(value, 64)
					if err != nil {
						return nil, err
					}
					r[tier+part] += number
				}
			}
		}
	}
	return r, err
}

// mean returns how long a read took on average since an earlier look.
func (r reads) mean(before reads, tier string) time.Duration {
	count := r[tier+"count"] - before[tier+"count"]
	if count == 0 {
		return 0
	}
	return time.Duration((r[tier+"sum"] - before[tier+"sum"]) / count * float64(time.Second))
}

func (b *bench) report(light, heavy seen) {
	groups := max(0, len(b.folders))
	fmt.Printf("\n%d GPUs, %d control groups made, %d processes made", b.gpus, groups, len(b.pids))
	if err := errors.Join(b.groupsRefused, b.processesRefused); err != nil {
		fmt.Printf("; the kernel gave no more: %v", err)
	}
	row := func(what, format string, one, other any) {
		fmt.Printf("%-44s %14s %14s\n", what, fmt.Sprintf(format, one), fmt.Sprintf(format, other))
	}
	fmt.Printf("\n\n%-44s %14s %14s\n", "", "light", "heavy")
	row("processes of the machine", "%d", light.all, heavy.all)
	row("processes that the daemon sees on the GPUs", "%d", light.charged, heavy.charged)
	row("from one sample to the next, median", "%.3f s", figure.Quantile(light.gaps, 0.5), figure.Quantile(heavy.gaps, 0.5))
	row("the same, p99", "%.3f s", figure.Quantile(light.gaps, 0.99), figure.Quantile(heavy.gaps, 0.99))
	row("the same, longest", "%.3f s", figure.Quantile(light.gaps, 1), figure.Quantile(heavy.gaps, 1))
	row("to read a device, fast", "%v", light.fast.Round(time.Microsecond), heavy.fast.Round(time.Microsecond))
	row("to read a device, slow", "%v", light.slow.Round(time.Microsecond), heavy.slow.Round(time.Microsecond))
	row("of each second, waiting for the simulator", "%.1f ms", light.simulator*1000, heavy.simulator*1000)
	row("processor time, of a core", "%.2f %%", light.share*100, heavy.share*100)
	row("resident", "%.0f MiB", light.resident, heavy.resident)
	figure.Say("heavy machine: from one sample to the next, p99", figure.Quantile(heavy.gaps, 0.99), "s", figure.Less)
	figure.Say("heavy machine: processor time of the daemon", heavy.share*100, "%", figure.Less)
	figure.Say("light machine: processor time of the daemon", light.share*100, "%", figure.Less)
}
