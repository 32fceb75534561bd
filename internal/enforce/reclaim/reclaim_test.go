package reclaim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a machine with devices of 10,000 MiB, and the leases on them.
type world struct {
	mu      sync.Mutex
	devices []string
	leases  []*held
	waiting []*lease.Request
	orphans []Orphan
	immune  bool // orphans cannot be ended
	dead    map[int]bool
	idle    map[string]time.Time // by lease
	peaks   map[string]gpu.MiB   // by lease
	trims   map[string]func()    // what a program does when it is asked for memory
	kept    map[string]string    // why a lease that is parkable is not parked
	takes   time.Duration        // to stop and to start the program of the lease that berth runs
	refused map[string]error     // why a lease must not be parked
	failed  map[string]error     // why a lease could not be parked
	stopped bool                 // monitoring is
	events  []gpu.Event
	reads   int
	grows   gpu.MiB // what a program under no lease takes with each reading

	taken   gpu.MiB  // by grows
	regrown []string // leases that were to get their size back
}

// held is a lease, with what its processes use.
type held struct {
	lease.Lease
	uses   gpu.MiB
	keptBy int
}

func newWorld(devices ...string) *world {
	return &world{
		devices: devices, dead: map[int]bool{}, idle: map[string]time.Time{}, peaks: map[string]gpu.MiB{},
		trims: map[string]func(){}, refused: map[string]error{}, failed: map[string]error{},
	}
}

// add adds a lease that was granted an hour ago.
func (w *world) add(id, uuid string, memory, uses gpu.MiB) *held {
	h := &held{uses: uses, Lease: lease.Lease{
		ID: id, Fence: uint64(len(w.leases) + 1), State: lease.Active, Granted: time.Now().Add(-time.Hour), Binding: lease.ByProcess,
		Holder: lease.Holder{User: "ada", UID: 1000, Service: "embedder", PID: firstPID + len(w.leases)}, Parts: []lease.Part{{GPU: uuid, Memory: memory, Slots: 1}},
	}}
	w.leases = append(w.leases, h)
	w.peaks[id] = uses
	return h
}

func (w *world) find(id string) *held {
	for _, h := range w.leases {
		if h.ID == id {
			return h
		}
	}
	return nil
}

func (h *held) seen() ledger.Held {
	l := h.Lease
	return ledger.Held{Lease: &l, Measured: []gpu.Opt[gpu.MiB]{gpu.Some(h.uses)}, KeptBy: h.keptBy}
}

func (w *world) View() (v ledger.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.leases {
		v.Leases = append(v.Leases, h.seen())
	}
	v.Waiting = w.waiting
	return v
}

func (w *world) Find(k lease.Key) (ledger.Held, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.find(k.ID); h != nil {
		return h.seen(), true
	}
	return ledger.Held{}, false
}

func (w *world) Sums() map[string]ledger.DeviceSum {
	w.mu.Lock()
	defer w.mu.Unlock()
	sums := map[string]ledger.DeviceSum{}
	for i, uuid := range w.devices {
		s := ledger.DeviceSum{Device: gpu.Device{UUID: uuid, Index: i, Name: "H200"}, State: gpu.Optimal, Most: 10000}
		s.Capacity = lease.Capacity{Total: 10000, MaxPipelines: 8, Usable: 8}
		for _, h := range w.leases {
			if h.Parts[0].GPU == uuid && h.State == lease.Active {
				s.Leased += h.Parts[0].Memory
				s.Active += h.Parts[0].Slots
			}
		}
		sums[uuid] = s
	}
	return sums
}

func (w *world) Exited(id process.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases = slices.DeleteFunc(w.leases, func(h *held) bool { return h.Holder.PID == id.PID })
}

func (w *world) Running() bool { return !w.stopped }

func (w *world) Read(context.Context, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	w.taken += w.grows
}

func (w *world) Readings() (list []monitor.Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, uuid := range w.devices {
		used := w.taken
		for _, h := range w.leases {
			if h.Parts[0].GPU == uuid {
				used += h.uses
			}
		}
		for _, o := range w.orphans {
			if o.On.UUID == uuid {
				used += o.Memory
			}
		}
		list = append(list, monitor.Reading{
			Device: gpu.Device{UUID: uuid, Index: i, MemoryTotal: 10000}, Sampled: true, State: gpu.Optimal,
			Sample: gpu.Sample{Time: time.Now(), MemoryUsed: gpu.Some(used)},
		})
	}
	return list
}

func (w *world) List() []Orphan {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.orphans)
}

func (w *world) End(_ context.Context, o Orphan, _ kinship.Mandate) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.immune {
		return errors.New("it could not be ended")
	}
	w.orphans = slices.DeleteFunc(w.orphans, func(other Orphan) bool { return other.ID == o.ID })
	return nil
}

