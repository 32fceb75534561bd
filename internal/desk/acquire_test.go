package desk

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// want is what somebody asks for, whichever way.
type want struct {
	memory  gpu.MiB
	gpu     string
	where   string
	enforce string
	learned bool // no memory, but what earlier runs used
	wait    float64
}

// way is a way to a lease. Requests over REST and over a lease stream go the
// first one, and differ in nothing but their codec.
type way struct {
	name string
	ask  func(context.Context, *office, Caller, want) error
}

var ways = []way{
	{name: "acquire", ask: func(ctx context.Context, o *office, by Caller, w want) error {
		_, err := o.Leases.Acquire(ctx, by, api.LeaseRequest{
			Name: "job", Binding: "process", Memory: w.memory, GPU: gpu.Ref(w.gpu), Where: w.where, Enforce: w.enforce, Learned: w.learned, Timeout: gpu.Some(w.wait),
		})
		return err
	}},
	{name: "plan", ask: func(ctx context.Context, o *office, by Caller, w want) error {
		wish := w.where
		if wish == "" {
			wish = w.gpu
		}
		p := api.PlannedPipeline{Name: "job", Memory: w.memory, Slots: 1, GPU: wish, Runs: []api.PlannedRun{{Name: "job"}}}
		_, err := o.Plans.Run(ctx, by, api.PlanRun{
			Plan: &api.Plan{Pipelines: []api.PlannedPipeline{p}}, Enforce: w.enforce, Timeout: gpu.Some(w.wait),
		})
		return err
	}},
}

// codeOf returns the code of a refusal: of what it was made from, if that was
// another refusal.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	r := Refused(err)
	if inner := (*Refusal)(nil); errors.As(r.cause, &inner) {
		return inner.Code
	}
	return r.Code
}

// held lists the leases.
func (o *office) held() []lease.Lease {
	var all []lease.Lease
	for _, h := range o.parts.Ledger.View().Leases {
		all = append(all, *h.Lease)
	}
	return all
}

// nothingLeft checks that nobody holds, waits for or uses anything.
func (o *office) nothingLeft(t *testing.T) {
	t.Helper()
	if leases, waiting := o.parts.Ledger.Len(); leases+waiting+o.mps.used() != 0 {
		t.Errorf("%d leases, %d requests and %d uses of MPS are left behind", leases, waiting, o.mps.used())
	}
}

// Whichever way somebody comes, they get the same lease, or the same refusal and
// nothing else.
func TestEveryWayGivesTheSameAnswer(t *testing.T) {
	for _, test := range []struct {
		name string
		ask  want
		rung string
		code string
	}{
		{name: "what fits", ask: want{memory: 1000, enforce: "framework"}, rung: launch.Framework},
		{name: "on a device", ask: want{memory: 1000, enforce: "watchdog", gpu: "1"}, rung: launch.Watchdog},
		{name: "where it is like that", ask: want{memory: 1000, enforce: "none", where: "name~H200"}, rung: launch.None},
		{name: "with MPS", ask: want{memory: 1000, enforce: "auto"}, rung: launch.MPS},
		{name: "too much", ask: want{memory: 1 << 30, enforce: "none"}, code: "insufficient_memory"},
		{name: "a device that is none", ask: want{memory: 1000, enforce: "none", gpu: "7"}, code: "unknown_device"},
		{name: "a rule that is none", ask: want{memory: 1000, enforce: "none", where: "colour=red"}, code: "invalid_request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := open(t, "2xh200")
			var first []lease.Lease
			for _, way := range ways {
				code := test.code
				by := self(t)
				at := &place{}
				by.Place = at
				err := way.ask(t.Context(), o, by, test.ask)
				if codeOf(err) != code {
					t.Errorf("%s: %v, want code %q", way.name, err, code)
				}
				if code != "" {
					o.nothingLeft(t)
					continue
				}
				if want := []string{"aside", "back"}; !slices.Equal(at.steps, want) {
					t.Errorf("%s: the caller steps %v, want %v", way.name, at.steps, want)
				}
				got := o.held()
				if len(got) != 1 || got[0].EnforcedBy != test.rung || got[0].Holder.Name != "job" {
					t.Fatalf("%s: the leases are %+v", way.name, got)
				}
				if first == nil {
					first = got
				}
				if diff := cmp.Diff(first, got, cmpopts.IgnoreFields(lease.Lease{}, "ID", "Fence", "Granted")); diff != "" {
					t.Errorf("%s gives another lease than %s (-want +got):\n%s", way.name, ways[0].name, diff)
				}
				if _, err := o.Leases.Release(t.Context(), by, lease.Name{ID: got[0].ID}, 0, false); err != nil {
					t.Fatal(err)
				}
				o.mps.Release(got[0].Fence) // as the daemon does when a lease ends
			}
		})
	}
}

