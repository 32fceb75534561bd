package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

var gpuA, gpuB = gpu.Device{UUID: "GPU-a", Index: 3}, gpu.Device{UUID: "GPU-b", Index: 4}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a machine with processes that end a while after SIGTERM, or never,
// and a book with one lease.
type world struct {
	mu       sync.Mutex
	ends     map[process.ID]time.Duration // after SIGTERM; negative: it does not listen
	immune   map[process.ID]bool          // nobody may signal it
	users    map[process.ID]int           // whose they are; root's unless it says otherwise
	barred   map[process.ID]bool          // the scope names them and must not reach them
	spared   []string                     // of which the book was told last
	dead     map[process.ID]time.Time
	signals  []string
	events   []gpu.Event
	recorded []string // what the audit log was told, and how many signals were sent before
	revoking string
	revoked  string
	gone     bool // the lease has ended
	hidden   bool // no process can be looked at
	sampled  time.Time
	moved    map[process.ID]bool // under another lease now
}

// next is when the next sample is taken.
func (w *world) next() time.Time {
	w.sampled = w.sampled.Add(time.Second)
	return w.sampled
}

func newWorld() *world {
	return &world{ends: map[process.ID]time.Duration{}, moved: map[process.ID]bool{}, dead: map[process.ID]time.Time{}, immune: map[process.ID]bool{}, users: map[process.ID]int{}, barred: map[process.ID]bool{}}
}

func pid(n int) process.ID { return process.ID{PID: n, Start: uint64(n)} }

// Reach spares the processes of others in the name of a user.
func (w *world) Reach(in kinship.Mandate, ids []process.ID) (reached, spared []process.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		switch {
		case w.hidden:
			spared = append(spared, id)
		case !w.alive(id):
		case in.Reaches(id, kinship.UIDs{Real: w.users[id], Saved: w.users[id]}):
			reached = append(reached, id)
		default:
			spared = append(spared, id)
		}
	}
	return reached, spared
}

func (w *world) Describe(ids []process.ID) (list []string) {
	for _, id := range ids {
		list = append(list, fmt.Sprint(id.PID))
	}
	return list
}

func (w *world) Signal(in kinship.Mandate, id process.ID, s unix.Signal) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.alive(id) {
		return fmt.Errorf("signal %d: %w", id.PID, process.ErrGone)
	}
	if w.immune[id] {
		return errors.New("operation not permitted")
	}
	if !in.Reaches(id, kinship.UIDs{Real: w.users[id], Saved: w.users[id]}) {
		return process.ErrSpared
	}
	w.signals = append(w.signals, fmt.Sprintf("%v %d", s, id.PID))
	switch after := w.ends[id]; {
	case s == unix.SIGKILL:
		w.dead[id] = time.Now()
	case s == unix.SIGTERM && after >= 0:
		w.dead[id] = time.Now().Add(after)
	}
	return nil
}

func (w *world) Alive(id process.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alive(id)
}

// Ended is false of processes that cannot be looked at.
func (w *world) Ended(id process.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.hidden && !w.alive(id)
}

func (w *world) alive(id process.ID) bool {
	_, known := w.ends[id]
	end, dying := w.dead[id]
	return known && !(dying && !time.Now().Before(end))
}

func (w *world) BeginRevoke(_ lease.Key, _ uint64, why string, spared []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revoking, w.spared = why, spared
	return !w.gone
}

func (w *world) Scoped(lease.Key, uint64) (members, barred []process.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.ends {
		switch {
		case !w.alive(id) || w.moved[id]:
		case w.barred[id]:
			barred = append(barred, id)
		default:
			members = append(members, id)
		}
	}
	slices.SortFunc(members, func(a, b process.ID) int { return a.PID - b.PID })
	return members, barred
}

func (w *world) Moved(_ lease.Key, _ uint64, id process.ID) bool { return w.Leased("", id) }

func (w *world) Leased(_ string, id process.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved[id]
}

// adopt puts a process under a lease of its own.
func (w *world) adopt(id process.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved[id] = true
}

func (w *world) Revoke(_ context.Context, _ lease.Key, _ uint64, why string, spared []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revoked, w.spared = why, spared
	return nil
}

func (w *world) event(e gpu.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *world) record(e api.AuditEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recorded = append(w.recorded, fmt.Sprintf("%s %s %s of %s after %d signals: %s", e.What, e.Object.Kind, e.Object.ID, e.Object.Owner, len(w.signals), e.Why))
}

