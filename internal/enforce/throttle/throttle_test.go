package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/enforce/throttle"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/launch"
)

const uuid = "SIM-rtx-4060-0"

// world is a simulated machine, the leases on it, and what was told.
type world struct {
	t       *testing.T
	file    string
	backend *sim.Backend
	monitor *monitor.Monitor
	acts    *throttle.Throttle
	config  config.Config
	refuse  error // of every step
	late    int   // how many steps the driver takes after it was given up
	stop    func()
	twist   func(*monitor.Reading) // changes what the Throttle sees; may be nil

	mu         sync.Mutex // guards what follows
	holdings   []lease.Holding
	events     []gpu.Event
	states     []string
	shares     map[uint64]float64
	denied     string // by another daemon
	counted    map[string]int
	complaints int
	where      string   // the device that the leases are on; empty means any
	served     []string // what the pacer was asked about shares of services
}

// newWorld opens a scenario with one consumer card. Its policy is power.
func newWorld(t *testing.T, timeline string) *world {
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte("devices: rtx-4060\ntimeline: "+timeline), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := sim.Open(path, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, backend: b, file: filepath.Join(t.TempDir(), "throttle.json"), shares: map[uint64]float64{}, counted: map[string]int{},
		config: config.Default(),
	}
	w.config.GPU.Throttle = string(slowdown.Power)
	return w
}

// start starts a daemon: a monitor and a Throttle. The function kills it, or
// stops it.
func (w *world) start() {
	w.monitor = monitor.New([]device.Backend{w.backend}, monitor.Settings{}, monitor.Keepers{})
	w.monitor.Subscribe(monitor.Hooks{Event: w.publish, Reading: func(r monitor.Reading) {
		w.mu.Lock()
		twist := w.twist
		w.mu.Unlock()
		if twist != nil {
			twist(&r)
		}
		w.acts.Observe(r)
	}})
	var damage *file.Damage
	w.acts, damage = throttle.Open(throttle.Options{
		Settings: w.settings(), Devices: w, Leases: w, Pacer: w, File: w.file, Event: w.publish,
		Denied:   func(string) string { w.mu.Lock(); defer w.mu.Unlock(); return w.denied },
		Complain: func(error) { w.mu.Lock(); defer w.mu.Unlock(); w.complaints++ },
		Count:    func(kind string) { w.mu.Lock(); defer w.mu.Unlock(); w.counted[kind]++ },
	})
	if damage != nil {
		w.t.Fatal(damage)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.monitor.Run(ctx) })
	running.Go(func() { w.acts.Run(ctx) })
	w.stop = func() { cancel(); running.Wait() }
}

// settings returns a copy of the settings, which the Throttle may read while the test
// changes them.
func (w *world) settings() *config.Config {
	c := w.config
	return &c
}

func (w *world) Steer(ctx context.Context, id string, do func(context.Context, device.Device) error) error {
	w.mu.Lock()
	refuse := w.refuse
	w.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	before := w.limit()
	err := w.monitor.Steer(ctx, id, do)
	w.mu.Lock()
	late := w.late > 0
	w.mu.Unlock()
	if late && w.limit() != before {
		w.mu.Lock()
		w.late--
		w.mu.Unlock()
		return &device.Error{Op: "set the limit", Err: device.ErrHung}
	}
	return err
}

// refuses makes the device refuse every step, or none.
func (w *world) refuses(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = err
}

// failsLate makes the device say of the next changes that it does not answer, and returns of
// how many it was to say so until now.
func (w *world) failsLate(times int) (before int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.late = w.late, times
	return before
}

// twists changes every reading, or none.
func (w *world) twists(twist func(*monitor.Reading)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.twist = twist
}

// hang makes the device answer nothing, or answer again.
func (w *world) hang(hangs bool) {
	w.twists(nil)
	w.refuses(nil)
	if hangs {
		at := time.Now()
		w.twists(func(r *monitor.Reading) { r.Sample.Time, r.Stale = at, true })
		w.refuses(device.ErrHung)
	}
}

// Model knows nothing, so that nothing is forecast.
func (w *world) Model(string) (heat.Model, bool) { return heat.Model{}, false }

