package intel_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/devicetest"
	"github.com/berth-gpu/berth/internal/device/drm"
	"github.com/berth-gpu/berth/internal/device/drm/drmtest"
	"github.com/berth-gpu/berth/internal/device/intel"
)

var devices, fast = devicetest.Scan, devicetest.Fast

const (
	arc   = "testdata/arc.txtar"
	older = "sys/class/drm/card1/" // under i915
	newer = "sys/class/drm/card2/" // under xe
)

func TestConformance(t *testing.T) {
	for name, archives := range map[string][]string{"no GPU": nil, "three GPUs": {arc}} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Backend {
				tree := drmtest.Lay(t, archives...)
				tree.Log()
				return drm.New(&intel.Table, drm.Options{Root: tree.Root(), All: true})
			})
		})
	}
}

// clock stands still until it is moved.
type clock struct{ now time.Time }

func newClock() *clock           { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }
func (c *clock) read() time.Time { return c.now }
func (c *clock) pass(s float64)  { c.now = c.now.Add(time.Duration(s * float64(time.Second))) }

func TestCards(t *testing.T) {
	tree, now := drmtest.Lay(t, arc), newClock()
	list := devices(t, drm.New(&intel.Table, drm.Options{Root: tree.Root(), Now: now.read}))
	if len(list) != 2 {
		t.Fatalf("found %d devices; the one in the processor is only for those who ask for it", len(list))
	}
	want := gpu.Device{
		UUID: "GPU-8086-56a0-at-0000-03-00.0", Name: "Arc A770", Vendor: gpu.Intel, Backend: "intel", Driver: "Linux 6.15.2",
		Ordinal: gpu.Some(1), // after the one in the processor
		PCI:     "0000:03:00.0", Path: "/dev/dri/renderD129", PowerLimit: gpu.Some(gpu.Watts(190)),
	}
	if got := list[0].Describe(); !cmp.Equal(got, want, cmp.AllowUnexported(gpu.Opt[int]{}, gpu.Opt[gpu.Watts]{}, gpu.Opt[gpu.Celsius]{})) {
		t.Errorf("the first is %+v, want %+v", got, want)
	}
	if d := list[1].Describe(); d.Index != 1 || d.Name != "Arc B580" || d.MemoryTotal != 12288 || d.NUMANode != gpu.Some(0) || d.Ordinal != gpu.Some(2) {
		t.Errorf("the second is %+v", d)
	}

	s := fast(t, list[0])
	if s.Power.Known() || s.Utilization.Known() || s.MemoryTotal.Known() || s.MemoryUsed.Known() || s.Temperature.Known() || !s.Blind {
		t.Errorf("the first reading of a card that tells little: %+v", s)
	}
	if s.ClockSM != gpu.Some(gpu.MHz(2400)) || !cmp.Equal(s.Throttle, []gpu.ThrottleReason{gpu.ThrottlePowerCap}) {
		t.Errorf("clock %v, throttle %v", s.ClockSM, s.Throttle)
	}
	if p := s.Processes; len(p) != 1 || p[0] != (gpu.Process{PID: 500, Name: "python3", Kind: gpu.Compute, Memory: gpu.Some(gpu.MiB(1024))}) {
		t.Errorf("on it run %+v", p)
	}
	now.pass(2)
	tree.Write(older+"device/hwmon/hwmon3/energy1_input", "400000000\n")
	tree.Write("proc/500/fdinfo/4", "drm-driver: i915\ndrm-client-id: 7\ndrm-pdev: 0000:03:00.0\ndrm-engine-compute: 3500000000 ns\n")
	s = fast(t, list[0])
	if s.Power != gpu.Some(gpu.Watts(150)) || s.Utilization != gpu.Some(gpu.Percent(75)) {
		t.Errorf("after two seconds: %v W, %v %%", s.Power, s.Utilization)
	}
	var slow gpu.Slow
	if err := list[0].Slow(t.Context(), &slow); err != nil || slow.Energy != gpu.Some(400.0) || slow.ProcessUtilization[500] != 75 || slow.Fan.Known() {
		t.Errorf("the slow part is %+v, %v", slow, err)
	}

	s = fast(t, list[1])
	if s.Temperature != gpu.Some(gpu.Celsius(49)) || s.MemoryTemperature != gpu.Some(gpu.Celsius(56)) || s.ClockSM != gpu.Some(gpu.MHz(2850)) ||
		s.MemoryUsed != gpu.Some(gpu.MiB(3072)) || s.MemoryFree != gpu.Some(gpu.MiB(9216)) || s.Throttle == nil || len(s.Throttle) != 0 || s.Blind {
		t.Errorf("the second measures %+v", s)
	}
}

