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

func TestGrantAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		a := k.grant(want("a", 60, slots(1)))
		if a.Fence == 0 || !a.Granted.Equal(time.Now()) || !slices.Equal(a.Parts, []lease.Part{{GPU: dev(0), Memory: 60, Slots: 1}}) {
			t.Errorf("the lease is %+v", a)
		}
		if sum := k.Sum(dev(0)); sum.Available() != 40 || sum.Active != 1 {
			t.Errorf("what is left is %s, with %d slots in use", sum.Available(), sum.Active)
		}
		noFit := (*placement.NoFitError)(nil)
		if err := k.refused(want("b", 41)); !errors.As(err, &noFit) || noFit.LargestNow != 40 || noFit.Reasons[0].Code != placement.NoMemory {
			t.Errorf("more than is left was refused with %v", err)
		}
		ended, err := k.Release(t.Context(), byID("a"), a.Fence, by(1))
		if err != nil || ended != a {
			t.Errorf("Release = %+v, %v", ended, err)
		}
		if sum := k.Sum(dev(0)); sum.Available() != 100 || sum.Active != 0 {
			t.Errorf("what is left is %s, with %d slots in use", sum.Available(), sum.Active)
		}
		if b := k.grant(want("a", 100)); b.Fence <= a.Fence {
			t.Errorf("fence %d came after %d", b.Fence, a.Fence)
		}
	})
}

func TestDuplicatesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("held", 100))
		waits := k.queue(t.Context(), want("waits", 10, wait(time.Hour)))
		for _, id := range []string{"held", "waits"} {
			for _, w := range []time.Duration{0, time.Hour} {
				if err := k.refused(want(id, 1, wait(w))); !errors.Is(err, lease.ErrDuplicate) {
					t.Errorf("%s was refused with %v", id, err)
				}
			}
			if _, err := k.Adopt(t.Context(), Adoption{ID: id, Holder: user(1), GPU: dev(0), Memory: 1}); !errors.Is(err, lease.ErrDuplicate) {
				t.Errorf("adoption as %s was refused with %v", id, err)
			}
		}
		k.give("held", 1)
		if d := <-waits; d.err != nil {
			t.Error(d.err)
		}
	})
}

func TestOnlyTheHolderMayEndALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		a := k.grant(want("a", 100, ttl(time.Hour)))
		waits := k.queue(t.Context(), want("b", 10, wait(time.Hour)))
		for _, id := range []string{"a", "b"} {
			if _, err := k.Release(t.Context(), byID(id), 0, by(2)); !errors.Is(err, lease.ErrUnknown) || strings.Contains(err.Error(), "somebody") {
				t.Errorf("somebody else's release of %s: %v", id, err)
			}
			if _, err := k.Release(t.Context(), lease.Name{User: "1", ID: id}, 0, by(2)); !errors.Is(err, lease.ErrNotYours) {
				t.Errorf("somebody else's release of 1/%s: %v", id, err)
			}
		}
		if _, err := k.Renew(t.Context(), lease.Name{User: "1", ID: "a"}, a.Fence, 0, by(2), nil); !errors.Is(err, lease.ErrNotYours) {
			t.Errorf("somebody else's renewal: %v", err)
		}
		if got := k.leases(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("leases are %v", got)
		}
		admin := admin(0)
		if _, err := k.Release(t.Context(), byID("b"), 0, admin); err != nil {
			t.Errorf("an administrator's withdrawal: %v", err)
		}
		if d := <-waits; status(d.err) != "withdrawn" {
			t.Errorf("the one who waited was told %v", d.err)
		}
		if _, err := k.Release(t.Context(), byID("a"), 0, admin); err != nil {
			t.Errorf("an administrator's release: %v", err)
		}
		if _, err := k.Release(t.Context(), byID("a"), 0, admin); !errors.Is(err, lease.ErrUnknown) {
			t.Errorf("a second release: %v", err)
		}
	})
}

func TestLeaseThatIsNotRenewedExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		a := k.grant(want("a", 100, ttl(10*time.Second)))
		waits := k.queue(t.Context(), want("b", 100, wait(time.Hour)))
		time.Sleep(9 * time.Second)
		renewed, err := k.Renew(t.Context(), byID("a"), a.Fence, 0, by(1), nil)
		if err != nil || !renewed.Expires.Equal(time.Now().Add(10*time.Second)) || renewed.Fence != a.Fence {
			t.Fatalf("Renew = %+v, %v", renewed, err)
		}
		renewedAt := time.Now()
		if d := <-waits; d.err != nil || !d.lease.Granted.Equal(renewedAt.Add(10*time.Second)) {
			t.Errorf("the one who waited got %+v, %v", d.lease, d.err)
		}
		if e := k.told(gpu.EventExpired, "a"); e.Severity != gpu.Warning {
			t.Errorf("the end was told as %+v", e)
		}
		if _, err := k.Renew(t.Context(), byID("a"), a.Fence, 0, by(1), nil); !errors.Is(err, lease.ErrStaleFence) {
			t.Errorf("renewal after the end: %v", err)
		}
		if _, err := k.Release(t.Context(), byID("a"), a.Fence, by(1)); !errors.Is(err, lease.ErrStaleFence) {
			t.Errorf("release after the end: %v", err)
		}
		k.give("b", 1)
		again := k.grant(want("a", 100))
		if _, err := k.Release(t.Context(), byID("a"), a.Fence, by(1)); !errors.Is(err, lease.ErrStaleFence) || again.Fence == a.Fence {
			t.Errorf("release of the next lease of that name with the old fence: %v", err)
		}
	})
}

func TestWhatNeverFitsIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 2, Reserve: 10} }
		k := w.start(t)
		k.device(0, 100)
		k.device(1, 50)
		k.grant(want("a", 90, at(dev(0))))
		begun := time.Now()
		for _, test := range []struct {
			name    string
			request lease.Request
			hint    string
		}{
			{"more memory than any device has", want("x", 91, wait(time.Hour)), "ask for at most 90 MiB"},
			{"more devices than exist", want("x", 1, gpus(3), wait(time.Hour)), "this machine has 2 devices"},
			{"as much on two devices", want("x", 41, gpus(2), wait(time.Hour)), "ask for at most 40 MiB"},
			{"more slots than any device has", want("x", 0, slots(3), wait(time.Hour)), "no device of this machine"},
			{"a device that is not there", want("x", 1, at("GPU-7"), wait(time.Hour)), "there is no device GPU-7"},
			{"one device twice", want("x", 1, at(dev(0)), gpus(2), wait(time.Hour)), "cannot be for 2"},
			{"a device that is not there now", want("x", 90, at(dev(1))), "ask for at most 40 MiB"},
		} {
			noFit := (*placement.NoFitError)(nil)
			if err := k.refused(test.request); !errors.As(err, &noFit) || noFit.Ever || !strings.Contains(noFit.Hint, test.hint) {
				t.Errorf("%s: refused with %v", test.name, err)
			}
		}
		if !time.Now().Equal(begun) || len(k.waiting()) != 0 {
			t.Errorf("it took %v, and %v wait", time.Since(begun), k.waiting())
		}
	})
}

func TestBadRequestsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.grant(want("a", 60, at(dev(0))))
		before := k.standing()
		for _, r := range []lease.Request{
			want("", 1), want("x", -1), want("x", 0), want("x", 1, slots(-1)), want("x", 1, gpus(-1)),
			want("x", lease.MaxMemory+1), want("x", 1, wait(-1)), want("x", 1, ttl(0)), want("x", 1, ttl(100*365*24*time.Hour)),
			want("\x00", 1), want(strings.Repeat("x", 129), 1), want("x", 1, priority(lease.MaxPriority+1)),
			want("x", 1, func(r *lease.Request) { r.Binding = lease.ByProcess }), want("x", 1, func(r *lease.Request) { r.Binding = "for ever" }),
		} {
			if err := k.refused(r); !errors.As(err, new(lease.FieldErrors)) {
				t.Errorf("%+v was refused with %v", r, err)
			}
		}
		if after := k.standing(); after != before {
			t.Errorf("the book was\n%s\nand is\n%s", before, after)
		}
	})
}

func TestSeveralDevicesOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		for i := range 3 {
			k.device(i, 100)
		}
		k.grant(want("a", 60, at(dev(0))))
		k.grant(want("b", 60, at(dev(1))))
		if err := k.refused(want("pair", 50, gpus(2))); status(err) != "refused" {
			t.Errorf("refused with %v", err)
		}
		if sum := k.Sum(dev(2)); sum.Available() != 100 {
			t.Errorf("half of a pair was taken: %s are left", sum.Available())
		}
		waits := k.queue(t.Context(), want("pair", 50, gpus(2), slots(1), wait(time.Hour)))
		k.give("b", 1)
		d := <-waits
		if d.err != nil || len(d.lease.Parts) != 2 || d.lease.Parts[0].GPU == d.lease.Parts[1].GPU {
			t.Fatalf("the pair got %+v, %v", d.lease, d.err)
		}
		for _, p := range d.lease.Parts {
			if p.GPU == dev(0) || p.Memory != 50 || p.Slots != 1 {
				t.Errorf("a part is %+v", p)
			}
		}
		k.give("pair", 1)
		for i := 1; i < 3; i++ {
			if sum := k.Sum(dev(i)); sum.Available() != 100 || sum.Active != 0 {
				t.Errorf("%s has %s and %d in use after the release", dev(i), sum.Available(), sum.Active)
			}
		}
	})
}
