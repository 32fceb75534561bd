package idle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/lease"
)

// room has idlers, the device that they ask, and what they tell.
type room struct {
	*testing.T
	*idle.Idlers
	shares map[int]gpu.Percent // what processes have of every device
	fails  error               // what the device answers instead
	asked  int
	since  time.Time // of the last question
	told   []gpu.Event
	on     gpu.Device
	after  time.Duration // from the last use until it is idle
}

// inRoom runs a test with idlers for which a minute is idle. Every step of it
// takes a second.
func inRoom(t *testing.T, test func(r *room)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &room{T: t, shares: map[int]gpu.Percent{}, on: gpu.Device{UUID: "GPU-a", Vendor: gpu.NVIDIA}, after: time.Minute}
		r.Idlers = idle.New(idle.Options{
			Busy: func(_ context.Context, _ string, since time.Time) (device.Busy, error) {
				r.asked++
				r.since = since
				return device.Busy{From: time.Now().Add(-time.Second), Until: time.Now(), Shares: r.shares}, r.fails
			},
			After:   func() time.Duration { return r.after },
			Publish: func(e gpu.Event) { r.told = append(r.told, e) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Idlers.Run(ctx)
		test(r)
	})
}

func held(fence uint64, gpus ...string) *lease.Lease {
	l := &lease.Lease{ID: fmt.Sprint("lease-", fence), Fence: fence, Holder: lease.Holder{User: "ada"}}
	for _, uuid := range gpus {
		l.Parts = append(l.Parts, lease.Part{GPU: uuid})
	}
	return l
}

// one is a lease with 4 GiB and the process 10.
func one() idle.Holding {
	return idle.Holding{Holding: lease.Holding{Lease: held(1, "GPU-a"), Measured: 4096}, PIDs: []int{10}}
}

// pass lets seconds pass, with a sample in each.
func (r *room) pass(seconds int, utilization gpu.Percent, here ...idle.Holding) {
	r.Helper()
	for range seconds {
		time.Sleep(time.Second)
		r.Observe(r.on, &gpu.Sample{Time: time.Now(), Utilization: gpu.Some(utilization), Processes: []gpu.Process{}}, here)
		synctest.Wait()
	}
}

// expect checks what was told since it was called last.
func (r *room) expect(what string, idle ...bool) {
	r.Helper()
	if len(r.told) != len(idle) {
		r.Errorf("%s: told %v; want %v", what, r.told, idle)
	}
	for i, e := range r.told {
		if e.Code != gpu.EventIdle || e.Data["idle"] != idle[min(i, len(idle)-1)] || e.Text == "" {
			r.Errorf("%s: told %+v; want idle %v", what, e, idle)
		}
	}
	r.told = nil
}

func TestALeaseBecomesIdleAndIsUsedAgain(t *testing.T) {
	inRoom(t, func(r *room) {
		r.shares[10] = 40
		r.pass(120, 40, one())
		r.expect("in use")
		if f, quiet := r.Of(1); quiet {
			t.Errorf("in use, it is quiet since %v", f.Since)
		}
		r.shares[10] = 0
		r.pass(59, 0, one())
		r.expect("quiet for less than a minute")
		f, quiet := r.Of(1)
		if !quiet || f.Long || f.Memory != 4096 || f.Utilization != 0 {
			t.Errorf("quiet for a while, it has %+v, %v", f, quiet)
		}
		r.pass(10, 0, one())
		if len(r.told) != 1 || r.told[0].GPU != "GPU-a" || r.told[0].Lease != "lease-1" || r.told[0].User != "ada" || r.told[0].Data["since"] != f.Since {
			t.Errorf("told %+v; want the lease, its user, and since when", r.told)
		}
		r.expect("quiet for a minute", true)
		if f, _ := r.Of(1); !f.Long || r.Count() != 1 {
			t.Errorf("idle, it has %+v, and %d are idle", f, r.Count())
		}
		r.pass(300, 0, one())
		r.expect("idle on")
		r.shares[10] = 3
		r.pass(6, 3, one())
		r.expect("used again", false)
		if _, quiet := r.Of(1); quiet || r.Count() != 0 {
			t.Errorf("used again, it is still quiet, and %d are idle", r.Count())
		}
	})
}

// A driver tells about the last moment only. Work in between shows in the
// utilisation of the device, if nobody else is there.
func TestWorkBetweenTwoQuestions(t *testing.T) {
	for _, alone := range []bool{true, false} {
		inRoom(t, func(r *room) {
			h := one()
			h.Alone = alone
			for range 30 {
				r.pass(4, 0, h)
				r.pass(1, 80, h)
			}
			if _, quiet := r.Of(1); quiet == alone {
				t.Errorf("alone %v, with work in every fifth second, it is quiet: %v", alone, quiet)
			}
		})
	}
}

// Memory that changes is use, also if it changes back.
func TestMemoryThatChanges(t *testing.T) {
	inRoom(t, func(r *room) {
		r.pass(90, 0, one())
		r.expect("unchanged", true)
		more := one()
		more.Measured++
		r.pass(1, 0, more)
		r.expect("changed", false)
		r.pass(1, 0, one())
		r.pass(50, 0, one())
		r.expect("changed back")
		r.pass(30, 0, one())
		r.expect("unchanged for a minute", true)
	})
}

func TestADriverThatDoesNotTell(t *testing.T) {
	for _, fails := range []error{device.ErrUnsupported, fmt.Errorf("read: %w", device.ErrNoPermission), device.ErrHung, errors.New("broken")} {
		inRoom(t, func(r *room) {
			r.fails = fails
			r.pass(300, 0, one())
			r.expect(fails.Error())
			if _, quiet := r.Of(1); quiet {
				t.Errorf("with %v the lease is quiet", fails)
			}
		})
	}
}

// A device that has stopped to answer for a while leaves a gap in which anything may
// have happened; a short one does not.
func TestAGap(t *testing.T) {
	inRoom(t, func(r *room) {
		r.pass(40, 0, one())
		r.fails = device.ErrHung
		r.pass(15, 0, one())
		r.fails = nil
		r.pass(20, 0, one())
		r.expect("after a short gap", true)
		r.fails = device.ErrHung
		r.pass(40, 0, one())
		r.fails = nil
		r.pass(10, 0, one())
		r.expect("after a long gap", false)
	})
}

// A driver that does not list processes does not say what they hold.
func TestWithoutAListOfProcesses(t *testing.T) {
	inRoom(t, func(r *room) {
		for range 120 {
			time.Sleep(time.Second)
			r.Observe(r.on, &gpu.Sample{Time: time.Now()}, []idle.Holding{one()})
			synctest.Wait()
		}
		r.expect("without a list")
	})
}

// The driver is asked every five seconds while there is a lease that may be parked,
// and never otherwise.
func TestHowOftenTheDriverIsAsked(t *testing.T) {
	inRoom(t, func(r *room) {
		r.pass(600, 50)
		if r.asked != 0 {
			t.Errorf("without leases it was asked %d times", r.asked)
		}
		from := time.Now().Add(time.Second)
		for range 101 {
			before := r.asked
			r.pass(1, 0, one())
			if r.asked > before && !r.since.Equal(from) {
				t.Errorf("it was asked about the time since %v; want %v, when it was asked before", r.since, from)
			}
			if r.asked > before {
				from = time.Now()
			}
		}
		if r.asked != 20 {
			t.Errorf("in 100 seconds with a lease it was asked %d times; want 20", r.asked)
		}
		r.pass(600, 50)
		if r.asked != 20 {
			t.Errorf("after the lease has left it was asked %d times more", r.asked-20)
		}
		same := &gpu.Sample{Time: time.Now(), Processes: []gpu.Process{}}
		for range 100 {
			r.Observe(r.on, same, []idle.Holding{one()})
		}
		if r.asked != 20 {
			t.Errorf("of a device that does not answer it was asked %d times", r.asked-20)
		}
	})
}

// A question that failed is asked again from where it began, so that no work is missed.
func TestAQuestionThatFails(t *testing.T) {
	inRoom(t, func(r *room) {
		r.pass(6, 0, one())
		r.fails = device.ErrHung
		r.pass(5, 0, one())
		failed := r.since
		r.fails = nil
		r.pass(5, 0, one())
		if r.asked < 3 || !r.since.Equal(failed) {
			t.Errorf("after %d questions the last is about the time since %v; want %v", r.asked, r.since, failed)
		}
	})
}

// A lease that has to be idle for three seconds only is idle soon after them, whenever
// its work ends: the driver is asked more often then.
func TestIdleAfterAFewSeconds(t *testing.T) {
	for work := range 12 {
		inRoom(t, func(r *room) {
			r.after = 3 * time.Second
			h := one()
			h.Alone, r.shares[10] = true, 80
			r.pass(20+work, 80, h)
			r.shares[10] = 0
			r.pass(1, 80, h) // what a driver says of the second before
			r.pass(2, 0, h)
			if f, _ := r.Of(1); f.Long {
				t.Errorf("after %d s of work and less than 3 s without, it is idle since %v", 20+work, f.Since)
			}
			r.pass(3, 0, h)
			if f, quiet := r.Of(1); !f.Long {
				t.Errorf("after %d s of work and 5 s without, it is not idle: %+v, %v", 20+work, f, quiet)
			}
		})
	}
}

// What was known about a lease that left, because it ended or was parked, does not
// count when it comes back.
func TestALeaseThatLeaves(t *testing.T) {
	inRoom(t, func(r *room) {
		r.pass(90, 0, one())
		r.expect("idle", true)
		r.pass(1, 0)
		if f, quiet := r.Of(1); quiet {
			t.Errorf("gone, it has %+v", f)
		}
		r.pass(10, 0, one())
		r.expect("gone and back")
		if f, quiet := r.Of(1); !quiet || time.Since(f.Since) > 10*time.Second {
			t.Errorf("back, it is quiet since %v, %v", f.Since, quiet)
		}
	})
}

// A lease over two devices is idle while it uses neither.
func TestALeaseOnTwoDevices(t *testing.T) {
	inRoom(t, func(r *room) {
		both := held(1, "GPU-a", "GPU-b")
		pass := func(seconds int) {
			for range seconds {
				time.Sleep(time.Second)
				for i, uuid := range []string{"GPU-a", "GPU-b"} {
					r.Observe(gpu.Device{UUID: uuid}, &gpu.Sample{Time: time.Now(), Processes: []gpu.Process{}},
						[]idle.Holding{{Holding: lease.Holding{Lease: both, Measured: 1000}, PIDs: []int{10 + i}}})
				}
				synctest.Wait()
			}
		}
		r.shares[11] = 50
		pass(100)
		r.expect("one is used")
		if _, quiet := r.Of(1); quiet {
			t.Error("one is used, and the lease is quiet")
		}
		r.shares[11] = 0
		pass(70)
		if f, quiet := r.Of(1); !quiet || f.Memory != 2000 {
			t.Errorf("both quiet, it has %+v, %v", f, quiet)
		}
		r.expect("both quiet", true)
	})
}

// A simulated device works without processes, and that is nobody's use.
func TestWorkOfASimulatedDevice(t *testing.T) {
	inRoom(t, func(r *room) {
		r.on.Vendor = gpu.Simulated
		h := one()
		h.Alone = true
		r.pass(90, 30, h)
		r.expect("a simulated device with load of its own", true)
	})
}

// Processes that leave a device, because they ended or are parked, do not use it. What
// is left is idle after a while.
func TestProcessesThatLeave(t *testing.T) {
	inRoom(t, func(r *room) {
		two := one()
		two.PIDs = []int{10, 11}
		r.pass(90, 0, two)
		r.expect("idle", true)
		less := one()
		less.Measured = 2048
		r.pass(5, 0, less)
		r.expect("one has left")
		none := one()
		none.Measured, none.PIDs = 0, nil
		r.pass(5, 0, none)
		r.expect("both have left")
		if f, _ := r.Of(1); f.Long {
			t.Errorf("both have left, and it has %+v", f)
		}
		r.pass(90, 0, none)
		r.expect("nobody there for a minute", true)
		other := one()
		other.PIDs = []int{12}
		r.pass(1, 0, other)
		r.expect("another one has come", false)
	})
}
