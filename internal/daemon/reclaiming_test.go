package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/process"
)

// machine is a daemon with simulated devices that real programs use.
type machine struct {
	t      *testing.T
	d      *Daemon
	c      *client.Client
	guests string
}

func startMachine(t *testing.T, devices, settings string) *machine {
	t.Helper()
	m := &machine{t: t, guests: filepath.Join(t.TempDir(), "guests")}
	t.Setenv("BERTH_SIM_GUESTS", m.guests)
	p := newPlace(t, devices)
	p.file = filepath.Join(p.dir, "berth.yaml")
	if err := os.WriteFile(p.file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.d = p.open(t, ctx)
	done := make(chan error, 1)
	go func() { done <- m.d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	var err error
	if m.c, err = client.New(client.Options{Socket: p.flags["daemon.socket"]}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.c.Close)
	for m.c.Ping(ctx) != nil {
	}
	return m
}

// program starts a program, which has a lease if that has an id.
func (m *machine) program(r api.LeaseRequest) (pid int, end func()) {
	m.t.Helper()
	cat := exec.Command("cat") // until its input ends
	in, err := cat.StdinPipe()
	if err == nil {
		err = cat.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); _ = cat.Wait() }()
	end = func() { _ = in.Close(); <-gone }
	m.t.Cleanup(end)
	for id, err := process.Proc().Identify(cat.Process.Pid); err == nil && process.Now() <= id.Start; {
		// A process that starts in the tick in which a lease ends is not known to have worked under it.
	}
	r.PID, r.Binding = cat.Process.Pid, "process"
	if _, err := m.c.Acquire(m.t.Context(), r); err != nil {
		m.t.Fatal(err)
	}
	return cat.Process.Pid, end
}

// use makes a program use memory of a device. It may be called by any goroutine.
func (m *machine) use(pid int, uuid string, memory gpu.MiB) {
	file := filepath.Join(m.guests, uuid, strconv.Itoa(pid))
	err := errors.Join(
		os.MkdirAll(filepath.Dir(file), 0o700),
		os.WriteFile(file+".new", fmt.Appendf(nil, `{"memory_mb": %d}`, memory), 0o600),
		os.Rename(file+".new", file))
	if err != nil {
		m.t.Error(err)
	}
	m.d.monitor.Read(m.t.Context(), uuid)
}

// configure changes how optimizations are done.
func (m *machine) configure(change func(*config.Optimization)) {
	c := m.d.settings.load().Config
	change(&c.Optimization)
	m.d.reclaim.Configure(&c)
}

func (m *machine) optimize(o api.Optimize) api.Optimization {
	m.t.Helper()
	done, err := m.c.Optimize(m.t.Context(), o)
	if err != nil {
		m.t.Fatal(err)
	}
	return done
}

// print returns the book and the memory that was measured.
func (m *machine) print() []string {
	m.t.Helper()
	var lines []string
	v := m.d.ledger.View()
	for _, held := range v.Leases {
		lines = append(lines, fmt.Sprintf("%+v %v", *held.Lease, held.Measured))
	}
	for _, waits := range v.Waiting {
		lines = append(lines, fmt.Sprintf("%+v", *waits))
	}
	for _, r := range m.d.monitor.Readings() {
		m.d.monitor.Read(m.t.Context(), r.Device.UUID)
		now, _ := m.d.monitor.Find(r.Device.UUID)
		lines = append(lines, fmt.Sprint(r.Device.UUID, now.Sample.MemoryUsed))
	}
	return lines
}

func texts(list []api.RungStep) (lines []string) {
	for _, s := range list {
		lines = append(lines, s.Text)
	}
	return lines
}

const batchService = `
gpu: {max_pipelines: 8}
optimization: {orphans: end}
services: {batch: {shrinkable: "true"}}
`

// A process that has closed its device since somebody looked is not taken for an orphan of it.
func TestAnOrphanHasItsDeviceOpen(t *testing.T) {
	m := startMachine(t, "sim:1xl4", batchService)
	pid, _ := m.program(api.LeaseRequest{ID: "old", Memory: 400, GPU: "0"})
	if _, err := m.c.Release(t.Context(), "old", 0); err != nil {
		t.Fatal(err)
	}
	stray := api.Stray{GPU: "SIM-l4-0", PID: pid, Lease: "old"} // that no device lists
	for file := range m.d.processes.OpenFiles(pid) {
		if _, found := (orphanage{Daemon: m.d}).identify(stray, file); !found {
			t.Errorf("it has %s open, and is not found", file)
		}
	}
	if _, found := (orphanage{Daemon: m.d}).identify(stray, "/dev/nvidia0"); found {
		t.Error("it does not have its device open, and may be ended")
	}
}

// An optimization on simulated devices with real programs: each rung does its part,
// and a dry run does nothing.
func TestOptimization(t *testing.T) {
	const first, second = "SIM-l4-0", "SIM-l4-1"
	m := startMachine(t, "sim:2xl4", batchService)
	cache, _ := m.program(api.LeaseRequest{ID: "cache", Memory: 6000, GPU: "0"})
	m.use(cache, first, 5000)
	large, _ := m.program(api.LeaseRequest{ID: "large", Service: "batch", Memory: 12000, GPU: "1"})
	m.use(large, second, 500)
	old, _ := m.program(api.LeaseRequest{ID: "old", Memory: 400, GPU: "0"})
	m.use(old, first, 300)
	if _, err := m.c.Release(t.Context(), "old", 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	granted := make(chan error, 1)
	go func() {
		_, err := m.c.Acquire(ctx, api.LeaseRequest{ID: "next", Memory: 17000, Binding: "named", Timeout: gpu.Some(600.0)})
		granted <- err
	}()
	t.Cleanup(func() { cancel(); <-granted })
	for len(m.d.ledger.View().Waiting) == 0 {
	}
	m.configure(func(s *config.Optimization) { s.TrimTimeout, s.Keep = 10*time.Minute, 0 })

	before := m.print()
	dry := m.optimize(api.Optimize{DryRun: true})
	if diff := cmp.Diff(before, m.print()); diff != "" {
		t.Error("a dry run changed something:", diff)
	}
	name := fmt.Sprintf("Process %d (cat, ", old)
	if got := texts(dry.Rungs[1].Done); len(got) != 1 || !strings.HasPrefix(got[0], name) || !strings.HasSuffix(got[0], "uses 300 MiB of GPU 0 although its lease old has ended, and would be ended") {
		t.Errorf("orphans: %q", got)
	}
	if got := texts(dry.Rungs[2].Done); len(got) != 2 {
		t.Errorf("trim: %q", got)
	}
	move := dry.Rungs[5].Done
	if want := (&api.Move{From: first, To: second, Memory: 6000, For: "next", Restarts: true}); len(move) != 1 || cmp.Diff(want, move[0].Move) != "" {
		t.Errorf("move: %+v, left %q", move, texts(dry.Rungs[5].Left))
	}

	// Both programs listen now.
	deaf := make(chan struct{})
	t.Cleanup(func() { cancel(); <-deaf })
	go func() {
		defer close(deaf)
		for e, err := range m.c.EventsWhere(ctx, client.EventQuery{Follow: true, Filter: gpu.EventFilter{Codes: []gpu.EventCode{gpu.EventReclaim}}}) {
			if err != nil {
				return
			}
			switch e.Lease {
			case "cache":
				m.use(cache, first, 1000)
			case "large":
				m.use(large, second, 400)
			}
		}
	}()
	done := m.optimize(api.Optimize{})
	if got := texts(done.Rungs[1].Done); len(got) != 1 || !strings.HasSuffix(got[0], "was ended: it used 300 MiB of GPU 0, and its lease old had ended") || done.Rungs[1].Freed != 300 {
		t.Errorf("orphans: %q, %s freed", got, done.Rungs[1].Freed)
	}
	if got := texts(done.Rungs[2].Done); cmp.Diff([]string{"cache gave back 3.9 GiB", "large gave back 100 MiB"}, got) != "" || done.Rungs[2].Freed != 4100 {
		t.Errorf("trim: %q, %s freed", got, done.Rungs[2].Freed)
	}
	if d := done.Devices[0]; d.GPU != first || d.UsedBefore-d.UsedAfter != 4300 {
		t.Errorf("the first device: %+v", d)
	}
	if strays, err := m.c.Orphans(t.Context()); err != nil || len(strays.Orphans) != 0 {
		t.Errorf("orphans are %+v, %v", strays, err)
	}
	l, err := m.c.Lease(t.Context(), "large")
	if err != nil || l.Parts[0].Memory != 768 || done.Rungs[3].Freed != 12000-768 {
		t.Errorf("shrink: %+v, %+v, %v", l.Parts, done.Rungs[3], err)
	}
	if err := <-granted; err != nil { // there is room for it now
		t.Error(err)
	}
	granted <- nil

	// Its program uses more again, and gets its size back before others are served.
	m.use(large, second, 700)
	for len(m.d.ledger.View().Waiting) == 0 {
	}
	if _, err := m.c.Release(t.Context(), "next", 0); err != nil {
		t.Fatal(err)
	}
	for l, err = m.c.Lease(t.Context(), "large"); err == nil && l.Parts[0].Memory != 12000; {
		l, err = m.c.Lease(t.Context(), "large")
	}
	if err != nil {
		t.Fatal(err)
	}

	// One of them does not listen, which costs the time limit alone.
	silent, end := m.program(api.LeaseRequest{ID: "silent", Memory: 1000, GPU: "0"})
	m.use(silent, first, 900)
	m.configure(func(s *config.Optimization) { s.TrimTimeout = 100 * time.Millisecond })
	done = m.optimize(api.Optimize{})
	if got := texts(done.Rungs[2].Left); len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), "silent was asked, and gave nothing back within ") {
		t.Errorf("trim: %q", got)
	}
	end()
	for {
		if _, err := m.c.Lease(t.Context(), "silent"); err != nil {
			break // the ledger released it by itself
		}
	}
	if done = m.optimize(api.Optimize{}); len(done.Rungs[0].Done)+len(done.Rungs[0].Left) != 0 {
		t.Errorf("dead: %+v", done.Rungs[0])
	}
}

