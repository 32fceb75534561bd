package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// A device that is cut into instances is not leased; they are, each with slots of
// its own.
func TestCutDevices(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 1000, func(o *placement.Observation) { o.Device.Instances = []string{dev(1), dev(2)} })
	k.device(1, 400, func(o *placement.Observation) { o.Device.Parent = dev(0) })
	k.device(2, 400, func(o *placement.Observation) { o.Device.Parent = dev(0) })
	whole := k.Sum(dev(0))
	if whole.Usable != 0 || whole.MaxPipelines != 0 || whole.Available() != 0 || whole.Closed != "it is cut into 2 instances: lease one of them" {
		t.Errorf("the whole device: %+v", whole)
	}
	for i := range 2 {
		if l := k.grant(want(fmt.Sprint("job", i), 100)); l.Parts[0].GPU == dev(0) {
			t.Errorf("lease %d is on the whole device", i)
		}
	}
	e, err := k.Explain(want("large", 500))
	if err != nil || e.Refusal == nil || e.Refusal.Ever {
		t.Errorf("more than an instance has: %+v, %v", e.Refusal, err)
	}
	named := want("named", 100)
	named.Where.GPU = dev(0)
	e, err = k.Explain(named)
	if err != nil || e.Refusal == nil || e.Refusal.Reasons[0].Code != placement.Closed || !strings.Contains(e.Refusal.Reasons[0].Text, "lease one of them") {
		t.Errorf("the whole device by name: %+v, %v", e.Refusal, err)
	}

	k.device(0, 1000) // it is whole again
	if sum := k.Sum(dev(0)); sum.Usable == 0 || sum.Closed != "" {
		t.Errorf("whole again: %+v", sum)
	}
}

// Nothing waits for an instance that its device does not have any more, and the devices that
// are there share the slots.
func TestInstanceThatIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{} }
		k := w.start(t)
		k.device(0, 400)
		k.device(1, 600)
		removed := func(o *placement.Observation) {
			o.State, o.Reason, o.Removed = gpu.Unavailable, "there is no such instance any more", true
		}
		k.device(1, 600, removed)
		k.device(0, 400)
		noFit := (*placement.NoFitError)(nil)
		if err := k.refused(want("large", 500, wait(time.Hour))); !errors.As(err, &noFit) || noFit.Ever {
			t.Errorf("it is refused with %v", err)
		}
		if sum := k.Sum(dev(0)); sum.MaxPipelines != 4 {
			t.Errorf("the one that is left has %d slots, of 4 CPUs", sum.MaxPipelines)
		}
		pid := child(t).Process.Pid
		k.device(1, 600, used(pid, 100))
		k.device(1, 600, removed, func(o *placement.Observation) { o.Sample = nil })
		holder, err := k.HolderOf(pid, access.Daemon(), lease.Holder{})
		if err != nil {
			t.Fatal(err)
		}
		if l, err := k.Adopt(t.Context(), Adoption{ID: "a", Holder: holder}); !errors.Is(err, ErrNotSeen) {
			t.Errorf("a process on it is adopted with %+v, %v", l, err)
		}
		k.device(1, 600)
		k.grant(want("large", 500))
	})
}

// A process on an instance is adopted there, also if the driver lists it on the
// whole device too.
func TestAdoptOnAnInstance(t *testing.T) {
	k := newWorld().start(t)
	pid := child(t).Process.Pid
	k.device(0, 1000, used(pid, 100), func(o *placement.Observation) { o.Device.Instances = []string{dev(1)} })
	k.device(1, 900, used(pid, 100), func(o *placement.Observation) { o.Device.Parent = dev(0) })
	holder, err := k.HolderOf(pid, access.Daemon(), lease.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := k.Adopt(t.Context(), Adoption{ID: "whole", Holder: holder, GPU: dev(0), Memory: 100}); !errors.Is(err, ErrNotSeen) {
		t.Errorf("on the whole device: %+v, %v", l, err)
	}
	l, err := k.Adopt(t.Context(), Adoption{ID: "a", Holder: holder})
	if err != nil || len(l.Parts) != 1 || l.Parts[0].GPU != dev(1) {
		t.Errorf("Adopt = %+v, %v", l, err)
	}
}

// Of a device that does not tell how much memory it has, slots are leased, also
// while processes use it.
func TestMemoryNotKnown(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 0, used(4000001, 300))
	slot := want("slot", 0)
	slot.Slots = 1
	k.grant(slot)
	e, err := k.Explain(want("memory", 100))
	if err != nil || e.Refusal == nil || e.Refusal.Ever {
		t.Errorf("memory of it: %+v, %v", e.Refusal, err)
	}
	if sum := k.Sum(dev(0)); sum.Device.MemoryTotal != gpu.MiB(0) {
		t.Errorf("it has %v", sum.Device.MemoryTotal)
	}
}
