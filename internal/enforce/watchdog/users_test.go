package watchdog

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// Users is everybody, less those who only started a program.
func (w *world) Users(k lease.Key, fence uint64) (users, barred []process.ID) {
	users, barred = w.Scoped(k, fence)
	return slices.DeleteFunc(users, func(id process.ID) bool { return id.PID >= 100 }), barred
}

func (w *world) sent() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.signals, ", ")
}

// start starts a process, which ends a while after it is asked to.
func (w *world) start(id process.ID, ends time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[id] = ends
}

// The processes that took the memory end, the lease stays, and so does what
// started them. A program that is started again and takes too much again is
// stopped again.
func TestStopEndsTheProcessesAndKeepsTheLease(t *testing.T) {
	for name, test := range map[string]struct {
		policy string
		scoped bool
	}{"stop": {Stop, false}, "stop in a scope": {Stop, true}, "revoke in a scope": {Revoke, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := newWorld()
				world.ends = map[process.ID]time.Duration{pid(1): 0, pid(2): -1, pid(100): 0}
				w := world.watchdog(test.policy, Show)
				running(t, w)
				look := func(measured gpu.MiB) {
					time.Sleep(time.Second) // simulated
					held := over(measured)
					if test.scoped {
						held[0].Lease.Scope = []string{"kubepods"}
					}
					w.Look(gpuA, time.Now(), held, nil)
					synctest.Wait()
				}
				look(5000)
				if got := world.sent(); got != "" {
					t.Fatalf("after one sample: %s", got)
				}
				look(5000)
				for range 5 { // one of them takes its time
					look(5000)
				}
				world.start(pid(3), 0) // the first one, started again
				for range 4 {
					look(5000)
				}
				look(4000)
				look(4000) // the grace is over
				if got, want := world.sent(), "terminated 1, terminated 2, killed 2"; got != want {
					t.Fatalf("signals: %s, want %s", got, want)
				}
				look(5000)
				if got, want := world.codes(), "lease_over_limit lease_stopped lease_over_limit"; got != want {
					t.Errorf("told %s, want %s", got, want)
				}
				look(5000)
				if got, want := world.sent(), "terminated 1, terminated 2, killed 2, terminated 3"; got != want {
					t.Errorf("signals: %s, want %s", got, want)
				}
				if world.revoking != "" || world.revoked != "" {
					t.Errorf("the lease was revoked: %q, %q", world.revoking, world.revoked)
				}
				why := "it used 4.9 GiB, 0.9 GiB more than the 4 GiB it held"
				want := []string{"stop lease train of ada after 0 signals: " + why, "stop lease train of ada after 3 signals: " + why}
				if diff := cmp.Diff(want, world.recorded); diff != "" {
					t.Error(diff)
				}
				if e := world.events[0]; e.Data["policy"] != "stop" || !strings.HasSuffix(e.Text, "; berth ends its processes if that continues, and keeps the lease") {
					t.Errorf("the warning is %+v", e)
				}
				e := world.events[1]
				data := map[string]any{"fence": uint64(3), "processes": 2}
				if text := "berth ended 2 processes of train: " + why + "; the lease stays for the program that is started next"; e.Text != text || !maps.Equal(e.Data, data) || e.Lease != "train" || e.User != "ada" {
					t.Errorf("the event is %+v", e)
				}
			})
		})
	}
}

// What is measured of processes that are still dying stops nothing a second time.
func TestStopWaitsForTheDying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		world.ends, world.immune = map[process.ID]time.Duration{pid(1): -1}, map[process.ID]bool{pid(1): true}
		w := world.watchdog(Stop, Show)
		running(t, w)
		look := func(times int) {
			for range times {
				time.Sleep(time.Second) // simulated
				w.Look(gpuA, time.Now(), over(5000), nil)
				synctest.Wait()
			}
		}
		look(40)
		if got := world.codes(); got != "lease_over_limit lease_over_limit" || len(world.recorded) != 1 {
			t.Fatalf("told %s, recorded %q", got, world.recorded)
		}
		if e := world.events[1]; e.Severity != gpu.Serious || !strings.Contains(e.Text, "could not be ended: 1 (") {
			t.Errorf("the complaint is %+v", e)
		}
		world.start(pid(2), 0)
		look(5)
		if got := world.sent(); got != "" {
			t.Errorf("signals while the first process is there: %s", got)
		}
		world.mu.Lock()
		delete(world.ends, pid(1))
		world.mu.Unlock()
		look(3)
		if got := world.sent(); got != "terminated 2" {
			t.Errorf("signals afterwards: %s", got)
		}
	})
}

// A lease whose processes berth may not signal is reported once, and left alone.
func TestStopWithoutProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		w := world.watchdog(Stop, Show)
		running(t, w)
		for range 10 {
			time.Sleep(time.Second) // simulated
			w.Look(gpuA, time.Now(), over(5000), nil)
			synctest.Wait()
		}
		if got := world.codes(); got != "lease_over_limit" || len(world.recorded) > 0 {
			t.Errorf("told %s, recorded %q", got, world.recorded)
		}
	})
}

// Heat takes the processes of a lease with a scope, again and again while it
// lasts, and not the lease.
func TestHeatStopsInAScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		world.ends[pid(1)] = 0
		w := New(Options{Leases: world, Processes: world, Event: world.event, Settings: settings("", "", Revoke)})
		running(t, w)
		look := func() {
			time.Sleep(time.Second) // simulated
			w.Stop(gpuA, time.Now(), &Halt{Reason: "92 °C", Heat: true}, []lease.Holding{{Lease: &lease.Lease{ID: "pod", Fence: 3, Terms: lease.Terms{Scope: []string{"kubepods"}}}}})
			synctest.Wait()
		}
		look()
		look()
		world.start(pid(2), 0)
		look()
		look()
		if got, want := world.sent(), "terminated 1, terminated 2"; got != want || world.revoking != "" || world.revoked != "" {
			t.Errorf("signals %s, want %s; revoked %q", got, want, world.revoked)
		}
		if got, want := world.codes(), "lease_stop lease_stopped lease_stop lease_stopped"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		if text := world.events[0].Text; text != "pod should stop using GPU 3 now: 92 °C; berth ends its processes if that continues, and keeps the lease" {
			t.Errorf("the warning is %q", text)
		}
	})
}

// A lease that is cancelled while its users are being ended is revoked as soon as they have.
func TestCancelWhileUsersAreEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := newWorld()
		world.ends = map[process.ID]time.Duration{pid(1): -1, pid(100): 0}
		w := world.watchdog(Stop, Show)
		running(t, w)
		for range 2 {
			time.Sleep(time.Second) // simulated
			w.Look(gpuA, time.Now(), over(5000), nil)
			synctest.Wait()
		}
		cancelled := *over(5000)[0].Lease
		cancelled.Cancelled = &lease.Cancellation{At: time.Now(), All: true}
		for range 2 { // the book says it again
			w.Changed(&lease.Effect{Kind: lease.Overran, Before: &cancelled, After: &cancelled})
			synctest.Wait()
		}
		world.mu.Lock()
		revoking := world.revoking
		world.mu.Unlock()
		if got := world.sent(); got != "terminated 1" || revoking != "" {
			t.Fatalf("at once: %s, revoking %q", got, revoking)
		}
		time.Sleep(10 * time.Second) // the grace is over
		synctest.Wait()
		if got, want := world.sent(), "terminated 1, killed 1, terminated 100"; got != want || world.revoked != cancelled.OverrunText() {
			t.Errorf("signals %s, want %s; revoked %q", got, want, world.revoked)
		}
	})
}