// What berth ends by itself is written down before it does.
func TestEndsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		world.ends = map[process.ID]time.Duration{pid(1): 0}
		w := world.watchdog(Revoke, Kill)
		running(t, w)
		for range patience {
			w.Look(gpuA, world.next(), over(5000), nil)
		}
		synctest.Wait()
		world.ends[pid(7)] = 0
		for range patience {
			w.Look(gpuB, world.next(), nil, []Stranger{{ID: pid(7), Name: "python", User: "bob", Memory: 300}})
		}
		synctest.Wait()
		want := []string{
			"revoke lease train of ada after 0 signals: it used 4.9 GiB, 0.9 GiB more than the 4 GiB it held",
			"kill process 7 of bob after 1 signals: Process 7 (python, bob) uses 300 MiB of " + gpuB.Label() + " under no lease, and gpu.foreign is kill",
		}
		if diff := cmp.Diff(want, world.recorded); diff != "" {
			t.Error(diff)
		}
	})
}

func (w *world) codes() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var codes []string
	for _, e := range w.events {
		codes = append(codes, string(e.Code))
	}
	return strings.Join(codes, " ")
}

// settings returns settings with these policies, and a grace of ten seconds.
func settings(overLimit, foreign, overheat string) *config.Config {
	c := &config.Config{GPU: config.GPU{OverLimit: overLimit, Foreign: foreign, Overheat: overheat}}
	c.Optimization.DeallocationTimeout = 10 * time.Second
	return c
}

func (w *world) watchdog(overLimit, foreign string) *Watchdog {
	return New(Options{Leases: w, Processes: w, Event: w.event, Record: w.record, Settings: settings(overLimit, foreign, "")})
}

func over(measured gpu.MiB) []lease.Holding {
	return []lease.Holding{{Lease: &lease.Lease{ID: "train", Fence: 3, Holder: lease.Holder{User: "ada"}}, Part: lease.Part{Memory: 4096}, Measured: measured}}
}

// running runs the watchdog for the time of a test.
func running(t *testing.T, w *Watchdog) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func TestOverLimitIsToldOncePerExcursion(t *testing.T) {
	world := newWorld()
	w := world.watchdog(Warn, Show)
	for _, measured := range []gpu.MiB{4096, 5000, 6000, 5000, 4000, 4097, 9000} {
		w.Look(gpuA, world.next(), over(measured), nil)
	}
	if got := world.codes(); got != "lease_over_limit lease_over_limit" {
		t.Fatalf("two excursions gave %s", got)
	}
	e := world.events[0]
	if e.Lease != "train" || e.User != "ada" || e.GPU != "GPU-a" || e.Data["over_mb"] != int64(904) || e.Data["measured_mb"] != int64(5000) || !strings.Contains(e.Text, "0.9 GiB more than the 4 GiB") {
		t.Errorf("the event is %+v", e)
	}
	if world.revoking != "" {
		t.Error("a lease was about to be revoked under the policy warn")
	}
}

func TestWhatIsNotOverTheLimit(t *testing.T) {
	world := newWorld()
	w := world.watchdog(Revoke, Show)
	for range 3 {
		w.Look(gpuA, world.next(), []lease.Holding{
			{Lease: &lease.Lease{ID: "slots only", Fence: 1}, Measured: 9000},
			{Lease: &lease.Lease{ID: "full", Fence: 2}, Part: lease.Part{Memory: 4096}, Measured: 4096},
			{Lease: &lease.Lease{ID: "shrunk", Fence: 4, Asked: 900}, Part: lease.Part{Memory: 300}, Measured: 400},
		}, nil)
	}
	if len(world.events) > 0 {
		t.Errorf("events: %+v", world.events)
	}
}

// A parked lease holds nothing. What of it is on the device, and could not be taken off, is
// memory of others.
func TestParkedIsOverItsLimit(t *testing.T) {
	world := newWorld()
	w := world.watchdog(Warn, Show)
	astray := false
	w.astray = func(fence uint64) (gpu.MiB, bool) { return 16, astray && fence == 3 }
	look := func(state lease.State, measured gpu.MiB) {
		held := over(measured)
		held[0].Lease.State = state
		w.Look(gpuA, world.next(), held, nil)
	}
	look(lease.Parked, 4000) // berth is taking it off
	astray = true
	look(lease.Active, 4000)
	look(lease.Parked, 16)
	if got := world.codes(); got != "" {
		t.Errorf("events: %s", got)
	}
	look(lease.Parked, 17)
	if got := world.codes(); got != "lease_over_limit" {
		t.Errorf("events: %s", got)
	}
}

