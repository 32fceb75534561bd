package placement

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// keepRoom takes the device on which the request spoils the least for what is
// usually asked for: it counts how many of the usual requests would fit before
// the request takes its part, and how many would still fit after.
func keepRoom(v *View, r *lease.Request) float64 {
	lost := 0
	for _, usual := range v.Usual {
		before, after := v.Use.Available, v.Use.Available-r.Memory
		if usual.Memory > 0 {
			lost += usual.Count * int(before/usual.Memory-after/usual.Memory)
		}
	}
	return -float64(lost)
}

// keepRoomPolicy is the line that the policy has in policies.
var keepRoomPolicy = policy{name: "keep_room", about: "the device that keeps the most room for usual requests", key: bestFit, score: keepRoom}

// roomy is a machine with the policies of berth and keepRoom.
func roomy(book *lease.Book, usual *Requests, uses ...Use) *Snapshot {
	devices := make([]gpu.Device, len(uses))
	for i := range devices {
		devices[i] = testDevice(i)
	}
	s := newSnapshot(devices, book, usual, append(policies[:len(policies):len(policies)], keepRoomPolicy))
	for i, u := range uses {
		s.Update(uuid(i), u)
	}
	return s
}

func TestAPolicySeesTheRequest(t *testing.T) {
	usual := &Requests{}
	for range 10 {
		usual.Add(&lease.Request{Memory: 32 << 10, Slots: 1})
	}
	s := roomy(nil, usual, with(available(40<<10)), with(available(36<<10)), with(available(72<<10)))
	for _, c := range []struct {
		memory gpu.MiB
		gpus   int
		want   string
	}{
		{4 << 10, 1, uuid(1)},               // both small ones keep room for 32 GiB; best_fit decides
		{6 << 10, 1, uuid0},                 // only the first one keeps it
		{8 << 10, 1, uuid0},                 // and the third one keeps room for two
		{12 << 10, 1, uuid(1)},              // all lose one
		{6 << 10, 2, uuid0 + " " + uuid(2)}, // those two lose nothing
		{50 << 10, 1, uuid(2)},              // the only one that fits
	} {
		r := lease.Request{Memory: c.memory, Slots: 1, GPUs: c.gpus, Policy: "keep_room"}
		if got := chosen(t, s, &r); got != c.want {
			t.Errorf("%s on %d: chose %s, want %s", c.memory, c.gpus, got, c.want)
		}
		if got := Rank(s, &r, nil)[0].GPU; c.gpus == 1 && got != c.want {
			t.Errorf("%s: ranked %s first, want %s", c.memory, got, c.want)
		}
	}
	r := lease.Request{Memory: 6 << 10, Slots: 1, Policy: "keep_room", Preferred: uuid(1)}
	if got := chosen(t, s, &r); got != uuid(1) {
		t.Errorf("chose %s instead of the preferred device", got)
	}
	r.Preferred, r.Only = "", []string{uuid(1), uuid(2)}
	if got := chosen(t, s, &r); got != uuid(2) {
		t.Errorf("chose %s out of two", got)
	}
}

// A score sees the leases of a device, and a machine of any size is decided
// among the first ones by key.
func TestAScoreSeesTheLeasesOfADevice(t *testing.T) {
	book := lease.New()
	book.SetCapacity(uuid(1), lease.Capacity{Total: 80 << 10, MaxPipelines: 4, Usable: 4})
	held := &lease.Lease{ID: "a", Binding: lease.ByName, Holder: lease.Holder{User: "u", Service: "s"}, Parts: []lease.Part{{GPU: uuid(1), Slots: 1}}}
	if _, err := book.Apply(lease.Grant{Lease: held}, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	looked := 0
	besideUser := policy{name: "beside_user", key: leastLoaded, score: func(v *View, r *lease.Request) float64 {
		looked++
		for _, h := range v.Leases {
			if h.Lease.Holder.Same(r.Holder) {
				return 1
			}
		}
		return 0
	}}
	devices := make([]gpu.Device, 1000)
	for i := range devices {
		devices[i] = testDevice(i)
	}
	s := newSnapshot(devices, book, nil, []policy{besideUser})
	for i := range devices {
		s.Update(uuid(i), idle())
	}
	r := lease.Request{Slots: 1, Holder: lease.Holder{User: "u"}}
	if got := chosen(t, s, &r); got != uuid(1) {
		t.Errorf("chose %s", got)
	}
	if looked != scored {
		t.Errorf("scored %d devices, want %d", looked, scored)
	}
}

func TestUsualRequests(t *testing.T) {
	var u Requests
	for i := range 3000 {
		u.Add(&lease.Request{Memory: gpu.MiB(1000 + i%10), Slots: 1})
		u.Add(&lease.Request{Memory: gpu.MiB(1 << (i % 30)), Slots: i % 3, GPUs: 2})
	}
	list := u.List()
	if len(list) != usualKinds || list[0].Memory != 1024 || list[0].GPUs != 1 || list[0].Slots != 1 {
		t.Errorf("the most usual of %d is %+v", len(list), list[0])
	}
	for i := 1; i < len(list); i++ {
		if list[i].Count > list[i-1].Count {
			t.Errorf("%+v comes after %+v", list[i], list[i-1])
		}
	}
}

// The page shows the policy as it stands here.
func TestThePageOnPoliciesIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/develop/adding-a-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("keeproom_test.go")
	if err != nil {
		t.Fatal(err)
	}
	from, to := strings.Index(string(source), "// keepRoom takes"), strings.Index(string(source), "// keepRoomPolicy is")
	example := strings.TrimSpace(string(source)[from:to])
	if !strings.Contains(string(page), example) {
		t.Errorf("docs/develop/adding-a-policy.md does not show keepRoom as it is:\n%s", example)
	}
}

func BenchmarkScore(b *testing.B) {
	for _, n := range []int{8, 1000, 10000} {
		s := busy(n)
		s.policies = append(s.policies[:len(s.policies):len(s.policies)], keepRoomPolicy)
		s.keys = append(s.keys, s.keys[indexOf(policies, BestFit)])
		s.usual = &Requests{}
		for i := range 100 {
			s.usual.Add(&lease.Request{Memory: gpu.MiB(1 << (i % 16)), Slots: 1})
		}
		r := lease.Request{Memory: 4 << 10, Slots: 1, Policy: "keep_room"}
		b.Run("devices="+uuid(n)[4:], func(b *testing.B) {
			chosen := make([]string, 0, 8)
			b.ReportAllocs()
			for b.Loop() {
				chosen, _ = Choose(s, &r, nil, chosen[:0])
			}
		})
	}
}
