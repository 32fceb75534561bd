package oversight

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// world is every keeper that oversight works with. It answers from lists and
// notes what it is told.
type world struct {
	holdings  []lease.Holding
	processes []ledger.Process
	instances []string // of every device; they have the holdings, and it has none

	observed  []placement.Observation
	told      []string
	strangers []watchdog.Stranger
	halt      *watchdog.Halt
	consumers []energy.Process
}

func (w *world) oversight() *Oversight {
	return New(Options{Leases: w, Peaks: peaks{w}, Archive: archive{w}, Energy: meters{w}, Watchdog: w, MPS: w, Batches: batches{w}, Processes: w, Names: w})
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
func (w *world) Processes(string) []ledger.Process { return w.processes }
func (w *world) Serves(line []process.ID) bool     { return line[0].PID == 99 }
func (w *world) Release(fence uint64)              { w.note("mps: %d ended", fence) }
func (w *world) Now(uid int) string                { return fmt.Sprintf("user%d", uid) }
func (w *world) Sum(uuid string) ledger.DeviceSum {
	if uuid != "GPU-a" {
		return ledger.DeviceSum{}
	}
	return ledger.DeviceSum{Device: gpu.Device{UUID: uuid, Index: 2, Instances: w.instances}}
}
func (w *world) UID(pid int) (int, error) {
	if pid < 0 {
		return 0, errors.New("there is no such process")
	}
	return 1000 + pid, nil
}

func (w *world) Look(on gpu.Device, now time.Time, holdings []lease.Holding, strangers []watchdog.Stranger) {
	w.note("watchdog: look at %s, %d holdings", on.UUID, len(holdings))
	w.strangers = strangers
}

func (w *world) Stop(on gpu.Device, now time.Time, halt *watchdog.Halt, holdings []lease.Holding) {
	w.note("watchdog: stop %s is %v, %d holdings", on.UUID, halt != nil, len(holdings))
	w.halt = halt
}

type peaks struct{ *world }

func (p peaks) Use(l *lease.Lease, uuid string, measured gpu.MiB, at time.Time) {
	p.note("peaks: %s uses %v of %s", l.ID, measured, uuid)
}
func (p peaks) Ended(l *lease.Lease, drew gpu.Opt[gpu.Watts], at time.Time) gpu.MiB {
	p.note("peaks: %s ended, it drew %v W", l.ID, drew.Or(-1))
	return 7
}

type meters struct{ *world }

func (m meters) Observe(on gpu.Device, s *gpu.Sample, here []energy.Process) {
	m.world.consumers = here
}
func (m meters) Close(fence uint64, at time.Time) gpu.Opt[gpu.Joules] {
	if fence == 0 {
		return gpu.Opt[gpu.Joules]{}
	}
	return gpu.Some(gpu.Joules(90))
}
func (m meters) Ended(l *lease.Lease, at time.Time) energy.Used {
	m.note("energy: %s ended", l.ID)
	return energy.Used{Joules: gpu.Some(gpu.Joules(90)), Watts: gpu.Some(gpu.Watts(300))}
}

type archive struct{ *world }

func (a archive) Ended(e *lease.Effect, peak gpu.MiB, used gpu.Opt[gpu.Joules]) {
	a.note("archive: %s ended, it used %s and %s", e.Before.ID, peak, used.Or(-1))
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
			{Line: at(2), Name: "stray", Kind: gpu.Compute, Memory: 7, Ended: "old"},
			{Line: at(3), Name: "screen", Kind: gpu.Graphics},
			{Line: at(99), Name: "mps", Kind: gpu.Compute},
			{Line: at(-1), Name: "gone", Kind: gpu.Compute},
		},
	}
	r := reading()
	r.Stop, r.Hot, r.Reason = true, true, "92 °C"
	w.oversight().Observe(r)
	if diff := cmp.Diff([]string{
		"peaks: train uses 500 MiB of GPU-a", "watchdog: look at GPU-a, 2 holdings", "watchdog: stop GPU-a is true, 2 holdings",
	}, w.told); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]watchdog.Stranger{
		{ID: at(2)[0], Name: "stray", User: "user1002", Memory: 7, Ended: "old"}, {ID: at(-1)[0], Name: "gone"},
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

// Somebody hears what a lease uses that berth has shrunk.
func TestShrunkLeases(t *testing.T) {
	w := &world{holdings: []lease.Holding{
		{Lease: &lease.Lease{ID: "shrunk", Asked: 900}, Part: lease.Part{Memory: 300}, Measured: 400},
		{Lease: &lease.Lease{ID: "whole"}, Part: lease.Part{Memory: 300}, Measured: 400},
	}}
	o := w.oversight()
	var heard []string
	o.Shrunk = func(h lease.Holding) { heard = append(heard, h.Lease.ID) }
	o.Observe(reading())
	if cmp.Diff([]string{"shrunk"}, heard) != "" {
		t.Errorf("%v were heard of", heard)
	}
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

func TestLeaseEnded(t *testing.T) {
	w := &world{}
	w.oversight().Changed(&lease.Effect{Before: &lease.Lease{ID: "a"}, Time: noon})
	w.oversight().Changed(&lease.Effect{Before: &lease.Lease{ID: "b", Fence: 7, Terms: lease.Terms{EnforcedBy: launch.MPS}}, Time: noon})
	want := []string{
		"energy: a ended", "peaks: a ended, it drew 300 W", "archive: a ended, it used 7 MiB and 90 J", "batches: a ended",
		"energy: b ended", "peaks: b ended, it drew 300 W", "archive: b ended, it used 7 MiB and 90 J", "batches: b ended", "mps: 7 ended",
	}
	if diff := cmp.Diff(want, w.told); diff != "" {
		t.Error(diff)
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
		o.Policy = func(string) slowdown.Policy { return c.policy }
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
