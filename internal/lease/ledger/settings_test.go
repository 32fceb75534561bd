package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

func TestServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"s": {
			Preferred: dev(1),
			Service: quota.Service{
				Name: "s", MinMemory: 20, MaxMemory: 40, Priority: 3, Users: []string{"user1"},
				Quota: lease.Usage{Memory: 70, Slots: 2},
			},
		}}
		k := w.start(t)
		for i := range 3 {
			k.device(i, 100)
		}
		raised := k.grant(want("raised", 5, service("s"), priority(9)))
		if p := raised.Parts[0]; p.Memory != 20 || p.GPU != dev(1) || !raised.Raised || raised.Priority != 3 ||
			!strings.Contains(raised.Note, "raised from 5 MiB to the service's minimum of 20 MiB") {
			t.Errorf("the lease is %+v", raised)
		}
		for _, test := range []struct {
			name    string
			request lease.Request
			want    error
		}{
			{"over the maximum", want("x", 41, service("s"), wait(time.Hour)), quota.ErrMaxMemory},
			{"another user", want("x", 30, service("s"), of(2), wait(time.Hour)), quota.ErrUser},
			{"more than the quota", want("x", 40, service("s"), gpus(2), wait(time.Hour)), quota.ErrQuota},
			{"more slots than the quota", want("x", 20, service("s"), slots(3), wait(time.Hour)), quota.ErrQuota},
			{"more than is left of the quota", want("x", 30, service("s"), gpus(2)), quota.ErrQuota},
		} {
			if err := k.refused(test.request); !errors.Is(err, test.want) {
				t.Errorf("%s: refused with %v", test.name, err)
			}
		}
		k.grant(want("y", 50, of(2), service("another"))) // nothing is set for it
		waits := k.queue(t.Context(), want("z", 30, service("s"), gpus(2), wait(time.Hour)))
		k.give("raised", 1)
		if d := <-waits; d.err != nil || len(d.lease.Parts) != 2 {
			t.Errorf("the one who waited for the quota got %+v, %v", d.lease, d.err)
		}
	})
}

// The device that a service prefers is known by its index as well as its UUID.
// One that is not there is no preference.
func TestPreferredDevice(t *testing.T) {
	for ref, uuid := range map[string]string{dev(2): dev(2), strings.ToLower(dev(2)): dev(2), "2": dev(2), "9": dev(0), "GPU-gone": dev(0), "": dev(0)} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.settings.Services = map[string]quota.Served{"s": {Preferred: ref, Service: quota.Service{Name: "s"}}}
			k := w.start(t)
			for i := range 3 {
				k.device(i, 100)
			}
			if got := k.grant(want("a", 10, service("s"))).Parts[0].GPU; got != uuid {
				t.Errorf("preferred %q: granted on %s, want %s", ref, got, uuid)
			}
		})
	}
}

// Where only configured services may ask, others are refused, and requests in
// the name of no service are served.
func TestUnknownServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"embedder": {Service: quota.Service{Name: "embedder"}}}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("before", 1, service("stranger")))
		w.settings.KnownOnly = true
		k.Configure(w.settings)
		err := k.refused(want("x", 1, service("embeder"), wait(time.Hour)))
		if !errors.Is(err, quota.ErrService) || !strings.Contains(err.Error(), "did you mean embedder?") {
			t.Errorf("refused with %v", err)
		}
		if _, err := k.Explain(want("x", 1, service("stranger"))); !errors.Is(err, quota.ErrService) {
			t.Errorf("explained with %v", err)
		}
		k.grant(want("known", 1, service("embedder")))
		k.grant(want("none", 1))
		if got := k.leases(); !slices.Equal(got, []string{"before", "known", "none"}) {
			t.Errorf("leases are %v", got)
		}
	})
}

func TestConfigureHoldsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 60, slots(2)))
		set := func(d quota.DeviceSettings, services map[string]quota.Served) {
			k.Configure(quota.Settings{Device: func(string) quota.DeviceSettings { return d }, Services: services, Wait: time.Minute})
		}
		set(quota.DeviceSettings{MaxPipelines: 2, Limit: 80, Reserve: 5}, nil)
		k.expect(15, 60, 0, 0)
		set(quota.DeviceSettings{MaxPipelines: 1, Limit: 50}, nil) // what no longer fits stands
		k.expect(-10, 60, 0, 0)
		if got := k.leases(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("leases are %v", got)
		}
		waits := k.queue(t.Context(), want("b", 50, wait(time.Hour)))
		slot := k.queue(t.Context(), want("c", 0, slots(1), wait(time.Hour)))
		set(quota.DeviceSettings{MaxPipelines: 4}, nil)
		if d := <-slot; d.err != nil {
			t.Error(d.err)
		}
		if got := k.waiting(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("%v wait", got)
		}
		k.give("a", 1)
		if d := <-waits; d.err != nil {
			t.Error(d.err)
		}
		set(quota.DeviceSettings{}, map[string]quota.Served{"s": {Service: quota.Service{Name: "s", MaxMemory: 5}}})
		if err := k.refused(want("d", 6, service("s"))); !errors.Is(err, quota.ErrMaxMemory) {
			t.Errorf("refused with %v", err)
		}
		// Without a number of its own, a device gets its share of the CPUs.
		if sum := k.Sum(dev(0)); sum.MaxPipelines != 4 {
			t.Errorf("it has %d slots, want 4", sum.MaxPipelines)
		}
		k.device(1, 100)
		k.device(2, 100)
		for i := range 3 {
			if sum := k.Sum(dev(i)); sum.MaxPipelines != 2 {
				t.Errorf("%s has %d slots, want 2", dev(i), sum.MaxPipelines)
			}
		}
	})
}

// A device that is in use with little load gets one more slot, and keeps it while it is
// taken.
func TestExtraSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 1, Extra: 1} }
		k := w.start(t)
		measure := func(load gpu.Percent) {
			k.device(0, 100, func(o *placement.Observation) {
				o.Sample.Time, o.Sample.Utilization = time.Now(), gpu.Some(load)
			})
		}
		measure(5)
		k.grant(want("a", 10, slots(1)))
		measure(5)
		waits := k.queue(t.Context(), want("b", 10, slots(1), wait(time.Hour)))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := k.waiting(); !slices.Equal(got, []string{"b"}) {
			t.Fatalf("%v wait before the load is known", got)
		}
		measure(5)
		if d := <-waits; d.err != nil {
			t.Fatal(d.err)
		}
		measure(95)
		if sum := k.Sum(dev(0)); sum.MaxPipelines != 2 || sum.Active != 2 {
			t.Errorf("busy, it has %d of %d slots in use", sum.Active, sum.MaxPipelines)
		}
		k.give("a", 1)
		time.Sleep(2 * time.Minute)
		measure(95)
		if sum := k.Sum(dev(0)); sum.MaxPipelines != 1 || sum.Active != 1 {
			t.Errorf("when one has ended, it has %d of %d slots in use", sum.Active, sum.MaxPipelines)
		}
	})
}
