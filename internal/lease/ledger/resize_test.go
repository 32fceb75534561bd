package ledger

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// resize resizes a lease of the first user.
func (k *keeper) resize(id string, memory gpu.MiB) error {
	_, err := k.Resize(k.t.Context(), byID(id), 0, memory, by(1), nil, 0)
	return err
}

func TestResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("a", 30))
		k.grant(want("b", 50))
		resized, err := k.Resize(t.Context(), byID("a"), 1, 50, by(1), nil, 0)
		if err != nil || resized.Parts[0].Memory != 50 || resized.Fence != 1 {
			t.Fatalf("resized to %+v, %v", resized, err)
		}
		if e := k.told(gpu.EventResized, "a"); e.Text != "a was resized from 30 MiB to 50 MiB on GPU 0" || e.Data["was_mb"] != int64(30) || e.Data["memory_mb"] != int64(50) {
			t.Errorf("it was told as %q with %v", e.Text, e.Data)
		}
		k.expect(0, 100, 0, 0)
		refused := (*placement.ResizeError)(nil)
		if err := k.resize("a", 60); !errors.As(err, &refused) || refused.Has() != 50 || refused.Most != 50 || refused.Asked != 60 {
			t.Errorf("a growth without room: %v", err)
		}
		waits := k.queue(t.Context(), want("c", 40, wait(time.Hour), of(2)))
		if err := k.resize("a", 60); !errors.As(err, &refused) {
			t.Errorf("a growth before somebody who waits: %v", err)
		}
		if err := k.resize("a", 10); err != nil { // gives back at once
			t.Error(err)
		}
		if d := <-waits; d.err != nil {
			t.Error(d.err)
		}
		k.expect(0, 100, 0, 0)
	})
}

// A growth that would fit must not delay those who wait.
func TestGrowthDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("a", 30))
		k.grant(want("b", 30, of(2)))
		k.queue(t.Context(), want("large", 70, wait(time.Hour), of(2)))
		refused := (*placement.ResizeError)(nil)
		if err := k.resize("a", 60); !errors.As(err, &refused) || !strings.Contains(refused.Why.Error(), "waits already") {
			t.Errorf("a growth that delays: %v", err)
		}
		k.give("large", 2)
		if err := k.resize("a", 60); err != nil {
			t.Error(err)
		}
	})
}

func TestResizeWithinTheSettingsOfTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{
			Name: "s", MinMemory: 20, MaxMemory: 60, Quota: lease.Usage{Memory: 70},
		}}}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 30, service("s")))
		k.grant(want("b", 20, service("s")))
		if err := k.resize("a", 61); !errors.Is(err, quota.ErrMaxMemory) {
			t.Errorf("beyond the maximum: %v", err)
		}
		if err := k.resize("a", 51); !errors.Is(err, quota.ErrQuota) {
			t.Errorf("beyond the quota: %v", err)
		}
		if err := k.resize("a", 50); err != nil {
			t.Errorf("the whole quota: %v", err)
		}
		if err := k.resize("a", 1); err != nil {
			t.Error(err)
		}
		if held, _ := k.Find(k.only("a")); held.Parts[0].Memory != 20 {
			t.Errorf("it was resized to %s, and the minimum is 20 MiB", held.Parts[0].Memory)
		}
	})
}

// What its processes use beyond a lease is taken already, so the lease may grow
// to it.
func TestResizeToWhatIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		pid := child(t).Process.Pid
		k.device(0, 100)
		k.grant(want("a", 30, k.held(pid)))
		k.grant(want("b", 30))
		k.device(0, 100, used(pid, 60))
		k.expect(10, 60, 30, 0)
		if err := k.resize("a", 70); err != nil {
			t.Error(err)
		}
		k.expect(0, 100, 0, 0)
		if err := k.resize("a", 50); err != nil {
			t.Error(err)
		}
		k.expect(10, 80, 10, 0)
	})
}

func TestResizeRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 30))
		k.grant(want("of another", 10, of(2)))
		k.grant(want("capped", 10, func(r *lease.Request) { r.EnforcedBy = "mps" }))
		fields := lease.FieldErrors{}
		for _, test := range []struct {
			id     string
			fence  uint64
			memory gpu.MiB
			want   error
		}{
			{"nobody", 0, 10, lease.ErrUnknown},
			{"of another", 0, 10, lease.ErrUnknown},
			{"of another", 0, 1000, lease.ErrUnknown},
			{"a", 9, 10, lease.ErrNoFence},
			{"a", 2, 1000, lease.ErrStaleFence},
			{"capped", 0, 5, lease.ErrEnforced},
			{"capped", 0, 1000, lease.ErrEnforced},
		} {
			if _, err := k.Resize(t.Context(), byID(test.id), test.fence, test.memory, by(1), nil, 0); !errors.Is(err, test.want) {
				t.Errorf("%s, fence %d, to %s: %v", test.id, test.fence, test.memory, err)
			}
		}
		for _, memory := range []gpu.MiB{0, -1, lease.MaxMemory + 1} {
			if err := k.resize("a", memory); !errors.As(err, &fields) {
				t.Errorf("%d MiB: %v", memory, err)
			}
		}
		k.device(0, 100, inState(gpu.Unavailable))
		if err := k.resize("a", 40); err == nil {
			t.Error("it grew on a device that is not there")
		}
		if err := k.resize("a", 20); err != nil {
			t.Errorf("it could not give back on a device that is not there: %v", err)
		}
		k.device(0, 100)
		w.fail(errFull, true) // takes what frees something
		if err := k.resize("a", 40); !errors.Is(err, errFull) {
			t.Errorf("it grew on a full disk: %v", err)
		}
		if err := k.resize("a", 10); err != nil {
			t.Errorf("it could not give back on a full disk: %v", err)
		}
		w.fail(nil, false)
	})
}
