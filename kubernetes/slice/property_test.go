package slice

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

func amounts() *rapid.Generator[gpu.MiB] {
	return rapid.OneOf(rapid.Map(rapid.Int64Range(-5, 2000), toMiB), rapid.Map(rapid.Int64Range(0, 200_000), toMiB), rapid.Map(rapid.Int64Range(0, 1<<30), toMiB))
}

func toMiB(n int64) gpu.MiB { return gpu.MiB(n) }

// drawStatus draws any state of a device, however odd.
func drawStatus(t *rapid.T, uuid string, index int) api.Status {
	s := api.Status{
		Device: gpu.Device{
			UUID: uuid, Index: index, Name: rapid.String().Draw(t, "name"), Vendor: rapid.SampledFrom([]gpu.Vendor{gpu.NVIDIA, gpu.AMD, gpu.Simulated}).Draw(t, "vendor"),
			Driver: rapid.StringMatching(`[0-9]{0,4}(\.[0-9]{1,4}){0,4}[a-z-]{0,3}`).Draw(t, "driver"), PCI: rapid.StringMatching(`([0-9A-F]{4,8}:1B:00\.0)?`).Draw(t, "pci"),
			ComputeCapability: rapid.SampledFrom([]string{"", "9.0", "10.3", "gfx942"}).Draw(t, "capability"),
		},
		State: rapid.SampledFrom(gpu.States()).Draw(t, "state"), StateCause: rapid.SampledFrom([]string{"", "temperature", "memory", "fault", "lost", "silent"}).Draw(t, "cause"),
		Health: rapid.SampledFrom([]gpu.Health{gpu.Healthy, gpu.Unhealthy, gpu.HealthUnknown}).Draw(t, "health"), Reason: rapid.String().Draw(t, "reason"),
		Slots: api.Slots{Capacity: rapid.IntRange(0, 9).Draw(t, "slots")},
	}
	if rapid.Bool().Draw(t, "an instance") {
		s.Device.Parent = rapid.String().Draw(t, "parent")
	}
	if rapid.IntRange(0, 9).Draw(t, "cut") == 0 {
		s.Device.Instances = []string{"MIG-1"}
	}
	if rapid.Bool().Draw(t, "NUMA") {
		s.Device.NUMANode = gpu.Some(rapid.IntRange(-1, 3).Draw(t, "node"))
	}
	if phase := rapid.SampledFrom([]string{"-", "-", "", "quarantine", "probation"}).Draw(t, "phase"); phase != "-" {
		s.Trust = &api.Trust{Phase: phase, Why: rapid.String().Draw(t, "why"), Withheld: rapid.IntRange(0, 4).Draw(t, "withheld")}
	}
	if rapid.IntRange(0, 5).Draw(t, "drain") == 0 {
		s.Drain = &api.Drain{}
	}
	return s
}

// drawFacts draws what a daemon with some of the devices of a machine says.
func drawFacts(t *rapid.T, uuids []string) Facts {
	f := Facts{Context: rapid.SampledFrom([]gpu.MiB{0, 1, 600, 5000}).Draw(t, "context")}
	for i, uuid := range uuids {
		if rapid.IntRange(0, 7).Draw(t, "missing") == 0 {
			continue
		}
		f.Status = append(f.Status, drawStatus(t, uuid, i))
		f.Available = append(f.Available, api.DeviceAvailable{
			GPU: uuid, Total: amounts().Draw(t, "total"), Limit: amounts().Draw(t, "limit"), Reserve: amounts().Draw(t, "reserve"), Foreign: amounts().Draw(t, "foreign"),
		})
	}
	for n := range rapid.IntRange(0, 5).Draw(t, "leases") {
		l := api.Lease{ID: fmt.Sprint(n), State: rapid.SampledFrom([]string{"active", "active", "parked", "resuming", "waiting"}).Draw(t, "lease")}
		if rapid.Bool().Draw(t, "own") {
			l.Scope, l.State = []string{"pod" + fmt.Sprint(n)}, "active"
		}
		for _, uuid := range rapid.SliceOfNDistinct(rapid.SampledFrom(uuids), 1, len(uuids), rapid.ID[string]).Draw(t, "on") {
			part := api.LeasePart{GPU: uuid, Memory: max(amounts().Draw(t, "memory"), 0), Slots: rapid.IntRange(0, 3).Draw(t, "lease slots")}
			if rapid.Bool().Draw(t, "measured") {
				part.Measured = gpu.Some(max(amounts().Draw(t, "measured memory"), 0))
			}
			l.Parts = append(l.Parts, part)
		}
		f.Leases = append(f.Leases, l)
	}
	return f
}