func TestMeter(t *testing.T) {
	tree, now := drmtest.Lay(t, arc), newClock()
	d := devices(t, drm.New(&intel.Table, drm.Options{Root: tree.Root(), Now: now.read}))[1]
	start := now.now
	fast(t, d)
	now.pass(1)
	tree.Write("proc/600/fdinfo/9", "drm-driver: xe\ndrm-client-id: 3\ndrm-pdev: 0000:07:00.0\ndrm-cycles-ccs: 9000000\ndrm-total-cycles-ccs: 38400000\n")
	busy, err := d.(device.Meter).Busy(t.Context(), start)
	if share := busy.Shares[600]; err != nil || share < 41.6 || share > 41.7 || !busy.From.Equal(start) || !busy.Until.Equal(now.now) {
		t.Errorf("%+v, %v", busy, err)
	}
}

func TestPowerCounterThatGoesBack(t *testing.T) {
	tree, now := drmtest.Lay(t, arc), newClock()
	d := devices(t, drm.New(&intel.Table, drm.Options{Root: tree.Root(), Now: now.read}))[0]
	fast(t, d)
	for _, text := range []string{"5\n", "", "9223372036854775807\n", "nothing\n"} {
		now.pass(1)
		tree.Write(older+"device/hwmon/hwmon3/energy1_input", text)
		if s := fast(t, d); s.Power.Known() {
			t.Errorf("after %q the power is %v", text, s.Power)
		}
	}
	if s := fast(t, d); s.Power.Known() { // no time has passed
		t.Errorf("at the same time the power is %v", s.Power)
	}
}

func TestOpen(t *testing.T) {
	tree := drmtest.Lay(t)
	if _, err := drm.Open(&intel.Table, drm.Options{Root: tree.Root()}); !errors.Is(err, device.ErrNoDriver) || device.Hint(err) == "" {
		t.Errorf("without a GPU: %v", err)
	}
	tree.Write("sys/class/drm/card0/device/uevent", "DRIVER=i915\nPCI_ID=8086:A780\nPCI_SLOT_NAME=0000:00:02.0\n")
	if _, err := drm.Open(&intel.Table, drm.Options{Root: tree.Root()}); !errors.Is(err, device.ErrNoDriver) {
		t.Errorf("with the one in the processor: %v", err)
	}
	if b, err := drm.Open(&intel.Table, drm.Options{Root: tree.Root(), All: true}); err != nil || b.Name() != "intel" {
		t.Errorf("asked for by name: %v", err)
	}
}

func TestLost(t *testing.T) {
	tree := drmtest.Lay(t, arc)
	d := devices(t, drm.New(&intel.Table, drm.Options{Root: tree.Root()}))[0]
	tree.Remove("sys/class/drm/card1")
	var s gpu.Sample
	if err := d.Fast(t.Context(), &s); !errors.Is(err, device.ErrLost) {
		t.Errorf("fast: %v", err)
	}
	if err := d.Slow(t.Context(), &s.Slow); !errors.Is(err, device.ErrLost) {
		t.Errorf("slow: %v", err)
	}
	if _, err := d.(device.Meter).Busy(t.Context(), time.Time{}); !errors.Is(err, device.ErrLost) {
		t.Errorf("shares: %v", err)
	}
	if err := d.(device.Governor).SetPowerLimit(t.Context(), 100); !errors.Is(err, device.ErrLost) {
		t.Errorf("power limit: %v", err)
	}
}

