package watchdog

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// A lease that ends in the name of its user leaves alone what the user may not
// signal, and the book is told which processes these are. One of them became root's
// after it was asked to end.
func TestEndSparesOthers(t *testing.T) {
	const ada = 1000
	for name, c := range map[string]struct {
		in     kinship.Mandate
		sent   string
		spared []string
	}{
		"the user's":  {kinship.OfUser(ada), "terminated 1, terminated 3, terminated 4, killed 4", []string{"2", "3"}},
		"authority":   {kinship.Authority(), "terminated 1, terminated 2, terminated 3, terminated 4, killed 3, killed 4", nil},
		"nobody's":    {kinship.Mandate{}, "", []string{"1", "2", "3", "4"}},
		"without uid": {kinship.OfUser(lease.NoUID), "", []string{"1", "2", "3", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends = map[process.ID]time.Duration{pid(1): 0, pid(2): 0, pid(3): -1, pid(4): -1}
				world.users = map[process.ID]int{pid(1): ada, pid(3): ada, pid(4): ada} // and the second is root's
				w := world.watchdog(Warn, Show)
				running(t, w)
				w.mu.Lock()
				w.end(&lease.Lease{ID: "train", Fence: 3, Holder: lease.Holder{User: "ada"}}, c.in, Ending{Fence: 3, Why: "its time limit is over"})
				w.mu.Unlock()
				time.Sleep(time.Second) // within the grace
				world.mu.Lock()
				world.users[pid(3)] = 0
				world.mu.Unlock()
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := world.sent(); got != c.sent {
					t.Errorf("signals: %s, want %s", got, c.sent)
				}
				slices.Sort(world.spared)
				if !slices.Equal(world.spared, c.spared) || world.revoked != "its time limit is over" {
					t.Errorf("spared are %v, want %v; revoked: %q", world.spared, c.spared, world.revoked)
				}
				if got := world.codes(); got != "" {
					t.Errorf("told %s: what is spared is not a failure", got)
				}
			})
		})
	}
}

// What the scope of a lease must not reach is left alone, told once, and not tried
// again while it runs. It does not hide what is started later. A process that leaves the
// scope after it was asked to end is not killed.
func TestStopSparesWhatTheScopeMustNotReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		world.ends = map[process.ID]time.Duration{pid(1): 0, pid(2): -1, pid(3): 0}
		world.barred = map[process.ID]bool{pid(3): true}
		w := world.watchdog(Revoke, Show)
		running(t, w)
		for i := range 60 {
			time.Sleep(time.Second)
			held := over(5000)
			held[0].Lease.Scope = []string{"kubepods"}
			w.Look(gpuA, time.Now(), held, nil)
			switch i {
			case 3:
				world.mu.Lock()
				world.barred[pid(2)] = true
				world.mu.Unlock()
			case 40:
				if got, want := world.codes(), "lease_over_limit lease_stopped lease_over_limit"; got != want {
					t.Errorf("told %s, want %s", got, want)
				}
				world.start(pid(4), 0)
			}
		}
		synctest.Wait()
		if got, want := world.sent(), "terminated 1, terminated 2, terminated 4"; got != want {
			t.Errorf("signals: %s, want %s", got, want)
		}
		if got, want := world.codes(), "lease_over_limit lease_stopped lease_over_limit lease_stopped lease_over_limit"; got != want {
			t.Fatalf("told %s, want %s", got, want)
		}
		e := world.events[1]
		spared, _ := e.Data["spared"].([]string)
		slices.Sort(spared)
		if !slices.Equal(spared, []string{"2", "3"}) || !strings.Contains(e.Text, "berth left processes alone") || e.Public == "" || strings.Contains(e.Public, ": 2") {
			t.Errorf("the event is %+v, and for others %q", e, e.Public)
		}
	})
}