func (w *world) Shrink(_ context.Context, k lease.Key, _ uint64, to gpu.MiB) (*lease.Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.find(k.ID)
	if to < h.uses {
		return nil, errors.New("its programs use more than that")
	}
	h.Parts = []lease.Part{{GPU: h.Parts[0].GPU, Memory: to, Slots: 1}}
	return &h.Lease, nil
}

func (w *world) Regrow(_ context.Context, k lease.Key, _ uint64, to gpu.MiB) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.regrown = append(w.regrown, k.ID)
	if err := w.failed[k.ID]; err != nil {
		return err
	}
	h := w.find(k.ID)
	h.Parts, h.Asked = []lease.Part{{GPU: h.Parts[0].GPU, Memory: to, Slots: 1}}, 0
	return nil
}

func (w *world) Unparkable(k lease.Key, _ uint64) error { return w.refused[k.ID] }

func (w *world) Kept(held *lease.Lease) string { return w.kept[held.ID] }

func (w *world) ParkIdle(_ context.Context, k lease.Key, _ uint64, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failed[k.ID]; err != nil {
		return err
	}
	h := w.find(k.ID)
	h.State, h.uses = lease.Parked, 0
	return nil
}

func (w *world) publish(e gpu.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	if e.Code == gpu.EventReclaim && w.trims[e.Lease] != nil {
		w.trims[e.Lease]()
	}
}

// firstPID is the first pid of simulated processes.
const firstPID = 5_000_001

// pids are the processes of a world that live.
type pids struct{ *world }

func (p pids) Started(pid int) (uint64, bool)          { return 0, !p.dead[pid] }
func (p pids) End(int)                                 {}
func (p pids) Facts(int) (f kinship.Facts, known bool) { return f, false }

func settings() *config.Config {
	c := config.Default()
	c.Services = map[string]config.Service{"batch": {Shrinkable: "true"}}
	return &c
}

func (w *world) reclaim(s *config.Config) *Reclaim {
	seen := peaks.New()
	for _, h := range w.leases {
		for i := range min(int(w.peaks[h.ID]), 5) {
			seen.Use(&h.Lease, h.Parts[0].GPU, w.peaks[h.ID], gpu.Opt[gpu.Percent]{}, time.Now().Add(time.Duration(i)))
		}
	}
	return New(Options{
		Leases: w, Monitor: w, Orphans: w, Peaks: seen, Parker: w, Publish: w.publish, Settings: s,
		Processes: process.Proc().With(pids{w}),
		Program: func(k lease.Key) (string, time.Duration) {
			if k.ID == "chat-7" {
				return "chat", w.takes
			}
			return "", 0
		},
		Idle: func(fence uint64) (f idle.Figures, known bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, h := range w.leases {
				if since, known := w.idle[h.ID]; known && h.Fence == fence {
					f.Since = since
					return f, true
				}
			}
			return f, false
		},
	})
}

// says returns what an optimization did, in a few words.
func says(o api.Optimization) (lines []string) {
	for _, rung := range o.Rungs {
		if len(rung.Done)+len(rung.Left) > 0 {
			lines = append(lines, fmt.Sprintf("%s freed %d", rung.Name, rung.Freed))
		}
		for _, s := range rung.Done {
			lines = append(lines, fmt.Sprintf("  done %d-%d %s", s.Before, s.After, s.Text))
		}
		for _, s := range rung.Left {
			lines = append(lines, fmt.Sprintf("  left %d-%d %s", s.Before, s.After, s.Text))
		}
	}
	return lines
}

func check(t *testing.T, o api.Optimization, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, says(o)); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, rung := range o.Rungs {
		names = append(names, rung.Name)
	}
	if !slices.Equal(names, []string{Dead, Orphaned, Trim, Shrink, Park, Moving}) {
		t.Errorf("the rungs are %v", names)
	}
}

// print returns all that an optimization may change.
func (w *world) print() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, h := range w.leases {
		lines = append(lines, fmt.Sprintf("%+v", *h))
	}
	for _, o := range w.orphans {
		lines = append(lines, fmt.Sprintf("%+v", o))
	}
	return strings.Join(lines, "\n")
}

// crowd fills a world with something for each rung.
func crowd(w *world) {
	w.add("gone", "A", 1000, 0)
	w.dead[firstPID] = true
	w.add("kept", "A", 1000, 100).keptBy = 7
	w.dead[firstPID+1] = true
	w.orphans = []Orphan{{Stranger: watchdog.Stranger{ID: process.ID{PID: 500, Start: 1}, Name: "python", User: "bob", Memory: 300, Ended: "old"}, On: gpu.Device{UUID: "A"}, UID: 1001}}
	w.add("cache", "A", 4000, 3500)
	w.trims["cache"] = func() { w.find("cache").uses = 500 }
	w.add("large", "B", 5000, 400).Holder.Service = "batch"
	w.add("rests", "B", 1000, 1000).Parkable = true
	w.idle["rests"] = time.Now().Add(-10 * time.Minute)
	w.waiting = []*lease.Request{{ID: "next", GPUs: 1, Memory: 9500, Slots: 1}}
}

