package quota

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// A user holds leases on at most so many devices; children count with their parents.
func TestGPUs(t *testing.T) {
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	b := lease.New()
	for _, uuid := range []string{"GPU-1", "GPU-2"} {
		b.SetCapacity(uuid, lease.Capacity{Total: 1000, MaxPipelines: 10, Usable: 10})
	}
	ada := lease.Holder{UID: 1000, User: "ada"}
	first := lease.Request{ID: "a", Holder: ada, Binding: lease.ByName, GPUs: 2, Slots: 1, By: access.Daemon()}
	if _, err := b.Apply(lease.Grant{Lease: first.Lease("GPU-1", "GPU-2")}, now); err != nil {
		t.Fatal(err)
	}
	limits := &lease.Limits{GPUs: lease.Limit[int]{Opt: gpu.Some(3), Source: "users.ada"}}
	for _, c := range []struct {
		name  string
		r     lease.Request
		fine  bool
		later bool
	}{
		{"one more", lease.Request{Holder: ada, GPUs: 1}, true, false},
		{"two more", lease.Request{Holder: ada, GPUs: 2}, false, true},
		{"all that is ever allowed", lease.Request{Holder: ada, GPUs: 3}, false, true},
		{"more than ever", lease.Request{Holder: ada, GPUs: 4}, false, false},
		{"a child", lease.Request{Holder: ada, GPUs: 2, Parent: "a"}, true, false},
		{"somebody else", lease.Request{Holder: lease.Holder{UID: 1001}, GPUs: 3}, true, false},
	} {
		err := WithinGPUs(b, limits, &c.r)
		limit := (*LimitError)(nil)
		if errors.As(err, &limit) == c.fine || limit != nil && limit.Later != c.later {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What a user and a group have counts against what they may have, and only what a grant adds
// to. Who has as many leases as one user may have is told so.
func TestWithin(t *testing.T) {
	b := lease.New()
	b.SetCapacity("GPU-1", lease.Capacity{Total: 1000, MaxPipelines: 10, Usable: 10})
	ada := lease.Holder{UID: 1000, User: "ada"}
	r := lease.Request{ID: "a", Holder: ada, Binding: lease.ByName, GPUs: 1, Memory: 40, Slots: 2, Groups: []string{"staff"}}
	if _, err := b.Apply(lease.Grant{Lease: r.Lease("GPU-1")}, time.Now()); err != nil {
		t.Fatal(err)
	}
	limits := func(memory gpu.MiB, slots, leases int) lease.Limits {
		return lease.Limits{Memory: limitOf(gpu.Some(memory), ""), Slots: limitOf(gpu.Some(slots), ""), Leases: limitOf(gpu.Some(leases), "")}
	}
	few, none := limits(100, 4, 2), limits(0, 0, 0)
	group := lease.Limits{Together: []lease.Together{{Group: "staff", Leases: gpu.Some(1)}}}
	for _, c := range []struct {
		name   string
		limits lease.Limits
		more   lease.Usage
		leases int
		want   error
	}{
		{"without limits", lease.Limits{}, lease.Usage{Memory: 10, Slots: 1}, 1, nil},
		{"all that is left", few, lease.Usage{Memory: 60, Slots: 2}, 1, nil},
		{"more memory", few, lease.Usage{Memory: 61}, 1, ErrLimit},
		{"more slots", few, lease.Usage{Slots: 3}, 1, ErrLimit},
		{"more leases", few, lease.Usage{}, 2, ErrCrowded},
		{"nothing, beyond the limits", none, lease.Usage{}, 0, nil},
		{"more leases of a group", group, lease.Usage{}, 1, ErrLimit},
	} {
		if err := Within(b, &c.limits, ada, c.more, c.leases); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