// place remembers the steps of a caller.
type place struct {
	steps  []string
	onBack func()
}

func (p *place) Aside() { p.steps = append(p.steps, "aside") }
func (p *place) Back(context.Context) {
	p.steps = append(p.steps, "back")
	if p.onBack != nil {
		p.onBack()
	}
}

var errMPS = errors.New("the daemon does not answer")

// A caller who leaves, at whatever step, leaves nothing behind, and neither does
// one who cannot be equipped.
func TestCallersWhoLeave(t *testing.T) {
	for _, step := range []struct {
		name    string
		prepare func(o *office, at *place, leave func())
		ask     want
		code    string
		full    bool // the devices are
	}{
		{name: "before it is asked", prepare: func(_ *office, _ *place, leave func()) { leave() },
			ask: want{memory: 1000, enforce: "framework"}, code: "withdrawn"},
		{name: "while it waits", prepare: func(o *office, _ *place, leave func()) {
			o.listen(func(e gpu.Event) {
				if e.Code == gpu.EventWaiting {
					leave()
				}
			})
		}, ask: want{memory: 1000, enforce: "framework", wait: 600}, code: "withdrawn", full: true},
		{name: "at the grant", prepare: func(o *office, _ *place, leave func()) {
			o.listen(func(e gpu.Event) {
				if e.Code == gpu.EventGranted {
					leave()
				}
			})
		}, ask: want{memory: 1000, enforce: "framework"}, code: "withdrawn"},
		{name: "before it has its place again", prepare: func(_ *office, at *place, leave func()) { at.onBack = leave },
			ask: want{memory: 1000, enforce: "framework"}, code: "withdrawn"},
		{name: "while it is equipped", prepare: func(o *office, _ *place, leave func()) {
			o.parts.Config = func() *config.Config {
				if leases, _ := o.parts.Ledger.Len(); leases > 0 {
					leave()
				}
				return &config.Config{GPU: config.GPU{Context: 500}}
			}
			o.remake()
		}, ask: want{memory: 1000, enforce: "framework"}, code: "withdrawn"},
		{name: "while MPS starts", prepare: func(o *office, _ *place, leave func()) { o.mps.start = func() error { leave(); return nil } },
			ask: want{memory: 1000, enforce: "mps"}, code: "withdrawn"},
		{name: "while MPS fails", prepare: func(o *office, _ *place, leave func()) { o.mps.start = func() error { leave(); return errMPS } },
			ask: want{memory: 1000, enforce: "mps"}, code: "mps_failed"},
		{name: "never, but the lease ends while MPS starts", prepare: func(o *office, _ *place, _ func()) {
			o.mps.start = func() error {
				for _, l := range o.parts.Ledger.View().Leases {
					if err := o.parts.Ledger.GiveBack(l.Key(), l.Lease.Fence, "a test"); err != nil {
						return err
					}
				}
				return nil
			}
		}, ask: want{memory: 1000, enforce: "mps"}, code: "lease_ended"},
		{name: "never, but MPS fails", prepare: func(o *office, _ *place, _ func()) { o.mps.start = func() error { return errMPS } },
			ask: want{memory: 1000, enforce: "mps"}, code: "mps_failed"},
	} {
		for _, way := range ways {
			t.Run(way.name+" "+step.name, func(t *testing.T) {
				o := open(t, "1xh200")
				by := self(t)
				filler := api.LeaseRequest{ID: "filler", Memory: o.Memory.mostEver(), Slots: gpu.Some(0)}
				if step.full {
					if _, err := o.Leases.Acquire(t.Context(), by, filler); err != nil {
						t.Fatal(err)
					}
				}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				at := &place{}
				by.Place = at
				step.prepare(o, at, leave)
				if err := way.ask(ctx, o, by, step.ask); codeOf(err) != step.code {
					t.Errorf("the answer is %v, want code %q", err, step.code)
				}
				if step.full {
					if _, err := o.Leases.Release(t.Context(), self(t), lease.Name{ID: filler.ID}, 0, false); err != nil {
						t.Fatal(err)
					}
				}
				o.nothingLeft(t)
				o.listen(nil)
				if err := way.ask(t.Context(), o, self(t), want{memory: 1000, enforce: "none"}); err != nil {
					t.Errorf("the next one is answered with %v", err)
				}
			})
		}
	}
}