// The policy of a service goes before that of all leases, and a lease that berth has
// shrunk is over its limit only if it uses more than it asked for.
func TestWhoseLimitIsExceeded(t *testing.T) {
	world := newWorld()
	w := world.watchdog(Stop, Show)
	c := settings(Stop, Show, "")
	c.Services = map[string]config.Service{"s": {OverLimit: Warn}, "plain": {}}
	w.Configure(c)
	var held []lease.Holding
	for i, service := range []string{"", "s", "plain"} {
		l := &lease.Lease{ID: "of " + service, Fence: uint64(i + 1), Asked: 4096, Holder: lease.Holder{Service: service}}
		held = append(held, lease.Holding{Lease: l, Part: lease.Part{Memory: 1024}, Measured: 4100})
	}
	w.Look(gpuA, world.next(), held, nil)
	var told []string
	for _, e := range world.events {
		told = append(told, fmt.Sprintf("%s: %v over %v", e.Lease, e.Data["over_mb"], e.Data["policy"]))
	}
	if diff := cmp.Diff([]string{"of : 4 over stop", "of s: 4 over warn", "of plain: 4 over stop"}, told); diff != "" {
		t.Error(diff)
	}
}

// An excursion of a single sample is told and not acted on, on every device for
// itself.
func TestOneSampleRevokesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		w := world.watchdog(Revoke, Show)
		running(t, w)
		w.Look(gpuA, world.next(), over(5000), nil)
		w.Look(gpuB, world.next(), over(5000), nil)
		w.Look(gpuA, world.next(), over(4000), nil)
		w.Look(gpuA, world.next(), over(5000), nil)
		synctest.Wait()
		if world.revoking != "" {
			t.Error("it was about to be revoked")
		}
	})
}

func TestRevoke(t *testing.T) {
	for name, test := range map[string]struct {
		processes map[process.ID]time.Duration
		immune    map[process.ID]bool
		signals   string
		took      time.Duration
		complains bool
	}{
		"ends when asked":    {map[process.ID]time.Duration{pid(1): time.Second, pid(2): 0}, nil, "terminated 1, terminated 2", time.Second, false},
		"has to be killed":   {map[process.ID]time.Duration{pid(1): -1, pid(2): time.Second}, nil, "terminated 1, terminated 2, killed 1", 10 * time.Second, false},
		"may not be touched": {map[process.ID]time.Duration{pid(1): -1}, map[process.ID]bool{pid(1): true}, "", 15 * time.Second, true},
		"has nobody":         {nil, nil, "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				if test.processes != nil {
					world.ends = test.processes
				}
				world.immune = test.immune
				w := world.watchdog(Revoke, Show)
				running(t, w)
				start := time.Now()
				for range 5 { // once is enough
					w.Look(gpuA, world.next(), over(5000), nil)
				}
				for world.why() == "" {
					time.Sleep(10 * time.Millisecond) // simulated
				}
				took := time.Since(start)
				synctest.Wait() // for those who were told once more
				if got := strings.Join(world.signals, ", "); got != test.signals {
					t.Errorf("signals: %s, want %s", got, test.signals)
				}
				if took < test.took || took > test.took+time.Second {
					t.Errorf("it took %v of simulated time, want about %v", took, test.took)
				}
				if !strings.Contains(world.revoking, "0.9 GiB more than the 4 GiB it held") {
					t.Errorf("it was about to be revoked because %q", world.revoking)
				}
				if complains := len(world.events) > 1; complains != test.complains {
					t.Errorf("events: %+v", world.events)
				}
			})
		})
	}
}

func (w *world) why() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revoked
}

// Whoever has ended by itself needs no signal.
func TestLeaseThatHasEndedIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		world.gone = true
		world.ends[pid(1)] = 0
		w := world.watchdog(Revoke, Show)
		running(t, w)
		w.Look(gpuA, world.next(), over(5000), nil)
		w.Look(gpuA, world.next(), over(5000), nil)
		synctest.Wait()
		if len(world.signals) > 0 || world.revoked != "" {
			t.Errorf("signals %v, revoked %q", world.signals, world.revoked)
		}
	})
}