// Each rung does its part, measured, and says what it left alone.
func TestLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A", "B")
		crowd(w)
		s := settings()
		s.Optimization.Orphans = "end"
		began := time.Now()
		o, err := w.reclaim(s).Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil)
		check(t, o, err,
			"dead freed 0",
			"  done 1000-0 gone was released: its process had ended",
			"  left 1000-1000 the process of kept has ended, and others that it started use its devices: they keep the lease",
			"orphans freed 300",
			"  done 300-0 Process 500 (python, bob) was ended: it used 300 MiB of GPU 0, and its lease old had ended",
			"trim freed 3000",
			"  done 3500-500 cache gave back 2.9 GiB",
			"  left 100-100 kept was asked, and gave nothing back within 10 s: its programs keep nothing for later, or do not listen (berth.trim_on_request in Python does)",
			"  left 400-400 large was asked, and gave nothing back within 10 s: its programs keep nothing for later, or do not listen (berth.trim_on_request in Python does)",
			"  left 1000-1000 rests was asked, and gave nothing back within 10 s: its programs keep nothing for later, or do not listen (berth.trim_on_request in Python does)",
			"shrink freed 4296",
			"  done 5000-704 large has 0.7 GiB instead of 4.9 GiB: its programs used 0.4 GiB at most. It gets its size back when it asks for it",
			"  left 1000-1000 kept stays as large as it is: services.embedder.shrinkable is not true",
			"  left 4000-4000 cache stays as large as it is: services.embedder.shrinkable is not true",
			"  left 1000-1000 rests stays as large as it is: services.embedder.shrinkable is not true",
			"park freed 1000",
			"  done 1000-0 rests was parked: it did not use its device",
			"  left 100-100 kept stays on its device: neither its request nor its service says that it is parkable",
			"  left 500-500 cache stays on its device: neither its request nor its service says that it is parkable",
			"  left 400-400 large stays on its device: neither its request nor its service says that it is parkable",
			"move freed 0",
			"  done 400-400 large could go from GPU 1 to GPU 0, which makes room for next; its program has to be started again",
		)
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v, want the time limit", took)
		}
		move := o.Rungs[5].Done[0].Move
		if diff := cmp.Diff(&api.Move{From: "B", To: "A", Memory: 704, For: "next", Restarts: true}, move); diff != "" {
			t.Error(diff)
		}
		want := []api.Reclaimed{
			{GPU: "A", UsedBefore: 3900, UsedAfter: 600, AvailableBefore: 4000, AvailableAfter: 5000},
			{GPU: "B", UsedBefore: 1400, UsedAfter: 400, AvailableBefore: 4000, AvailableAfter: 9296},
		}
		if diff := cmp.Diff(want, o.Devices); diff != "" {
			t.Error(diff)
		}
	})
}

// A dry run says the same and changes nothing, and nobody hears of it but by one
// event at its end.
func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A", "B")
		crowd(w)
		s := settings()
		s.Optimization.Orphans = "end"
		before := w.print()
		began := time.Now()
		r := w.reclaim(s)
		r.running <- struct{}{} // an optimization runs: a dry run does not wait for it
		o, err := r.Optimize(t.Context(), access.Daemon(), api.Optimize{DryRun: true}, nil)
		check(t, o, err,
			"dead freed 0",
			"  done 1000-1000 gone would be released: its process has ended",
			"  left 1000-1000 the process of kept has ended, and others that it started use its devices: they keep the lease",
			"orphans freed 0",
			"  done 300-300 Process 500 (python, bob) uses 300 MiB of GPU 0 although its lease old has ended, and would be ended",
			"trim freed 0",
			"  done 100-100 kept would be asked for memory that its libraries keep for later; it uses 100 MiB",
			"  done 3500-3500 cache would be asked for memory that its libraries keep for later; it uses 3.4 GiB",
			"  done 400-400 large would be asked for memory that its libraries keep for later; it uses 400 MiB",
			"  done 1000-1000 rests would be asked for memory that its libraries keep for later; it uses 1000 MiB",
			"shrink freed 0",
			"  done 5000-704 large would get 0.7 GiB instead of 4.9 GiB: its programs used 0.4 GiB at most",
			"  left 1000-1000 gone stays as large as it is: services.embedder.shrinkable is not true",
			"  left 1000-1000 kept stays as large as it is: services.embedder.shrinkable is not true",
			"  left 4000-4000 cache stays as large as it is: services.embedder.shrinkable is not true",
			"  left 1000-1000 rests stays as large as it is: services.embedder.shrinkable is not true",
			"park freed 0",
			"  done 1000-0 rests would be parked: it has not used its device for 10 min",
			"  left 100-100 kept stays on its device: neither its request nor its service says that it is parkable",
			"  left 3500-3500 cache stays on its device: neither its request nor its service says that it is parkable",
			"  left 400-400 large stays on its device: neither its request nor its service says that it is parkable",
			"move freed 0",
			"  left 0-0 next does not fit, whichever lease moves",
		)
		if after := w.print(); after != before || time.Since(began) != 0 {
			t.Errorf("%v later:\n%s\nwant\n%s", time.Since(began), after, before)
		}
		if len(w.events) > 0 {
			t.Errorf("a dry run tells others: %+v", w.events)
		}
		if counts := r.Counts(); counts.Runs != 0 {
			t.Errorf("it counts: %+v", counts)
		}
	})
}