// In the name of a user an orphan of somebody else is left alone.
func TestEndOrphanOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		world.ends = map[process.ID]time.Duration{pid(7): 0}
		w := world.watchdog(Warn, Show)
		if err := w.EndOrphan(t.Context(), gpuA, Stranger{ID: pid(7), Ended: "train"}, kinship.OfUser(1000), "a test"); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("it returns %v", err)
		}
		if world.sent() != "" || len(world.recorded) > 0 {
			t.Errorf("signals: %s, recorded: %v", world.sent(), world.recorded)
		}
	})
}

// A lease that was cancelled ends in the name of its user, or by the authority of an
// operator. What is parked cannot react to SIGTERM.
func TestCancel(t *testing.T) {
	const ada = 1000
	user := &lease.Cancellation{Why: "enough"}
	for name, c := range map[string]struct {
		cancelled *lease.Cancellation
		imposed   bool
		state     lease.State
		sent      string
		spared    []string
		took      time.Duration
	}{
		"by its user":                     {user, false, lease.Active, "terminated 1, terminated 3, killed 3", []string{"2"}, 10 * time.Second},
		"by its user, with a limit of op": {user, true, lease.Active, "terminated 1, terminated 3, killed 3", []string{"2"}, 10 * time.Second},
		"by an operator":                  {&lease.Cancellation{All: true, Why: "enough"}, false, lease.Active, "terminated 1, terminated 2, terminated 3, killed 3", nil, 10 * time.Second},
		"parked":                          {user, false, lease.Parked, "killed 1, killed 3", []string{"2"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends = map[process.ID]time.Duration{pid(1): 0, pid(2): 0, pid(3): -1}
				world.users = map[process.ID]int{pid(1): ada, pid(3): ada} // and the second is root's
				w := world.watchdog(Warn, Show)
				running(t, w)
				began := time.Now()
				l := &lease.Lease{ID: "train", Fence: 3, Holder: lease.Holder{UID: ada, User: "ada"}, State: c.state, Imposed: c.imposed, Cancelled: c.cancelled}
				for range 2 { // once is enough
					w.Changed(&lease.Effect{Kind: lease.Overran, Before: l, After: l})
				}
				for world.why() == "" {
					time.Sleep(10 * time.Millisecond) // simulated
				}
				if took := time.Since(began).Round(time.Second); took != c.took {
					t.Errorf("it took %v of simulated time, want %v", took, c.took)
				}
				if got := world.sent(); got != c.sent {
					t.Errorf("signals: %s, want %s", got, c.sent)
				}
				if !slices.Equal(world.spared, c.spared) || world.revoked != "it was cancelled: enough" {
					t.Errorf("spared are %v, want %v; revoked: %q", world.spared, c.spared, world.revoked)
				}
			})
		})
	}
}

// The minder of a lease that its user cancels belongs to root until it has become the
// user. It is ended all the same, and what else is root's is spared.
func TestCancelReachesTheMinder(t *testing.T) {
	const ada = 1000
	for name, c := range map[string]struct {
		minder process.ID
		sent   string
		spared []string
	}{
		"a minder":            {pid(1), "terminated 1, killed 1", []string{"2"}},
		"another's process":   {pid(3), "", []string{"1", "2"}},
		"one of before, gone": {process.ID{PID: 1, Start: 9}, "", []string{"1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends = map[process.ID]time.Duration{pid(1): -1, pid(2): 0} // both are root's
				w := world.watchdog(Warn, Show)
				w.minds = func(id process.ID) bool { return id == c.minder }
				running(t, w)
				l := &lease.Lease{
					ID: "train-17", Fence: 3, Binding: lease.ByProcess, Holder: lease.Holder{UID: ada, User: "ada", PID: 1, Start: 1},
					Cancelled: &lease.Cancellation{Why: "enough"},
				}
				w.Changed(&lease.Effect{Kind: lease.Overran, Before: l, After: l})
				for world.why() == "" {
					time.Sleep(10 * time.Millisecond) // simulated
				}
				if got := world.sent(); got != c.sent || !slices.Equal(world.spared, c.spared) {
					t.Errorf("signals: %q, want %q; spared are %v, want %v", got, c.sent, world.spared, c.spared)
				}
			})
		})
	}
}

