package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/nvml/xid"
	"github.com/berth-gpu/berth/internal/device/sim"
)

// A hang holds its caller whatever the deadline says, costs nobody else
// anything, and ends by itself.
func TestHang(t *testing.T) {
	file := scenario(t, "devices: 2\ntimeline: [{at: 10s, for: 30s, device: 1, hang: true}]")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := open(t, file)
		devices := scan(t, b)
		guard := device.NewGuard(devices[1])
		read := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := guard.Fast(ctx)
			return err
		}
		if err := read(); err != nil {
			t.Errorf("before the hang: %v", err)
		}
		time.Sleep(20 * time.Second)
		if err := read(); !errors.Is(err, device.ErrHung) {
			t.Errorf("during the hang: %v; want ErrHung", err)
		}
		if since := time.Since(start); since != 21*time.Second {
			t.Errorf("the guard came back after %v; want it at its deadline", since)
		}
		fast(t, devices[0])
		if n := len(scan(t, b)); n != 2 {
			t.Errorf("Scan lists %d devices during a hang; want 2", n)
		}
		if since := time.Since(start); since != 21*time.Second {
			t.Errorf("the hang of one device took the others %v", since-21*time.Second)
		}

		var s gpu.Slow
		if err := devices[1].Slow(t.Context(), &s); err != nil {
			t.Errorf("a call that waits the hang out: %v", err)
		}
		if since := time.Since(start); since != 40*time.Second {
			t.Errorf("it came back after %v; want 40s, the end of the hang", since)
		}
		synctest.Wait()
		if err := read(); err != nil {
			t.Errorf("after the hang: %v", err)
		}
	})
}

func TestHangWithAClockOfItsOwn(t *testing.T) {
	file := scenario(t, "devices: 1\ntimeline: [{for: 1h, device: 0, hang: true}]")
	var late atomic.Bool
	start := time.Now()
	b := open(t, file, sim.Options{Clock: func() time.Time {
		if late.Load() {
			return start.Add(2 * time.Hour)
		}
		return start
	}})
	dev := scan(t, b)[0]
	done := make(chan error)
	go func() { done <- dev.Fast(t.Context(), new(gpu.Sample)) }()
	late.Store(true)
	if err := <-done; err != nil {
		t.Errorf("after the hang: %v", err)
	}
}

func TestLost(t *testing.T) {
	clock := newHand()
	b := open(t, scenario(t, `
devices: 2
timeline:
  - {at: 0s, device: 1, load: 50}
  - {at: 10s, for: 20s, device: 1, lost: true}
`), sim.Options{Clock: clock.Now})
	devices := scan(t, b)
	for _, c := range []struct {
		at   time.Duration
		lost bool
	}{{0, false}, {9999 * time.Millisecond, false}, {10 * time.Second, true}, {29 * time.Second, true}, {30 * time.Second, false}} {
		clock.now = newHand().now.Add(c.at)
		for name, err := range map[string]error{
			"Fast": devices[1].Fast(t.Context(), new(gpu.Sample)),
			"Slow": devices[1].Slow(t.Context(), new(gpu.Slow)),
		} {
			if errors.Is(err, device.ErrLost) != c.lost || (err != nil) != c.lost {
				t.Errorf("at %v %s: %v; want lost %v", c.at, name, err, c.lost)
			}
		}
		if listed := len(scan(t, b)) == 2; listed == c.lost {
			t.Errorf("at %v Scan lists it: %v; want %v", c.at, listed, !c.lost)
		}
		if uuid := devices[1].Describe().UUID; uuid != "SIM-h200-1" {
			t.Errorf("at %v Describe says %q", c.at, uuid)
		}
		fast(t, devices[0])
	}
	if load := fast(t, devices[1]).Utilization; load != gpu.Some(gpu.Percent(50)) {
		t.Errorf("back again its load is %v; want the script to go on", load)
	}
}