// A lease that can be given back no more is answered: the caller may still hear
// of it.
func TestLeaseThatOutlivesTheLedger(t *testing.T) {
	o := open(t, "1xh200")
	ctx, leave := context.WithCancel(t.Context())
	by := self(t)
	by.Place = &place{onBack: func() { o.stop(); leave() }}
	l, err := o.Leases.Acquire(ctx, by, api.LeaseRequest{ID: "a", Memory: 1000})
	if err != nil || l.ID != "a" {
		t.Errorf("the answer is %+v, %v", l, err)
	}
	if leases, _ := o.parts.Ledger.Len(); leases != 1 {
		t.Errorf("%d leases stand", leases)
	}
}

// A lease that got what was offered makes that the last offer.
func TestOfferIsRemembered(t *testing.T) {
	for _, way := range ways {
		if way.name == "plan" {
			continue // the compiler has learned before
		}
		o := open(t, "1xh200")
		key := peaks.Key{User: "ada", Name: "job"}
		o.parts.Peaks.Add(key, peaks.Run{Peak: 2000, Asked: 8192, Seconds: 60}, o.parts.Monitor.Readings()[0].Since)
		if err := way.ask(t.Context(), o, self(t), want{enforce: "framework", learned: true}); err != nil {
			t.Fatal(err)
		}
		got := o.held()[0]
		if e, _ := o.parts.Peaks.Find(key); e.Offered == 0 || e.Offered != got.Parts[0].Memory || got.Note == "" {
			t.Errorf("%s: %s were offered, and the lease is %+v", way.name, e.Offered, got)
		}
	}
}

// A client that got no answer asks again, and finds the lease that it was granted.
// Without saying so, it asks for another one under the same id.
func TestAskingAgain(t *testing.T) {
	o := open(t, "2xh200")
	by := self(t)
	for _, binding := range []string{"process", "named"} {
		ask := api.LeaseRequest{ID: "train-" + binding, Binding: binding, Memory: 1000, Timeout: gpu.Some(0.0)}
		granted, err := o.Leases.Acquire(t.Context(), by, ask)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Leases.Acquire(t.Context(), by, ask); codeOf(err) != "duplicate_allocation" {
			t.Errorf("%s: the same id again: %v", binding, err)
		}
		again := by
		again.Repeated = true
		found, err := o.Leases.Acquire(t.Context(), again, ask)
		if err != nil || !found.Stood || found.Fence != granted.Fence {
			t.Errorf("%s: asked again: %+v, %v", binding, found, err)
		}
	}
}

// A lease whose answer was lost is found again by its name. Other processes, other names and
// those who do not ask again get a new id.
func TestLeaseWithoutAnAnswer(t *testing.T) {
	o := open(t, "2xh200")
	by := self(t)
	leased := func() string {
		t.Helper()
		made, err := o.Leases.NewID(t.Context(), by, api.NewID{Name: "train"})
		if err == nil {
			_, err = o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: made.ID, Name: "train", Binding: "process", Memory: 1024, Enforce: "none", Timeout: gpu.Some(0.0)})
		}
		if err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	leased()
	newest := leased()
	again, other := by, by
	again.Repeated, other.Repeated = true, true
	other.Holder.PID = 1
	for _, c := range []struct {
		who   string
		by    Caller
		name  string
		found bool
	}{
		{"the same process", again, "train", true},
		{"one that does not ask again", by, "train", false},
		{"another name", again, "tra", false},
		{"another process", other, "train", false},
	} {
		made, err := o.Leases.NewID(t.Context(), c.by, api.NewID{Name: c.name})
		if err != nil || (made.ID == newest) != c.found {
			t.Errorf("%s got %s, %v; the lease is %s", c.who, made.ID, err, newest)
		}
	}
	found, err := o.Leases.Acquire(t.Context(), again, api.LeaseRequest{ID: newest, Name: "train", Binding: "process", Memory: 1024, Slots: gpu.Some(1), Enforce: "none", Timeout: gpu.Some(0.0)})
	if err != nil || !found.Stood || found.Launch == nil {
		t.Errorf("the lease is found as %+v, %v", found, err)
	}
}