// A minder is not killed with its command: it writes down how that ended. One that stays is.
func TestAMinderOutlivesItsCommand(t *testing.T) {
	for name, c := range map[string]struct {
		ends time.Duration // of the minder, after its command
		sent string
	}{
		"it ends":  {time.Second, "terminated 1, terminated 2, killed 2"},
		"it stays": {time.Hour, "terminated 1, terminated 2, killed 2, killed 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends = map[process.ID]time.Duration{pid(1): -1, pid(2): -1}
				w := world.watchdog(Warn, Show)
				w.minds = func(id process.ID) bool { return id == pid(1) }
				running(t, w)
				l := &lease.Lease{ID: "train-17", Fence: 3, Binding: lease.ByProcess, Holder: lease.Holder{UID: 1000, User: "ada", PID: 1, Start: 1}, Imposed: true}
				w.Changed(&lease.Effect{Kind: lease.Overran, Before: l, After: l})
				for world.Alive(pid(2)) {
					time.Sleep(10 * time.Millisecond) // simulated
				}
				world.mu.Lock()
				world.dead[pid(1)] = time.Now().Add(c.ends)
				world.mu.Unlock()
				for world.why() == "" {
					time.Sleep(10 * time.Millisecond) // simulated
				}
				sent := strings.Split(world.sent(), ", ")
				slices.Sort(sent[:2])
				if got := strings.Join(sent, ", "); got != c.sent {
					t.Errorf("signals: %q, want %q", got, c.sent)
				}
			})
		})
	}
}

// A process that cannot be looked at has not ended: it keeps its grace, and the book hears of
// it if that lasts.
func TestProcessesThatCannotBeLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		hides, shows time.Duration
		sent         string
		spared       []string
	}{
		"within the grace": {time.Second, 2 * time.Second, "terminated 1", nil},
		"to the end":       {time.Second, time.Hour, "terminated 1", []string{"1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends[pid(1)] = 5 * time.Second
				hide := func(hidden bool) func() {
					return func() { world.mu.Lock(); defer world.mu.Unlock(); world.hidden = hidden }
				}
				w := world.watchdog(Warn, Show)
				running(t, w)
				defer time.AfterFunc(c.hides, hide(true)).Stop()
				defer time.AfterFunc(c.shows, hide(false)).Stop()
				w.mu.Lock()
				w.end(&lease.Lease{ID: "train", Fence: 3, Holder: lease.Holder{User: "ada"}}, kinship.Authority(), Ending{Fence: 3, Why: "its time limit is over"})
				w.mu.Unlock()
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := world.sent(); got != c.sent || !slices.Equal(world.spared, c.spared) || world.revoked == "" {
					t.Errorf("signals: %s, want %s; spared are %v, want %v; revoked: %q", got, c.sent, world.spared, c.spared, world.revoked)
				}
			})
		})
	}
}

// A process whose end meets a bug is ended with the next sample, or when somebody asks.
func TestABugEndsNothingForGood(t *testing.T) {
	world := newWorld()
	world.ends[pid(7)] = 0
	w := world.watchdog(Warn, Kill)
	w.record = func(api.AuditEntry) { panic("a bug") }
	w.mu.Lock()
	w.ending[pid(7)] = true
	end := w.endStranger(gpuA, Stranger{ID: pid(7)})
	w.mu.Unlock()
	func() {
		defer func() { _ = recover() }()
		end(t.Context())
	}()
	if w.ending[pid(7)] {
		t.Error("nobody tries again")
	}
}

// What is spared is named once.
func TestUnion(t *testing.T) {
	if got := union([]process.ID{pid(1)}, []process.ID{pid(2), pid(1), pid(2)}); !slices.Equal(got, []process.ID{pid(1), pid(2)}) {
		t.Errorf("got %v", got)
	}
}
