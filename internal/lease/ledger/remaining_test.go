package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// until waits for something that happens by itself.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for !happened() {
		if t.Context().Err() != nil {
			t.Fatalf("%s never happened", what)
		}
		runtime.Gosched()
	}
}

// isOutlived reports whether remaining processes keep the leases of a holder.
func (k *keeper) isOutlived(id process.ID) bool {
	k.Ledger.mu.RLock()
	defer k.Ledger.mu.RUnlock()
	return k.holders.outlived[id] != 0
}

func identify(t *testing.T, pid int) process.ID {
	t.Helper()
	id, err := process.Proc().Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A driver that does not say which processes there are takes no lease from those that
// remain.
func TestRemainingProcessThatTheDriverDoesNotTell(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	parent, offspring := family(t)
	id := identify(t, parent.Process.Pid)
	k.grant(want("a", 80, k.bound(parent.Process.Pid)))
	k.device(0, 100, used(offspring, 30))
	kill(t, parent)
	until(t, "the end of the holder", func() bool { return k.isOutlived(id) })
	k.device(0, 100, func(o *placement.Observation) { o.Sample.Processes = nil })
	if left := len(k.Processes(dev(0))); left != 1 || !k.isOutlived(id) {
		t.Errorf("%d processes are known", left)
	}
	k.device(0, 100, used(offspring, 30))
	k.grant(want("b", 10)) // the clerk has done by then what came before
	if got := k.leases(); len(got) != 2 {
		t.Errorf("leases are %v", got)
	}
}

// claimant starts a process that was launched under a lease, by its
// environment, and descends from nobody who holds it.
func claimant(t *testing.T, id string, fence uint64) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.Env = []string{"PATH=/bin:/usr/bin", "BERTH_LEASE=" + id, fmt.Sprintf("BERTH_FENCE=%d", fence)}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = in.Close(), cmd.Process.Kill(), cmd.Wait() })
	return cmd
}

// ours makes the holder the user that runs the test.
func ours(r *lease.Request) { r.Holder.UID = os.Geteuid() }

// What the holder itself used is free when it ends. What its children go on
// using is still the lease's, with all that the lease may have, until the last
// of them ends.
func TestRemainingProcessesKeepTheLease(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	parent, offspring := family(t)
	id, worker := identify(t, parent.Process.Pid), identify(t, offspring)
	granted := k.grant(want("a", 80, k.bound(parent.Process.Pid)))
	k.device(0, 100, used(parent.Process.Pid, 20), used(offspring, 30))
	if held, _ := k.Find(k.only("a")); held.KeptBy != 0 {
		t.Errorf("it is kept by process %d while its own runs", held.KeptBy)
	}
	kill(t, parent)
	until(t, "the end of the holder", func() bool { return k.isOutlived(id) })
	k.expect(20, 80, 0, 0)
	k.refused(want("b", 60))
	k.device(0, 100, used(offspring, 90)) // it goes on being held to it
	k.expect(10, 80, 10, 0)
	if held, _ := k.Find(k.only("a")); held.KeptBy != worker.PID {
		t.Errorf("it is kept by process %d, want %d", held.KeptBy, worker.PID)
	}
	if _, err := k.Park(t.Context(), k.only("a"), 0, access.Daemon(), ""); !errors.Is(err, lease.ErrUnparkable) {
		t.Errorf("it was parked, and nobody on the device would keep it: %v", err)
	}
	if got := k.Members(k.only("a"), granted.Fence); !slices.Equal(got, []process.ID{worker}) {
		t.Errorf("its processes are %v, want %v", got, worker)
	}
	if err := process.Proc().Signal(kinship.Authority(), worker, 9); err != nil {
		t.Fatal(err)
	}
	k.told(gpu.EventReleased, "a")
	until(t, "the end", func() bool { return !k.isOutlived(id) })
	k.expect(100, 0, 0, 0)
}

