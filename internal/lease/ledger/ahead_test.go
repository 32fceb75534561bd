package ledger

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// slowAhead is placement.Ahead by its definition: everybody before a place in the queue,
// and nobody left out.
type slowAhead struct {
	*keeper
	request *lease.Request
	ahead   []*lease.Request
	stuck   map[string]bool
	hold    bool // nobody without an end passes
	starts  map[*lease.Request][2]bool
	kept    map[string]lease.Load // by device, what those whose start is not known keep from endless ones
}

func (n *slowAhead) Refuse(uuid string, claim lease.Load) string {
	var p lease.Passing
	n.book.Passing(&p, uuid)
	for _, r := range n.ahead {
		if n.snapshot.Could(uuid, r) && !n.mayPass(r) {
			p.Add(r, r.Claim())
		}
	}
	if p.Allows(claim) {
		return ""
	}
	return "it would delay somebody"
}

// mayPass reports whether the request at hand may pass one ahead because nobody knows when
// that one starts.
func (n *slowAhead) mayPass(r *lease.Request) bool {
	known, spared := n.start(r)
	switch {
	case known:
		return false
	case n.request.TimeLimit > 0:
		return true
	}
	return spared && !n.hold
}

// join adds the request at hand to those ahead.
func (n *slowAhead) join(least lease.Load) {
	known, spared := n.start(n.request)
	for uuid := range n.devices {
		if !known && !spared && n.snapshot.Could(uuid, n.request) && n.isOpen(uuid, least) {
			n.kept[uuid] = n.kept[uuid].Larger(n.request.Claim())
		}
	}
	n.ahead, n.starts[n.request] = append(n.ahead, n.request), [2]bool{known, spared}
}

// isOpen reports whether a device has room for requests for at least this load further back.
func (n *slowAhead) isOpen(uuid string, least lease.Load) bool {
	var p lease.Passing
	n.book.Passing(&p, uuid)
	for _, r := range n.ahead {
		if n.snapshot.Could(uuid, r) && n.starts[r][0] {
			p.Add(r, r.Claim())
		}
	}
	sum, _ := n.book.Sum(uuid)
	room := lease.Load{Memory: sum.Available(), Slots: sum.FreeSlots()}
	fits := func(l lease.Load) bool { return sum.Alone == 0 && l.Within(room) && p.Allows(l) }
	if least == (lease.Load{}) {
		return fits(lease.Load{Memory: 1}) || fits(lease.Load{Slots: 1})
	}
	return fits(least)
}

// start reports whether it is known when a request starts, and if not, whether others without
// an end may pass it.
func (n *slowAhead) start(r *lease.Request) (known, spared bool) {
	if was, joined := n.starts[r]; joined {
		return was[0], was[1]
	}
	if !n.settings.Pass {
		return true, false
	}
	fit := 0
	for uuid := range n.devices {
		if !n.snapshot.Could(uuid, r) {
			continue
		}
		sum, _ := n.book.Sum(uuid)
		free := lease.Load{Memory: sum.Ceiling() - sum.Foreign, Slots: sum.MaxPipelines}
		beside, stood := 0, false
		for _, h := range n.book.Holdings(uuid) {
			l := h.Lease
			if l.TimeLimit > 0 {
				continue
			}
			beside++
			stood = stood || l.Binding == lease.ByName || !l.Granted.After(r.Requested)
			free.Memory -= max(h.Part.Memory, h.Measured)
			free.Slots -= h.Part.Slots
			if l.Exclusive {
				free = lease.Load{Memory: -1}
			}
		}
		fits := r.Load().Within(free) && !(r.Exclusive && beside > 0)
		if kept := n.kept[uuid]; fits && r.TimeLimit == 0 && kept != (lease.Load{}) {
			free.Memory, free.Slots = free.Memory-kept.Memory, free.Slots-kept.Slots
			if spared = spared || r.Exclusive || !r.Load().Within(free); r.Exclusive || !r.Load().Within(free) {
				continue
			}
		}
		if fits {
			fit++
		} else if stood || r.Load().Memory > sum.Ceiling()-sum.Foreign {
			spared = true
		}
	}
	return fit >= r.Devices(), spared // if it fits, all that it waits for has an end
}

func (n *slowAhead) Allow(memory gpu.MiB) gpu.MiB { return memory }

// firstSlowly returns the first request that can be granted or must be withdrawn,
// and the devices that it gets.
func (k *keeper) firstSlowly(hold bool) (*lease.Request, []string) {
	n := &slowAhead{keeper: k, stuck: map[string]bool{}, hold: hold, starts: map[*lease.Request][2]bool{}, kept: map[string]lease.Load{}}
	least := k.book.Least()
	for _, r := range k.book.Waiting() {
		n.request = r
		if k.parentEnded(r) != nil {
			return r, nil
		}
		if k.splits(r) {
			return r, r.Only
		}
		name := r.Holder.Service
		if n.stuck[name] = n.stuck[name] || k.overQuota(r, nil) != nil; n.stuck[name] {
			continue
		}
		if chosen, fits := placement.Choose(k.snapshot, r, n, nil); fits {
			return r, chosen
		}
		n.join(least)
	}
	return nil, nil
}