func TestSpeed(t *testing.T) {
	file := scenario(t, `
devices: 1
speed: 60
timeline:
  - {at: 2m, for: 1m, device: 0, load: 80}
  - {at: 3m, device: 0, xid: 31}
`)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := open(t, file)
		dev := scan(t, b)[0]
		for range 5 {
			fast(t, dev)
			time.Sleep(500 * time.Millisecond)
		}
		if load := fast(t, dev).Utilization; load != gpu.Some(gpu.Percent(80)) {
			t.Errorf("2.5 s at 60 times the speed: load is %v; want that of 2m30s", load)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var faults []device.Fault
		err := b.Watch(ctx, func(f device.Fault) {
			faults = append(faults, f)
			cancel()
		})
		if err != nil || len(faults) != 1 || !faults[0].Time.Equal(start.Add(3*time.Second)) || time.Since(start).Round(time.Millisecond) != 3*time.Second {
			t.Errorf("Watch: %v, %+v after %v; want one fault at 3s of real time", err, faults, time.Since(start))
		}
	})
}

func TestWatch(t *testing.T) {
	file := scenario(t, `
devices: 2
timeline:
  - {at: 0s, device: 0, xid: {code: 13, pid: 5000001}}
  - {at: 5s, device: 1, xid: 79, lost: true, for: 5s}
  - {at: 5s, device: 0, ecc: {corrected: 3, uncorrected: 1}}
  - {at: 7s, device: 0, xid: 555, repeat: 10s}
  - {at: 8s, device: 1, fault: {class: link}}
  - {at: 9s, device: 1, fault: {class: program, severity: info, name: bad luck, remedy: try again., code: E7, pid: 7}}
`)
	type seen struct {
		at     time.Duration
		gpu    string
		pid    int
		fault  gpu.Fault
		detail string
	}
	ecc := func(name string, severity gpu.Severity) gpu.Fault {
		return gpu.Fault{Name: name, Class: gpu.FaultDevice, Severity: severity}
	}
	want := []seen{
		{0, "SIM-h200-0", 5000001, xid.Describe(13), "map[kind:xid xid:13]"},
		{5 * time.Second, "SIM-h200-0", 0, ecc("3 memory errors corrected", gpu.Note), "map[kind:ecc_corrected]"},
		{5 * time.Second, "SIM-h200-0", 0, ecc("a memory error that could not be corrected", gpu.Serious), "map[kind:ecc_uncorrected]"},
		{5 * time.Second, "SIM-h200-1", 0, xid.Describe(79), "map[kind:xid xid:79]"},
		{7 * time.Second, "SIM-h200-0", 0, xid.Describe(555), "map[kind:xid xid:555]"},
		{8 * time.Second, "SIM-h200-1", 0, gpu.Fault{Name: "a simulated fault", Class: gpu.FaultLink, Severity: gpu.Serious}, "map[]"},
		{9 * time.Second, "SIM-h200-1", 7, gpu.Fault{Name: "bad luck", Class: gpu.FaultProgram, Severity: gpu.Note, Remedy: "try again.", Code: "E7"}, "map[]"},
		{17 * time.Second, "SIM-h200-0", 0, xid.Describe(555), "map[kind:xid xid:555]"},
		{27 * time.Second, "SIM-h200-0", 0, xid.Describe(555), "map[kind:xid xid:555]"},
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := open(t, file)
		time.Sleep(time.Second) // what happened before the first Watch is reported too
		var got []seen
		note := func(f device.Fault) {
			if now := time.Now(); f.Time.After(now) {
				t.Errorf("%+v was reported %v too early", f, f.Time.Sub(now))
			}
			got = append(got, seen{f.Time.Sub(start), f.GPU, f.PID, f.Fault, fmt.Sprint(f.Detail)})
		}
		for _, until := range []time.Duration{6 * time.Second, 30 * time.Second} {
			ctx, cancel := context.WithDeadline(t.Context(), start.Add(until))
			if err := b.Watch(ctx, note); err != nil {
				t.Errorf("Watch: %v", err)
			}
			cancel()
		}
		if !slices.Equal(got, want) {
			t.Errorf("Watch reported\n%+v\nwant\n%+v", got, want)
		}
		if s := slow(t, scan(t, b)[0]); s.ECCCorrected != gpu.Some(int64(3)) || s.ECCUncorrected != gpu.Some(int64(1)) {
			t.Errorf("memory errors are %v and %v; want 3 and 1", s.ECCCorrected, s.ECCUncorrected)
		}
	})
}