// Whatever a daemon says, and in whatever order, the API server takes what is
// published, nothing is promised twice, a device that a claim has stays, and saying the
// same again changes nothing.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(uuids(), 1, 4, rapid.ID[string]).Draw(t, "uuids")
		list = slices.DeleteFunc(list, func(uuid string) bool { return uuid == "" })
		if len(list) == 0 {
			return
		}
		shape := Shape{Consumable: rapid.Bool().Draw(t, "consumable"), Taints: rapid.Bool().Draw(t, "taints")}
		p, now := New("node-1"), start
		held := map[string]bool{} // UUIDs of published devices that a claim has
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(t, "seconds")) * time.Second)
			f := drawFacts(t, list)
			if rapid.IntRange(0, 4).Draw(t, "silence") == 0 {
				f.Silent = time.Duration(rapid.IntRange(1, 20).Draw(t, "silent")) * time.Second
			}
			devices, _ := p.Next(now, f, shape)
			if problems := broken(devices, shape); len(problems) > 0 {
				t.Fatalf("an API server refuses it: %v", problems)
			}
			if again, changed := p.Next(now, f, shape); changed || len(again) != len(devices) {
				t.Fatal("the same facts are published again")
			}
			if len(p.Health()) != len(devices) {
				t.Fatalf("%d devices, and the health of %d", len(devices), len(p.Health()))
			}
			published := map[string]bool{}
			for _, d := range devices {
				share, found := p.Find(d.Name)
				if !found || share.Fixed == shape.Consumable {
					t.Fatalf("%s is published and stands for %+v", d.Name, share)
				}
				published[share.UUID] = true
			}
			if f.Silent > 0 {
				continue
			}
			for uuid := range held {
				if uses(f.Leases)[uuid].own > 0 && !published[uuid] {
					t.Fatalf("%q is no longer published, and a claim has it", uuid)
				}
			}
			held = map[string]bool{}
			for uuid := range published {
				if uses(f.Leases)[uuid].own > 0 {
					held[uuid] = true
				}
			}
			promised(t, p, f, shape)
		}
	})
}

// promised checks that claims can have what is published: no more than berth would
// lease when nobody else held more than now.
func promised(t *rapid.T, p *Publisher, f Facts, shape Shape) {
	for i, s := range f.Status {
		d, u := p.devices[s.Device.UUID], uses(f.Leases)[s.Device.UUID]
		if s.StateCause == causeLost {
			continue // it has its last facts
		}
		a := f.Available[i]
		left := max(min(a.Total, max(a.Limit, 0)+noLimit(a.Limit))-a.Reserve, 0) - max(a.Foreign, 0) - u.memory - u.over
		left = max(left, 0)
		if got := gpu.MiB(d.memory.value); got > left {
			t.Fatalf("%d MiB are published, and %d are left", got, left)
		}
		free := d.shares.value - int64(u.ownSlots)
		if !shape.Consumable && free > 0 && u.ownMemory <= left && gpu.MiB(free*d.size.value)+u.ownMemory > left {
			t.Fatalf("%d free shares of %d MiB are published, claims have %d, and there are %d", free, d.size.value, u.ownMemory, left)
		}
		if int(d.slots.value) > s.Slots.Capacity {
			t.Fatalf("%d slots of %d", d.slots.value, s.Slots.Capacity)
		}
	}
}

func noLimit(limit gpu.MiB) gpu.MiB {
	if limit > 0 {
		return 0
	}
	return 1 << 40
}

// steady never says more than there is, never goes up within a minute, and settles.
func TestSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s steady
		margin := rapid.Int64Range(0, 30).Draw(t, "margin")
		now, rose, before := start, start.Add(-time.Hour), int64(-1)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 70).Draw(t, "seconds")) * time.Second)
			target := rapid.Int64Range(0, 100).Draw(t, "target")
			got := s.follow(now, target, margin)
			if got > target {
				t.Fatalf("%d of %d", got, target)
			}
			if before >= 0 && got > before {
				if now.Sub(rose) < rise || got < before+max(margin, 1) {
					t.Fatalf("from %d to %d after %v", before, got, now.Sub(rose))
				}
				rose = now
			}
			before = got
		}
		s.follow(now, 100, margin)
		if got := s.follow(now.Add(3*rise), 100, margin); s.follow(now.Add(4*rise), 100, margin) <= 100-max(margin, 1) {
			t.Fatalf("it stays at %d of 100", got)
		}
	})
}