// An optimization is over as soon as all programs that were asked have settled.
func TestTrimEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A")
		for i, id := range []string{"torch", "cupy", "jax"} {
			w.add(id, "A", 3000, 2000)
			after := time.Duration(i+1) * time.Second
			w.trims[id] = func() {
				time.AfterFunc(after, func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.find(id).uses -= 500
				})
			}
		}
		began := time.Now()
		o, err := w.reclaim(settings()).Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil)
		if err != nil || o.Rungs[2].Freed != 1500 || len(o.Rungs[2].Done) != 3 {
			t.Errorf("%+v, %v", o.Rungs[2], err)
		}
		if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// What others take meanwhile is no gain, and no loss below nothing.
func TestFreedIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A")
		w.add("cache", "A", 4000, 3500)
		w.trims["cache"] = func() { w.find("cache").uses = 3000 }
		w.grows = 400
		o, err := w.reclaim(settings()).Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil)
		if err != nil || o.Rungs[2].Freed != 0 || o.Rungs[2].Done[0].After != 3000 || o.Devices[0].UsedAfter <= o.Devices[0].UsedBefore {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

// Somebody changes what is theirs, sees no process of others, and has none ended.
func TestOwnLeasesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A")
		crowd(w)
		ada := access.Actor{User: "carol", UID: 1002, Role: access.User, Door: access.Socket}
		s := settings()
		s.Optimization.Orphans = "end"
		o, err := w.reclaim(s).Optimize(t.Context(), ada, api.Optimize{}, func(*lease.Lease) bool { return false })
		check(t, o, err,
			"dead freed 0",
			"  done 1000-0 gone was released: its process had ended",
			"  left 1000-1000 the process of kept has ended, and others that it started use its devices: they keep the lease",
			"orphans freed 0",
			"  left 300-300 A process of bob uses 300 MiB of GPU 0 although its lease old has ended: only its user or an operator may have it ended",
			"trim freed 0",
			"  left 0-0 4 leases of other users: only their owners and operators may change them",
			"shrink freed 0",
			"  left 0-0 4 leases of other users: only their owners and operators may change them",
			"park freed 0",
			"  left 0-0 4 leases of other users: only their owners and operators may change them",
			"move freed 0",
			"  left 0-0 next does not fit, whichever lease moves",
		)
		if pid := o.Rungs[1].Left[0].PID; pid != 0 {
			t.Errorf("it shows process %d of another user", pid)
		}
	})
}

// One service is optimized alone.
func TestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A", "B")
		crowd(w)
		w.waiting = nil
		o, err := w.reclaim(settings()).Optimize(t.Context(), access.Daemon(), api.Optimize{Service: "batch", DryRun: true}, nil)
		check(t, o, err,
			"trim freed 0",
			"  done 400-400 large would be asked for memory that its libraries keep for later; it uses 400 MiB",
			"shrink freed 0",
			"  done 5000-704 large would get 0.7 GiB instead of 4.9 GiB: its programs used 0.4 GiB at most",
			"park freed 0",
			"  left 400-400 large stays on its device: neither its request nor its service says that it is parkable",
		)
	})
}

