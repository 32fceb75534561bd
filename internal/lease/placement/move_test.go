package placement

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// A yard of test has devices A, B, … of 100 MiB and 10 slots, and leases such as
// "A:60" that each have one slot.
func yardOf(names string, held ...string) (sites []Site, movable []Movable) {
	for i, name := range names {
		sites = append(sites, Site{
			Device: gpu.Device{UUID: string(name), Index: i, Vendor: gpu.NVIDIA, Name: "H200"},
			Room:   lease.Load{Memory: 100, Slots: 10}, Most: lease.Load{Memory: 100, Slots: 10}, Open: true,
		})
	}
	for i, text := range held {
		var memory gpu.MiB
		if _, err := fmt.Sscanf(text[2:], "%d", &memory); err != nil {
			panic(err)
		}
		on := &sites[strings.IndexByte(names, text[0])]
		m := Movable{Lease: &lease.Lease{ID: text, Fence: uint64(i + 1)}, GPU: on.Device.UUID, Load: lease.Load{Memory: memory, Slots: 1}}
		on.take(m.Load, 1)
		movable = append(movable, m)
	}
	return sites, movable
}

func saying(moves []Move, left []Unmoved) string {
	var lines []string
	for _, m := range moves {
		lines = append(lines, fmt.Sprintf("%s to %s for %s", m.Lease.ID, m.To, m.For.ID))
	}
	for _, u := range left {
		lines = append(lines, u.Request.ID+" "+u.Why)
	}
	return strings.Join(lines, "; ")
}

func TestMoves(t *testing.T) {
	want := func(id string, gpus int, memory gpu.MiB) *lease.Request {
		return &lease.Request{ID: id, GPUs: gpus, Memory: memory, Slots: 1}
	}
	for name, c := range map[string]struct {
		devices string
		held    []string
		change  func(sites []Site)
		waiting []*lease.Request
		says    string
	}{
		"nobody waits":            {devices: "AB", held: []string{"A:60"}},
		"one move":                {devices: "AB", held: []string{"A:40", "B:50"}, waiting: []*lease.Request{want("r", 1, 80)}, says: "A:40 to B for r"},
		"the smallest":            {devices: "AB", held: []string{"A:60", "A:30", "B:65"}, waiting: []*lease.Request{want("r", 1, 40)}, says: "A:30 to B for r"},
		"two that cost less":      {devices: "ABC", held: []string{"A:80", "A:10", "A:9", "B:20", "B:70", "C:90"}, waiting: []*lease.Request{want("r", 1, 11)}, says: "A:10 to B for r"},
		"several":                 {devices: "AB", held: []string{"A:20", "A:20", "A:20", "B:40"}, waiting: []*lease.Request{want("r", 1, 80)}, says: "A:20 to B for r; A:20 to B for r"},
		"no room elsewhere":       {devices: "AB", held: []string{"A:60", "B:60"}, waiting: []*lease.Request{want("r", 1, 80)}, says: "r does not fit, whichever lease moves"},
		"too large":               {devices: "AB", held: []string{"A:60"}, waiting: []*lease.Request{want("r", 1, 101)}, says: "r fits on no device that berth grants leases on"},
		"it fits":                 {devices: "AB", held: []string{"A:60"}, waiting: []*lease.Request{want("r", 1, 90)}, says: "r does not wait for room"},
		"two devices":             {devices: "ABC", held: []string{"A:30", "B:40", "B:25", "C:30"}, waiting: []*lease.Request{want("r", 2, 80)}, says: "r does not fit, whichever lease moves"},
		"both of two devices":     {devices: "ABC", held: []string{"A:31", "B:5", "C:40"}, waiting: []*lease.Request{want("r", 2, 96)}, says: "B:5 to C for r; A:31 to C for r"},
		"one of two devices":      {devices: "ABC", held: []string{"A:31", "C:40"}, waiting: []*lease.Request{want("r", 2, 96)}, says: "A:31 to C for r"},
		"the second finds less":   {devices: "ABC", held: []string{"A:40", "B:40", "C:50"}, waiting: []*lease.Request{want("r", 1, 80), want("s", 1, 80)}, says: "A:40 to C for r; s does not fit, whichever lease moves"},
		"another model":           {devices: "AB", held: []string{"A:40", "B:30"}, change: func(s []Site) { s[1].Device.Name = "L4" }, waiting: []*lease.Request{want("r", 1, 80)}, says: "r does not fit, whichever lease moves"},
		"a closed device":         {devices: "AB", held: []string{"A:40", "B:30"}, change: func(s []Site) { s[1].Open = false }, waiting: []*lease.Request{want("r", 1, 80)}, says: "r does not fit, whichever lease moves"},
		"no slots elsewhere":      {devices: "AB", held: []string{"A:40", "B:30"}, change: func(s []Site) { s[0].Room.Slots, s[1].Room.Slots = 0, 0 }, waiting: []*lease.Request{want("r", 1, 80)}, says: "r does not fit, whichever lease moves"},
		"a lease that grows":      {devices: "AB", held: []string{"A:40", "A:50", "B:55"}, waiting: []*lease.Request{{ID: "A:40", Into: 1, Memory: 20, Where: gpu.Where{GPU: "A"}}}, says: "A:40 does not fit, whichever lease moves"},
		"a device that is pinned": {devices: "ABC", held: []string{"A:10", "B:40", "C:50"}, waiting: []*lease.Request{{ID: "r", Memory: 95, Slots: 1, Where: gpu.Where{GPU: "B"}}}, says: "B:40 to C for r"},
	} {
		t.Run(name, func(t *testing.T) {
			sites, movable := yardOf(c.devices, c.held...)
			if c.change != nil {
				c.change(sites)
			}
			if got := saying(Moves(sites, movable, c.waiting)); got != c.says {
				t.Errorf("got  %s\nwant %s", got, c.says)
			}
		})
	}
}

