package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// story is a random history of a ledger, with restarts and a disk that fails,
// beside the simplest account of it that there could be.
type story struct {
	*rapid.T
	world   *world
	keeper  *keeper
	devices [storyDevices]toyDevice
	asked   map[lease.Key]*toyRequest // without an answer yet
	held    map[lease.Key]*lease.Lease
	fence   uint64 // of the newest grant that was answered
	trouble bool   // the journal refuses
	fresh   []*lease.Lease
	grown   []*lease.Lease            // by a resize
	back    []*lease.Lease            // that were parked
	wanted  map[lease.Key]*toyRequest // for leases that there are

	restarted time.Time
	ages      map[lease.Key]time.Time // of those who waited at the last restart, as long as they do

	after func(*story) // what is to hold after every step
}

const (
	storyDevices = 3
	toyReserve   = 2
	toySlots     = 3
	toyQuota     = 10
)

type toyDevice struct {
	foreign gpu.MiB
	state   gpu.State
	slowest gpu.Opt[float64] // by a forecast; absent: the state decides alone
}

type toyRequest struct {
	request  lease.Request
	leave    func()
	answer   <-chan decision
	deadline time.Time
}

// tell runs a property over random histories.
func tell(t *testing.T, after func(*story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(undated{t}, func(t *rapid.T) {
			s := &story{T: t, world: newWorld(), asked: map[lease.Key]*toyRequest{}, wanted: map[lease.Key]*toyRequest{}, held: map[lease.Key]*lease.Lease{}, after: after}
			s.world.settings = quota.Settings{
				Device: func(string) quota.DeviceSettings {
					return quota.DeviceSettings{MaxPipelines: toySlots, Reserve: toyReserve}
				},
				Services: map[string]quota.Served{"limited": {Service: quota.Service{Name: "limited", Quota: lease.Usage{Memory: toyQuota}, Shrinkable: true}}},
				Wait:     20 * time.Second,
			}
			s.begin()
			for range 50 - s.draw("shorter", 0, 45) {
				s.step()
			}
			s.finish()
		})
	})
}

// undated hides the deadline of a test, which means nothing where time is not
// real.
type undated struct{ rapid.TB }

// begin starts a ledger in the world as it is.
func (s *story) begin() {
	s.keeper = s.world.start(s.T)
	for i := range s.devices {
		if s.devices[i].state == "" {
			s.devices[i].state = gpu.Optimal
		}
		s.observe(i)
	}
	synctest.Wait()
}

func (s *story) observe(i int) {
	d := s.devices[i]
	s.keeper.device(i, 12, inState(d.state), func(o *placement.Observation) {
		o.Sample.MemoryUsed, o.Multiplier, o.Slower = gpu.Some(d.foreign), gpu.Some(d.multiplier()), "it will be too hot"
	})
}

// draw prefers small numbers; where large ones make more trouble, it draws
// what is missing from the largest.
func (s *story) draw(name string, least, most int) int {
	return rapid.IntRange(least, most).Draw(s.T, name)
}

