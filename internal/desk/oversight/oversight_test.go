package oversight

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/reclaim"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/archive"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// world is the book, the watchdog, the MPS daemons and the batches that oversight works
// with. It answers from lists and notes what it is told.
type world struct {
	holdings  []lease.Holding
	processes []ledger.Process
	instances []string // of every device; they have the holdings, and it has none

	observed  []placement.Observation
	told      []string
	strangers []watchdog.Stranger
	halt      *watchdog.Halt
}

func (w *world) oversight() *Oversight {
	defaults := config.Default()
	return New(Options{
		Leases: w, Peaks: peaks.New(), Archive: archive.New(), Energy: meters(), Watchdog: w, MPS: w, Batches: batches{w}, Processes: process.Proc(),
		Names: users.New(users.Lookup, 0), Idle: idlers(), Config: func() *config.Config { return &defaults },
	})
}

// meters returns meters of energy that ask no driver.
func meters() *energy.Meters {
	return energy.New(energy.Options{
		Interval: func() time.Duration { return time.Second }, Label: func(service, _ string) string { return service },
		Busy: func(context.Context, string, time.Time) (device.Busy, error) {
			return device.Busy{}, device.ErrUnsupported
		},
	})
}

// idlers returns idlers that ask no driver.
func idlers() *idle.Idlers {
	return idle.New(idle.Options{
		After: func() time.Duration { return time.Minute }, Publish: func(gpu.Event) {},
		Busy: func(context.Context, string, time.Time) (device.Busy, error) {
			return device.Busy{}, device.ErrUnsupported
		},
	})
}

func (w *world) note(format string, args ...any) {
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

func (w *world) Observe(o placement.Observation) { w.observed = append(w.observed, o) }
func (w *world) Holdings(uuid string) []lease.Holding {
	if len(w.instances) > 0 && uuid != w.instances[0] {
		return nil
	}
	return w.holdings
}
func (w *world) Noted(uuid string) []lease.Holding {
	return slices.DeleteFunc(slices.Clone(w.Holdings(uuid)), func(h lease.Holding) bool { return h.Measured == 0 && !h.Lease.Parkable })
}
func (w *world) Processes(string) []ledger.Process { return w.processes }
func (w *world) Serves(line []process.ID) bool     { return line[0].PID == 99 }
func (w *world) Release(fence uint64)              { w.note("mps: %d ended", fence) }
func (w *world) Sum(uuid string) ledger.DeviceSum {
	if uuid != "GPU-a" {
		return ledger.DeviceSum{}
	}
	return ledger.DeviceSum{Device: gpu.Device{UUID: uuid, Index: 2, Instances: w.instances}}
}
func (w *world) Look(on gpu.Device, now time.Time, holdings []lease.Holding, strangers []watchdog.Stranger) {
	w.note("watchdog: look at %s, %d holdings", on.UUID, len(holdings))
	w.strangers = strangers
}

func (w *world) Stop(on gpu.Device, now time.Time, halt *watchdog.Halt, holdings []lease.Holding) {
	w.note("watchdog: stop %s is %v, %d holdings", on.UUID, halt != nil, len(holdings))
	w.halt = halt
}

type batches struct{ *world }

func (b batches) Ended(l *lease.Lease, at time.Time) { b.note("batches: %s ended", l.ID) }

func held(id, user string, measured gpu.MiB) lease.Holding {
	return lease.Holding{Lease: &lease.Lease{ID: id, Fence: 3, Holder: lease.Holder{User: user}}, Part: lease.Part{GPU: "GPU-a", Memory: 1024}, Measured: measured}
}

func at(pid int) []process.ID { return []process.ID{{PID: pid, Start: 1}} }

func reading() monitor.Reading {
	return monitor.Reading{Device: gpu.Device{UUID: "GPU-a"}, State: gpu.Optimal, Multiplier: 1, Sample: gpu.Sample{Time: noon}, Sampled: true}
}

// A sample reaches everybody who judges what is used; processes that need no
// lease are no strangers.
func TestObserve(t *testing.T) {
	l := held("train", "ada", 500)
	w := &world{
		holdings: []lease.Holding{l, held("idle", "bob", 0)},
		processes: []ledger.Process{
			{Line: at(1), Lease: l.Lease, Kind: gpu.Compute},
			{Line: at(os.Getpid()), Name: "stray", Kind: gpu.Compute, Memory: 7, Ended: "old"},
			{Line: at(3), Name: "screen", Kind: gpu.Graphics},
			{Line: at(99), Name: "mps", Kind: gpu.Compute},
			{Line: at(-1), Name: "gone", Kind: gpu.Compute},
		},
	}
	r := reading()
	r.Stop, r.Hot, r.Reason = true, true, "92 °C"
	o := w.oversight()
	o.Observe(r)
	if most, _ := o.Peaks.Most(l.Lease.Fence); most != 500 {
		t.Errorf("the lease used %v at most", most)
	}
	if diff := cmp.Diff([]string{
		"watchdog: look at GPU-a, 1 holdings", "watchdog: stop GPU-a is true, 2 holdings",
	}, w.told); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]watchdog.Stranger{
		{ID: at(os.Getpid())[0], Name: "stray", User: strconv.Itoa(os.Geteuid()), Memory: 7, Ended: "old"}, {ID: at(-1)[0], Name: "gone"},
	}, w.strangers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&watchdog.Halt{Reason: "92 °C", Heat: true}, w.halt); diff != "" {
		t.Error(diff)
	}
	if len(w.observed) != 1 || w.observed[0].Sample == nil || w.observed[0].Reason != "92 °C" {
		t.Errorf("the book was told %+v", w.observed)
	}
}