func (w *world) Holdings(on string) []lease.Holding {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.where != "" && w.where != on {
		return nil
	}
	return slices.Clone(w.holdings)
}

func (w *world) Hold(h pace.Hold) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.Source == pace.ByService {
		w.served = append(w.served, fmt.Sprintf("hold %d at %g: %s", h.Fence, h.Share, h.Why))
		return nil
	}
	if h.Fence == 13 {
		return errors.New("it is a job of a terminal")
	}
	w.shares[h.Fence] = h.Share
	return nil
}

func (w *world) Let(fence uint64, _ gpu.By, sources ...pace.Source) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(sources, []pace.Source{pace.ByService}) {
		w.served = append(w.served, fmt.Sprintf("let %d", fence))
		return true
	}
	if !slices.Equal(sources, []pace.Source{pace.ByThrottle}) {
		w.t.Errorf("the holds of %v were let go", sources)
	}
	delete(w.shares, fence)
	return true
}

func (w *world) publish(e gpu.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Code {
	case gpu.EventPowerLimit, gpu.EventFan:
		w.events = append(w.events, e)
	case gpu.EventStateChange:
		w.states = append(w.states, e.Text)
	}
}

func (w *world) hold(leases ...*lease.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holdings = nil
	for _, l := range leases {
		w.holdings = append(w.holdings, lease.Holding{Lease: l})
	}
}

func (w *world) held() map[uint64]float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := map[uint64]float64{}
	for fence, share := range w.shares {
		held[fence] = share
	}
	return held
}

// told returns the steps of the events with a code, and forgets them.
func (w *world) told(code gpu.EventCode) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := []string{}
	w.events = slices.DeleteFunc(w.events, func(e gpu.Event) bool {
		if e.Code == code {
			list = append(list, fmt.Sprint(e.Data["step"]))
		}
		return e.Code == code
	})
	return list
}

// limit returns the power limit in force.
func (w *world) limit() gpu.Watts {
	devices, err := w.backend.Scan(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	limits, err := devices[0].(device.Governor).PowerLimits(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return limits.Now
}

// pass lets simulated time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Each scenario ends with the power limit that the card came with, and no state
// flaps.
func TestScenarios(t *testing.T) {
	for name, c := range map[string]struct {
		timeline string
		lasts    time.Duration
		states   int // at most
		events   int // at most
	}{
		"a heat wave":               {"[{device: 0, load: 100}, {at: 2m, for: 20m, device: 0, ambient_celsius: 50}, {at: 30m, device: 0, load: 0}]", 60 * time.Minute, 12, 60},
		"a slow creep":              {"[{device: 0, load: 100}, {at: 5m, device: 0, cooling: 0.9}, {at: 10m, device: 0, cooling: 0.8}, {at: 15m, device: 0, cooling: 0.7}, {at: 20m, device: 0, cooling: 0.6}, {at: 60m, device: 0, load: 0, cooling: 1}]", 90 * time.Minute, 12, 60},
		"flapping around threshold": {"[{device: 0, load: 60, ambient_celsius: 42}, {device: 0, load: 100, for: 20s, repeat: 40s}, {at: 60m, device: 0, load: 0}, {at: 60m, device: 0, ambient_celsius: 25}]", 90 * time.Minute, 30, 60},
		"a fan that fails":          {"[{device: 0, load: 100}, {at: 2m, for: 30m, device: 0, cooling: 0.3}, {at: 40m, device: 0, load: 0}]", 60 * time.Minute, 14, 60},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.timeline)
				w.hold(&lease.Lease{ID: "train", Fence: 7})
				w.start()
				lowest, hottest := gpu.Watts(115), gpu.Celsius(0)
				for range int(c.lasts / (10 * time.Second)) {
					pass(10 * time.Second)
					lowest = min(lowest, w.limit())
					r, _ := w.monitor.Find(uuid)
					hottest = max(hottest, r.Sample.Temperature.Or(0))
				}
				if lowest >= 115 || lowest < 34 {
					t.Errorf("the lowest limit was %g W", lowest)
				}
				if limit := w.limit(); limit != 115 || len(w.held()) != 0 {
					t.Errorf("in the end the limit is %g W, and %v is held", limit, w.held())
				}
				w.stop()
				events := w.told(gpu.EventPowerLimit)
				t.Logf("lowest limit %g W, hottest %g °C, %d states, %d events", lowest, hottest, len(w.states), len(events))
				if len(w.states) > c.states || len(events) > c.events {
					t.Errorf("%d changes of state (at most %d), %d events (at most %d)\n%s", len(w.states), c.states, len(events), c.events, strings.Join(w.states, "\n"))
				}
				if !slices.Contains(events, "lowered") || !slices.Contains(events, "restored") || !slices.Contains(events, "measured") {
					t.Errorf("told %v", events)
				}
			})
		})
	}
}