// A lease with a scope is optimized as far as it allows that, whatever its service says.
func TestScopesSayWhatIsAllowed(t *testing.T) {
	for _, allowed := range [][]string{nil, {"trim"}, {"shrink"}, {"trim", "shrink"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld("A")
			h := w.add("pod", "A", 5000, 400)
			h.Scope, h.Optimize, h.Holder.Service = []string{"pod1"}, allowed, "batch"
			if len(allowed) > 0 {
				h.Holder.Service = ""
			}
			o, err := w.reclaim(settings()).Optimize(t.Context(), access.Daemon(), api.Optimize{DryRun: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, rung := range o.Rungs {
				want := slices.Contains(allowed, rung.Name)
				if done := len(rung.Done) > 0; done != want {
					t.Errorf("allowed %v: %+v", allowed, rung)
				}
			}
		})
	}
}

func TestShrinkLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, *held, *config.Config)
		why    string
	}{
		"no service":    {func(_ *world, h *held, _ *config.Config) { h.Holder.Service = "" }, "it has no service that allows it"},
		"not allowed":   {func(_ *world, h *held, _ *config.Config) { h.Holder.Service = "web" }, "services.web.shrinkable is not true"},
		"a scope":       {func(_ *world, h *held, _ *config.Config) { h.Scope = []string{"pod"} }, "it belongs to a container or a job of another manager, which does not allow it"},
		"under MPS":     {func(_ *world, h *held, _ *config.Config) { h.EnforcedBy = "mps" }, "its programs were started with its limit, by mps"},
		"young":         {func(_ *world, h *held, _ *config.Config) { h.Granted = time.Now().Add(-20 * time.Second) }, "it was granted 30 s ago, and keep_seconds is 60 s"},
		"never used":    {func(w *world, h *held, _ *config.Config) { h.uses, w.peaks[h.ID] = 0, 0 }, "its programs have not used a device yet"},
		"used once":     {func(w *world, h *held, _ *config.Config) { w.peaks[h.ID] = 4800 }, "its programs used up to 4.7 GiB of its 4.9 GiB"},
		"uses more now": {func(w *world, h *held, _ *config.Config) { h.uses = 4990 }, "its programs used up to 0.4 GiB of its 4.9 GiB"},
		"a child":       {func(_ *world, h *held, _ *config.Config) { h.Parent = "p" }, "it shares its memory with other leases"},
		"has a child":   {func(w *world, h *held, _ *config.Config) { w.add("child", "A", 0, 10).ParentFence = h.Fence }, "it shares its memory with other leases"},
		"it has a least": {func(_ *world, _ *held, s *config.Config) {
			s.Services["batch"] = config.Service{Shrinkable: "true", MinMemory: gpu.Some(gpu.MiB(5000))}
		}, "services.batch.min_memory_mb is 4.9 GiB; its programs used up to 0.4 GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := newWorld("A"), settings()
				h := w.add("large", "A", 5000, 400)
				h.Holder.Service = "batch"
				c.change(w, h, s)
				o, err := w.reclaim(s).Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				rung := o.Rungs[3]
				if len(rung.Done) != 0 || len(rung.Left) == 0 || rung.Left[0].Text != "large stays as large as it is: "+c.why || h.Parts[0].Memory != 5000 {
					t.Errorf("%+v", rung)
				}
			})
		})
	}
}

// A lease that was measured by an earlier daemon, which did not write that down, may have
// used all that it asked for.
func TestShrinkLeavesWhatNobodyMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld("A"), settings()
		h := w.add("large", "A", 5000, 400)
		h.Holder.Service = "batch"
		r := w.reclaim(s)
		learned, damage := peaks.Open(filepath.Join(t.TempDir(), "history.json"))
		if damage != nil {
			t.Fatal(damage)
		}
		r.Peaks = learned
		learned.Use(&h.Lease, "A", 400, gpu.Opt[gpu.Percent]{}, time.Now())
		o, err := r.Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rung := o.Rungs[3]; len(rung.Done) != 0 || len(rung.Left) != 1 || !strings.Contains(rung.Left[0].Text, "berth has not measured it since its grant") {
			t.Errorf("%+v", rung)
		}
	})
}

// A lease is parked only if it may be, and is idle.
func TestParkLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, *held)
		why    string
	}{
		"not agreed":   {func(_ *world, h *held) { h.Parkable = false }, "rests stays on its device: neither its request nor its service says that it is parkable"},
		"a scope":      {func(_ *world, h *held) { h.Scope, h.Optimize = []string{"pod"}, []string{"park", "trim"} }, "rests stays on its device: it belongs to a container or a job of another manager, and leaves only while others wait for its device"},
		"not possible": {func(w *world, h *held) { w.refused[h.ID] = errors.New("it has several devices") }, "rests stays on its device: it has several devices"},
		"may share":    {func(w *world, h *held) { w.kept = map[string]string{h.ID: "2 of its processes may share memory"} }, "rests stays on its device: 2 of its processes may share memory; parkable: unshared says that they share none"},
		"in use":       {func(w *world, h *held) { delete(w.idle, h.ID) }, "rests stays on its device: it uses its device, or nobody can tell"},
		"used lately":  {func(w *world, h *held) { w.idle[h.ID] = time.Now().Add(-2 * time.Second) }, "rests stays on its device: it used its device 12 s ago, and park_idle_after is 60 s"},
		"young":        {func(_ *world, h *held) { h.Granted = time.Now().Add(-20 * time.Second) }, "rests stays on its device: it has had its device for 30 s, and keep_seconds is 60 s"},
		"back lately":  {func(_ *world, h *held) { h.Returned = time.Now().Add(-20 * time.Second) }, "rests stays on its device: it has had its device for 30 s, and keep_seconds is 60 s"},
		"it fails":     {func(w *world, h *held) { w.failed[h.ID] = errors.New("the driver refused") }, "rests was not parked: the driver refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld("A")
				h := w.add("rests", "A", 1000, 1000)
				h.Parkable, w.idle["rests"] = true, time.Now().Add(-10*time.Minute)
				c.change(w, h)
				o, err := w.reclaim(settings()).Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if rung := o.Rungs[4]; len(rung.Done) != 0 || len(rung.Left) != 1 || rung.Left[0].Text != c.why || h.State != lease.Active {
					t.Errorf("%+v", rung)
				}
			})
		})
	}
}

