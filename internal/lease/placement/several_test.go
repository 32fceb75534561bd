package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// islands is a machine whose devices are linked by NVLink within islands of
// this size, and by the host between them.
func islands(n, size int) *Snapshot {
	devices := make([]gpu.Device, n)
	for i := range devices {
		devices[i] = testDevice(i)
		for j := range n {
			switch {
			case i == j:
			case i/size == j/size:
				devices[i].Links = append(devices[i].Links, gpu.Link{To: uuid(j), Kind: gpu.LinkNVLink, Lanes: 4})
			case i/size/2 == j/size/2:
				devices[i].Links = append(devices[i].Links, gpu.Link{To: uuid(j), Kind: gpu.LinkNode})
			}
		}
	}
	s := NewSnapshot(devices)
	for i := range devices {
		s.Update(uuid(i), idle())
	}
	return s
}

func TestSetsStayWithinIslands(t *testing.T) {
	for _, n := range []int{8, 16, 64} { // 64: greedy
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := islands(n, 4)
			r := lease.Request{GPUs: 3, Memory: 1 << 10, Slots: 1}
			s.Update(uuid(1), with(active(4))) // the first island has three left
			expect(t, s, &r, 0, 2, 3)
			s.Update(uuid(0), with(active(4))) // now two: the next one
			expect(t, s, &r, 4, 5, 6)
			r.Preferred = uuid(2) // must be in, and takes its neighbour along
			expect(t, s, &r, 2, 3, 4)
		})
	}
}

// All links alike, as with a switch: the policy decides.
func TestEqualLinksLeaveItToThePolicy(t *testing.T) {
	for _, n := range []int{8, 32} {
		s := islands(n, n)
		for i := range n {
			s.Update(uuid(i), with(active((n-i)%4)))
		}
		r := lease.Request{GPUs: 2, Slots: 1}
		expect(t, s, &r, 0, 4)
		s.AddLeases("render", uuid(3), 1)
		r.Holder.Service, r.Together = "render", true
		expect(t, s, &r, 0, 3)
		r.Together = false
		expect(t, s, &r, 0, 4)
		s.AddLeases("render", uuid(4), 1)
		expect(t, s, &r, 0, min(8, n-1))
		s.AddLeases("render", uuid(4), -1)
		r.Policy, r.Together = Spread, true
		expect(t, s, &r, 0, 4)
	}
}

func TestManyDevices(t *testing.T) {
	s := islands(64, 4)
	got, ok := Choose(s, &lease.Request{GPUs: 40, Slots: 1}, nil, nil)
	if slices.Sort(got); !ok || len(slices.Compact(got)) != 40 {
		t.Errorf("got %d different devices, %v", len(got), ok)
	}
	if _, ok := Choose(s, &lease.Request{GPUs: 65, Slots: 1}, nil, nil); ok {
		t.Error("65 of 64 devices were found")
	}
	if got, ok := Choose(s, &lease.Request{GPUs: 64, Slots: 1}, nil, []string{"before"}); !ok || len(got) != 65 || got[0] != "before" {
		t.Errorf("all devices: %d, %v", len(got), ok)
	}
}

// sparse is a machine with these links only.
func sparse(n int, links map[[2]int]gpu.LinkKind) *Snapshot {
	devices := make([]gpu.Device, n)
	for i := range devices {
		devices[i] = testDevice(i)
		for ends, kind := range links {
			if ends[0] == i { // one end reports it, and that must do
				devices[i].Links = append(devices[i].Links, gpu.Link{To: uuid(ends[1]), Kind: kind})
			}
		}
	}
	s := NewSnapshot(devices)
	for i := range devices {
		s.Update(uuid(i), idle())
	}
	return s
}

// Of two pairs with equal links the one whose ranks are lower in sum is taken,
// though it comes later in the search.
func TestEqualSetsByRank(t *testing.T) {
	s := sparse(8, map[[2]int]gpu.LinkKind{{0, 4}: gpu.LinkNVLink, {1, 2}: gpu.LinkNVLink})
	expect(t, s, &lease.Request{GPUs: 2, Slots: 1}, 1, 2)
}

func TestGreedySets(t *testing.T) {
	// The partner is not among the first candidates.
	s := sparse(2*few, map[[2]int]gpu.LinkKind{{30, 3}: gpu.LinkNVLink})
	expect(t, s, &lease.Request{GPUs: 2, Slots: 1}, 3, 30)
	// Of two that are linked to both members and equally weakly at worst, the
	// one with the better link.
	s = sparse(2*few, map[[2]int]gpu.LinkKind{
		{0, 1}: gpu.LinkNVLink,
		{4, 0}: gpu.LinkNode, {4, 1}: gpu.LinkNode,
		{5, 0}: gpu.LinkNVLink, {5, 1}: gpu.LinkNode,
	})
	expect(t, s, &lease.Request{GPUs: 3, Slots: 1, Preferred: uuid(0)}, 0, 1, 5)
	// Nothing is linked: the first by policy.
	s.Update(uuid(1), with(active(1)))
	s.Update(uuid(0), with(active(4)))
	expect(t, s, &lease.Request{GPUs: 3, Slots: 1, Where: gpu.Where{Vendor: gpu.NVIDIA}, Preferred: uuid(20)}, 2, 3, 20)
}

func TestADecisionLeavesNothingBehind(t *testing.T) {
	s := islands(64, 4)
	r := lease.Request{GPUs: 6, Slots: 1}
	first, _ := Choose(s, &r, nil, nil)
	for range 3 {
		if again, _ := Choose(s, &r, nil, nil); !slices.Equal(first, again) {
			t.Fatalf("chose %v and then %v", first, again)
		}
	}
}

func expect(t *testing.T, s *Snapshot, r *lease.Request, want ...int) {
	t.Helper()
	got, _ := Choose(s, r, nil, nil)
	uuids := []string{}
	for _, i := range want {
		uuids = append(uuids, uuid(i))
	}
	if !slices.Equal(got, uuids) {
		t.Errorf("chose %v, want %v", got, uuids)
	}
}