// Over random queues, the requests that are served are those that a look at
// everybody in the queue would serve, in the same order and on the same devices.
func TestServedInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 6} }
		w.settings.Services = map[string]quota.Served{"limited": {Service: quota.Service{Name: "limited", Quota: lease.Usage{Memory: 30, Slots: 5}}}}
		draw := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
		w.settings.Pass = draw("pass", 0, 1) == 1
		k := w.start(t)
		defer k.stop()
		for i := range 3 {
			k.device(i, gpu.MiB(20+10*i), used(70+i, gpu.MiB(draw("foreign", 0, 3))))
		}
		for i := range draw("leases", 0, 8) {
			r := want(fmt.Sprint("l-", i), gpu.MiB(draw("memory", 1, 12)), of(draw("user", 1, 4)), slots(draw("slots", 0, 2)),
				service([]string{"", "limited", "other"}[draw("service", 0, 2)]))
			r.Exclusive = draw("exclusive", 0, 9) == 0
			switch draw("end", 0, 2) {
			case 0:
				ttl(time.Hour)(&r)
			case 1:
				r.TimeLimit = time.Hour
			}
			_, _ = k.Acquire(t.Context(), r) // some find no room
		}
		k.Ledger.mu.Lock()
		defer k.Ledger.mu.Unlock()
		now := time.Now()
		k.effects = k.effects[:0]
		defer func() { k.undo(0) }()
		for i := range draw("waiting", 1, 25) {
			r := want(fmt.Sprint("w-", i), gpu.MiB(draw("memory", 0, 30)), of(draw("user", 1, 4)), slots(draw("slots", 0, 3)),
				gpus(draw("gpus", 1, 2)), service([]string{"", "limited", "other"}[draw("service", 0, 2)]))
			r.Priority, r.Requested, r.Deadline = draw("priority", -1, 1), now.Add(time.Duration(draw("age", 0, 5))), now.Add(time.Hour)
			if draw("early", 0, 1) == 0 { // before the leases
				r.Requested = r.Requested.Add(-time.Hour)
			}
			if draw("limited", 0, 1) == 0 {
				r.TimeLimit = time.Hour
			}
			if draw("exclusive", 0, 6) == 0 {
				r.Exclusive, r.Least, r.Memory = true, r.Memory, 40
			}
			switch draw("constraint", 0, 5) {
			case 0:
				r.Where.GPU = dev(draw("device", 0, 2))
				r.GPUs = 1
			case 1:
				r.Only = []string{dev(0), dev(draw("device", 1, 2))}
			case 2:
				if r.Parent = fmt.Sprint("l-", draw("parent", 0, 7)); k.besideParent(&r, time.Now()) != nil {
					continue
				}
			}
			if _, err := k.apply(lease.Ask{Request: &r}, now); err != nil {
				continue // it asks for nothing
			}
		}
		for range 4 {
			for {
				want, devices := k.firstSlowly(true)
				if want == nil {
					want, devices = k.firstSlowly(false)
				}
				if found := k.serveFirst(now); found != (want != nil) {
					t.Fatalf("somebody was served: %v, and %+v should be", found, want)
				}
				if want == nil {
					break
				}
				e := k.effects[len(k.effects)-1]
				if e.Request != want || e.Kind == lease.Granted && !slices.Equal(e.After.Devices(), devices) {
					t.Fatalf("%s was served (%s), and %s should be, on %v", e.Request.ID, e.Kind, want.ID, devices)
				}
			}
			for _, r := range k.book.Waiting() { // whoever waits cannot be granted by themselves either
				if granted := k.wouldGrant(r, k.aheadOf(r)); granted != nil && k.overQuota(r, &k.ahead) == nil {
					t.Fatalf("%s waits and would be granted", r.ID)
				}
			}
			leases := k.book.Leases()
			if len(leases) == 0 {
				break
			}
			ends := leases[draw("ends", 0, len(leases)-1)]
			if _, err := k.apply(lease.Release{Key: ends.Key(), By: ends.By}, now); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A request further back in its lane that waits for the quota of its service is
// seen even if no device with room suits the lane.
func TestStuckFurtherBackInALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", Quota: lease.Usage{Memory: 50}}}}
		k := w.start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.grant(want("full", 70, at(dev(0))))
		k.grant(want("used", 30, at(dev(0)), service("s")))
		var answers []<-chan decision
		for _, r := range []lease.Request{
			want("within", 5, at(dev(0)), service("s"), wait(time.Minute)),
			want("over", 40, at(dev(0)), service("s"), wait(time.Minute)),
			want("behind", 10, service("s"), wait(30*time.Second)),
		} {
			answers = append(answers, k.queue(t.Context(), r))
			time.Sleep(time.Second)
		}
		k.grant(want("other", 10, wait(time.Minute)))
		k.device(1, 100) // so that everybody is looked at again
		if got := k.waiting(); !slices.Equal(got, []string{"within", "over", "behind"}) {
			t.Errorf("%v wait", got)
		}
		for _, answer := range answers {
			if d := <-answer; status(d.err) != "timeout" {
				t.Errorf("%+v, %v", d.lease, d.err)
			}
		}
	})
}

// A child further back in its lane gets its memory from its parent although the
// first one of the lane cannot, and no device has room.
func TestSplitFurtherBackInALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("parent", 20))
		k.grant(want("full", 80, of(2)))
		k.device(0, 100, inState(gpu.Critical))
		child := func(r *lease.Request) { r.Parent = "parent" }
		large := k.queue(t.Context(), want("large", 40, child, wait(time.Minute)))
		time.Sleep(time.Second)
		small := k.queue(t.Context(), want("small", 10, child, wait(time.Minute)))
		k.device(0, 100)
		if d := <-small; d.err != nil {
			t.Error(d.err)
		}
		if got := k.waiting(); !slices.Equal(got, []string{"large"}) {
			t.Errorf("%v wait", got)
		}
		k.give("parent", 1)
		if d := <-large; status(d.err) != "withdrawn" {
			t.Errorf("large got %+v, %v", d.lease, d.err)
		}
	})
}