// Every proposal can be carried out: no device is ever over-full, a lease moves
// once, and each request that is helped has its room in the end.
func TestMovesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := "ABCDE"[:rapid.IntRange(1, 5).Draw(t, "devices")]
		sites, movable := yardOf(names)
		for i := range rapid.IntRange(0, 12).Draw(t, "leases") {
			on := &sites[rapid.IntRange(0, len(names)-1).Draw(t, "on")]
			load := lease.Load{Memory: gpu.MiB(rapid.IntRange(1, 60).Draw(t, "memory")), Slots: rapid.IntRange(0, 3).Draw(t, "slots")}
			if load.Within(on.Room) {
				on.take(load, 1)
				movable = append(movable, Movable{Lease: &lease.Lease{ID: fmt.Sprint(i), Fence: uint64(i)}, GPU: on.Device.UUID, Load: load})
			}
		}
		var waiting []*lease.Request
		for i := range rapid.IntRange(0, 4).Draw(t, "requests") {
			waiting = append(waiting, &lease.Request{
				ID: fmt.Sprint(i), GPUs: rapid.IntRange(1, 2).Draw(t, "gpus"), Memory: gpu.MiB(rapid.IntRange(1, 110).Draw(t, "asked")), Slots: rapid.IntRange(0, 4).Draw(t, "asked slots"),
			})
		}
		moves, left := Moves(sites, movable, waiting)
		room, loads := map[string]lease.Load{}, map[*lease.Lease]Movable{}
		for _, s := range sites {
			room[s.Device.UUID] = s.Room
		}
		for _, m := range movable {
			loads[m.Lease] = m
		}
		change := func(uuid string, l lease.Load, sign int) {
			room[uuid] = lease.Load{Memory: room[uuid].Memory + gpu.MiB(sign)*l.Memory, Slots: room[uuid].Slots + sign*l.Slots}
		}
		helped := map[*lease.Request]bool{}
		for _, m := range moves {
			was, there := loads[m.Lease]
			if !there || was.GPU != m.From || m.From == m.To || m.Memory != was.Load.Memory {
				t.Fatalf("%+v is not a move of %+v", m, was)
			}
			delete(loads, m.Lease)
			change(m.From, was.Load, 1)
			change(m.To, was.Load, -1)
			helped[m.For] = true
		}
		for _, u := range left {
			if helped[u.Request] {
				t.Fatalf("%s is helped and left", u.Request.ID)
			}
		}
		for _, r := range waiting {
			if !helped[r] {
				continue
			}
			granted := 0
			for _, s := range sites {
				if granted < r.Devices() && r.Load().Within(room[s.Device.UUID]) {
					change(s.Device.UUID, r.Load(), -1)
					granted++
				}
			}
			if granted < r.Devices() && len(helped) == 1 {
				t.Fatalf("%s has no room after %s", r.ID, saying(moves, left))
			}
		}
		for uuid, left := range room {
			if left.Memory < 0 || left.Slots < 0 {
				t.Fatalf("%s has %+v left after %s", uuid, left, saying(moves, nil))
			}
		}
	})
}
