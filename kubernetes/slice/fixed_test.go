package slice

import (
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

func TestFixedShares(t *testing.T) {
	p, m := New("node-1"), h200s(1)
	l := next(t, p, 0, m, old)
	want(t, "names", l.names(), "sim-h200-0-s0 sim-h200-0-s1 sim-h200-0-s2 sim-h200-0-s3")
	want(t, "capacity", l.holds(3), "35814Mi 1")
	if l.devices[0].AllowMultipleAllocations != nil {
		t.Error("a fixed share is shared")
	}
	if s, found := p.Find("sim-h200-0-s3"); !found || s.UUID != "SIM-h200-0" || s.Memory != 35814 || s.Slots != 1 || !s.Fixed {
		t.Errorf("found %+v", s)
	}
	for _, name := range []string{"sim-h200-0-s4", "sim-h200-0-s", "sim-h200-0-s-1", "sim-h200-1-s0", "", "-s0"} {
		if s, found := p.Find(name); found {
			t.Errorf("%q is found: %+v", name, s)
		}
	}
}

// The size of the shares that are left follows from what is left, so that they can all
// be had: shares that claims have keep what they got.
func TestFixedSharesAreNeverOversold(t *testing.T) {
	p, m := New("node-1"), h200s(1)
	next(t, p, 0, m, old)
	m.lease(0, 35814, 1, "a")
	if l := next(t, p, 1, m, old); l.changed {
		t.Error("a claim changes what is published")
	}
	m.lease(0, 51200, 0, "") // takes memory and no slot
	l := next(t, p, 2, m, old)
	want(t, "capacity", l.holds(3), "18748Mi 1") // (143259 − 51200 − 35814) / 3
	m.Leases = m.Leases[:1]
	m.lease(0, 51200, 2, "") // takes two slots
	want(t, "names", next(t, p, 3, m, old).names(), "sim-h200-0-s0 sim-h200-0-s1 sim-h200-0-s2 sim-h200-0-s3")
	m.Leases = m.Leases[1:]
	l = next(t, p, 4, m, old)
	want(t, "names when no claim has one", l.names(), "sim-h200-0-s0 sim-h200-0-s1")
	m.Leases = nil
	next(t, p, 5, m, old)
	l = next(t, p, 65, m, old)
	want(t, "names when all is free", l.names(), "sim-h200-0-s0 sim-h200-0-s1 sim-h200-0-s2 sim-h200-0-s3")
	want(t, "capacity", l.holds(3), "35814Mi 1")
}

// Without taints a bad device can only be left out, unless a claim has it.
func TestBadDeviceWithoutTaints(t *testing.T) {
	for _, s := range []Shape{{Consumable: true}, {}} {
		p, m := New("node-1"), h200s(2)
		before := next(t, p, 0, m, s).names()
		for i := range m.Status {
			m.Status[i].Trust = &api.Trust{Phase: "quarantine", Why: "XID 79"}
		}
		m.lease(1, 1024, 1, "a")
		l := next(t, p, 1, m, s)
		for _, d := range l.devices {
			if uuid := d.Attributes["uuid"].StringValue; *uuid != "SIM-h200-1" {
				t.Errorf("%s is published", d.Name)
			}
		}
		if len(l.devices) == 0 || len(p.Health()) != len(l.devices) || p.Health()[0].State != gpu.Unhealthy {
			t.Errorf("published %s, health %+v", l.names(), p.Health())
		}
		if _, found := p.Find("sim-h200-0"); !found {
			t.Error("a device that is left out is forgotten")
		}
		m.Status[0].Trust, m.Status[1].Trust = nil, nil
		want(t, "names when they are well", next(t, p, 2, m, s).names(), before)
	}
}

// A bad device whose shares claims have keeps those, and offers no others.
func TestFreeSharesOfABadDevice(t *testing.T) {
	p, m := New("node-1"), h200s(1)
	next(t, p, 0, m, old)
	m.lease(0, 35814, 1, "a")
	m.lease(0, 35814, 1, "b")
	m.Status[0].Trust = &api.Trust{Phase: "quarantine", Why: "XID 79"}
	m.Held = []string{"sim-h200-0-s2"}
	want(t, "while one claim is not known", next(t, p, 1, m, old).names(), "sim-h200-0-s0 sim-h200-0-s1 sim-h200-0-s2 sim-h200-0-s3")
	m.Held = []string{"sim-h200-0-s2", "sim-h200-0-s0"}
	want(t, "in quarantine", next(t, p, 2, m, old).names(), "sim-h200-0-s0 sim-h200-0-s2")
	m.Status[0].Trust = nil
	want(t, "when it is well", next(t, p, 3, m, old).names(), "sim-h200-0-s0 sim-h200-0-s1 sim-h200-0-s2 sim-h200-0-s3")
}

// A fixed share has no smallest request, so one that is too small for a pod is left
// out.
func TestFixedSharesThatAreTooSmall(t *testing.T) {
	m := h200s(2)
	m.lease(0, 142000, 1, "") // 419 MiB for each of three
	l := next(t, New("node-1"), 0, m, old)
	want(t, "names", l.names(), "sim-h200-1-s0 sim-h200-1-s1 sim-h200-1-s2 sim-h200-1-s3")
	m.lease(0, 600, 1, "a")
	if l := next(t, New("node-1"), 0, m, old); len(l.devices) != 8 {
		t.Errorf("published %s, and a claim has a share of device 0", l.names())
	}
}

// A claim outlives the shape that was published when it was allocated.
func TestFindInBothShapes(t *testing.T) {
	p, m := New("node-1"), h200s(1)
	next(t, p, 0, m, ordinary)
	if s, found := p.Find("sim-h200-0-s1"); !found || !s.Fixed || s.Memory != 35814 {
		t.Errorf("found %+v", s)
	}
	next(t, p, 1, m, old)
	if s, found := p.Find("sim-h200-0"); !found || s.Fixed || s.Memory != 143259 || s.Device.Name != "NVIDIA H200" {
		t.Errorf("found %+v", s)
	}
}

func TestManySlots(t *testing.T) {
	m := h200s(1)
	m.Status[0].Slots.Capacity = 65536
	if l := next(t, New("node-1"), 0, m, old); len(l.devices) != maxShares {
		t.Errorf("%d shares", len(l.devices))
	}
}