func (s *story) step() {
	s.fresh, s.grown, s.back = nil, nil, nil
	switch s.draw("step", 0, 22) {
	default:
		s.ask()
	case 6, 7, 8:
		s.release()
	case 9:
		user, k := s.drawKey()
		_, _ = s.keeper.Renew(s.Context(), byID(k.ID), 0, time.Duration(s.draw("ttl", 1, 20))*time.Second, by(user), nil)
		if l, stands := s.keeper.Find(k); stands && s.held[k] != nil && l.Fence == s.held[k].Fence {
			s.held[k] = l.Lease
		}
	case 10:
		time.Sleep(time.Duration(s.draw("seconds", 1, 10)) * time.Second)
	case 11:
		i := s.draw("device", 0, storyDevices-1)
		s.devices[i] = toyDevice{gpu.MiB(s.draw("foreign", 0, 8)), rapid.SampledFrom(gpu.States()).Draw(s.T, "state"), gpu.Opt[float64]{}}
		if s.draw("forecast", 0, 3) == 0 {
			s.devices[i].slowest = gpu.Some(rapid.SampledFrom([]float64{0.5, 0}).Draw(s.T, "slowest"))
		}
		s.observe(i)
	case 12:
		_, k := s.drawKey()
		for _, r := range []*toyRequest{s.asked[k], s.wanted[k]} {
			if r != nil {
				r.leave()
			}
		}
	case 13:
		s.trouble = true
		s.world.fail(errFull, s.draw("frees", 0, 1) == 1)
	case 14:
		s.mend()
	case 15:
		s.restart()
	case 16, 17:
		s.resize(0)
	case 18, 19:
		_, k := s.drawKey()
		if parked, err := s.keeper.Park(s.Context(), k, 0, access.Daemon(), ""); err == nil && s.held[k] != nil {
			s.held[k] = parked
		}
	case 20, 21:
		user, k := s.drawKey()
		since, wait := time.Now().Add(-time.Second), gpu.Opt[time.Duration]{}
		if s.draw("bounded", 0, 1) == 1 {
			wait = gpu.Some(time.Duration(s.draw("wait", 0, 60)) * time.Second)
		}
		s.want(k, wait.Or(forever), func(ctx context.Context, keeper *keeper) (*lease.Lease, error) {
			return keeper.Return(ctx, k, 0, by(user), "", since, wait)
		})
	case 22:
		if s.draw("shrink", 0, 1) == 0 {
			s.resize(time.Duration(s.draw("wait", 1, 60)) * time.Second)
			break
		}
		_, k := s.drawKey()
		if shrunk, err := s.keeper.Shrink(s.Context(), k, 0, gpu.MiB(s.draw("memory", 1, 10))); err == nil && s.held[k] != nil {
			s.held[k] = shrunk
		}
	}
	synctest.Wait()
	s.hear()
	s.after(s)
}

func (s *story) mend() {
	s.trouble = false
	s.world.fail(nil, false)
	time.Sleep(retry)
	synctest.Wait()
}

// restart stops the ledger, in an orderly way or not, and opens it again.
func (s *story) restart() {
	s.mend()
	s.hear()
	before := s.queue()
	if s.draw("killed", 0, 1) == 1 {
		s.keeper.die(s.world.disk.Kill)
	} else {
		s.keeper.stop()
	}
	synctest.Wait()
	stopped := s.stopped()
	s.hear()
	s.begin()
	s.restarted = time.Now()
	after := s.queue()
	if !slices.Equal(after, before) {
		s.Fatalf("%v waited, and after a restart %v", before, after)
	}
	s.ages = map[lease.Key]time.Time{}
	for _, r := range after {
		s.ages[r.key] = r.since
	}
	for _, r := range stopped {
		if s.draw("returns", 0, 2) > 0 {
			r.Repeated, r.Wait = true, gpu.Some(max(r.Wait.Or(0)-time.Since(r.Requested), 0))
			s.send(r)
		}
	}
}

// place is a place in the queue.
type place struct {
	key   lease.Key
	since time.Time
}

// queue lists those who wait for a new lease, in order.
func (s *story) queue() (list []place) {
	for _, r := range s.keeper.View().Waiting {
		if r.Into == 0 && !(r.Absent && r.Until.Before(time.Now())) {
			list = append(list, place{r.Key(), r.Requested.Round(0)})
		}
	}
	return list
}

// stopped returns the requests that were told to ask the next daemon.
func (s *story) stopped() (list []lease.Request) {
	for k, r := range s.asked {
		select {
		case d := <-r.answer:
			r.leave()
			if delete(s.asked, k); errors.Is(d.err, ErrStopped) {
				list = append(list, r.request)
			} else if d.err == nil {
				s.Fatalf("%s was granted while the ledger stopped", k.ID)
			}
		default:
			s.Fatalf("%s was told nothing when the ledger stopped", k.ID)
		}
	}
	slices.SortFunc(list, func(a, b lease.Request) int { return a.Requested.Compare(b.Requested) })
	return list
}

func (s *story) drawID() string { return fmt.Sprintf("job-%d", s.draw("id", 0, 6)) }

// drawKey draws one of two users, and the key of one of their ids.
func (s *story) drawKey() (user int, k lease.Key) {
	user = s.draw("user", 1, 2)
	r := want(s.drawID(), 1, of(user))
	return user, r.Key()
}