// A child that lives on without using a device keeps nothing.
func TestRemainingProcessThatLeavesTheDevice(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	k.device(1, 100)
	parent, offspring := family(t)
	id := identify(t, parent.Process.Pid)
	k.grant(want("a", 80, k.bound(parent.Process.Pid)))
	k.device(0, 100, used(offspring, 30))
	kill(t, parent)
	until(t, "the end of the holder", func() bool { return k.isOutlived(id) })
	k.device(1, 100) // another device says nothing about it
	if !k.isOutlived(id) {
		t.Fatal("the lease ended while the child is on its device")
	}
	k.device(0, 100)
	k.told(gpu.EventReleased, "a")
}

// A child that never used a device keeps nothing.
func TestNothingRemainsWithoutADevice(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	parent, _ := family(t)
	k.grant(want("a", 80, k.bound(parent.Process.Pid)))
	k.device(0, 100, used(parent.Process.Pid, 20))
	kill(t, parent)
	k.told(gpu.EventReleased, "a")
	k.expect(100, 0, 0, 0)
}

// A process whose ancestors are gone is known by the environment that it was
// started with, if it is of the user that the lease is of.
func TestClaims(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	holder := child(t)
	granted := k.grant(want("a", 80, k.bound(holder.Process.Pid), ours))
	mine, late := claimant(t, "a", granted.Fence), claimant(t, "a", granted.Fence+1)
	k.device(0, 100, used(mine.Process.Pid, 30), used(late.Process.Pid, 5))
	k.expect(15, 80, 0, 5)
	if got := k.Foreign(dev(0)); !slices.Equal(got, []int{late.Process.Pid}) {
		t.Errorf("processes %v are foreign, want %d", got, late.Process.Pid)
	}
	claims := kinship.Process{Ancestry: []process.ID{{PID: 1}}, Facts: kinship.Facts{Origin: kinship.Origin{Lease: "a", Fence: granted.Fence, UID: granted.Holder.UID + 1}}}
	k.Ledger.mu.RLock()
	defer k.Ledger.mu.RUnlock()
	if tie, found := k.Ledger.standing.on(dev(0)).Owner(claims); found {
		t.Errorf("another user's process counts: %v", tie)
	}
}

