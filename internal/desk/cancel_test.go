package desk

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// sleeper starts a program that runs until the test is over.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	program := exec.Command("sleep", "600")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill(); _ = program.Wait() })
	return program
}

// A release leaves no program behind unless somebody says so: the program itself, its
// ancestors and its descendants know what they do, and so does who gives the fence.
func TestReleaseOfARunningProgram(t *testing.T) {
	o := open(t, "1xrtx-4090")
	by := self(t)
	other := by // a program beside the one that holds the lease
	other.Holder.PID = sleeper(t).Process.Pid
	take := func(binding string, pid int) api.Lease {
		t.Helper()
		l, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "a", Memory: 100, Binding: binding, PID: pid, Timeout: gpu.Some(0.0)})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	name := lease.Name{ID: "a"}
	program := sleeper(t)
	held := take("process", program.Process.Pid)
	unknown := other
	unknown.Holder.PID = 0
	for who, caller := range map[string]Caller{"a program beside it": other, "who is not known": unknown} {
		_, err := o.Leases.Release(t.Context(), caller, name, 0, false)
		wants(t, who, err, "program_runs")
		if err == nil || !strings.Contains(err.Error(), "berth cancel a ") || !strings.Contains(err.Error(), "berth release --keep-running a ") {
			t.Errorf("%s: %v", who, err)
		}
	}
	descendant := by
	descendant.Holder.PID = program.Process.Pid
	for how, release := range map[string]func(api.Lease) error{
		"its ancestor": func(api.Lease) error { _, err := o.Leases.Release(t.Context(), by, name, 0, false); return err },
		"itself":       func(api.Lease) error { _, err := o.Leases.Release(t.Context(), descendant, name, 0, false); return err },
		"with the fence": func(l api.Lease) error {
			_, err := o.Leases.Release(t.Context(), other, name, l.Fence, false)
			return err
		},
		"it may go on": func(api.Lease) error { _, err := o.Leases.Release(t.Context(), other, name, 0, true); return err },
	} {
		if err := release(held); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		held = take("process", program.Process.Pid)
	}
	if _, err := o.Leases.Release(t.Context(), other, name, held.Fence, false); err != nil {
		t.Fatal(err)
	}
	take("process", by.Holder.PID) // the test, of which the other is a descendant
	if _, err := o.Leases.Release(t.Context(), other, name, 0, false); err != nil {
		t.Errorf("its descendant: %v", err)
	}
	take("named", 0)
	if _, err := o.Leases.Release(t.Context(), unknown, name, 0, false); err != nil {
		t.Errorf("a named lease: %v", err)
	}
}

func TestCancel(t *testing.T) {
	o := open(t, "1xrtx-4090")
	by := self(t)
	if _, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "mine", Memory: 100, Binding: "named", Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatal(err)
	}
	bob := Caller{Actor: access.Actor{UID: 4242, User: "bob", Door: access.Socket, Role: access.User}}
	_, err := o.Leases.Cancel(t.Context(), bob, lease.Name{ID: "mine"}, api.Cancel{})
	wants(t, "somebody else's", err, "unknown_allocation")
	_, err = o.Leases.Cancel(t.Context(), bob, lease.Name{User: "ada", ID: "mine"}, api.Cancel{})
	wants(t, "somebody else's by name", err, "not_yours")
	at := &seat{}
	by.Place = at
	ended, err := o.Leases.Cancel(t.Context(), by, lease.Name{ID: "mine"}, api.Cancel{Why: "enough\x07"})
	if err != nil || ended.ID != "mine" || ended.Lease == nil || ended.Lease.Cancelled == nil || ended.Lease.CancelledBy.By.User != "ada" || ended.Lease.CancelledBy.Why != "enough\uFFFD" {
		t.Errorf("%+v %v", ended, err)
	}
	if at.aside != 1 || at.back != 1 {
		t.Errorf("the place was given away %d times and taken back %d times", at.aside, at.back)
	}
	by.Role = access.Operator
	if _, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "pod", Memory: 100, Binding: "named", Scope: []string{"pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"}, Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatal(err)
	}
	_, err = o.Leases.Cancel(t.Context(), by, lease.Name{ID: "pod"}, api.Cancel{})
	wants(t, "a lease with a scope", err, "scoped_lease")
	if err == nil || !strings.Contains(err.Error(), "Delete the pod") {
		t.Errorf("a lease with a scope: %v", err)
	}
}