// Orphans are named unless they are to be ended, and one that cannot be ended stays.
func TestOrphansLeft(t *testing.T) {
	for name, c := range map[string]struct {
		orphans, text string
	}{
		"named":    {"name", "Process 500 (python, bob) uses 300 MiB of GPU 0 although its lease old has ended, and optimization.orphans is name: end it with kill, or start it again under a lease"},
		"immortal": {"end", "Process 500 (python, bob) uses 300 MiB of GPU 0 although its lease old has ended: it could not be ended"},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld("A", "B"), settings()
			crowd(w)
			w.leases, w.waiting, w.immune = nil, nil, true
			s.Optimization.Orphans = c.orphans
			o, err := w.reclaim(s).Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil)
			check(t, o, err, "orphans freed 0", "  left 300-300 "+c.text)
			if len(w.orphans) != 1 || o.Rungs[1].Left[0].PID != 500 {
				t.Errorf("orphans are %+v", w.orphans)
			}
		})
	}
}

// Optimizations run one after another, one for each user, and few wait.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A")
		w.add("silent", "A", 4000, 3500)
		r := w.reclaim(settings())
		user := func(uid int) access.Actor { return access.Actor{UID: uid, Role: access.User, Door: access.Socket} }
		busy := func(by access.Actor) bool {
			_, err := r.Optimize(t.Context(), by, api.Optimize{}, nil)
			return errors.As(err, new(*lease.BusyError))
		}
		began := time.Now()
		var group sync.WaitGroup
		took := make([]time.Duration, 3)
		for i := range took {
			group.Go(func() {
				if _, err := r.Optimize(t.Context(), user(i), api.Optimize{}, nil); err != nil {
					t.Error(err)
				}
				took[i] = time.Since(began)
			})
		}
		synctest.Wait()
		if !busy(user(0)) || !busy(user(2)) {
			t.Error("a user has two optimizations at a time")
		}
		leaving, leave := context.WithCancel(t.Context())
		var waited sync.WaitGroup
		for i := range mostWaiting - 2 {
			waited.Go(func() {
				if _, err := r.Optimize(leaving, user(10+i), api.Optimize{}, nil); !errors.Is(err, context.Canceled) {
					t.Errorf("one that left got %v", err)
				}
			})
		}
		synctest.Wait()
		if !busy(user(99)) {
			t.Error("one too many waits")
		}
		leave()
		waited.Wait()
		group.Wait()
		slices.Sort(took)
		if want := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}; !slices.Equal(took, want) {
			t.Errorf("they took %v", took)
		}
		if counts := r.Counts(); counts.Runs != 3 || len(counts.Freed) != len(rungs) || len(r.asking) != 0 {
			t.Errorf("counts are %+v, and %v ask", counts, r.asking)
		}
	})
}

// Each user has one dry run at a time. It asks no device.
func TestDryRunsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A")
		w.add("silent", "A", 4000, 3500)
		r := w.reclaim(settings())
		looks, goOn := make(chan struct{}, 8), make(chan struct{})
		may := func(*lease.Lease) bool {
			looks <- struct{}{}
			<-goOn
			return true
		}
		dry := func(uid int) error {
			_, err := r.Optimize(t.Context(), access.Actor{UID: uid, Role: access.User, Door: access.Socket}, api.Optimize{DryRun: true}, may)
			return err
		}
		var group sync.WaitGroup
		for uid := range 2 {
			group.Go(func() {
				if err := dry(uid); err != nil {
					t.Error(err)
				}
			})
			<-looks
		}
		again := make(chan error, 1)
		go func() { again <- dry(0) }()
		synctest.Wait()
		close(goOn)
		if err := <-again; !errors.As(err, new(*lease.BusyError)) {
			t.Errorf("a user has two dry runs at a time: %v", err)
		}
		group.Wait()
		if err := dry(0); err != nil || w.reads != 0 {
			t.Errorf("after that: %v, and devices were read %d times", err, w.reads)
		}
	})
}