const furnace = "[{device: 0, load: 100, ambient_celsius: 55}]"

// A daemon that stops gives the limit back; the one after a daemon that was
// killed does, too; and a limit that somebody else set stays.
func TestLimitComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.start()
		pass(3 * time.Minute)
		if w.limit() >= 115 || !w.acts.Acts(uuid).Original.Known() {
			t.Fatalf("limit %g W, acts %+v", w.limit(), w.acts.Acts(uuid))
		}
		saved, err := os.ReadFile(w.file)
		if err != nil {
			t.Fatal(err)
		}
		low := w.limit()
		w.stop()
		if w.limit() != 115 {
			t.Errorf("stopped, and the limit is %g W", w.limit())
		}
		if left, _ := os.ReadFile(w.file); !strings.HasSuffix(string(left), "\n{}") {
			t.Errorf("the file still says %s", left)
		}
		for name, c := range map[string]struct {
			inForce, want gpu.Watts
			told          string
		}{"killed": {low, 115, "restored"}, "set by somebody": {70, 70, "taken"}} {
			w.told(gpu.EventPowerLimit)
			if err := os.WriteFile(w.file, saved, 0o600); err != nil {
				t.Fatal(err)
			}
			devices, _ := w.backend.Scan(t.Context())
			if err := devices[0].(device.Governor).SetPowerLimit(t.Context(), c.inForce); err != nil {
				t.Fatal(err)
			}
			w.config.GPU.Throttle = string(slowdown.Slots)
			w.start()
			pass(2 * time.Second)
			if told := w.told(gpu.EventPowerLimit); w.limit() != c.want || !slices.Equal(told, []string{c.told}) {
				t.Errorf("%s: limit %g W, told %v", name, w.limit(), told)
			}
			w.stop()
		}
	})
}

// Leases are held to the multiplier, except those that must not be.
func TestWhoIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.config.GPU.Throttle = string(slowdown.Pace)
		w.config.Services = map[string]config.Service{"spared": {Throttle: string(slowdown.Slots)}, "exempt": {Throttle: string(slowdown.Exempt)}}
		w.hold(
			&lease.Lease{ID: "train", Fence: 1},
			&lease.Lease{ID: "pod", Fence: 2, Terms: lease.Terms{Scope: []string{"kubepods"}}},
			&lease.Lease{ID: "mps", Fence: 3, Terms: lease.Terms{EnforcedBy: launch.MPS}},
			&lease.Lease{ID: "serve", Fence: 4, Holder: lease.Holder{Service: "spared"}},
			&lease.Lease{ID: "first", Fence: 5, Holder: lease.Holder{Service: "exempt"}},
			&lease.Lease{ID: "known", Fence: 6, Holder: lease.Holder{Service: "other"}},
			&lease.Lease{ID: "shell", Fence: 13},
		)
		w.start()
		pass(3 * time.Minute)
		if diff := cmp.Diff(map[uint64]float64{1: 0, 6: 0}, w.held()); diff != "" || w.acts.Acts(uuid).Paced != 2 {
			t.Errorf("held: %s, acts %+v", diff, w.acts.Acts(uuid))
		}
		if w.limit() != 115 {
			t.Errorf("pace set the power limit to %g W", w.limit())
		}
		w.hold(&lease.Lease{ID: "known", Fence: 6})
		pass(2 * time.Second)
		if diff := cmp.Diff(map[uint64]float64{6: 0}, w.held()); diff != "" {
			t.Errorf("after a lease ended: %s", diff)
		}
		w.config.GPU.Throttle = string(slowdown.Slots)
		w.acts.Configure(w.settings())
		pass(2 * time.Second)
		if held := w.held(); len(held) != 0 {
			t.Errorf("with the policy slots: %v", held)
		}
		w.stop()
	})
}