// grower notes which leases are to get their size back.
type grower struct {
	reclaim.Leases
	grown chan string
}

func (g grower) Regrow(_ context.Context, k lease.Key, _ uint64, to gpu.MiB) error {
	g.grown <- fmt.Sprintf("%s to %s", k.ID, to)
	return nil
}

// A lease that berth has shrunk gets its size back when it uses what is left of it.
func TestShrunkLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{holdings: []lease.Holding{
			{Lease: &lease.Lease{ID: "whole", Fence: 1}, Part: lease.Part{Memory: 300}, Measured: 400},
			{Lease: &lease.Lease{ID: "shrunk", Fence: 2, Asked: 900}, Part: lease.Part{Memory: 300}, Measured: 400},
		}}
		o, g, c := w.oversight(), grower{grown: make(chan string, 2)}, config.Default()
		o.Reclaim = reclaim.New(reclaim.Options{Leases: g, Settings: &c})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o.Observe(reading())
		o.Reclaim.Run(ctx)
		if len(g.grown) != 1 || <-g.grown != "shrunk to 900 MiB" {
			t.Error("only the lease that was shrunk gets its size back")
		}
	})
}

// A device that was not sampled, or whose sampler hangs, is told to the book
// alone.
func TestUnread(t *testing.T) {
	w := &world{holdings: []lease.Holding{held("train", "ada", 500)}}
	silent := reading()
	silent.Sampled = false
	w.oversight().Observe(silent)
	r := reading()
	r.Stuck = true
	w.oversight().Observe(r)
	if len(w.told) != 0 || len(w.observed) != 2 || w.observed[0].Sample != nil || w.observed[1].Sample != nil {
		t.Errorf("told %q, and the book %+v", w.told, w.observed)
	}
}

