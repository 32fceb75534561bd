package placement

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

func TestWishes(t *testing.T) {
	const none = -1
	cases := []struct {
		name string
		uses []Use
		runs []int // devices with a lease of the service, once for each lease
		r    lease.Request
		want int
	}{
		{"preferred before policy", []Use{idle(), with(active(3))}, nil, lease.Request{Preferred: uuid(1)}, 1},
		{"preferred before together", []Use{idle(), idle(), idle()}, []int{2}, lease.Request{Preferred: uuid(1), Together: true}, 1},
		{"preferred before apart", []Use{idle(), idle(), idle()}, []int{1}, lease.Request{Preferred: uuid(1)}, 1},
		{"preferred is full", []Use{idle(), with(active(4))}, nil, lease.Request{Preferred: uuid(1)}, 0},
		{"preferred is not here", []Use{idle(), idle()}, nil, lease.Request{Preferred: "GPU-elsewhere"}, 0},
		{"preferred does not meet the constraints", []Use{idle(), idle()}, nil, lease.Request{Preferred: uuid(1), Where: gpu.Where{GPU: uuid(0)}}, 0},
		{"apart before policy", []Use{with(active(1)), with(active(3))}, []int{0}, lease.Request{}, 1},
		{"apart before what is measured", []Use{idle(), with(measuredAs(100, 80))}, []int{0}, lease.Request{}, 1},
		{"apart under most_free", []Use{idle(), with(available(2 << 10))}, []int{0}, lease.Request{Policy: MostFree}, 1},
		{"apart under pack", []Use{with(active(3)), with(active(1)), idle()}, []int{0}, lease.Request{Policy: Pack}, 1},
		{"apart: where the service is least", []Use{idle(), with(active(3)), idle()}, []int{0, 0, 1, 2, 2}, lease.Request{}, 1},
		{"apart: of equals by policy", []Use{with(active(2)), with(active(1))}, []int{0, 1}, lease.Request{}, 1},
		{"apart: no room elsewhere", []Use{with(active(1)), with(active(4))}, []int{0}, lease.Request{}, 0},
		{"together before policy", []Use{idle(), with(active(3))}, []int{1}, lease.Request{Together: true}, 1},
		{"together under most_free", []Use{idle(), with(available(2 << 10))}, []int{1}, lease.Request{Together: true, Policy: MostFree}, 1},
		{"together: the best of several by policy", []Use{idle(), with(active(3)), with(active(2))}, []int{1, 2}, lease.Request{Together: true}, 2},
		{"together: full, so by policy", []Use{with(active(1)), with(active(4)), idle()}, []int{1}, lease.Request{Together: true}, 2},
		{"another service's leases do not count", []Use{idle(), with(active(3))}, []int{0}, lease.Request{Holder: lease.Holder{Service: "other"}}, 0},
		{"cool before policy", []Use{with(settles(76)), with(active(3))}, nil, lease.Request{}, 1},
		{"cool with the request on it", []Use{with(settles(70)), with(active(3), settles(60))}, nil, lease.Request{Draw: gpu.Some(gpu.Watts(100))}, 1},
		{"cool before apart", []Use{with(settles(80)), with(settles(70))}, []int{1}, lease.Request{}, 1},
		{"cool before together", []Use{with(settles(80)), with(settles(70))}, []int{0}, lease.Request{Together: true}, 1},
		{"apart before policy among the hot", []Use{with(settles(80)), with(settles(80), active(3))}, []int{0}, lease.Request{}, 1},
		{"where it settles is not known", []Use{idle(), with(settles(20))}, nil, lease.Request{}, 0},
		{"all get too hot", []Use{with(settles(90), active(1)), with(settles(95))}, nil, lease.Request{}, 1},
		{"the cool one is full", []Use{with(settles(90)), with(settles(20), active(4))}, nil, lease.Request{}, 0},
		{"the cool one is not what is asked for", []Use{with(settles(90)), with(settles(20))}, nil, lease.Request{Only: []string{uuid(0)}}, 0},
		{"preferred before cool", []Use{with(settles(90)), with(settles(20))}, nil, lease.Request{Preferred: uuid(0)}, 0},
		{"pack ignores heat", []Use{with(settles(90), active(1)), with(settles(20))}, nil, lease.Request{Policy: Pack}, 0},
		{"best_fit ignores heat", []Use{with(settles(90), available(2<<10)), with(settles(20))}, nil, lease.Request{Policy: BestFit}, 0},
		{"a watt adds nothing", []Use{with(warmth(Warmth{Settles: 74, Limit: 75})), with(active(3))}, nil, lease.Request{Draw: gpu.Some(gpu.Watts(900))}, 0},
		{"spread keeps apart what is together", []Use{idle(), with(active(1))}, []int{0}, lease.Request{Policy: Spread, Together: true}, 1},
		{"spread goes where the service is not", []Use{with(active(1)), with(active(3)), with(active(1))}, []int{0, 2}, lease.Request{Policy: Spread}, 1},
		{"spread goes where the service is least", []Use{with(active(2)), with(active(3))}, []int{0, 0, 1}, lease.Request{Policy: Spread}, 1},
		{"spread without a free place apart", []Use{with(active(2)), with(active(4))}, []int{0}, lease.Request{Policy: Spread}, 0},
		{"pinned", []Use{idle(), with(active(3))}, nil, lease.Request{Where: gpu.Where{GPU: uuid(1)}}, 1},
		{"pinned and full", []Use{idle(), with(active(4))}, nil, lease.Request{Where: gpu.Where{GPU: uuid(1)}}, none},
		{"pinned elsewhere", []Use{idle()}, nil, lease.Request{Where: gpu.Where{GPU: "GPU-elsewhere"}}, none},
		{"throttled to fewer slots", []Use{with(usable(1), active(1), state(gpu.Throttled)), idle()}, nil, lease.Request{}, 1},
		{"critical", []Use{with(state(gpu.Critical))}, nil, lease.Request{}, none},
		{"unavailable", []Use{with(state(gpu.Unavailable))}, nil, lease.Request{}, none},
		{"closed", []Use{with(closed("in quarantine")), with(active(3))}, nil, lease.Request{}, 1},
		{"never measured", []Use{{}}, nil, lease.Request{}, none},
		{"over-used", []Use{with(available(-1))}, nil, lease.Request{}, none},
		{"no device at all", nil, nil, lease.Request{}, none},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := machine(c.uses...)
			for _, i := range c.runs {
				s.AddLeases("render", uuid(i), 1)
			}
			r := c.r
			r.Memory, r.Slots = 1<<10, 1
			if r.Holder.Service == "" {
				r.Holder.Service = "render"
			}
			want := ""
			if c.want != none {
				want = uuid(c.want)
			}
			if got := chosen(t, s, &r); got != want {
				t.Errorf("chose %q, want %q", got, want)
			}
		})
	}
}

