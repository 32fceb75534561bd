package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// pool makes the request one for a pool.
func pool(r *lease.Request) { r.Pool = true }

// from makes the request one for memory of a pool.
func from(pool string) func(*lease.Request) {
	return func(r *lease.Request) { r.Parent, r.FromPool = pool, true }
}

// Programs take memory from a pool at once while others wait, and the others wait for
// nothing that is in the pool.
func TestPoolWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("render", 60, pool, service("studio")))
		k.grant(want("other", 30, of(2)))
		waits := k.queue(t.Context(), want("big", 40, of(3), wait(time.Hour)))
		for _, id := range []string{"a", "b"} {
			if got := k.grant(want(id, 25, from("render"))); got.Parts[0] != (lease.Part{GPU: dev(0), Memory: 25}) || got.Holder.Service != "studio" {
				t.Errorf("%s is %+v of %q", id, got.Parts, got.Holder.Service)
			}
		}
		full := (*lease.PoolError)(nil)
		if err := k.refused(want("c", 11, from("render"), wait(time.Hour))); !errors.As(err, &full) || full.Left() != 10 || full.Size != 60 {
			t.Errorf("for more than is left: %v", err)
		}
		k.expect(10, 90, 0, 0)
		k.give("b", 1)
		k.grant(want("c", 11, from("render")))
		k.expect(10, 90, 0, 0)

		// A smaller pool gives memory to whoever waits.
		if _, err := k.Resize(t.Context(), byID("render"), 0, 35, by(1), nil, 0); !errors.Is(err, lease.ErrPoolInUse) {
			t.Errorf("to less than is taken: %v", err)
		}
		if _, err := k.Resize(t.Context(), byID("render"), 0, 36, by(1), nil, 0); err != nil {
			t.Error(err)
		}
		k.stop()
		k = w.start(t)
		k.device(0, 100)
		k.expect(34, 66, 0, 0)
		if held, _ := k.Find(k.only("render")); held.InPool == nil || *held.InPool != (lease.PoolUse{Size: 36, Taken: 36, Leases: 2}) {
			t.Errorf("after a restart the pool is %+v", held.InPool)
		}
		<-waits
		if _, err := k.Park(t.Context(), k.only("render"), 0, access.Daemon(), ""); !errors.Is(err, lease.ErrUnparkable) || !strings.Contains(err.Error(), "it is a pool") {
			t.Errorf("parked: %v", err)
		}
	})
}

func TestPoolRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"small": {Service: quota.Service{Name: "small", Quota: lease.Usage{Memory: 5}}}}
		w.settings.Limits = quota.Lookup{Of: func(s lease.Subject) *lease.Limits {
			l := lease.Builtin()
			l.Subject = s
			l.Memory = lease.Limit[gpu.MiB]{Opt: gpu.Some[gpu.MiB](60)}
			return &l
		}}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("render", 60, pool)) // all that the user may have
		k.grant(want("plain", 1, of(2)))
		k.grant(want("a", 60, from("render"))) // nothing beyond it
		k.give("a", 1)
		var fields lease.FieldErrors
		for name, test := range map[string]struct {
			request lease.Request
			want    error // nil: a field
		}{
			"of nobody":               {want("a", 1, from("gone")), lease.ErrNoPool},
			"of another user":         {want("a", 1, from("render"), of(2)), lease.ErrNoPool},
			"of a lease":              {want("a", 1, from("plain"), of(2)), lease.ErrNoPool},
			"with a slot":             {want("a", 1, from("render"), slots(1)), nil},
			"beyond its quota":        {want("a", 6, from("render"), service("small")), quota.ErrQuota},
			"more than there is":      {want("a", 61, from("render")), lease.ErrPoolFull},
			"on two devices":          {want("a", 1, from("render"), gpus(2)), nil},
			"a pool over two devices": {want("b", 1, pool, gpus(2)), nil},
			"a pool in a pool":        {want("b", 1, pool, under("render")), nil},
		} {
			err := k.refused(test.request)
			if test.want == nil && !errors.As(err, &fields) || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		k.device(0, 100, inState(gpu.Unavailable))
		closed := (*ClosedError)(nil)
		if err := k.refused(want("a", 1, from("render"))); !errors.As(err, &closed) {
			t.Errorf("on a device that is not there: %v", err)
		}
		if e, err := k.Explain(want("a", 70, from("render"))); err != nil || e.Quota == nil || e.Grant != nil || e.LargestEver != 60 {
			t.Errorf("explained: %+v, %v", e, err)
		}
		k.device(0, 100)
		if e, err := k.Explain(want("a", 20, from("render"))); err != nil || e.Quota != nil || e.Grant == nil || !k.Fits(want("a", 20, from("render"))) {
			t.Errorf("explained: %+v, %v", e, err)
		}
	})
}

