package oversight

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// The energy of a device belongs to the processes on it. An MPS daemon stands for
// the leases that it enforces, and where the driver lists no processes, so do the
// leases themselves.
func TestConsumers(t *testing.T) {
	train, served := held("train", "ada", 1), held("served", "bob", 0)
	served.Lease.EnforcedBy = launch.MPS
	none := []gpu.Process{}
	for name, c := range map[string]struct {
		processes []ledger.Process
		listed    []gpu.Process
		instances []string
		want      []energy.Process
	}{
		"a lease and a stranger": {[]ledger.Process{{Line: at(1), Lease: train.Lease}, {Line: at(2)}}, none, nil, []energy.Process{{PID: 1, Lease: train.Lease}, {PID: 2}}},
		"a screen":               {[]ledger.Process{{Line: at(2), Kind: gpu.Graphics}}, none, nil, []energy.Process{{PID: 2}}},
		"an MPS daemon":          {[]ledger.Process{{Line: at(99)}}, none, nil, []energy.Process{{PID: 99, Lease: served.Lease}}},
		"nobody":                 {nil, none, nil, nil},
		"the driver cannot tell": {nil, nil, nil, []energy.Process{{Lease: train.Lease}, {Lease: served.Lease}}},
		"instances":              {[]ledger.Process{{Line: at(1), Lease: train.Lease}}, nil, []string{"MIG-1", "MIG-2"}, []energy.Process{{PID: 1, Lease: train.Lease}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{holdings: []lease.Holding{train, served}, processes: c.processes}
			r := reading()
			r.Device.Instances = c.instances
			if diff := cmp.Diff(c.want, w.oversight().consumers(r.Device, w.processes, c.listed != nil)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBill(t *testing.T) {
	o := (&world{}).oversight()
	use(o, &lease.Lease{ID: "a", Fence: 3, Parts: []lease.Part{{GPU: "GPU-a"}}}, 30)
	for _, code := range []gpu.EventCode{gpu.EventReleased, gpu.EventExpired, gpu.EventRevoked} {
		for _, rest := range []func(*gpu.Event){nil, func(e *gpu.Event) { e.Data = map[string]any{} }} {
			n := lease.Notice{Event: gpu.Event{Time: noon.Add(3 * time.Second), Code: code}, Fence: 3, Rest: rest}
			if rest == nil {
				n.Data = map[string]any{}
			}
			if e := o.Bill(n).Whole(); e.Data["energy_joules"] != 90.0 {
				t.Errorf("%s says %v", code, e.Data)
			}
		}
	}
	for _, n := range []lease.Notice{{Event: gpu.Event{Code: gpu.EventGranted}, Fence: 3}, {Event: gpu.Event{Code: gpu.EventReleased}}} {
		if billed := o.Bill(n).Whole(); billed.Data["energy_joules"] != nil {
			t.Errorf("%s says %v", n.Code, billed.Data)
		}
	}
}
