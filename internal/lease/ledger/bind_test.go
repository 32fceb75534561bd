package ledger

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// self is the user who runs the tests, and may do only what that user may.
func self() access.Actor {
	return actor(lease.Holder{User: "self", UID: os.Getuid()})
}

func ofSelf(r *lease.Request) { r.Holder, r.By = lease.Holder{User: "self", UID: os.Getuid()}, self() }

func TestBoundLeaseEndsWithItsNewProcessOnly(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	launcher, program := child(t), child(t)
	granted := k.grant(want("a", 100, ofSelf, k.bound(launcher.Process.Pid)))
	bound, err := k.Bind(t.Context(), byID("a"), granted.Fence, program.Process.Pid, self())
	if err != nil {
		t.Fatal(err)
	}
	if bound.Fence != granted.Fence || bound.Holder.PID != program.Process.Pid || bound.Holder.User != "self" {
		t.Errorf("%+v became %+v", granted, bound)
	}
	k.told(gpu.EventBound, "a")
	if _, err := k.Bind(t.Context(), byID("a"), 0, program.Process.Pid, self()); err != nil || k.watched() != 1 {
		t.Errorf("bound once more: %v, and %d processes are watched", err, k.watched())
	}
	kill(t, launcher)
	k.stop()

	k = w.start(t) // looks who has died meanwhile
	k.device(0, 100)
	if got := k.leases(); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("after a restart %v stand", got)
	}
	kill(t, program)
	k.told(gpu.EventReleased, "a")
	k.grant(want("next", 100)) // by now the clerk has finished with it
	if n := k.watched(); n != 0 {
		t.Errorf("%d processes are still watched", n)
	}
}

// What the new process uses is the lease's from the moment it is bound.
func TestBindingTakesOverWhatIsUsed(t *testing.T) {
	k := newWorld().start(t)
	launcher, program := child(t), child(t)
	k.device(0, 100, used(program.Process.Pid, 30))
	k.grant(want("a", 40, ofSelf, k.bound(launcher.Process.Pid)))
	if sum := k.Sum(dev(0)); sum.Foreign != 30 {
		t.Fatalf("before: %+v", sum)
	}
	if _, err := k.Bind(t.Context(), byID("a"), 0, program.Process.Pid, self()); err != nil {
		t.Fatal(err)
	}
	if sum := k.Sum(dev(0)); sum.Foreign != 0 || sum.Available() != 60 {
		t.Errorf("after: %+v", sum)
	}
}

func TestBindRefuses(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	launcher, program, dead := child(t), child(t), child(t)
	kill(t, dead)
	k.grant(want("a", 10, ofSelf, k.bound(launcher.Process.Pid)))
	k.grant(want("named", 10, ofSelf, k.held(launcher.Process.Pid)))
	before := k.standing()
	daemon := access.Daemon()
	for name, test := range map[string]struct {
		id    string
		fence uint64
		pid   int
		by    access.Actor
		want  error
	}{
		"a lease that is not bound": {"named", 0, program.Process.Pid, self(), lease.ErrNotBound},
		"no such lease":             {"b", 0, program.Process.Pid, self(), lease.ErrUnknown},
		"an old fence":              {"a", 2, program.Process.Pid, self(), lease.ErrStaleFence},
		"somebody else's lease":     {"a", 0, program.Process.Pid, actor(lease.Holder{UID: os.Getuid() + 1}), lease.ErrNotYours},
		"somebody else's process":   {"a", 0, program.Process.Pid, by(77), lease.ErrNotYours},
		"a dead process":            {"a", 0, dead.Process.Pid, self(), process.ErrGone},
		"the first process":         {"a", 0, 1, daemon, ErrNoHolder},
		"the daemon":                {"a", 0, os.Getpid(), daemon, ErrNoHolder},
		"whoever started it":        {"a", 0, os.Getppid(), daemon, ErrNoHolder},
	} {
		if _, err := k.Bind(t.Context(), byID(test.id), test.fence, test.pid, test.by); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if after := k.standing(); after != before {
		t.Errorf("the book was\n%s\nand is\n%s", before, after)
	}
}

// A bind that is not written down did not happen: the old process has it still.
func TestBindOnABrokenDisk(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	launcher, program := child(t), child(t)
	k.grant(want("a", 100, ofSelf, k.bound(launcher.Process.Pid)))
	w.fail(errBroken, false)
	if _, err := k.Bind(t.Context(), byID("a"), 0, program.Process.Pid, self()); !errors.Is(err, errBroken) {
		t.Errorf("it was answered with %v", err)
	}
	w.fail(nil, false)
	kill(t, launcher)
	k.told(gpu.EventReleased, "a")
}

// Whatever dies first, the lease ends, and nobody is watched for ever.
func TestBindWhileBothDie(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	for round := range 20 {
		id := fmt.Sprint(round)
		launcher, program := child(t), child(t)
		k.grant(want(id, 1, ofSelf, k.bound(launcher.Process.Pid)))
		answered := make(chan error, 1)
		go func() {
			_, err := k.Bind(t.Context(), byID(id), 0, program.Process.Pid, self())
			answered <- err
		}()
		if round%2 == 0 {
			kill(t, launcher)
		}
		kill(t, program)
		if err := <-answered; err != nil && !errors.Is(err, process.ErrGone) && !errors.Is(err, lease.ErrUnknown) {
			t.Errorf("round %d: %v", round, err)
		}
		kill(t, launcher)
		k.told(gpu.EventReleased, id)
	}
	k.grant(want("next", 100)) // by now the clerk has finished with the last
	if n := k.watched(); n != 0 {
		t.Errorf("%d processes are still watched", n)
	}
}

// A process that was started under a lease belongs to whoever holds the lease
// now, also before the device is measured again.
func TestClaimsFollowABind(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	launcher, program := child(t), child(t)
	granted := k.grant(want("a", 80, ofSelf, k.bound(launcher.Process.Pid)))
	worker := claimant(t, "a", granted.Fence)
	k.device(0, 100, used(worker.Process.Pid, 30))
	k.expect(20, 80, 0, 0)
	if _, err := k.Bind(t.Context(), byID("a"), granted.Fence, program.Process.Pid, self()); err != nil {
		t.Fatal(err)
	}
	k.expect(20, 80, 0, 0)
	if _, err := k.Release(t.Context(), byID("a"), 0, self()); err != nil {
		t.Fatal(err)
	}
	k.expect(70, 0, 0, 30)
}