// A lease is held to the share of its service, however cool the device is, and only once.
func TestShareOfAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.config.GPU.Throttle = string(slowdown.Advise)
		share := func(percent gpu.Percent) {
			w.config.Services = map[string]config.Service{"side": {Compute: gpu.Some(percent)}}
		}
		share(30)
		of := lease.Holder{Service: "side"}
		mine := &lease.Lease{ID: "a", Fence: 1, Holder: of}
		w.hold(mine,
			&lease.Lease{ID: "pod", Fence: 2, Holder: of, Terms: lease.Terms{Scope: []string{"kubepods"}}},
			&lease.Lease{ID: "mps", Fence: 3, Holder: of, Terms: lease.Terms{EnforcedBy: launch.MPS}},
			&lease.Lease{ID: "worker", Fence: 4, Holder: of, Parent: "a"},
			&lease.Lease{ID: "other", Fence: 5},
		)
		expect := func(when string, want ...string) {
			t.Helper()
			pass(3 * time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			if diff := cmp.Diff(want, w.served); diff != "" {
				t.Errorf("%s: %s", when, diff)
			}
			w.served = nil
		}
		w.start()
		expect("at the start", "hold 1 at 0.3: services.side.compute is 30")
		expect("later")
		share(50)
		w.acts.Configure(w.settings())
		expect("with another share", "hold 1 at 0.5: services.side.compute is 50")
		w.config.Services = nil
		w.acts.Configure(w.settings())
		expect("without a share", "let 1")
		share(20)
		w.acts.Configure(w.settings())
		expect("with a share again", "hold 1 at 0.2: services.side.compute is 20")
		w.hold()
		expect("after the lease has ended", "let 1")
		w.hold(mine)
		expect("with a lease again", "hold 1 at 0.2: services.side.compute is 20")
		w.stop()
		if want := []string{"let 1"}; !slices.Equal(w.served, want) {
			t.Errorf("at the end: %v", w.served)
		}
	})
}

// A lease over two devices is held to the lower share.
func TestLowestShareCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "[]")
		w.config.GPU.Throttle = string(slowdown.Pace)
		w.hold(&lease.Lease{ID: "wide", Fence: 1})
		w.start()
		pass(time.Second)
		reading := func(id string, celsius gpu.Celsius) {
			pass(time.Second)
			w.acts.Observe(monitor.Reading{Device: gpu.Device{UUID: id}, Sampled: true, Sample: gpu.Sample{Time: time.Now(), Temperature: gpu.Some(celsius)}})
			synctest.Wait()
		}
		for _, c := range []struct {
			id      string
			celsius gpu.Celsius
			want    float64
		}{{"a", 70, 0.8}, {"b", 80, 0.5}, {"a", 80, 0.5}, {"a", 255, 0.5}, {"b", 0, 0.5}, {"b", 88, 0}} {
			reading(c.id, c.celsius)
			if got := w.held()[1]; got != c.want {
				t.Errorf("%s at %g °C: held to %g, want %g", c.id, c.celsius, got, c.want)
			}
		}
		w.stop()
		if len(w.held()) != 0 {
			t.Errorf("stopped, and holds %v", w.held())
		}
	})
}

// No device with a lease of an exempt service has its power lowered, and a lease
// that comes later gives it back.
func TestExemptServiceKeepsThePower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.config.Services = map[string]config.Service{"exempt": {Throttle: string(slowdown.Exempt)}}
		w.start()
		pass(3 * time.Minute)
		if w.limit() == 115 {
			t.Fatal("the power limit was not lowered")
		}
		w.hold(&lease.Lease{ID: "first", Fence: 5, Holder: lease.Holder{Service: "exempt"}})
		pass(10 * time.Minute)
		if w.limit() != 115 {
			t.Errorf("limit %g W beside a lease of an exempt service", w.limit())
		}
		w.stop()
	})
}