// After a restart nobody remembers who descended from whom, but the processes
// still know what they were started under.
func TestRemainingProcessesKeepTheLeaseAcrossARestart(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	holder, idle := child(t), child(t)
	granted := k.grant(want("a", 80, k.bound(holder.Process.Pid), ours))
	k.grant(want("b", 10, k.bound(idle.Process.Pid)))
	worker := claimant(t, "a", granted.Fence)
	k.die(w.disk.Kill)
	kill(t, holder)
	kill(t, idle)

	again := &keeper{t: t, events: map[string]gpu.Event{}, counts: map[gpu.EventCode]int{}, heard: make(chan struct{})}
	l, err := Open(Options{Settings: w.settings, Processes: process.Proc(), CPUs: 4, Open: w.open})
	if err != nil {
		t.Fatal(err)
	}
	l.Subscribe(Hooks{Event: again.hear})
	again.Ledger = l
	again.device(0, 100, used(worker.Process.Pid, 30)) // as the daemon does: it looks before it begins
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	again.told(gpu.EventReleased, "b")
	again.expect(20, 80, 0, 0)
	kill(t, worker)
	again.told(gpu.EventReleased, "a")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A lease that is about to be revoked is revoked when its process ends, and not
// released.
func TestBeginRevoke(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	holder := child(t)
	granted := k.grant(want("a", 80, k.bound(holder.Process.Pid)))
	if k.BeginRevoke(k.only("a"), granted.Fence+1, "for another", nil) || k.BeginRevoke(k.only("b"), 1, "for nothing", nil) {
		t.Error("a lease that does not stand is about to be revoked")
	}
	if !k.BeginRevoke(k.only("a"), granted.Fence, "it used too much", nil) {
		t.Fatal("it has ended")
	}
	kill(t, holder)
	if e := k.told(gpu.EventRevoked, "a"); e.Text != "a was revoked: it used too much" {
		t.Errorf("it was told that %s", e.Text)
	}
	k.grant(want("a", 80, k.bound(child(t).Process.Pid)))
	k.Ledger.mu.RLock()
	defer k.Ledger.mu.RUnlock()
	if len(k.revoking) != 0 {
		t.Errorf("still about to be revoked: %v", k.revoking)
	}
}

// A lease without a process is not remembered, nor that it was about to be
// revoked.
func TestBeginRevokeWithoutAProcess(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	granted := k.grant(want("a", 40))
	if !k.BeginRevoke(k.only("a"), granted.Fence, "for a test", nil) {
		t.Fatal("it has ended")
	}
	k.give("a", 1)
	k.told(gpu.EventReleased, "a")
	until(t, "forgetting", func() bool {
		k.Ledger.mu.RLock()
		defer k.Ledger.mu.RUnlock()
		return len(k.revoking) == 0
	})
}

// The processes of a lease are its tree, without what holds a lease of its own
// inside it.
func TestMembers(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	parent, offspring := family(t)
	outer := k.grant(want("outer", 50, k.bound(parent.Process.Pid)))
	both := []process.ID{identify(t, parent.Process.Pid), identify(t, offspring)}
	members := func(id string, fence uint64) []process.ID {
		list := k.Members(k.only(id), fence)
		slices.SortFunc(list, func(a, b process.ID) int { return a.PID - b.PID })
		return list
	}
	slices.SortFunc(both, func(a, b process.ID) int { return a.PID - b.PID })
	if got := members("outer", outer.Fence); !slices.Equal(got, both) {
		t.Errorf("the processes are %v, want %v", got, both)
	}
	child := identify(t, offspring)
	if k.Moved(k.only("outer"), outer.Fence, child) || !k.Moved(k.only("another"), 1, child) || !k.Leased(dev(0), child) || k.Leased(dev(1), child) {
		t.Error("a child is not under the lease of its parent")
	}
	inner := k.grant(want("inner", 10, k.bound(offspring)))
	if !k.Moved(k.only("outer"), outer.Fence, child) || k.Moved(k.only("inner"), inner.Fence, child) || k.Moved(k.only("outer"), outer.Fence, identify(t, parent.Process.Pid)) {
		t.Error("a child with a lease of its own is still under that of its parent")
	}
	if stranger := identify(t, os.Getpid()); k.Moved(k.only("outer"), outer.Fence, stranger) || k.Leased(dev(0), stranger) {
		t.Error("a process without a lease is under one")
	}
	if got := members("outer", outer.Fence); !slices.Equal(got, []process.ID{identify(t, parent.Process.Pid)}) {
		t.Errorf("the processes around another lease are %v", got)
	}
	if got := members("inner", inner.Fence); !slices.Equal(got, []process.ID{identify(t, offspring)}) {
		t.Errorf("the processes inside another lease are %v", got)
	}
	if got := members("outer", outer.Fence+7); got != nil {
		t.Errorf("an old fence has %v", got)
	}
}

// The daemon is not ended for a lease of its own or of those it descends from,
// nor what it has started: here it is the test.
func TestMembersAreNeverTheDaemon(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	started := child(t)
	for _, pid := range []int{os.Getpid(), os.Getppid()} {
		granted := k.grant(want("a", 40, k.bound(pid)))
		k.device(0, 100, used(os.Getpid(), 50), used(started.Process.Pid, 10))
		for _, id := range k.Members(k.only("a"), granted.Fence) {
			if id.PID == os.Getpid() || id.PID == os.Getppid() || id.PID == started.Process.Pid {
				t.Errorf("process %d would be ended for a lease of process %d", id.PID, pid)
			}
		}
		k.give("a", 1)
	}
}

// after waits until the clock of processes has gone on, so that what is started
// from now on is later than what has happened.
func after(t *testing.T) {
	now := process.Now()
	until(t, "the next tick", func() bool { return process.Now() > now })
}

// A process whose lease has ended is an orphan, by its descent or by its
// environment.
func TestOrphans(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	parent, offspring := family(t)
	k.grant(want("a", 40, k.bound(parent.Process.Pid)))
	other := k.grant(want("b", 40, k.bound(child(t).Process.Pid), ours))
	claims := claimant(t, "b", other.Fence)
	boasts := claimant(t, "b", other.Fence+1)
	unknown := claimant(t, "never", 1)
	stranger := child(t)
	after(t)
	k.give("a", 1)
	if _, err := k.Release(t.Context(), byID("b"), 0, access.Daemon()); err != nil {
		t.Fatal(err)
	}
	after(t)
	late := claimant(t, "b", other.Fence)
	want := map[int]string{
		offspring: "a", claims.Process.Pid: "b",
		boasts.Process.Pid: "", unknown.Process.Pid: "", stranger.Process.Pid: "", late.Process.Pid: "",
	}
	var on []func(*placement.Observation)
	for pid := range want {
		on = append(on, used(pid, 1))
	}
	k.device(0, 100, on...)
	k.orphans(want)
}

// orphans looks which leases processes on the first device worked under until
// they ended.
func (k *keeper) orphans(want map[int]string) {
	k.t.Helper()
	got := map[int]string{}
	for _, p := range k.Processes(dev(0)) {
		if p.Lease != nil {
			k.t.Errorf("%+v is under a lease", p)
		}
		got[p.Line[0].PID] = p.Ended
	}
	for pid, want := range want {
		if ended, seen := got[pid]; !seen || ended != want {
			k.t.Errorf("process %d worked under %q, want %q", pid, ended, want)
		}
		if ended, _ := k.Orphan(pid); ended != want {
			k.t.Errorf("process %d is an orphan of %q, want %q", pid, ended, want)
		}
	}
}

// A process that was started after the lease had ended never worked under it,
// though it descends from its holder: here that is the test.
func TestLateChildIsNoOrphan(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	k.grant(want("a", 40, k.bound(os.Getpid())))
	early := child(t).Process.Pid
	after(t)
	k.give("a", 1)
	after(t)
	late := child(t).Process.Pid
	k.device(0, 100, used(early, 10), used(late, 10))
	k.orphans(map[int]string{early: "a", late: ""})
}

// A process on a device that its lease is not on is no orphan of that lease,
// which has not ended.
func TestProcessBesideItsLease(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	k.device(1, 100)
	granted := k.grant(want("a", 40, k.bound(child(t).Process.Pid), ours, at(dev(1))))
	pid := claimant(t, "a", granted.Fence).Process.Pid
	k.device(0, 100, used(pid, 10))
	for _, p := range k.Processes(dev(0)) {
		if p.Lease != nil || p.Ended != "" {
			t.Errorf("it is under %v, and was under %q", p.Lease, p.Ended)
		}
	}
}

// What works under a lease of its own keeps no other, as far as its own reaches.
func TestNestedLeaseDoesNotKeepTheOuter(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	k.device(1, 100)
	parent, offspring := family(t)
	k.grant(want("outer", 80, k.bound(parent.Process.Pid), at(dev(0))))
	k.grant(want("inner", 10, k.bound(offspring), at(dev(1))))
	k.device(1, 100, used(offspring, 10))
	k.device(0, 100, used(offspring, 10)) // that is the outer's
	id := identify(t, parent.Process.Pid)
	kill(t, parent)
	until(t, "the end of the holder", func() bool { return k.isOutlived(id) })
	k.device(0, 100)
	k.told(gpu.EventReleased, "outer")
	if got := k.leases(); !slices.Equal(got, []string{"inner"}) {
		t.Errorf("the leases are %v", got)
	}
}