// A lease may be for memory only or for slots only, and then the other kind
// does not matter, but a device that grants nothing grants neither.
func TestSlotsOnlyAndMemoryOnly(t *testing.T) {
	s := machine(with(active(5)), with(available(0)), with(state(gpu.Critical)), with(closed("broken")))
	if got := chosen(t, s, &lease.Request{Memory: 1}); got != uuid(0) {
		t.Errorf("memory only: %q", got)
	}
	if got := chosen(t, s, &lease.Request{Slots: 1}); got != uuid(1) {
		t.Errorf("slots only: %q", got)
	}
	s = machine(with(state(gpu.Critical)), with(closed("broken")))
	if got := chosen(t, s, &lease.Request{Memory: 1}); got != "" {
		t.Errorf("memory of a device that grants nothing: %q", got)
	}
}

func TestGate(t *testing.T) {
	s := machine(idle(), with(active(1)), with(active(2)))
	asked := 0
	gate := gateFunc(func(uuid string, _ gpu.MiB) string {
		asked++
		if uuid == uuid0 {
			return "somebody is ahead"
		}
		return ""
	})
	if got, _ := Choose(s, &lease.Request{Slots: 1}, gate, nil); !slices.Equal(got, []string{uuid(1)}) {
		t.Errorf("chose %s", got)
	}
	if asked != 2 {
		t.Errorf("asked about %d devices; the third was no candidate any more", asked)
	}
}

