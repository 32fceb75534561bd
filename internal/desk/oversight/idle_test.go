package oversight

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
)

// Only leases that berth may park are watched, each with its own processes.
func TestWhoMayBeIdle(t *testing.T) {
	parkable, other := &lease.Lease{ID: "parkable", Fence: 1, State: lease.Active, Terms: lease.Terms{Parkable: true}, Parts: []lease.Part{{GPU: "GPU-a"}}}, &lease.Lease{ID: "other", Fence: 2}
	of := func(pid int, l *lease.Lease) ledger.Process {
		return ledger.Process{Line: []process.ID{{PID: pid}}, Lease: l}
	}
	for _, c := range []struct {
		what      string
		holdings  []lease.Holding
		processes []ledger.Process
		want      []idle.Holding
	}{
		{"nobody may be parked", []lease.Holding{{Lease: other, Measured: 5}}, []ledger.Process{of(20, other)}, nil},
		{
			"alone", []lease.Holding{{Lease: parkable, Measured: 7}}, []ledger.Process{of(10, parkable), of(11, parkable)},
			[]idle.Holding{{Holding: lease.Holding{Lease: parkable, Measured: 7}, PIDs: []int{10, 11}, Alone: true}},
		},
		{
			"beside another", []lease.Holding{{Lease: other, Measured: 5}, {Lease: parkable, Measured: 7}}, []ledger.Process{of(10, parkable), of(20, other)},
			[]idle.Holding{{Holding: lease.Holding{Lease: parkable, Measured: 7}, PIDs: []int{10}}},
		},
		{
			"beside a stranger", []lease.Holding{{Lease: parkable}}, []ledger.Process{of(30, nil)},
			[]idle.Holding{{Holding: lease.Holding{Lease: parkable}}},
		},
	} {
		if diff := cmp.Diff(c.want, (&world{}).oversight().idlers(c.holdings, c.processes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}
