package programs

import (
	"errors"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
)

// A batch used what the leases of its own workers used. A daemon that does not
// know, or does not answer, costs the run nothing.
func TestEnergyOfABatch(t *testing.T) {
	used := func(fence uint64, joules gpu.Joules) api.PastLease {
		return api.PastLease{Fence: fence, Energy: gpu.Some(joules)}
	}
	ours := map[uint64]bool{1: true, 2: true, 3: true}
	for name, c := range map[string]struct {
		fences map[uint64]bool
		past   []api.PastLease
		err    error
		want   gpu.Opt[gpu.Joules]
	}{
		"two workers and a stranger": {ours, []api.PastLease{used(1, 100), used(2, 50), used(9, 999), {Fence: 3}}, nil, gpu.Some(gpu.Joules(150))},
		"nothing was measured":       {ours, []api.PastLease{{Fence: 1}, {Fence: 2}, {Fence: 3}}, nil, gpu.Opt[gpu.Joules]{}},
		"one lease is forgotten":     {ours, []api.PastLease{used(1, 100), used(2, 50)}, nil, gpu.Opt[gpu.Joules]{}},
		"the daemon is away":         {ours, []api.PastLease{used(1, 100)}, errors.New("away"), gpu.Opt[gpu.Joules]{}},
		"no worker had a place":      {nil, []api.PastLease{used(1, 100)}, nil, gpu.Opt[gpu.Joules]{}},
	} {
		p := &places{daemon: &fakeDaemon{past: api.PastLeases{Leases: c.past}, pastErr: c.err}, fences: c.fences}
		if got := p.energy(t.Context()); got != c.want {
			t.Errorf("%s: it used %v, want %v", name, got, c.want)
		}
	}
	s := batch.Summary{Records: 110, Before: 10}
	s.Bill(gpu.Some(gpu.Joules(150)))
	if s.PerRecord != gpu.Some(gpu.Joules(1.5)) || Ended(s).Energy != s.Energy {
		t.Errorf("a record took %v", s.PerRecord)
	}
	none := batch.Summary{}
	if none.Bill(gpu.Some(gpu.Joules(5))); none.PerRecord.Known() {
		t.Errorf("no record took %v", none.PerRecord)
	}
}