const fullDevice = `
devices: 2
timeline:
  - {at: 5s, device: 1, process: {pid: 5000001, name: stray, memory_mb: 130000, load: 40}}
`

// The daemon optimizes full devices by itself, as often as the settings say.
func TestOptimizationByItself(t *testing.T) {
	p := newPlace(t, scenario(t, fullDevice))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := p.open(t, ctx)
		var running parts
		running.run("monitor", func() { _ = d.monitor.Run(ctx) })
		running.run("reclaim", func() { d.reclaim.Run(ctx) })
		change := func(text string) {
			t.Helper()
			if err := d.settings.Change(ctx, access.Daemon(), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(11 * time.Minute) // simulated
		if runs := d.reclaim.Counts().Runs; runs != 2 {
			t.Errorf("%d optimizations in 11 minutes", runs)
		}
		change(`{"optimization": {"interval": 60}}`)
		time.Sleep(10*time.Minute + 30*time.Second) // simulated
		if runs := d.reclaim.Counts().Runs; runs != 2+11 {
			t.Errorf("%d optimizations after 10 more minutes", runs)
		}
		change(`{"optimization": {"memory_threshold": 0.95}}`)
		time.Sleep(10 * time.Minute) // simulated
		if runs := d.reclaim.Counts().Runs; runs != 2+11 {
			t.Errorf("%d optimizations, and no device was full", runs)
		}
		cancel()
		running.wait(time.Minute)
	})
}
