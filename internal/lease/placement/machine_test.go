package placement

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

const uuid0 = "GPU-00000"

func uuid(i int) string { return fmt.Sprintf("GPU-%05d", i) }

func testDevice(i int) gpu.Device {
	return gpu.Device{
		UUID: uuid(i), Index: i, Vendor: gpu.NVIDIA, Name: "NVIDIA H200",
		ComputeCapability: "9.0", MemoryTotal: 81 << 10,
	}
}

// idle is a device of 80 GiB and four slots that nobody uses.
func idle() Use {
	return Use{Available: 80 << 10, Ceiling: 80 << 10, Usable: 4, MaxPipelines: 4, State: gpu.Optimal}
}

// machine is a snapshot of devices in these conditions.
func machine(uses ...Use) *Snapshot {
	devices := make([]gpu.Device, len(uses))
	for i := range devices {
		devices[i] = testDevice(i)
	}
	s := NewSnapshot(devices)
	for i, u := range uses {
		s.Update(uuid(i), u)
	}
	return s
}

// with is an idle device after some edits.
func with(edits ...func(*Use)) Use {
	u := idle()
	for _, edit := range edits {
		edit(&u)
	}
	return u
}

func active(n int) func(*Use)        { return func(u *Use) { u.Active = n } }
func available(m gpu.MiB) func(*Use) { return func(u *Use) { u.Available = m } }
func maxSlots(n int) func(*Use)      { return func(u *Use) { u.MaxPipelines, u.Usable = n, n } }
func usable(n int) func(*Use)        { return func(u *Use) { u.Usable = n } }
func state(s gpu.State) func(*Use)   { return func(u *Use) { u.State = s } }

// measuredAs is a device that has read the same for a while.
func measuredAs(load gpu.Percent, heat gpu.Celsius) func(*Use) {
	return func(u *Use) {
		u.Recent = Recent{}
		u.Recent.Add(&gpu.Sample{Time: time.Unix(1, 0), Utilization: gpu.Some(load), Temperature: gpu.Some(heat)})
	}
}

// settles is a device whose temperature ends there at its present power, and a
// tenth of a degree above for each watt more.
func settles(at gpu.Celsius) func(*Use) {
	return warmth(Warmth{Settles: at, PerWatt: 0.1, Limit: 75})
}

func warmth(w Warmth) func(*Use) { return func(u *Use) { u.Warmth = gpu.Some(w) } }

func closed(why string) func(*Use) { return func(u *Use) { u.Closed = why } }

// gateFunc is a Gate that refuses by a rule and allows everything.
type gateFunc func(uuid string, memory gpu.MiB) string

func (g gateFunc) Refuse(uuid string, claim lease.Load) string { return g(uuid, claim.Memory) }
func (g gateFunc) Allow(memory gpu.MiB) gpu.MiB                { return memory }