// A second daemon changes nothing, and one that only rests gives back.
func TestDeniedAndRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.config.GPU.FanCurve = "50:50"
		w.hold(&lease.Lease{ID: "train", Fence: 1})
		w.denied = "the daemon with pid 4711 is in charge of it"
		w.start()
		pass(3 * time.Minute)
		if acts := w.acts.Acts(uuid); w.limit() != 115 || len(w.held()) != 0 || acts.Denied == "" || acts.Fan.Known() {
			t.Errorf("limit %g W, held %v, acts %+v", w.limit(), w.held(), acts)
		}
		w.mu.Lock()
		w.denied = ""
		w.mu.Unlock()
		pass(3 * time.Minute)
		if w.limit() == 115 || len(w.held()) != 1 {
			t.Errorf("in charge, limit %g W, held %v", w.limit(), w.held())
		}
		w.acts.Rest(t.Context())
		pass(time.Minute)
		if acts := w.acts.Acts(uuid); w.limit() != 115 || len(w.held()) != 0 || acts.Fan.Known() || acts.Original.Known() {
			t.Errorf("at rest, limit %g W, held %v, acts %+v", w.limit(), w.held(), acts)
		}
		w.acts.Resume()
		pass(time.Minute)
		if w.limit() == 115 {
			t.Error("nothing is done after the rest")
		}
		w.stop()
	})
}

func TestFanFollowsItsCurve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.config.GPU.Throttle = string(slowdown.Slots)
		w.config.GPU.FanCurve = "50:30,80:100"
		w.start()
		pass(5 * time.Minute)
		if fan := w.acts.Acts(uuid).Fan.Or(0); fan < 80 {
			t.Errorf("the fan is at %g %%", fan)
		}
		w.config.GPU.FanCurve = ""
		w.acts.Configure(w.settings())
		pass(time.Second)
		if told := w.told(gpu.EventFan); !slices.Equal(told, []string{"set", "released"}) || w.acts.Acts(uuid).Fan.Known() {
			t.Errorf("told %v, acts %+v", told, w.acts.Acts(uuid))
		}
		w.config.GPU.FanCurve = "50:30"
		w.acts.Configure(w.settings())
		pass(time.Second)
		saved, _ := os.ReadFile(w.file)
		w.stop()
		w.told(gpu.EventFan)
		if err := os.WriteFile(w.file, saved, 0o600); err != nil { // as after a kill
			t.Fatal(err)
		}
		w.config.GPU.FanCurve = ""
		w.start()
		pass(2 * time.Second)
		if told := w.told(gpu.EventFan); !slices.Equal(told, []string{"released"}) {
			t.Errorf("after a kill: %v", told)
		}
		w.stop()
	})
}

// What a device never takes is told once, until the settings change.
func TestRefusedOnce(t *testing.T) {
	for _, refusal := range []error{device.ErrUnsupported, device.ErrNoPermission} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, furnace)
			w.config.GPU.FanCurve = "50:50"
			w.refuses(&device.Error{Op: "set the limit", Err: refusal})
			w.start()
			for range 2 {
				pass(10 * time.Minute)
				if power, fan := w.told(gpu.EventPowerLimit), w.told(gpu.EventFan); len(power) != 1 || len(fan) != 1 {
					t.Errorf("%v: told %v and %v", refusal, power, fan)
				}
				w.acts.Configure(w.settings())
			}
			w.stop()
			if text, err := os.ReadFile(w.file); err == nil && !strings.HasSuffix(string(text), "\n{}") {
				t.Errorf("nothing was changed, and the file says %s", text)
			}
		})
	}
}