// What a lease used is remembered when it ends, and everybody who worked for it hears of it.
func TestLeaseEnded(t *testing.T) {
	w := &world{}
	o := w.oversight()
	for _, l := range []*lease.Lease{
		{ID: "a", Fence: 6, Holder: lease.Holder{User: "ada", Name: "train", PID: 9}, Parts: []lease.Part{{GPU: "GPU-a"}}},
		{ID: "b", Fence: 7, Holder: lease.Holder{User: "ada"}, Parts: []lease.Part{{GPU: "GPU-b"}}, Terms: lease.Terms{EnforcedBy: launch.MPS}},
	} {
		use(o, l, 300)
		o.Changed(&lease.Effect{Before: l, Time: noon.Add(3 * time.Second)})
	}
	if diff := cmp.Diff([]string{"batches: a ended", "batches: b ended", "mps: 7 ended"}, w.told); diff != "" {
		t.Error(diff)
	}
	var used []string
	for _, p := range o.Archive.All() {
		used = append(used, fmt.Sprintf("%s used %s and %s", p.ID, p.Peak, p.Energy.Or(0)))
	}
	slices.Sort(used)
	if diff := cmp.Diff([]string{"a used 700 MiB and 900 J", "b used 0 MiB and 900 J"}, used); diff != "" { // nobody measures the memory of b
		t.Error(diff)
	}
	if e, _ := o.Peaks.Find(peaks.Key{User: "ada", Name: "train"}); len(e.Runs) != 1 || e.Runs[0].Drew != gpu.Some(gpu.Watts(300)) {
		t.Errorf("the program is remembered as %+v", e)
	}
}

// use lets a lease use 700 MiB and this much power on its device, from noon for three
// seconds.
func use(o *Oversight, l *lease.Lease, power gpu.Watts) {
	on := gpu.Device{UUID: l.Parts[0].GPU}
	o.Peaks.Use(l, on.UUID, 700, gpu.Opt[gpu.Percent]{}, noon)
	for second := range 4 {
		s := gpu.Sample{Time: noon.Add(time.Duration(second) * time.Second), Power: gpu.Some(power), Processes: []gpu.Process{}}
		o.Energy.Observe(on, &s, []energy.Process{{PID: 1, Lease: l}})
	}
}

// A fault of a program is put down to its lease only where that is certain.
func TestCharge(t *testing.T) {
	train, serve := held("train", "ada", 1), held("serve", "bob", 1)
	ours := ledger.Process{Line: at(7), Lease: train.Lease}
	foreign := ledger.Process{Line: at(8)}
	for name, test := range map[string]struct {
		class     gpu.FaultClass
		pid       any
		holdings  []lease.Holding
		processes []ledger.Process
		want      string
	}{
		"the process is named":            {gpu.FaultProgram, 7, []lease.Holding{train, serve}, []ledger.Process{ours, foreign}, "train"},
		"it runs under no lease":          {gpu.FaultProgram, 8, []lease.Holding{train}, []ledger.Process{ours, foreign}, ""},
		"it is not on the device":         {gpu.FaultProgram, 9, []lease.Holding{train}, []ledger.Process{ours}, ""},
		"only one lease is there":         {gpu.FaultProgram, nil, []lease.Holding{train}, []ledger.Process{ours}, "train"},
		"two leases are there":            {gpu.FaultProgram, nil, []lease.Holding{train, serve}, []ledger.Process{ours}, ""},
		"a stranger is there":             {gpu.FaultProgram, nil, []lease.Holding{train}, []ledger.Process{ours, foreign}, ""},
		"the fault is that of the device": {gpu.FaultDevice, 7, []lease.Holding{train}, []ledger.Process{ours}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{holdings: test.holdings, processes: test.processes}
			e := gpu.Event{Code: gpu.EventDeviceFault, GPU: "GPU-a", Text: "A fault", Data: map[string]any{"class": string(test.class)}}
			if test.pid != nil {
				e.Data["pid"] = test.pid
			}
			got := w.oversight().Charge(e)
			text, user := "A fault", ""
			if test.want != "" {
				text, user = "A fault; it is put down to "+test.want, "ada"
			}
			if got.Lease != test.want || got.Text != text || got.User != user {
				t.Errorf("charged %q of %q: %s", got.Lease, got.User, got.Text)
			}
		})
	}
}

func TestChargeNamesHolders(t *testing.T) {
	w := &world{holdings: []lease.Holding{held("train", "ada", 1), held("serve", "bob", 1)}}
	for _, code := range []gpu.EventCode{gpu.EventDeviceQuarantined, gpu.EventDeviceLost, gpu.EventCritical} {
		got := w.oversight().Charge(gpu.Event{Code: code, GPU: "GPU-a"})
		if diff := cmp.Diff(map[string]any{"leases": []string{"train", "serve"}, "fences": []uint64{3, 3}}, got.Data); diff != "" {
			t.Errorf("%s: %s", code, diff)
		}
	}
	if got := w.oversight().Charge(gpu.Event{Code: gpu.EventStateChange, Also: []gpu.EventCode{gpu.EventCritical}, GPU: "GPU-a"}); got.Data["fences"] == nil {
		t.Error("a change of state to CRITICAL names nobody")
	}
	if got := (&world{}).oversight().Charge(gpu.Event{Code: gpu.EventCritical}); got.Data != nil {
		t.Errorf("a device without leases has %v", got.Data)
	}
}

