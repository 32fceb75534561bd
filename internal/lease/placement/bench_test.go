package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// busy is a machine of many devices, all of them somewhere between idle and
// full, in islands of eight that are linked with each other.
func busy(n int) *Snapshot {
	random := rand.New(rand.NewPCG(1, 2))
	devices := make([]gpu.Device, n)
	for i := range devices {
		devices[i] = testDevice(i)
		if i%3 == 0 {
			devices[i].Name, devices[i].ComputeCapability = "NVIDIA A100", "8.0"
		}
		for j := i / 8 * 8; j < min(i/8*8+8, n); j++ {
			if j != i {
				devices[i].Links = append(devices[i].Links, gpu.Link{To: uuid(j), Kind: gpu.LinkNVLink, Lanes: 18})
			}
		}
	}
	s := NewSnapshot(devices)
	for i := range devices {
		s.Update(uuid(i), Use{
			Available: gpu.MiB(random.IntN(80 << 10)), Ceiling: 80 << 10,
			Active: random.IntN(9), Usable: 8, MaxPipelines: 8, State: gpu.Optimal,
		})
	}
	for i := range 4 {
		s.AddLeases("render", uuid(i*n/4), 1)
	}
	return s
}

func BenchmarkChoose(b *testing.B) {
	for _, n := range []int{8, 1000, 10000} {
		s := busy(n)
		cases := []struct {
			name string
			r    lease.Request
		}{
			{"", lease.Request{Memory: 4 << 10, Slots: 1}},
			{"/best_fit", lease.Request{Memory: 4 << 10, Slots: 1, Policy: BestFit}},
			{"/spread", lease.Request{Memory: 4 << 10, Slots: 1, Policy: Spread, Holder: lease.Holder{Service: "render"}}},
			{"/where", lease.Request{Memory: 4 << 10, Slots: 1, Where: gpu.Where{Name: "A100", Like: true, CC: gpu.Capability{Major: 8}}}},
			{"/nothing_fits", lease.Request{Memory: 100 << 10, Slots: 1}},
			{"/gpus=4", lease.Request{Memory: 4 << 10, Slots: 1, GPUs: 4}},
		}
		for _, c := range cases {
			b.Run(fmt.Sprintf("devices=%d%s", n, c.name), func(b *testing.B) {
				chosen := make([]string, 0, 8)
				b.ReportAllocs()
				for b.Loop() {
					chosen, _ = Choose(s, &c.r, nil, chosen[:0])
				}
			})
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	s := busy(1000)
	u, _ := s.Use(uuid(500))
	b.ReportAllocs()
	for b.Loop() {
		u.Active ^= 1
		s.Update(uuid0, u)
	}
}