// What a device refuses for a while is steered again, without new settings.
func TestRefusedForAWhile(t *testing.T) {
	for _, refusal := range []error{device.ErrUnsupported, device.ErrNoPermission} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, furnace)
			w.config.GPU.FanCurve = "50:50"
			w.refuses(&device.Error{Op: "set the limit", Err: refusal})
			w.start()
			pass(time.Hour)
			if power, fan := w.told(gpu.EventPowerLimit), w.told(gpu.EventFan); len(power) != 1 || len(fan) != 1 {
				t.Errorf("%v: told %v and %v", refusal, power, fan)
			}
			w.refuses(nil)
			pass(2 * time.Hour)
			if acts := w.acts.Acts(uuid); !acts.Original.Known() || acts.Fan.Or(0) != 50 {
				t.Errorf("%v: in the end acts %+v", refusal, acts)
			}
			w.stop()
		})
	}
}

// So is what a device refuses while berth holds it, however long, and whether or not the
// device was reset.
func TestRefusedWhileItIsHeld(t *testing.T) {
	for _, reset := range []bool{false, true} {
		for _, lasts := range []time.Duration{5 * time.Second, 25 * time.Second, 2 * time.Minute, 10 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, furnace)
				w.config.GPU.FanCurve = "50:50"
				w.start()
				pass(3 * time.Minute)
				if !w.acts.Acts(uuid).Original.Known() {
					t.Fatal("nothing is held")
				}
				w.refuses(&device.Error{Op: "set the limit", Err: device.ErrNoPermission})
				pass(lasts)
				if reset {
					devices, _ := w.backend.Scan(t.Context())
					if err := devices[0].(device.Governor).SetPowerLimit(t.Context(), 115); err != nil {
						t.Fatal(err)
					}
				}
				w.refuses(nil)
				pass(lasts + 2*time.Minute) // the longest pause, and what follows
				if told, acts := w.told(gpu.EventPowerLimit), w.acts.Acts(uuid); slices.Contains(told, "taken") || !acts.Original.Known() || acts.Fan.Or(0) != 50 {
					t.Errorf("reset %v, refused for %v: told %v, acts %+v", reset, lasts, told, acts)
				}
				w.stop()
			})
		}
	}
}

// A limit that the driver sets after it was given up is berth's, and is given back.
func TestLimitThatIsSetLate(t *testing.T) {
	for late := 1; late <= 3; late++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, furnace)
			w.failsLate(late)
			w.start()
			pass(10 * time.Minute)
			if told := w.told(gpu.EventPowerLimit); w.failsLate(0) != 0 || slices.Contains(told, "taken") || !w.acts.Acts(uuid).Original.Known() {
				t.Errorf("after %d late steps: told %v, acts %+v", late, told, w.acts.Acts(uuid))
			}
			w.stop()
			if w.limit() != 115 {
				t.Errorf("after %d late steps the limit stays at %g W", late, w.limit())
			}
		})
	}
}

// A limit that is given back after the driver was given up is not taken for somebody
// else's: berth steers it again when it has to.
func TestLimitThatIsGivenBackLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.start()
		pass(3 * time.Minute)
		w.hang(true)
		w.refuses(nil)
		w.failsLate(1)
		pass(time.Minute)
		w.hang(false)
		pass(3 * time.Minute)
		if told := w.told(gpu.EventPowerLimit); w.failsLate(0) != 0 || slices.Contains(told, "taken") || w.limit() == 115 {
			t.Errorf("told %v, limit %g W", told, w.limit())
		}
		w.stop()
	})
}

// Fans that a device could not give back while it hung follow the curve again after that.
func TestCurveAfterAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.config.GPU.FanCurve = "50:50"
		w.start()
		pass(time.Minute)
		w.hang(true)
		pass(time.Minute)
		if told := w.told(gpu.EventFan); !slices.Equal(told, []string{"set", "refused"}) {
			t.Errorf("while it hangs: told %v", told)
		}
		w.hang(false)
		pass(time.Minute)
		if fan, known := w.acts.Acts(uuid).Fan.Get(); !known || fan != 50 {
			t.Errorf("after that: %+v, told %v", w.acts.Acts(uuid), w.told(gpu.EventFan))
		}
		w.stop()
	})
}

