package ledger

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
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

func (k *keeper) isBereaved(id process.ID) bool {
	k.Ledger.mu.RLock()
	defer k.Ledger.mu.RUnlock()
	return k.bereaved[id]
}

func identify(t *testing.T, pid int) process.ID {
	t.Helper()
	id, err := process.Proc().Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
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
func ours(r *Request) { r.Holder.UID = os.Geteuid() }

// What the holder itself used is free when it ends. What its children go on
// using is still the lease's, with all that the lease may have, until the last
// of them ends.
func TestHeirsKeepTheLease(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	parent, offspring := family(t)
	id, heir := identify(t, parent.Process.Pid), identify(t, offspring)
	granted := k.grant(want("a", 80, k.bound(parent.Process.Pid)))
	k.device(0, 100, used(parent.Process.Pid, 20), used(offspring, 30))
	kill(t, parent)
	until(t, "the inheritance", func() bool { return k.isBereaved(id) })
	k.expect(20, 80, 0, 0)
	k.refused(want("b", 60))
	k.device(0, 100, used(offspring, 90)) // it goes on being held to it
	k.expect(10, 80, 10, 0)
	if got := k.Members("a", granted.Fence); !slices.Equal(got, []process.ID{heir}) {
		t.Errorf("its processes are %v, want %v", got, heir)
	}
	if err := process.Proc().Signal(heir, 9); err != nil {
		t.Fatal(err)
	}
	k.told(gpu.EventReleased, "a")
	until(t, "the end", func() bool { return !k.isBereaved(id) })
	k.expect(100, 0, 0, 0)
}

// A child that lives on without using a device keeps nothing.
func TestHeirThatLeavesTheDevice(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	k.device(1, 100)
	parent, offspring := family(t)
	id := identify(t, parent.Process.Pid)
	k.grant(want("a", 80, k.bound(parent.Process.Pid)))
	k.device(0, 100, used(offspring, 30))
	kill(t, parent)
	until(t, "the inheritance", func() bool { return k.isBereaved(id) })
	k.device(1, 100) // another device says nothing about it
	if !k.isBereaved(id) {
		t.Fatal("the lease ended while the child is on its device")
	}
	k.device(0, 100)
	k.told(gpu.EventReleased, "a")
}

// A child that never used a device is nobody's heir.
func TestNoHeirWithoutADevice(t *testing.T) {
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
	u := usedBy{line: []process.ID{{PID: 1}}, claim: claim{"a", granted.Fence, granted.Holder.UID + 1}}
	k.Ledger.mu.RLock()
	defer k.Ledger.mu.RUnlock()
	if line := k.withClaim(u); len(line) != 1 {
		t.Errorf("another user's process counts: %v", line)
	}
}

// After a restart nobody remembers who descended from whom, but the processes
// still know what they were started under.
func TestHeirsKeepTheLeaseAcrossARestart(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	holder, idle := child(t), child(t)
	granted := k.grant(want("a", 80, k.bound(holder.Process.Pid), ours))
	k.grant(want("b", 10, k.bound(idle.Process.Pid)))
	heir := claimant(t, "a", granted.Fence)
	k.die(w.disk.Kill)
	kill(t, holder)
	kill(t, idle)

	again := &keeper{t: t, events: map[string]gpu.Event{}, counts: map[gpu.EventCode]int{}, heard: make(chan struct{})}
	l, err := Open(Options{Settings: w.settings, Hooks: Hooks{Event: again.hear}, Processes: process.Proc(), CPUs: 4, Open: w.open})
	if err != nil {
		t.Fatal(err)
	}
	again.Ledger = l
	again.device(0, 100, used(heir.Process.Pid, 30)) // as the daemon does: it looks before it begins
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	again.told(gpu.EventReleased, "b")
	again.expect(20, 80, 0, 0)
	kill(t, heir)
	again.told(gpu.EventReleased, "a")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A lease that was condemned is revoked when its process ends, and not
// released.
func TestCondemned(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	holder := child(t)
	granted := k.grant(want("a", 80, k.bound(holder.Process.Pid)))
	if k.Condemn("a", granted.Fence+1, "for another") || k.Condemn("b", 1, "for nothing") {
		t.Error("what does not stand was condemned")
	}
	if !k.Condemn("a", granted.Fence, "it used too much") {
		t.Fatal("it could not be condemned")
	}
	kill(t, holder)
	if e := k.told(gpu.EventRevoked, "a"); e.Text != "a was revoked: it used too much" {
		t.Errorf("it was told that %s", e.Text)
	}
	k.grant(want("a", 80, k.bound(child(t).Process.Pid)))
	k.Ledger.mu.RLock()
	defer k.Ledger.mu.RUnlock()
	if len(k.condemned) != 0 {
		t.Errorf("still condemned: %v", k.condemned)
	}
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
		list := k.Members(id, fence)
		slices.SortFunc(list, func(a, b process.ID) int { return a.PID - b.PID })
		return list
	}
	slices.SortFunc(both, func(a, b process.ID) int { return a.PID - b.PID })
	if got := members("outer", outer.Fence); !slices.Equal(got, both) {
		t.Errorf("the processes are %v, want %v", got, both)
	}
	inner := k.grant(want("inner", 10, k.bound(offspring)))
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

// A process whose lease has ended is an orphan, by its descent or by its
// environment.
func TestOrphans(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	parent, offspring := family(t)
	k.grant(want("a", 40, k.bound(parent.Process.Pid)))
	other := k.grant(want("b", 40))
	late := claimant(t, "b", other.Fence)
	stranger := child(t)
	on := []func(*Observation){used(offspring, 30), used(late.Process.Pid, 10), used(stranger.Process.Pid, 1)}
	k.device(0, 100, on...)
	k.give("a", 1)
	k.give("b", 1)
	got := map[int]string{}
	for _, p := range k.Processes(dev(0)) {
		if p.Lease != nil {
			t.Errorf("%+v is under a lease", p)
		}
		got[p.Line[0].PID] = p.Ended
	}
	for pid, want := range map[int]string{offspring: "a", late.Process.Pid: "b", stranger.Process.Pid: ""} {
		if ended, seen := got[pid]; !seen || ended != want {
			t.Errorf("process %d worked under %q, want %q", pid, ended, want)
		}
		if ended, _ := k.Orphan(pid); ended != want {
			t.Errorf("process %d is an orphan of %q, want %q", pid, ended, want)
		}
	}
}