// With a policy that only advises, the book keeps all slots of a device, except
// of one where nothing may be granted.
func TestAdviseKeepsSlots(t *testing.T) {
	for _, c := range []struct {
		policy   slowdown.Policy
		state    gpu.State
		forecast float64 // multiplier, if it is lower than that of the state
		want     float64
	}{
		{slowdown.Advise, gpu.Throttled, 0.5, 1}, {slowdown.Advise, gpu.Normal, 0, 1}, {slowdown.Advise, gpu.Critical, 0, 0}, {slowdown.Advise, gpu.Unavailable, 0, 0},
		{slowdown.Slots, gpu.Throttled, 0.5, 0.5}, {slowdown.Power, gpu.Normal, 0.5, 0.5},
	} {
		w := &world{}
		o := w.oversight()
		o.Config().GPU.Throttle = string(c.policy)
		seen := 0
		o.Throttle = func(monitor.Reading) { seen++ }
		r := reading()
		r.State, r.Multiplier = c.state, c.forecast
		o.Observe(r)
		if got := w.observed[0].Multiplier.Or(-1); got != c.want || seen != 1 {
			t.Errorf("%s, %s: slots follow %g, want %g; the throttle saw %d readings", c.policy, c.state, got, c.want, seen)
		}
	}
}

// What befalls a device befalls the leases on the instances that it is cut into.
func TestChargeInstances(t *testing.T) {
	w := &world{holdings: []lease.Holding{held("train", "ada", 1)}, instances: []string{"MIG-a", "MIG-b"}}
	got := w.oversight().Charge(gpu.Event{Code: gpu.EventDeviceQuarantined, GPU: "GPU-a"})
	if diff := cmp.Diff([]string{"train"}, got.Data["leases"]); diff != "" {
		t.Error(diff)
	}
	got = w.oversight().Charge(gpu.Event{Code: gpu.EventDeviceFault, GPU: "GPU-a", Data: map[string]any{"class": string(gpu.FaultProgram)}})
	if got.Lease != "train" {
		t.Errorf("a fault of the only program is put down to %q", got.Lease)
	}
}

// The load of a lease is that of its device while it is alone there. Beside others it is
// what the driver says of its processes, and not known if the driver says nothing.
func TestLoad(t *testing.T) {
	mine, other := &lease.Lease{Fence: 1}, &lease.Lease{Fence: 2}
	at := func(pid int, l *lease.Lease) ledger.Process {
		return ledger.Process{Line: []process.ID{{PID: pid}}, Lease: l}
	}
	said := map[int]gpu.Percent{10: 30, 11: 15, 20: 50}
	for name, test := range map[string]struct {
		processes []ledger.Process
		said      map[int]gpu.Percent
		want      gpu.Opt[gpu.Percent]
	}{
		"alone":             {[]ledger.Process{at(10, mine), at(11, mine)}, nil, gpu.Some(gpu.Percent(80))},
		"beside another":    {[]ledger.Process{at(10, mine), at(11, mine), at(20, other)}, said, gpu.Some(gpu.Percent(45))},
		"beside a stranger": {[]ledger.Process{at(10, mine), at(30, nil)}, nil, gpu.Opt[gpu.Percent]{}},
		"not there":         {[]ledger.Process{at(20, other)}, said, gpu.Opt[gpu.Percent]{}},
		"nobody":            {nil, said, gpu.Opt[gpu.Percent]{}},
	} {
		s := &gpu.Sample{Utilization: gpu.Some(gpu.Percent(80))}
		s.ProcessUtilization = test.said
		if got := load(s, test.processes, 1); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