// Other settings do not make an old temperature a new one.
func TestSettingsWhileNothingIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.config.GPU.FanCurve = "50:50"
		w.start()
		pass(time.Minute)
		w.hang(true)
		pass(time.Minute)
		w.refuses(nil)
		pass(time.Second)
		w.acts.Configure(w.settings())
		pass(5 * time.Second)
		if w.acts.Acts(uuid).Fan.Known() {
			t.Errorf("nobody knows how hot it is, and the fans are held: %+v", w.acts.Acts(uuid))
		}
		w.stop()
	})
}

// A limit that could not be given back after a kill is not lowered.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.file = filepath.Join(t.TempDir(), "missing", "throttle.json")
		w.config.GPU.FanCurve = "50:50"
		w.start()
		pass(5 * time.Minute)
		if w.limit() != 115 {
			t.Errorf("the limit is %g W, and nobody would give it back", w.limit())
		}
		if w.complaints != 1 {
			t.Errorf("complained %d times", w.complaints)
		}
		w.stop()
	})
}

// A device that is cool again gets its whole limit back, although no step on the way there
// can be written down.
func TestLimitComesBackOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "[{device: 0, load: 100}, {at: 2m, for: 20m, device: 0, ambient_celsius: 50}, {at: 30m, device: 0, load: 0}]")
		w.start()
		pass(20 * time.Minute)
		if low := w.limit(); low > 90 {
			t.Fatalf("the limit is %g W", low)
		}
		folder := filepath.Dir(w.file)
		if err := os.Rename(folder, folder+"-away"); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Minute)
		if w.limit() != 115 || w.acts.Acts(uuid).Original.Known() {
			t.Errorf("the device is idle, its limit is %g W, acts %+v", w.limit(), w.acts.Acts(uuid))
		}
		w.stop()
	})
}

func TestDamagedFile(t *testing.T) {
	w := newWorld(t, "[]")
	for _, text := range []string{"", "[]", `{"a": {"power": {"original_watts": -1}}}`, `{"a": {"power": {"original_watts": 1e9, "set_watts": 5, "before_watts": 5}}}`} {
		if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, damage := throttle.Open(throttle.Options{Settings: w.settings(), File: w.file})
		if damage == nil || !strings.Contains(damage.String(), "nvidia-smi --power-limit") {
			t.Fatalf("%q: %v", text, damage)
		}
		if kept, err := os.ReadFile(damage.Aside); err != nil || string(kept) != text {
			t.Errorf("kept is %q, %v", kept, err)
		}
	}
}

// Whatever a device refuses for a while, its fans and its power limit are the driver's again
// as soon as it takes them.
func TestWhatIsRefusedForAWhileIsGivenBack(t *testing.T) {
	for _, refusal := range []error{device.ErrNoPermission, device.ErrUnsupported, device.ErrLost, errors.New("NVML error 999")} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, furnace)
			w.config.GPU.FanCurve = "20:20,100:100"
			w.start()
			pass(time.Minute)
			if acts := w.acts.Acts(uuid); !acts.Fan.Known() || !acts.Original.Known() {
				t.Fatalf("acts %+v", acts)
			}
			w.refuses(&device.Error{Op: "set it", Err: refusal})
			pass(2 * time.Minute)
			if acts := w.acts.Acts(uuid); !acts.Fans || acts.Fan.Known() || !acts.Original.Known() {
				t.Errorf("%v: what could not be given back is forgotten: %+v", refusal, acts)
			}
			if saved, _ := os.ReadFile(w.file); !strings.Contains(string(saved), "fan") || !strings.Contains(string(saved), "original_watts") {
				t.Errorf("%v: no later daemon would give it back: %s", refusal, saved)
			}
			w.config.GPU.Throttle, w.config.GPU.FanCurve = string(slowdown.Slots), ""
			w.acts.Configure(w.settings())
			pass(time.Minute)
			w.refuses(nil)
			pass(time.Minute)
			if acts := w.acts.Acts(uuid); acts.Fan.Known() || acts.Original.Known() || w.limit() != 115 {
				t.Errorf("%v: limit %g W, acts %+v", refusal, w.limit(), acts)
			}
			if told := w.told(gpu.EventFan); told[len(told)-1] != "released" {
				t.Errorf("%v: told %v", refusal, told)
			}
			if saved, _ := os.ReadFile(w.file); !strings.HasSuffix(string(saved), "\n{}") {
				t.Errorf("%v: the file still says %s", refusal, saved)
			}
			w.stop()
		})
	}
}

