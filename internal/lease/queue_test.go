package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

func waiting(b *Book) string {
	var ids []string
	for _, r := range b.Waiting() {
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

// asks puts requests into the queue, a second apart. A request is written as
// id, user, service and priority.
func asks(t *testing.T, b *Book, requests ...string) {
	t.Helper()
	for i, text := range requests {
		r := &Request{Holder: Holder{UID: NoUID}, GPUs: 1, Memory: 10, Slots: 1, Binding: ByName, Requested: noon.Add(time.Duration(i) * time.Second), Deadline: noon.Add(time.Hour)}
		if _, err := fmt.Sscan(text, &r.ID, &r.Holder.User, &r.Holder.Service, &r.Priority); err != nil {
			t.Fatal(err)
		}
		apply(t, b, Ask{r}, r.Requested)
	}
}

func TestOrderOfTheQueue(t *testing.T) {
	machine := Capacity{Total: 100, MaxPipelines: 10, Usable: 10}
	hold := func(b *Book, id, user, service string, memory gpu.MiB, slots int) {
		grant(t, b, &Request{ID: id, Holder: Holder{User: user, UID: NoUID, Service: service}, Memory: memory, Slots: slots, Binding: ByName}, dev(0))
	}
	t.Run("age", func(t *testing.T) {
		b := newBook(t, machine)
		asks(t, b, "r1 u s 0", "r2 v s 0", "r3 u s 0")
		expectQueue(t, b, "r1 r2 r3")
	})
	t.Run("priority before all", func(t *testing.T) {
		b := newBook(t, machine)
		hold(b, "l", "u", "s", 90, 9)
		asks(t, b, "low v s -1", "normal v s 0", "high u s 5")
		expectQueue(t, b, "high normal low")
	})
	t.Run("the user with the smaller share before age", func(t *testing.T) {
		b := newBook(t, machine)
		hold(b, "l1", "u", "s", 30, 1)
		hold(b, "l2", "v", "s", 20, 1)
		asks(t, b, "ru u s 0", "rv v s 0", "rw w s 0")
		expectQueue(t, b, "rw rv ru")
		hold(b, "l3", "v", "s", 0, 4) // half of the slots: the dominant share
		expectQueue(t, b, "rw ru rv")
		apply(t, b, Park{Key: only(b, "l3"), By: access.Daemon()}, noon)
		expectQueue(t, b, "rw rv ru")
		apply(t, b, Release{Key: only(b, "l1"), By: access.Daemon()}, noon)
		expectQueue(t, b, "ru rw rv")
	})
	t.Run("then the service with the smaller share", func(t *testing.T) {
		b := newBook(t, machine)
		hold(b, "l", "x", "big", 30, 1)
		asks(t, b, "r1 u big 0", "r2 u small 0", "r3 v big 0")
		expectQueue(t, b, "r2 r1 r3")
	})
	t.Run("capacity changes shares", func(t *testing.T) {
		b := newBook(t, machine)
		hold(b, "l1", "u", "s", 40, 1)
		hold(b, "l2", "v", "s", 10, 3)
		asks(t, b, "ru u s 0", "rv v s 0")
		expectQueue(t, b, "rv ru") // 0.4 of the memory, 0.3 of the slots
		b.SetCapacity(dev(0), Capacity{Total: 100, MaxPipelines: 5, Usable: 5})
		expectQueue(t, b, "ru rv") // 0.6 of the slots
	})
	t.Run("a share that was set stands in for the user's", func(t *testing.T) {
		b := newBook(t, machine)
		hold(b, "l", "u", "s", 40, 1)
		asks(t, b, "r1 u a 0", "r2 u b 0", "r3 u c 0", "r4 v d 0", "r5 u e -1")
		expectQueue(t, b, "r4 r1 r2 r3 r5")
		set := func(shares map[Key]float64, want bool) {
			t.Helper()
			if moved := b.SetShares(shares); moved != want {
				t.Errorf("a request has another place: %v, want %v", moved, want)
			}
		}
		set(map[Key]float64{only(b, "r1"): 0.5, only(b, "r2"): 0.5, only(b, "r3"): 0.1, only(b, "r5"): 0}, true)
		expectQueue(t, b, "r4 r3 r1 r2 r5")
		expectQueue(t, b.Clone(), "r4 r3 r1 r2 r5")
		later := Holder{User: "u", UID: NoUID}.Owner()
		shares := map[Key]float64{only(b, "r1"): 0.5, only(b, "r2"): 0.2, {Owner: later, ID: "r6"}: 0.3}
		set(shares, true)
		expectQueue(t, b, "r4 r2 r3 r1 r5")
		set(shares, false)
		asks(t, b, "r6 u f 0") // it comes afterwards, and has its place at once
		expectQueue(t, b, "r4 r2 r6 r3 r1 r5")
		if err := b.Check(); err != nil {
			t.Error(err)
		}
		set(nil, true)
		expectQueue(t, b, "r4 r1 r6 r2 r3 r5")
	})
	t.Run("a share that was set holds for a lease that returns or grows", func(t *testing.T) {
		b := newBook(t, machine)
		hold(b, "l", "u", "s", 40, 1)
		hold(b, "m", "u", "s", 10, 1)
		apply(t, b, Park{Key: only(b, "l"), By: access.Daemon()}, noon)
		returns, grows := b.Lease(only(b, "l")).Returning(), b.Lease(only(b, "m")).Growing(20)
		for _, r := range []*Request{&returns, &grows} {
			r.Requested, r.Deadline = noon, noon.Add(time.Hour)
			apply(t, b, Ask{r}, noon)
		}
		asks(t, b, "r v x 0")
		expectQueue(t, b, "r l m")
		b.SetShares(map[Key]float64{only(b, "r"): 0.9, only(b, "l"): 0.5, only(b, "m"): 0.2})
		expectQueue(t, b, "m l r")
	})
	t.Run("those who leave leave no gap", func(t *testing.T) {
		b := newBook(t, machine)
		asks(t, b, "r1 u s 0", "r2 u s 0", "r3 u s 0", "r4 u s 0")
		apply(t, b, Withdraw{Key: only(b, "r2"), By: access.Daemon()}, noon)
		apply(t, b, Grant{Lease: b.Request(only(b, "r3")).Lease(dev(0))}, noon)
		expectQueue(t, b, "r1 r4")
		for _, c := range b.Due(noon.Add(2 * time.Hour)) {
			apply(t, b, c, noon.Add(2*time.Hour))
		}
		expectQueue(t, b, "")
	})
}

func expectQueue(t *testing.T, b *Book, want string) {
	t.Helper()
	if got := waiting(b); got != want {
		t.Errorf("the queue is %q, want %q", got, want)
	}
	if got := waiting(b); got != want {
		t.Errorf("looking again, the queue is %q", got)
	}
}

// allowed says on which of the toy devices a request may be.
func allowed(uuid string, r *Request) bool { return r.Only == nil || slices.Contains(r.Only, uuid) }

// schedule is a small scheduler: it goes through the queue in order and gives
// everybody the first devices that have room and where nobody ahead is delayed,
// until nothing more can be granted.
func schedule(h *history) {
	for again := true; again; {
		again = false
		queue := h.book.Waiting()
		for i, r := range queue {
			if devices := places(h, r, queue[:i]); len(devices) >= r.GPUs {
				granted := r.Lease(devices[:r.GPUs]...)
				h.book.Fill(granted)
				h.apply(Grant{Lease: granted}, nil)
				again = true
				break // the order may have changed
			}
		}
	}
}

func places(h *history, r *Request, ahead []*Request) []string {
	var devices []string
	for i := range toyDevices {
		s, _ := h.book.Sum(dev(i))
		if !allowed(dev(i), r) || s.Available() < r.Load().Memory || s.FreeSlots() < r.Slots || s.Alone > 0 || r.Exclusive && s.Leases > 0 {
			continue
		}
		if delayed(h.book, dev(i), r.Claim(), ahead, allowed) == nil {
			devices = append(devices, dev(i))
		}
	}
	return devices
}

// TestNothingWaitsWhileItCouldBeGranted: after the scheduler has run, whoever
// is still in the queue cannot have enough devices: too few have room for it
// without delaying somebody ahead. What delays somebody is worked out anew, over
// all sets of holdings.
func TestNothingWaitsWhileItCouldBeGranted(t *testing.T) {
	check(t, func(h *history) {
		for range 25 {
			switch h.draw("what", 0, 5) {
			case 0, 1, 2:
				r := h.drawRequest()
				if h.draw("constrained", 0, 2) == 0 {
					r.Only = []string{dev(h.draw("allowed", 0, 2)), dev(h.draw("allowed", 0, 2))}
				}
				h.ask(r)
			case 3:
				h.end()
			case 4:
				h.observe(dev(0))
			case 5:
				h.now = h.now.Add(5 * time.Second)
				h.due()
			}
			schedule(h)
			queue := h.book.Waiting()
			for i, r := range queue {
				if n := h.couldHave(r, queue[:i]); n >= r.GPUs {
					h.Fatalf("%s waits at place %d and could have %d devices", r.ID, i, n)
				}
			}
		}
	})
}

// couldHave counts the devices that a request could have in fairness.
func (h *history) couldHave(r *Request, ahead []*Request) int {
	n := 0
	for i := range toyDevices {
		uuid := dev(i)
		if !allowed(uuid, r) || !h.toy.fits([]Part{{uuid, r.Load().Memory, r.Slots}}, nil) || !h.toy.shares(r.Lease(uuid)) {
			continue
		}
		var others []Load
		for _, l := range h.toy.leases {
			for _, p := range l.Parts {
				if p.GPU == uuid && l.State == Active {
					others = append(others, Load{Memory: max(p.Memory, l.measured[uuid]), Slots: p.Slots})
				}
			}
		}
		others = append(others, Load{Memory: h.toy.foreign[uuid]})
		c := h.toy.capacity[uuid]
		delays, room := false, Load{Memory: c.Ceiling(), Slots: c.MaxPipelines}
		takes := func(r *Request) Load { // a device alone is all of it
			if r.Exclusive {
				return room
			}
			return r.Load()
		}
		for at, a := range ahead {
			if !allowed(uuid, a) {
				continue
			}
			holdings := slices.Clone(others)
			for other, o := range ahead {
				if other != at && allowed(uuid, o) {
					holdings = append(holdings, takes(o))
				}
			}
			delays = delays || delaysSlowly(room, takes(a), r.Claim(), holdings)
		}
		if !delays {
			n++
		}
	}
	return n
}

// delaysSlowly is the definition: all sets of holdings, one after the other.
func delaysSlowly(room, ahead, later Load, holdings []Load) bool {
	for set := range 1 << len(holdings) {
		beside := ahead
		for i, held := range holdings {
			if set&(1<<i) != 0 {
				beside = Load{Memory: beside.Memory + held.Memory, Slots: beside.Slots + held.Slots}
			}
		}
		if beside.Within(room) && !(Load{Memory: beside.Memory + later.Memory, Slots: beside.Slots + later.Slots}).Within(room) {
			return true
		}
	}
	return false
}

// delayed returns the request ahead that a later load would delay on a device.
func delayed(b *Book, uuid string, later Load, ahead []*Request, could func(uuid string, r *Request) bool) *Request {
	var p Passing
	b.Passing(&p, uuid)
	for _, r := range ahead {
		if could(uuid, r) {
			p.Add(r, r.Claim())
		}
	}
	first, _ := p.Delayed(later)
	return first
}

func everyDevice(string, *Request) bool { return true }
func noDevice(string, *Request) bool    { return false }

func TestDelayed(t *testing.T) {
	b := newBook(t, Capacity{Total: 100, MaxPipelines: 4, Usable: 4}, roomy)
	big := &Request{ID: "big", GPUs: 1, Memory: 80, Slots: 1}
	small := &Request{ID: "small", GPUs: 1, Memory: 20, Slots: 1}
	medium := &Request{ID: "medium", GPUs: 1, Memory: 30, Slots: 1}
	grant(t, b, &Request{ID: "l", Memory: 30, Slots: 1, Binding: ByTTL, TTL: time.Minute}, dev(0))
	expect := func(what string, want *Request, later *Request, could func(string, *Request) bool, ahead ...*Request) {
		t.Helper()
		if got := delayed(b, dev(0), later.Load(), ahead, could); got != want {
			t.Errorf("%s: %v is delayed, want %v", what, got, want)
		}
	}
	expect("nobody ahead", nil, medium, everyDevice)
	expect("exactly beside the big one", nil, small, everyDevice, big)
	expect("too much beside the big one", big, medium, everyDevice, big)
	expect("the big one cannot come here", nil, medium, noDevice, big)
	expect("first the medium one, which counts as a holding", medium, small, everyDevice, &Request{ID: "x", Memory: 100, Slots: 9}, medium, &Request{ID: "y", Memory: 60})
	b.Observe(only(b, "l"), dev(0), 50)
	b.ObserveForeign(dev(0), 10)
	expect("foreign memory may stay: 10 + 80 + 20", big, small, everyDevice, big)
	b.ObserveForeign(dev(0), 0)
	b.SetCapacity(dev(0), Capacity{Total: 100, MaxPipelines: 4, Usable: 1})
	expect("the slots that throttling takes may stay away", big, small, everyDevice, big)
	expect("no slot, so throttling does not matter", nil, &Request{ID: "z", Memory: 20}, everyDevice, big)
	if got := delayed(b, "GPU-9", small.Load(), []*Request{big}, everyDevice); got != nil {
		t.Errorf("on an unknown device %v is delayed", got)
	}
}