func (s *story) ask() {
	r := want(s.drawID(), gpu.MiB(10-s.draw("spare", 0, 10)), slots(s.draw("slots", 0, 2)), gpus(s.draw("gpus", 1, 2)),
		of(s.draw("user", 1, 2)), priority(s.draw("priority", 0, 1)), wait(time.Duration(60-s.draw("haste", 0, 60))*time.Second))
	if s.draw("pinned", 0, 3) == 0 {
		at(dev(s.draw("device", 0, storyDevices-1)))(&r)
	}
	if s.draw("service", 0, 2) == 0 {
		service("limited")(&r)
	}
	r.Exclusive = s.draw("exclusive", 0, 4) == 4
	if s.draw("binding", 0, 2) == 0 {
		ttl(time.Duration(60-s.draw("short", 0, 59)) * time.Second)(&r)
	}
	if s.asked[r.Key()] != nil {
		return // one answer at a time is enough to listen to
	}
	s.send(r)
}

// send makes a request.
func (s *story) send(r lease.Request) {
	ctx, leave := context.WithCancel(s.Context())
	answers := make(chan decision, 1)
	go func(k *keeper, r lease.Request) {
		l, err := k.Acquire(ctx, r)
		answers <- decision{l, err}
	}(s.keeper, r)
	if !r.Repeated {
		r.Requested = time.Now()
	}
	s.asked[r.Key()] = &toyRequest{r, leave, answers, time.Now().Add(r.Wait.Or(0))}
}

func (s *story) release() {
	user, k := s.drawKey()
	if _, err := s.keeper.Release(s.Context(), byID(k.ID), 0, by(user)); err == nil {
		delete(s.held, k)
	}
}

// want asks for what a lease does not have now, if nobody asks for it already.
func (s *story) want(k lease.Key, wait time.Duration, ask func(context.Context, *keeper) (*lease.Lease, error)) {
	if s.wanted[k] != nil {
		return
	}
	ctx, leave := context.WithCancel(s.Context())
	answers := make(chan decision, 1)
	go func(k *keeper) {
		l, err := ask(ctx, k)
		answers <- decision{l, err}
	}(s.keeper)
	s.wanted[k] = &toyRequest{leave: leave, answer: answers, deadline: time.Now().Add(wait)}
}

func (s *story) resize(wait time.Duration) {
	user, k := s.drawKey()
	memory := gpu.MiB(s.draw("memory", 1, 10))
	if wait > 0 {
		s.want(k, wait, func(ctx context.Context, keeper *keeper) (*lease.Lease, error) {
			return keeper.Resize(ctx, byID(k.ID), 0, memory, by(user), nil, wait)
		})
		return
	}
	was, _ := s.keeper.Find(k)
	resized, err := s.keeper.Resize(s.Context(), byID(k.ID), 0, memory, by(user), nil, 0)
	if err != nil {
		return
	}
	if s.held[k] != nil && resized.Fence == s.held[k].Fence {
		s.held[k] = resized
	}
	if was.Lease != nil && resized.Total().Memory > was.Total().Memory {
		s.grown = append(s.grown, resized)
	}
}

// hear takes in what was answered meanwhile.
func (s *story) hear() {
	for k, r := range s.asked {
		select {
		case d := <-r.answer:
			r.leave()
			delete(s.asked, k)
			if d.err == nil {
				s.fresh = append(s.fresh, d.lease)
				s.held[k] = d.lease
			}
		default:
		}
	}
	for k, r := range s.wanted {
		select {
		case d := <-r.answer:
			r.leave()
			delete(s.wanted, k)
			if d.err == nil && s.held[k] != nil && s.held[k].Fence == d.lease.Fence {
				was := s.held[k]
				s.held[k] = d.lease
				switch {
				case was.State == lease.Parked:
					s.back = append(s.back, d.lease)
				case d.lease.Total().Memory > was.Total().Memory:
					s.grown = append(s.grown, d.lease)
				}
			}
		default:
		}
	}
	slices.SortFunc(s.fresh, func(a, b *lease.Lease) int { return int(a.Fence) - int(b.Fence) })
	for k, l := range s.held {
		if l.Binding == lease.ByTTL && l.State != lease.Parked && !time.Now().Before(l.Expires) {
			delete(s.held, k)
		}
	}
}

// finish lets everybody who waits come to an end.
func (s *story) finish() {
	s.mend()
	time.Sleep(time.Minute)
	for _, r := range s.wanted { // a parked lease waits for ever
		r.leave()
	}
	synctest.Wait()
	s.hear()
	s.keeper.stop()
}

// The sums, worked out anew from nothing but the list of leases.

func (d *toyDevice) multiplier() float64 { return min(d.state.Multiplier(), d.slowest.Or(1)) }

func (d *toyDevice) usable() int { return lease.UsableSlots(toySlots, d.multiplier()) }