// The daemon stops in the middle: nobody is killed before their time.
func TestStoppingCutsNoGraceShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		world.ends[pid(1)] = -1
		w := world.watchdog(Revoke, Show)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		w.Look(gpuA, world.next(), over(5000), nil)
		w.Look(gpuA, world.next(), over(5000), nil)
		time.Sleep(time.Second) // simulated
		cancel()
		<-done
		if got := strings.Join(world.signals, ", "); got != "terminated 1" {
			t.Errorf("signals: %s", got)
		}
		if world.revoked != "" {
			t.Error("it was revoked while it lives")
		}
	})
}

// The same measurement twice is not two in a row.
func TestStaleSampleTellsNothing(t *testing.T) {
	world := newWorld()
	w := world.watchdog(Revoke, Show)
	at := world.next()
	for range 3 {
		w.Look(gpuA, at, over(5000), nil)
	}
	if got := world.codes(); got != "lease_over_limit" || len(w.todo) > 0 {
		t.Errorf("events: %s; %d to be ended", got, len(w.todo))
	}
}

// A process that is under a lease now and then is told of once.
func TestStrangerThatComesAndGoes(t *testing.T) {
	world := newWorld()
	world.ends[pid(7)] = 0
	w := world.watchdog(Warn, Kill)
	for range 3 {
		w.Look(gpuA, world.next(), nil, []Stranger{{ID: pid(7)}})
		w.Look(gpuA, world.next(), nil, nil)
	}
	if got := world.codes(); got != "foreign_use" || len(w.todo) > 0 {
		t.Errorf("events: %s; %d to be ended", got, len(w.todo))
	}
}

// A pod that joins a shared claim is a stranger until the driver of Kubernetes has looked.
// One that stays a stranger is ended.
func TestStrangerOfAPod(t *testing.T) {
	world := newWorld()
	world.ends[pid(7)] = 0
	w := world.watchdog(Warn, Kill)
	for first := world.next(); world.sampled.Sub(first) < joining; {
		w.Look(gpuA, world.sampled, nil, []Stranger{{ID: pid(7), Pod: "5f3c"}})
		if len(w.todo) > 0 {
			t.Fatalf("ended after %s", world.sampled.Sub(first))
		}
		world.next()
	}
	w.Look(gpuA, world.sampled, nil, []Stranger{{ID: pid(7), Pod: "5f3c"}})
	if got := world.codes(); got != "foreign_use" || len(w.todo) != 1 {
		t.Errorf("events: %s; %d to be ended", got, len(w.todo))
	}
}

func TestStrangers(t *testing.T) {
	plain := Stranger{ID: pid(7), Name: "python", User: "bob", Memory: 300}
	orphan := Stranger{ID: pid(8), Name: "worker", Memory: 500, Ended: "train"}
	for policy, want := range map[string][]process.ID{
		Show: nil, KillOrphans: {pid(8)}, Kill: {pid(7), pid(8)},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends[pid(7)], world.ends[pid(8)] = 0, 0
				w := world.watchdog(Warn, policy)
				running(t, w)
				w.Look(gpuA, world.next(), nil, []Stranger{plain, orphan})
				synctest.Wait()
				if len(world.signals) > 0 {
					t.Errorf("at first sight: %v", world.signals)
				}
				for range 3 {
					w.Look(gpuA, world.next(), nil, []Stranger{plain, orphan})
				}
				synctest.Wait()
				var signals, told []string
				for _, id := range want {
					signals = append(signals, fmt.Sprintf("terminated %d", id.PID))
				}
				slices.Sort(world.signals)
				if !slices.Equal(world.signals, signals) {
					t.Errorf("signals: %v, want %v", world.signals, signals)
				}
				if e := world.events[1]; e.Lease != "train" || e.Data["orphan"] != true || !strings.Contains(e.Text, "that of train has ended") {
					t.Errorf("the event of an orphan is %+v", e)
				}
				for _, e := range world.events[2:] { // of those that were ended
					told = append(told, fmt.Sprintf("terminated %d", e.Data["pid"]))
					if e.Code != gpu.EventForeignUse || e.Severity != gpu.Warning || e.Data["ended"] != true || !strings.HasSuffix(e.Text, "was ended: it used "+
						map[any]string{7: "300 MiB", 8: "500 MiB"}[e.Data["pid"]]+" of GPU 3 under no lease, and gpu.foreign is "+string(policy)) {
						t.Errorf("the event of an end is %+v", e)
					}
				}
				if slices.Sort(told); !slices.Equal(told, signals) {
					t.Errorf("told of %v, want %v", told, signals)
				}
			})
		})
	}
}