func TestBadFiles(t *testing.T) {
	for name, spoil := range map[string]func(*drmtest.Tree, string){
		"gone":      func(tree *drmtest.Tree, file string) { tree.Remove(file) },
		"a folder":  func(tree *drmtest.Tree, file string) { tree.Folder(file) },
		"garbage":   func(tree *drmtest.Tree, file string) { tree.Write(file, "\x00\xff nonsense") },
		"empty":     func(tree *drmtest.Tree, file string) { tree.Write(file, "") },
		"negative":  func(tree *drmtest.Tree, file string) { tree.Write(file, "-9223372036854775808\n") },
		"too large": func(tree *drmtest.Tree, file string) { tree.Write(file, "9223372036854775807\n") },
		"I/O error": func(tree *drmtest.Tree, file string) { tree.Write(file, "-> /proc/self/mem") },
	} {
		t.Run(name, func(t *testing.T) {
			tree := drmtest.Lay(t, arc)
			for _, file := range []string{
				older + "gt/gt0/rps_act_freq_mhz", older + "gt/gt0/throttle_reason_status", older + "gt/gt0/throttle_reason_pl1",
				older + "device/hwmon/hwmon3/name", older + "device/hwmon/hwmon3/energy1_input", older + "device/hwmon/hwmon3/power1_max",
				newer + "device/tile0/physical_vram_size_bytes", newer + "device/tile0/gt0/freq0/act_freq", newer + "device/hwmon/hwmon5/temp2_input",
				newer + "device/numa_node", "proc/600/fdinfo/9",
			} {
				before := tree.Text(file)
				spoil(tree, file)
				devicetest.Readings(t, drm.New(&intel.Table, drm.Options{Root: tree.Root(), All: true}))
				tree.Write(file, before)
			}
		})
	}
}