// A pool that is bound to a process ends when that is killed. The programs that have
// memory from it go on with what they have, also in the next daemon.
func TestPoolWhoseHolderIsKilled(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	holder, worker := child(t), child(t)
	k.grant(want("render", 60, pool, k.bound(holder.Process.Pid)))
	k.grant(want("a", 25, from("render"), k.bound(worker.Process.Pid)))
	kill(t, holder)
	k.told(gpu.EventReleased, "render")
	k.expect(75, 25, 0, 0)
	again := k.grant(want("render", 70, pool))
	k.grant(want("b", 70, from("render")))
	k.expect(5, 95, 0, 0)
	k.die(w.disk.Kill)
	k = w.start(t)
	k.device(0, 100)
	k.expect(5, 95, 0, 0)
	if held, _ := k.Find(k.only("render")); held.Fence != again.Fence || held.InPool.Taken != 70 || held.InPool.Leases != 1 {
		t.Errorf("the pool is %+v", held.InPool)
	}
	kill(t, worker)
	k.told(gpu.EventReleased, "a")
	k.expect(30, 70, 0, 0)
}

// poolStory is a random history of pools, with kills of the daemon and a disk that fails,
// beside a list of what was answered.
type poolStory struct {
	*rapid.T
	world  *world
	keeper *keeper
	held   map[string]*lease.Lease // by id
}

func (s *poolStory) draw(name string, least, most int) int {
	return rapid.IntRange(least, most).Draw(s.T, name)
}

func (s *poolStory) begin() {
	s.keeper = s.world.start(s.T)
	s.keeper.device(0, 40)
	s.keeper.device(1, 40)
	synctest.Wait()
}

func (s *poolStory) step() {
	id := fmt.Sprintf("pool-%d", s.draw("pool", 0, 2))
	child := fmt.Sprintf("job-%d", s.draw("job", 0, 5))
	memory := gpu.MiB(s.draw("memory", 1, 20))
	ask := func(r lease.Request) {
		if l, err := s.keeper.Acquire(s.Context(), r); err == nil {
			s.held[r.ID] = l
		}
	}
	switch s.draw("step", 0, 9) {
	case 0, 1:
		ask(want(id, memory, pool))
	case 2, 3, 4:
		ask(want(child, memory/2, from(id)))
	case 5:
		ask(want(child, memory))
	case 6:
		given := id
		if s.draw("which", 0, 2) > 0 {
			given = child
		}
		if _, err := s.keeper.Release(s.Context(), byID(given), 0, by(1)); err == nil {
			delete(s.held, given)
		}
	case 7:
		if l, err := s.keeper.Resize(s.Context(), byID(id), 0, memory, by(1), nil, 0); err == nil {
			s.held[id] = l
		}
	case 8:
		s.world.fail([]error{nil, errFull, errBroken}[s.draw("disk", 0, 2)], s.draw("frees", 0, 1) == 1)
	case 9:
		s.world.fail(nil, false)
		time.Sleep(retry)
		synctest.Wait()
		if s.draw("killed", 0, 1) == 1 {
			s.keeper.die(s.world.disk.Kill)
		} else {
			s.keeper.stop()
		}
		s.begin()
	}
	synctest.Wait()
	s.agree()
}

// agree demands that the ledger has what was answered, and sells nothing twice.
func (s *poolStory) agree() {
	have := map[string]*lease.Lease{}
	left := map[string]gpu.MiB{dev(0): 40, dev(1): 40}
	taken := map[uint64]gpu.MiB{}
	for _, l := range s.keeper.View().Leases {
		have[l.ID] = l.Lease
		taken[l.From] += l.Parts[0].Memory
	}
	for _, l := range s.keeper.View().Leases {
		part := l.Parts[0]
		if !l.Pool {
			left[part.GPU] -= part.Memory
			continue
		}
		if left[part.GPU] -= part.Memory - taken[l.Fence]; taken[l.Fence] > part.Memory || l.InPool.Taken != taken[l.Fence] {
			s.Fatalf("the children of %s have %s, and it says %+v", l.ID, taken[l.Fence], *l.InPool)
		}
	}
	if ids, want := slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(s.held)); !slices.Equal(ids, want) {
		s.Fatalf("the ledger has %v, and answered %v", ids, want)
	}
	for id, l := range s.held {
		if have[id].Fence != l.Fence || have[id].From != l.From || !slices.Equal(have[id].Parts, l.Parts) {
			s.Fatalf("%s is %+v, and was answered as %+v", id, have[id], l)
		}
	}
	for uuid, memory := range left {
		if sum := s.keeper.Sum(uuid); sum.Available() != memory || memory < 0 {
			s.Fatalf("%s has %s available, and should have %s", uuid, sum.Available(), memory)
		}
	}
}

func TestPoolStories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(undated{t}, func(t *rapid.T) {
			s := &poolStory{T: t, world: newWorld(), held: map[string]*lease.Lease{}}
			s.begin()
			for range 40 {
				s.step()
			}
			s.world.fail(nil, false)
			time.Sleep(retry)
			synctest.Wait()
			s.keeper.stop()
		})
	})
}