// A shrunk lease gets its size back when its programs use nearly all that it has
// left, once; if there is no room, not before a while is over.
func TestRegrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A")
		shrunk, stuck, whole := w.add("shrunk", "A", 1000, 400), w.add("stuck", "A", 1000, 990), w.add("whole", "A", 1000, 990)
		shrunk.Asked, stuck.Asked = 5000, 5000
		w.failed["stuck"] = errors.New("the ledger is closed")
		r := w.reclaim(settings())
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { r.Run(ctx) })
		sample := func(h *held, uses gpu.MiB) {
			t.Helper()
			w.mu.Lock() // until then nothing is given back
			for range 5 {
				l := h.Lease
				r.Observe(lease.Holding{Lease: &l, Part: l.Parts[0], Measured: uses})
			}
			w.mu.Unlock()
			synctest.Wait()
		}
		sample(shrunk, 850)
		sample(whole, 990)
		if len(w.regrown) != 0 || shrunk.Parts[0].Memory != 1000 {
			t.Errorf("%v got their size back early", w.regrown)
		}
		sample(shrunk, 900)
		sample(stuck, 2000)
		if shrunk.Parts[0].Memory != 5000 || !slices.Equal(w.regrown, []string{"shrunk", "stuck"}) {
			t.Errorf("it has %s after %v", shrunk.Parts[0].Memory, w.regrown)
		}
		time.Sleep(2 * regrowPause) // simulated
		sample(stuck, 2000)
		if !slices.Equal(w.regrown, []string{"shrunk", "stuck", "stuck"}) {
			t.Errorf("tried %v", w.regrown)
		}
		cancel()
		group.Wait()
	})
}

// A bug met for one lease ends neither the daemon nor what is done for others.
func TestABugIsConfined(t *testing.T) {
	w := newWorld("A")
	r := w.reclaim(settings())
	r.Faults = &fault.Faults{Log: slog.New(slog.DiscardHandler), Publish: func(gpu.Event) {}}
	broken := w.add("broken", "A", 1000, 400)
	broken.Parts = nil // what gives it its size back does not expect that
	r.growing[broken.Fence] = true
	r.regrowOne(t.Context(), &broken.Lease)
	if len(r.growing) != 0 || r.Faults.Text() == "" {
		t.Errorf("%v still grow, and told was %q", r.growing, r.Faults.Text())
	}
	if _, err := r.Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil); !errors.As(err, new(*fault.Error)) {
		t.Errorf("the optimization: %v", err)
	}
	w.leases = nil
	if _, err := r.Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil); err != nil {
		t.Errorf("the next optimization: %v", err)
	}
}

func TestNothingIsDoneUnmeasured(t *testing.T) {
	w := newWorld("A")
	crowd(w)
	w.stopped = true
	before := w.print()
	if _, err := w.reclaim(settings()).Optimize(t.Context(), access.Daemon(), api.Optimize{}, nil); !errors.Is(err, ErrUnmeasured) || w.print() != before {
		t.Errorf("%v, and the leases are %s", err, w.print())
	}
}

// A caller who leaves stops the optimization after the rung at hand.
func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A", "B")
		crowd(w)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o, err := w.reclaim(settings()).Optimize(ctx, access.Daemon(), api.Optimize{}, nil)
		if !errors.Is(err, context.DeadlineExceeded) || len(o.Rungs) != 3 || w.find("large").Parts[0].Memory != 5000 || w.find("rests").State != lease.Active {
			t.Errorf("%v after %+v", err, o.Rungs)
		}
	})
}

// By itself berth optimizes only what is fuller than the threshold, and tells only
// what it did.
// Memory that runs out is cleaned up at once: what the dead hold is released, and
// programs are asked for their caches. Nothing is taken from anybody, and not every
// flicker asks again.
func TestMemoryThatRunsOutIsCleanedUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A", "B")
		crowd(w)
		w.trims["large"] = func() { t.Error("the memory of its device had not run out") }
		asked := 0
		trim := w.trims["cache"]
		w.trims["cache"] = func() { asked++; trim() }
		r := w.reclaim(settings())
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { r.Run(ctx) })
		flicker := func() {
			r.Full("A", true, time.Now())
			r.Full("A", true, time.Now())
			time.Sleep(15 * time.Second) // simulated
			r.Full("A", false, time.Now())
		}
		flicker()
		synctest.Wait()
		w.mu.Lock()
		if asked != 1 || w.find("cache").uses != 500 || w.find("gone") != nil {
			t.Errorf("asked %d times; cache uses %d; %+v", asked, w.find("cache").uses, w.find("gone"))
		}
		for _, e := range w.events {
			if rung := e.Data["rung"]; rung != nil && rung != Dead && rung != Trim {
				t.Errorf("the rung %v was reached", rung)
			}
		}
		w.mu.Unlock()
		flicker()
		if synctest.Wait(); asked != 1 {
			t.Errorf("asked %d times within a minute", asked)
		}
		time.Sleep(time.Minute)
		flicker()
		if synctest.Wait(); asked != 2 {
			t.Errorf("asked %d times after a minute", asked)
		}
		cancel()
		group.Wait()
	})
}