func TestGovernor(t *testing.T) {
	tree := drmtest.Lay(t, arc)
	list := devices(t, drm.New(&intel.Table, drm.Options{Root: tree.Root()}))
	g := list[0].(device.Governor)
	limit := older + "device/hwmon/hwmon3/power1_max"
	limits, err := g.PowerLimits(t.Context())
	if want := (device.PowerLimits{Now: 190, Default: 190, Least: 47.5}); limits != want || err != nil {
		t.Errorf("limits are %+v, %v", limits, err)
	}
	if err := g.SetPowerLimit(t.Context(), 120); err != nil || tree.Text(limit) != "120000000" {
		t.Errorf("%v: %s", err, tree.Text(limit))
	}
	for _, wrong := range []gpu.Watts{0, -5, 47} {
		if g.SetPowerLimit(t.Context(), wrong) == nil {
			t.Errorf("%v W were taken", wrong)
		}
	}
	tree.Write(limit, "0\n") // switched off
	if limits, err := g.PowerLimits(t.Context()); err != nil || limits.Now != 190 {
		t.Errorf("limits are %+v, %v", limits, err)
	}
	for name, err := range map[string]error{
		"fan": g.SetFan(t.Context(), 50), "fan back": g.ReleaseFan(t.Context()), "another card's limit": list[1].(device.Governor).SetPowerLimit(t.Context(), 100),
	} {
		if !errors.Is(err, device.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if os.Geteuid() != 0 {
		_ = os.Chmod(tree.Path(limit), 0o444)
		if err := g.SetPowerLimit(t.Context(), 100); !errors.Is(err, device.ErrNoPermission) {
			t.Errorf("without permission: %v", err)
		}
	}
}

// A limit that cannot be read is not taken for another one.
func TestLimitThatCannotBeRead(t *testing.T) {
	tree := drmtest.Lay(t, arc)
	hwmon := older + "device/hwmon/hwmon3/"
	tree.Write(hwmon+"power2_max", "150000000\n")
	g := devices(t, drm.New(&intel.Table, drm.Options{Root: tree.Root()}))[0].(device.Governor)
	tree.Remove(hwmon + "power1_max")
	if limits, err := g.PowerLimits(t.Context()); err != nil || limits.Now != 150 {
		t.Errorf("without the first limit, limits are %+v, %v", limits, err)
	}
	tree.Folder(hwmon + "power1_max")
	if limits, err := g.PowerLimits(t.Context()); err == nil {
		t.Errorf("limits are %+v", limits)
	}
}

// The driver names no highest limit. Whatever its owner had set can be set again, also by
// the next daemon, which never saw it.
func TestLoweredLimitGoesBack(t *testing.T) {
	for name, rated := range map[string]string{"no rated limit": "", "a rated limit of 0": "0\n", "a rated limit below": "120000000\n"} {
		tree := drmtest.Lay(t, arc)
		hwmon := older + "device/hwmon/hwmon3/"
		tree.Remove(hwmon + "power1_rated_max")
		if rated != "" {
			tree.Write(hwmon+"power1_rated_max", rated)
		}
		open := func() device.Governor {
			return devices(t, drm.New(&intel.Table, drm.Options{Root: tree.Root()}))[0].(device.Governor)
		}
		g := open()
		before, err := g.PowerLimits(t.Context())
		if err != nil || before.Now != 190 {
			t.Fatalf("%s: limits are %+v, %v", name, before, err)
		}
		if err := g.SetPowerLimit(t.Context(), 161); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if limits, err := g.PowerLimits(t.Context()); err != nil || limits.Now != 161 || limits.Most != 0 || limits.Least != before.Least {
			t.Errorf("%s: limits are %+v, %v", name, limits, err)
		}
		if err := open().SetPowerLimit(t.Context(), 190); err != nil || tree.Text(hwmon+"power1_max") != "190000000" {
			t.Errorf("%s: %v: %s", name, err, tree.Text(hwmon+"power1_max"))
		}
	}
}

func TestWatch(t *testing.T) {
	tree := drmtest.Lay(t, arc)
	b := drm.New(&intel.Table, drm.Options{Root: tree.Root()})
	devices(t, b)
	if err := b.Watch(t.Context(), nil); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("without a log: %v", err)
	}
	write := tree.Log()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan device.Fault)
	ended := make(chan error, 1)
	go func() { ended <- b.Watch(ctx, func(f device.Fault) { heard <- f }) }()
	for _, c := range []struct {
		entry, gpu string
		class      gpu.FaultClass
		severity   gpu.Severity
		pid        int
	}{
		{"i915 0000:03:00.0: [drm] GPU HANG: ecode 12:1:85dfbfff, in python3 [500]", "GPU-8086-56a0-at-0000-03-00.0", gpu.FaultProgram, gpu.Warning, 500},
		{"i915 0000:03:00.0: [drm] reset failed[4711] context reset due to GPU hang", "GPU-8086-56a0-at-0000-03-00.0", gpu.FaultProgram, gpu.Warning, 0},
		{"i915 0000:03:00.0: [drm] Resetting chip for stopped heartbeat on rcs0", "GPU-8086-56a0-at-0000-03-00.0", gpu.FaultDriver, gpu.Warning, 0},
		{"xe 0000:07:00.0: [drm] GT0: Timedout job: seqno=42, lrc_seqno=42, guc_id=3, flags=0x0 in llama [600]", "GPU-8086-e20b-at-0000-07-00.0", gpu.FaultProgram, gpu.Warning, 600},
		{"xe 0000:07:00.0: [drm] CRITICAL: Xe has declared device 0000:07:00.0 as wedged.", "GPU-8086-e20b-at-0000-07-00.0", gpu.FaultDevice, gpu.Serious, 0},
	} {
		write("6,1,1,-;i915 0000:03:00.0: [drm] VT-d active for gfx access\n DEVICE=+pci:0000:03:00.0\n")
		write("6,1,1,-;i915 0000:03:00.0: [77]: segfault at 0 in GPU HANG[400000+1000]\n")                    // a user chose these names
		write("6,1,1,-;i915 0000:00:02.0: [drm] GPU HANG: ecode 9, in Xorg [1]\n DEVICE=+pci:0000:00:02.0\n") // not one of ours
		write("3,2,2,-;" + c.entry + "\n DEVICE=+pci:" + strings.Fields(c.entry)[1][:len("0000:03:00.0")] + "\n")
		if f := <-heard; f.GPU != c.gpu || f.Class != c.class || f.Severity != c.severity || f.PID != c.pid {
			t.Errorf("%s\nis %+v", c.entry, f)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("at the end: %v", err)
	}
}
