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

// Who has as many leases as one user may have is told so; that a group has them is nothing
// that the user can change alone.
func TestWhoseLimitIsReached(t *testing.T) {
	one := lease.Limit[int]{Opt: gpu.Some(0), Source: "users.ada"}
	for name, c := range map[string]struct {
		limits lease.Limits
		want   error
	}{
		"leases of the user":  {lease.Limits{Leases: one}, ErrCrowded},
		"slots of the user":   {lease.Limits{Slots: one}, ErrLimit},
		"leases of the group": {lease.Limits{Together: []lease.Together{{Group: "staff", Leases: one.Opt}}}, ErrLimit},
	} {
		if err := Within(lease.New(), &c.limits, lease.Holder{UID: 1000}, lease.Usage{Slots: 1}, 1); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