// Memory that stays out, or is out again, is relieved once a minute, also if others had the
// daemon wait.
func TestMemoryThatIsOutAgainIsRelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A")
		asked := 0
		w.add("cache", "A", 4000, 4000)
		w.trims["cache"] = func() { asked++ }
		r := w.reclaim(settings())
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { r.Run(ctx) })
		sample := func(seconds int, out bool) {
			for range seconds {
				r.Full("A", out, time.Now())
				time.Sleep(time.Second) // simulated
			}
			synctest.Wait()
		}
		sample(10, true)
		sample(10, false)
		sample(20, true) // within the minute
		if asked != 1 {
			t.Errorf("asked %d times within a minute", asked)
		}
		sample(120, true)
		if asked != 3 {
			t.Errorf("asked %d times in 160 s", asked)
		}
		sample(90, false)
		w.stopped = true // for a moment
		sample(1, true)
		w.stopped = false
		if sample(1, true); asked != 4 {
			t.Errorf("asked %d times after a relief that failed", asked)
		}
		sample(90, false)
		r.running <- struct{}{} // an optimization of a user runs, and others wait
		for uid := range mostWaiting + 1 {
			group.Go(func() {
				_, _ = r.Optimize(ctx, access.Actor{UID: uid, Door: access.Socket, Role: access.User}, api.Optimize{}, func(*lease.Lease) bool { return false })
			})
		}
		synctest.Wait()
		sample(1, true)
		first := asked
		<-r.running
		if sample(50, false); first != 4 || asked != 5 {
			t.Errorf("asked %d times while users waited, and %d times afterwards", first, asked)
		}
		cancel()
		group.Wait()
	})
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("A", "B")
		w.add("small", "A", 1000, 1000)
		w.trims["small"] = func() { t.Error("its device was not full") }
		h := w.add("cache", "B", 9000, 8000)
		r := w.reclaim(settings())
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { r.Run(ctx) })
		time.Sleep(time.Hour) // simulated
		synctest.Wait()
		w.mu.Lock()
		if w.reads != 0 || len(w.events) != 0 {
			t.Errorf("%d readings and events %+v while no device was full", w.reads, w.events)
		}
		h.uses = 8600
		w.trims["cache"] = func() { h.uses = 5000 }
		w.mu.Unlock()
		time.Sleep(5*time.Minute + 11*time.Second) // simulated
		synctest.Wait()
		w.mu.Lock()
		told := map[string]int{}
		for _, e := range w.events {
			told[fmt.Sprint(e.Code, e.Data["rung"])]++
		}
		if want := map[string]int{"reclaim<nil>": 1, "optimizedtrim": 1, "optimized<nil>": 1}; !maps.Equal(told, want) || h.uses != 5000 {
			t.Errorf("told %v, and it uses %d", told, h.uses)
		}
		h.uses = 9000
		w.mu.Unlock()
		s := settings()
		s.Optimization.Interval, s.Optimization.MemoryThreshold = time.Minute, 0.95
		r.Configure(s)
		time.Sleep(10 * time.Minute) // simulated
		synctest.Wait()
		if h.uses != 9000 {
			t.Error("it was optimized below the new threshold")
		}
		s = settings()
		s.Optimization.Interval, s.Optimization.MemoryThreshold = time.Minute, 0.5
		r.Configure(s)
		time.Sleep(61*time.Second + 11*time.Second) // simulated
		synctest.Wait()
		if h.uses != 5000 {
			t.Error("it was not optimized above the new threshold")
		}
		cancel()
		group.Wait()
		if counts := r.Counts(); counts.Runs != 2 || counts.Freed[Trim] != 3600+4000 {
			t.Errorf("counts are %+v", counts)
		}
	})
}

// For a service whose program berth runs, a move is a command, with the time that it takes.
// Nothing is moved.
func TestMoveOfAService(t *testing.T) {
	for takes, text := range map[time.Duration]string{
		0:                "chat-7 could go from GPU 0 to GPU 1, which makes room for big; berth move chat 1 does that, and stops and starts it",
		12 * time.Second: "chat-7 could go from GPU 0 to GPU 1, which makes room for big; berth move chat 1 does that in 12 s, which it takes to stop and to start",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld("A", "B")
			w.takes = takes
			w.add("chat-7", "A", 4000, 4000).Holder.Service = "chat"
			w.add("other", "B", 5000, 5000)
			w.waiting = []*lease.Request{{ID: "big", GPUs: 1, Memory: 8000}}
			before := w.print()
			o, err := w.reclaim(settings()).Optimize(t.Context(), access.Daemon(), api.Optimize{DryRun: true}, nil)
			if err != nil || len(o.Rungs[5].Done) != 1 {
				t.Fatalf("%+v, %v", o, err)
			}
			step := o.Rungs[5].Done[0]
			want := &api.Move{From: "A", To: "B", Memory: 4000, For: "big", Restarts: true, Service: "chat", Takes: takes.Seconds()}
			if diff := cmp.Diff(want, step.Move); diff != "" || step.Text != text {
				t.Errorf("it says %q\n%s", step.Text, diff)
			}
			if after := w.print(); after != before {
				t.Errorf("a proposal changes something:\n%s\nwant\n%s", after, before)
			}
		})
	}
}