func TestLeasesAreCounted(t *testing.T) {
	s := machine(idle(), idle(), idle())
	for _, step := range []struct{ device, by int }{{2, 1}, {0, 2}, {2, 1}, {1, 0}, {0, -1}, {2, -2}, {1, -1}, {9, 1}} {
		s.AddLeases("render", uuid(step.device), step.by)
	}
	p := s.services["render"]
	if len(p) != 1 || p.leases(0) != 1 || p.leases(2) != 0 {
		t.Errorf("counted %v", p)
	}
	if s.AddLeases("render", uuid0, -1); len(s.services) != 0 {
		t.Error("a service without leases is still kept")
	}
}

func TestSnapshotOfOddDevices(t *testing.T) {
	a, b := testDevice(7), testDevice(3)
	twice := a
	twice.Index = 1
	b.Links = []gpu.Link{{To: b.UUID, Kind: gpu.LinkNVLink}, {To: "GPU-gone", Kind: gpu.LinkNVLink}}
	s := NewSnapshot([]gpu.Device{a, b, twice})
	if s.Len() != 2 || s.devices[0].Index != 3 || len(s.links[0]) != 0 {
		t.Errorf("devices %v, links %v", s.devices, s.links)
	}
	if s.Update("GPU-gone", idle()) {
		t.Error("a device that is not there was updated")
	}
	if _, ok := s.Use("GPU-gone"); ok {
		t.Error("a device that is not there has a use")
	}
	if !s.Update(a.UUID, idle()) {
		t.Error("a device that is there was not updated")
	}
	if u, ok := s.Use(a.UUID); !ok || u != idle() {
		t.Errorf("use is %+v", u)
	}
}

// The hot path must leave no garbage behind.
func TestChooseAllocatesNothing(t *testing.T) {
	s := busy(200)
	where, err := gpu.ParseWhere("name~a100,cc>=8.0,memory>=40GiB,vendor=nvidia")
	if err != nil {
		t.Fatal(err)
	}
	requests := []lease.Request{
		{Memory: 1 << 10, Slots: 1},
		{Memory: 1 << 10, Slots: 1, Where: where, Policy: BestFit},
		{Memory: 1 << 10, Slots: 1, Holder: lease.Holder{Service: "render"}, Preferred: uuid(3), Policy: Spread},
		{Memory: 500 << 10, Slots: 1},
		{Memory: 1 << 10, Slots: 1, GPUs: 4},
		{Memory: 60 << 10, Slots: 1, GPUs: 8},
	}
	into := make([]string, 0, 16)
	for _, r := range requests {
		if n := testing.AllocsPerRun(20, func() { Choose(s, &r, nil, into) }); n != 0 {
			t.Errorf("%+v: %v allocations", r, n)
		}
	}
	u := idle()
	if n := testing.AllocsPerRun(20, func() { s.Update(uuid0, u) }); n != 0 {
		t.Errorf("Update: %v allocations", n)
	}
}

// Whatever changes on the devices, a scan leaves out no block that has the best of them.
func TestBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s := busy(3*block + 5)
	for range 2000 {
		at := random.IntN(s.Len())
		u, _ := s.Use(uuid(at))
		u.Available, u.Active = gpu.MiB(random.IntN(80<<10)), random.IntN(9)
		if u.Closed = ""; random.IntN(4) == 0 {
			u.Closed = "drained"
		}
		s.Update(uuid(at), u)
		for p, keys := range s.keys {
			for b, low := range s.lows[p] {
				if want := slices.Min(keys[b*block : min((b+1)*block, len(keys))]); low != want {
					t.Fatalf("the least key of block %d is %d, not %d, by %s", b, want, low, policies[p].name)
				}
			}
		}
		r := lease.Request{Memory: gpu.MiB(random.IntN(80 << 10)), Slots: 1}
		n := s.needOf(&r, nil)
		want := -1
		for i, key := range n.keys {
			if s.takes(&n, i) && !s.warm(&n, i) && (want < 0 || key < n.keys[want]) {
				want = i
			}
		}
		if got := s.one(&n); got != want {
			t.Fatalf("%d MiB go to %d, not to %d", r.Memory, got, want)
		}
	}
}
