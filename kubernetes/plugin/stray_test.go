package plugin

import (
	"context"
	"log/slog"
	"os"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/export"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// ledger is a daemon that lists leases, and notes what else it is asked.
type ledger struct {
	Daemon
	leases []api.Lease
	asked  []string
}

func (l *ledger) Leases(context.Context) (api.Leases, error) {
	return api.Leases{Leases: l.leases}, nil
}

func (l *ledger) Acquire(_ context.Context, r api.LeaseRequest) (api.Lease, error) {
	l.asked = append(l.asked, "acquire "+r.ID)
	return api.Lease{}, context.Canceled
}

func (l *ledger) Release(_ context.Context, id string, _ uint64) (api.Ended, error) {
	l.asked = append(l.asked, "release "+id)
	return api.Ended{}, nil
}

// The driver ends leases of claims that are gone. It leaves alone what an operator
// leases for a pod, and what was unprepared since it looked.
func TestStrayLeases(t *testing.T) {
	const uid = "0d9f7e4c-4f3e-4b0f-9d77-000000000001"
	lease := func(change func(l *api.Lease)) api.Lease {
		l := api.Lease{ID: uid, Fence: 3, Binding: "named", Scope: []string{"pod1"}}
		l.Holder.Name = "shop/web-0"
		change(&l)
		return l
	}
	allocated := &resourcev1.ResourceClaim{}
	allocated.UID, allocated.Namespace, allocated.Name = uid, "shop", "gpu"
	allocated.Status.Allocation = &resourcev1.AllocationResult{}
	allocated.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Driver: words.Driver, Pool: "node-1", Device: "gpu-1"}}
	for _, c := range []struct {
		what  string
		lease api.Lease
		now   func(l *api.Lease) bool // what it is when it is looked at again; false: nothing
		claim *resourcev1.ResourceClaim
		asked int
	}{
		{"no claim has it", lease(func(*api.Lease) {}), nil, nil, 1},
		{"its claim is elsewhere", lease(func(*api.Lease) {}), nil, &resourcev1.ResourceClaim{}, 1},
		{"its pod runs", lease(func(l *api.Lease) { l.Processes = []api.Belonging{{}} }), nil, nil, 0},
		{"it was unprepared", lease(func(*api.Lease) {}), func(*api.Lease) bool { return false }, allocated, 0},
		{"it was prepared again", lease(func(*api.Lease) {}), func(l *api.Lease) bool { l.Fence++; return true }, nil, 0},
		{"an operator's", lease(func(l *api.Lease) { l.ID = "notebook" }), nil, nil, 0},
		{"an operator's with a ttl", lease(func(l *api.Lease) { l.Binding = "ttl" }), nil, nil, 0},
		{"an operator's with a plain name", lease(func(l *api.Lease) { l.Holder.Name = "anna" }), nil, nil, 0},
	} {
		dir := t.TempDir()
		now := c.lease
		daemon := &ledger{leases: []api.Lease{now}}
		if c.now != nil {
			if daemon.leases = nil; c.now(&now) {
				daemon.leases = []api.Lease{now}
			}
		}
		d, err := New(Options{
			Node: "node-1", Plugins: dir, CDI: cdi.Folder{Dirs: []string{dir}}, Daemon: daemon,
			Metrics: export.New(), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		d.cluster = &paper{held: c.claim}
		if err := d.reconcileStray(t.Context(), c.lease); err != nil || len(daemon.asked) != c.asked {
			t.Errorf("%s: it asked %q, %v", c.what, daemon.asked, err)
		}
	}
}

// A state file that is damaged does not keep its lease for ever, nor itself.
func TestDamagedState(t *testing.T) {
	const uid = "0d9f7e4c-4f3e-4b0f-9d77-000000000001"
	held := api.Lease{ID: uid, Fence: 3, Binding: "named", Scope: []string{"pod1"}}
	held.Holder.Name = "shop/web-0"
	for _, stands := range []bool{true, false} {
		dir := t.TempDir()
		daemon, leases := &ledger{}, map[string]api.Lease{}
		if stands {
			daemon.leases, leases[uid] = []api.Lease{held}, held
		}
		d, err := New(Options{
			Node: "node-1", Plugins: dir, CDI: cdi.Folder{Dirs: []string{dir}}, Daemon: daemon,
			Metrics: export.New(), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		d.cluster = &paper{} // the claim is gone
		if err := os.WriteFile(d.states.path(uid), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.reconcileClaim(t.Context(), uid, leases, true); err != nil || len(daemon.asked) != 1 || daemon.asked[0] != "release "+uid {
			t.Errorf("it asked %q, %v", daemon.asked, err)
		}
		if left, err := d.states.list(); err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	}
}