const toyCeiling = gpu.MiB(12 - toyReserve)

// holdings is what takes something of a device.
func (s *story) holdings(i int, leases []Held) (all []lease.Load, memory gpu.MiB, slots int) {
	for _, l := range leases {
		for _, p := range l.Parts {
			if p.GPU == dev(i) && l.State == lease.Active {
				all = append(all, lease.Load{Memory: p.Memory, Slots: p.Slots})
				memory += p.Memory
				slots += p.Slots
			}
		}
	}
	return all, memory, slots
}

func (s *story) left(i int, leases []Held) (memory gpu.MiB, slots int) {
	_, leased, active := s.holdings(i, leases)
	return toyCeiling - leased - s.devices[i].foreign, s.devices[i].usable() - active
}

// grantable is whether a request could be granted behind those who are ahead.
func (s *story) grantable(r *lease.Request, ahead []*lease.Request, leases []Held) bool {
	for _, other := range append(slices.Clone(ahead), r) {
		if other.Holder.Service != "limited" || r.Holder.Service != "limited" {
			continue
		}
		if s.serviceUse(leases)+other.Memory*gpu.MiB(other.GPUs) > toyQuota {
			return false // it, or one of its service before it, waits for the quota
		}
	}
	fit := 0
	for i := range s.devices {
		memory, slots := s.left(i, leases)
		if s.devices[i].multiplier() > 0 && allows(r, i) && s.shares(i, r, leases) && memory >= r.Load().Memory && (r.Slots == 0 || slots >= r.Slots) && !s.delaysOn(i, r, ahead, leases) {
			fit++
		}
	}
	return fit >= r.GPUs
}

func allows(r *lease.Request, i int) bool {
	pin := r.Where.GPU
	return (pin == "" || pin == dev(i)) && (r.Only == nil || slices.Contains(r.Only, dev(i))) && r.Load().Memory <= toyCeiling && r.Slots <= toySlots
}

// shares is whether a request may be on a device beside the leases there.
func (s *story) shares(i int, r *lease.Request, leases []Held) bool {
	for _, l := range leases {
		if l.State == lease.Active && l.On(dev(i)) && (l.Exclusive || r.Exclusive) {
			return false
		}
	}
	return true
}

// takes is what a request takes of a device: all of it, if it wants the device alone.
func takes(r *lease.Request) lease.Load {
	if r.Exclusive {
		return lease.Load{Memory: toyCeiling, Slots: toySlots}
	}
	return r.Load()
}

func (s *story) serviceUse(leases []Held) (memory gpu.MiB) {
	for _, l := range leases {
		if l.Holder.Service == "limited" && l.State == lease.Active {
			memory += l.Total().Memory
		}
	}
	return memory
}

// delaysOn tries every set of what may be on the device when the time comes.
func (s *story) delaysOn(i int, later *lease.Request, ahead []*lease.Request, leases []Held) bool {
	things, _, _ := s.holdings(i, leases)
	things = append(things, lease.Load{Memory: s.devices[i].foreign}, lease.Load{Slots: toySlots - s.devices[i].usable()})
	var before []*lease.Request
	for _, r := range ahead {
		stuck := r.Holder.Service == "limited" && !s.withinQuota(r, ahead, leases)
		if allows(r, i) && !stuck {
			before = append(before, r)
		}
	}
	for _, first := range before {
		others := slices.Clone(things)
		for _, r := range before {
			if r != first {
				others = append(others, takes(r))
			}
		}
		for set := range 1 << len(others) {
			sum := takes(first)
			for n, one := range others {
				if set>>n&1 == 1 {
					sum.Memory, sum.Slots = sum.Memory+one.Memory, sum.Slots+one.Slots
				}
			}
			if sum.Memory <= toyCeiling && sum.Slots <= toySlots &&
				(sum.Memory+later.Claim().Memory > toyCeiling || sum.Slots+later.Claim().Slots > toySlots) {
				return true
			}
		}
	}
	return false
}

// withinQuota is whether neither a request nor one of its service before it
// waits for the quota.
func (s *story) withinQuota(r *lease.Request, all []*lease.Request, leases []Held) bool {
	for _, other := range all {
		if other.Holder.Service == "limited" && s.serviceUse(leases)+other.Memory*gpu.MiB(other.GPUs) > toyQuota {
			return false
		}
		if other == r {
			return true
		}
	}
	return true
}