// A process that is put under a lease in the grace is not killed.
func TestAdoptedInTheGrace(t *testing.T) {
	for name, test := range map[string]struct {
		over    []lease.Holding
		foreign []Stranger
		adopted process.ID
		want    string
	}{
		"a stranger":          {nil, []Stranger{{ID: pid(7), Name: "python", Memory: 300}}, pid(7), "terminated 7"},
		"one of two of these": {nil, []Stranger{{ID: pid(7), Name: "python", Memory: 300}, {ID: pid(8), Name: "python", Memory: 300}}, pid(7), "killed 8, terminated 7, terminated 8"},
		"a member of a lease": {over(5000), nil, pid(7), "killed 8, terminated 7, terminated 8"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends[pid(7)], world.ends[pid(8)] = -1, -1 // they do not listen
				w := world.watchdog(Revoke, Kill)
				running(t, w)
				for range patience {
					w.Look(gpuA, world.next(), test.over, test.foreign)
				}
				time.Sleep(time.Second) // simulated
				world.adopt(test.adopted)
				time.Sleep(time.Minute) // simulated
				synctest.Wait()
				slices.Sort(world.signals)
				if got := strings.Join(world.signals, ", "); got != test.want {
					t.Errorf("signals: %s, want %s", got, test.want)
				}
				for _, e := range world.events {
					if e.Data["pid"] == test.adopted.PID && e.Data["ended"] != nil {
						t.Errorf("told of an end: %+v", e)
					}
				}
			})
		})
	}
}

func TestStrangerThatCannotBeEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		world.ends[pid(7)], world.immune[pid(7)] = 0, true
		w := world.watchdog(Warn, Kill)
		running(t, w)
		for range 3 * patience { // told once, however often it is seen
			w.Look(gpuA, world.next(), nil, []Stranger{{ID: pid(7), Name: "python", User: "bob", Memory: 300}})
			time.Sleep(time.Minute) // simulated
			synctest.Wait()
		}
		if len(world.events) != 2 {
			t.Fatalf("events: %+v", world.events)
		}
		e := world.events[1]
		if e.Severity != gpu.Serious || e.User != "bob" || e.Data["ended"] != false || e.Text != "Process 7 (python, bob) uses 300 MiB of GPU 3 under no lease, and could not be ended "+
			"(operation not permitted: the daemon must run as root to end those of others)" {
			t.Errorf("the event is %+v", e)
		}
		world.mu.Lock()
		delete(world.ends, pid(7)) // it ends by itself
		world.mu.Unlock()
		w.Look(gpuA, world.next(), nil, nil)
		if len(w.ending) != 0 {
			t.Errorf("still being ended: %v", w.ending)
		}
	})
}

// An orphan is ended while its caller waits, and no process that has a lease again.
func TestEndOrphan(t *testing.T) {
	for name, test := range map[string]struct {
		ends   time.Duration
		immune bool
		leased bool
		err    string
		told   string
	}{
		"ends when asked":    {ends: time.Second, told: "Process 7 (python, bob) was ended: it used 300 MiB of GPU 3 under no lease, and optimization.orphans is end"},
		"has to be killed":   {ends: -1, told: "Process 7 (python, bob) was ended: it used 300 MiB of GPU 3 under no lease, and optimization.orphans is end"},
		"may not be touched": {ends: -1, immune: true, err: "it could not be ended (operation not permitted: the daemon must run as root to end those of others)", told: "Process 7 (python, bob) uses 300 MiB of GPU 3 under no lease, and could not be ended (operation not permitted: the daemon must run as root to end those of others)"},
		"has a lease":        {leased: true, err: "it runs under a lease now"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends[pid(7)], world.immune[pid(7)], world.moved[pid(7)] = test.ends, test.immune, test.leased
				w := world.watchdog(Warn, Show)
				err := w.EndOrphan(t.Context(), gpuA, Stranger{ID: pid(7), Name: "python", User: "bob", Memory: 300, Ended: "train"}, kinship.Authority(), "optimization.orphans is end")
				got := ""
				if err != nil {
					got = err.Error()
				}
				if got != test.err {
					t.Errorf("the error is %q, want %q", got, test.err)
				}
				told := ""
				for _, e := range world.events {
					told += e.Text
				}
				if told != test.told || len(world.recorded) > 0 == test.leased {
					t.Errorf("told %q, recorded %q", told, world.recorded)
				}
				if world.Alive(pid(7)) != (test.err != "") {
					t.Errorf("it lives: %v", world.Alive(pid(7)))
				}
			})
		})
	}
}
