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

// What is said to be granted now is granted, and one more is not, whoever waits
// and whatever the service may have.
func TestLargestNowIsWhatIsGranted(t *testing.T) {
	few := func(w *world) {
		w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", Quota: lease.Usage{Memory: 500}}}}
	}
	most := func(w *world) {
		w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", MinMemory: 50, MaxMemory: 300}}}
	}
	for name, test := range map[string]struct {
		set  func(*world)
		held []lease.Request
		wait []lease.Request
		want gpu.MiB
	}{
		"nobody":           {want: 1000},
		"somebody":         {held: []lease.Request{want("big", 700)}, want: 300},
		"one who waits":    {held: []lease.Request{want("big", 700)}, wait: []lease.Request{want("w", 500)}, want: 300},
		"one who is large": {held: []lease.Request{want("big", 700)}, wait: []lease.Request{want("w", 900)}, want: 100},
		"one for all":      {held: []lease.Request{want("big", 700)}, wait: []lease.Request{want("w", 1000)}, want: 0},
		"the quota":        {set: few, held: []lease.Request{want("big", 200, service("s"))}, want: 300},
		"the maximum":      {set: most, want: 300},
		"under the least":  {set: most, held: []lease.Request{want("big", 960)}, want: 0},
		"quota and room":   {set: few, held: []lease.Request{want("big", 300, service("s")), want("other", 450)}, want: 200},
	} {
		t.Run(name, func(t *testing.T) {
			w, name := newWorld(), ""
			if test.set != nil {
				test.set(w)
				name = "s"
			}
			k := w.start(t)
			k.device(0, 1000)
			for _, r := range test.held {
				k.grant(r)
			}
			for _, r := range test.wait {
				wait(time.Hour)(&r)
				k.queue(t.Context(), r)
			}
			for _, asked := range []gpu.MiB{50, 300, 400, 2000} {
				e, err := k.Explain(want("", asked, service(name)))
				if err != nil {
					if !errors.Is(err, quota.ErrMaxMemory) && !errors.Is(err, quota.ErrQuota) {
						t.Error(err)
					}
					continue
				}
				if e.LargestNow != test.want {
					t.Errorf("asked for %s: at most %s would be granted now, want %s", asked, e.LargestNow, test.want)
				}
				r := want("", asked, service(name))
				if fits := k.Fits(r); fits != (e.Refusal == nil && e.Quota == nil) {
					t.Errorf("asked for %s: it fits: %v, and is explained as %v, %v", asked, fits, e.Refusal, e.Quota)
				}
				if e.Refusal == nil || !e.Refusal.Ever {
					continue
				}
				advised := strings.Contains(e.Refusal.Hint, "ask for at most "+test.want.Exact()+", which would be granted now")
				if e.Refusal.LargestNow != test.want || advised != (test.want > 0) {
					t.Errorf("asked for %s: %s, want %s to be granted now", asked, e.Refusal.Hint, test.want)
				}
			}
			k.refused(want("more", test.want+1, service(name)))
			if test.want > 0 {
				k.grant(want("most", test.want, service(name)))
			}
		})
	}
}

// A refusal does not advise what would be refused as well.
func TestRefusalAdvisesWhatIsGranted(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 1000)
	k.grant(want("big", 700))
	k.queue(t.Context(), want("w", 900, wait(time.Hour)))
	noFit := (*placement.NoFitError)(nil)
	if err := k.refused(want("a", 400)); !errors.As(err, &noFit) || noFit.LargestNow != 100 {
		t.Errorf("too much: %v", err)
	}
	queued := (*placement.QueuedError)(nil)
	if err := k.refused(want("a", 200)); !errors.As(err, &queued) || queued.LargestNow != 100 {
		t.Errorf("in the way: %v", err)
	}
	k.grant(want("a", 100))
}

// What the device itself takes can never be had, so nobody waits for it.
func TestWhatTheDriverTakesIsNeverWaitedFor(t *testing.T) {
	k := newWorld().start(t)
	driver := func(m gpu.MiB) func(*placement.Observation) {
		return func(o *placement.Observation) { o.Sample.MemoryUsed = gpu.Some(m) }
	}
	k.device(0, 10_000, driver(2000)) // somebody whom nobody sees, and who may leave
	k.device(0, 10_000, driver(615))
	noFit := (*placement.NoFitError)(nil)
	if err := k.refused(want("a", 9386, wait(time.Hour))); !errors.As(err, &noFit) || noFit.Ever || noFit.LargestEver != 9385 {
		t.Errorf("refused with %v", err)
	}
	if sum := k.Sum(dev(0)); sum.Most != 9385 {
		t.Errorf("the sum says that %s could be leased", sum.Most)
	}
	stranger := child(t).Process.Pid
	k.device(0, 10_000, driver(615), used(stranger, 3000))
	waits := k.queue(t.Context(), want("b", 9385, wait(time.Hour)))
	k.device(0, 10_000, driver(615))
	if d := <-waits; d.err != nil {
		t.Error(d.err)
	}
}

func TestExplainNamesForeignProcesses(t *testing.T) {
	k := newWorld().start(t)
	stranger, holder := child(t).Process.Pid, child(t).Process.Pid
	k.device(0, 1000, used(stranger, 300), used(holder, 100))
	k.grant(want("a", 200, k.bound(holder)))
	e, err := k.Explain(want("", 900))
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Foreign[dev(0)]; got.Memory != 300 || !slices.Equal(got.PIDs, []int{stranger}) {
		t.Errorf("foreign are %+v", got)
	}
}

// Nobody can be kept from asking by a name.
func TestExplainWithoutAnID(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 1000)
	k.grant(want("(asked)", 1))
	if e, err := k.Explain(want("", 10)); err != nil || e.Grant == nil || e.Grant.State != lease.Active {
		t.Errorf("it was explained as %+v, %v", e, err)
	}
}

func TestOnlyAdministratorsGoFirst(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 1000)
	pushing := want("pushing", 1)
	pushing.AskedPriority = gpu.Some(1_000_000)
	if l := k.grant(pushing); l.Priority != 0 || l.Note == "" {
		t.Errorf("somebody got %+v", l)
	}
	if l := k.grant(want("admin", 1, priority(9))); l.Priority != 9 || l.Note != "" {
		t.Errorf("an administrator got %+v", l)
	}
}

// Whoever waited in vain is told why, also if it was the quota.
func TestTimeoutSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", Quota: lease.Usage{Memory: 50}}}}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 40, service("s")))
		late := (*placement.TimeoutError)(nil)
		if err := k.refused(want("b", 40, service("s"), wait(2001*time.Millisecond))); !errors.As(err, &late) || !errors.Is(late.Why(), quota.ErrQuota) || late.Lasted() != "2 s" {
			t.Errorf("the quota: %v", err)
		}
		if err := k.refused(want("c", 70, wait(501*time.Millisecond))); !errors.As(err, &late) || late.Why() != error(late.Refusal) || late.Lasted() != "0.5 s" {
			t.Errorf("no room: %v", err)
		}
	})
}