// When nobody knows any more how hot a device is, berth gives everything back; a single
// wrong reading changes nothing.
func TestHeatThatIsNotKnown(t *testing.T) {
	at := time.Now()
	for name, twist := range map[string]func(*monitor.Reading){
		"a sensor that shows 0":   func(r *monitor.Reading) { r.Sample.Temperature = gpu.Some[gpu.Celsius](0) },
		"a sensor that shows 255": func(r *monitor.Reading) { r.Sample.Temperature = gpu.Some[gpu.Celsius](255) },
		"no answer":               func(r *monitor.Reading) { r.Sample.Time, r.Stale = at, true },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, furnace)
			w.config.GPU.FanCurve = "50:50"
			w.hold(&lease.Lease{ID: "train", Fence: 1})
			w.start()
			acting := func() bool {
				acts := w.acts.Acts(uuid)
				return len(w.held()) == 1 && acts.Fan.Known() && w.limit() < 115
			}
			pass(3 * time.Minute)
			if !acting() {
				t.Fatalf("%s: held %v, limit %g W, acts %+v", name, w.held(), w.limit(), w.acts.Acts(uuid))
			}
			w.twists(twist)
			pass(2 * time.Second)
			if !acting() {
				t.Errorf("%s: at once, held %v, limit %g W, acts %+v", name, w.held(), w.limit(), w.acts.Acts(uuid))
			}
			pass(15 * time.Second)
			if acts := w.acts.Acts(uuid); len(w.held()) != 0 || acts.Fan.Known() || acts.Original.Known() || w.limit() != 115 {
				t.Errorf("%s: held %v, limit %g W, acts %+v", name, w.held(), w.limit(), acts)
			}
			w.twists(nil)
			pass(3 * time.Minute)
			if !acting() {
				t.Errorf("%s, and is over: held %v, limit %g W, acts %+v", name, w.held(), w.limit(), w.acts.Acts(uuid))
			}
			w.stop()
		})
	}
}

// An exempt lease on an instance of a device keeps the power of the device.
func TestExemptServiceOnAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.config.Services = map[string]config.Service{"exempt": {Throttle: string(slowdown.Exempt)}}
		w.twists(func(r *monitor.Reading) { r.Device.Instances = []string{"MIG-a", "MIG-b"} })
		w.where = "MIG-b"
		w.hold(&lease.Lease{ID: "first", Fence: 5, Holder: lease.Holder{Service: "exempt"}})
		w.start()
		pass(3 * time.Minute)
		if w.limit() != 115 {
			t.Errorf("the limit is %g W", w.limit())
		}
		w.stop()
	})
}

// A rest ends only when everything is given back, also while monitoring is stopped, and a
// note that could not be removed is removed later.
func TestRestTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, furnace)
		w.start()
		pass(3 * time.Minute)
		w.refuses(device.ErrHung)
		w.acts.Rest(t.Context())
		w.monitor.Stop(gpu.By{})
		if w.limit() == 115 || !w.acts.Acts(uuid).Original.Known() {
			t.Fatalf("limit %g W, acts %+v", w.limit(), w.acts.Acts(uuid))
		}
		folder := filepath.Dir(w.file)
		if err := os.Rename(folder, folder+"-away"); err != nil {
			t.Fatal(err)
		}
		w.refuses(nil)
		pass(time.Minute)
		if w.limit() != 115 || w.acts.Acts(uuid).Original.Known() {
			t.Errorf("limit %g W, acts %+v", w.limit(), w.acts.Acts(uuid))
		}
		if err := os.Rename(folder+"-away", folder); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if left, _ := os.ReadFile(w.file); !strings.HasSuffix(string(left), "\n{}") {
			t.Errorf("the file still says %s", left)
		}
		w.monitor.Start(gpu.By{})
		w.acts.Resume()
		pass(3 * time.Minute)
		if w.limit() == 115 {
			t.Error("nothing is done after the rest")
		}
		w.stop()
	})
}
