package sim_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/devicetest"
	"github.com/berth-gpu/berth/internal/device/sim"
)

const h200Varied = "../../../test/bench/data/h200-varied.csv"

// recording writes a recording into a file and returns what opens it.
func recording(t *testing.T, text string) (spec string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Day.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "trace=" + path
}

func TestRecordingConforms(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) device.Backend { return open(t, "trace="+h200Varied+"+l4") })
}

// What was recorded is read again, held between rows and over a gap, and after
// the last row from the beginning. The energy goes on.
func TestRecording(t *testing.T) {
	spec := recording(t, `t_s,temp_c,power_w,util,mem_used_mb,mem_total_mb,sm_mhz,fan_percent,throttle
10,40,100,5,2000,8188,1500,30,idle
11,50,200,90,3000,8188,2000,,"power_cap, thermal"
12,,,,,,,,
60,45,100,5,2000,8188,1500,40,
`)
	clock := newHand()
	devices := scan(t, open(t, "l4+"+spec, sim.Options{Clock: clock.Now}))
	about := devices[1].Describe()
	if about.UUID != "SIM-trace-1" || about.Name != "recording Day.csv (simulated)" || about.MemoryTotal != 8188 || about.PowerLimit.Known() || about.TempSlowdown.Known() {
		t.Errorf("it is %+v", about)
	}
	steps := []struct {
		pass     time.Duration
		temp     gpu.Opt[gpu.Celsius]
		power    gpu.Opt[gpu.Watts]
		used     gpu.MiB
		joules   float64
		fan      gpu.Percent
		throttle int
	}{
		{0, gpu.Some[gpu.Celsius](40), gpu.Some[gpu.Watts](100), 2000, 0, 30, 1},
		{999 * time.Millisecond, gpu.Some[gpu.Celsius](40), gpu.Some[gpu.Watts](100), 2000, 0, 30, 1},
		{time.Millisecond, gpu.Some[gpu.Celsius](50), gpu.Some[gpu.Watts](200), 3000, 100, 30, 2},
		{time.Second, gpu.Opt[gpu.Celsius]{}, gpu.Opt[gpu.Watts]{}, 0, 300, 30, 0},
		{40 * time.Second, gpu.Opt[gpu.Celsius]{}, gpu.Opt[gpu.Watts]{}, 0, 300, 30, 0},
		{8 * time.Second, gpu.Some[gpu.Celsius](45), gpu.Some[gpu.Watts](100), 2000, 9900, 40, 0},
		{time.Second, gpu.Some[gpu.Celsius](40), gpu.Some[gpu.Watts](100), 2000, 10000, 30, 1},
		{51 * time.Second, gpu.Some[gpu.Celsius](40), gpu.Some[gpu.Watts](100), 2000, 20000, 30, 1},
	}
	for i, want := range steps {
		clock.pass(want.pass)
		s := fast(t, devices[1])
		var slow gpu.Slow
		if err := devices[1].Slow(t.Context(), &slow); err != nil {
			t.Fatal(err)
		}
		if s.Temperature != want.temp || s.Power != want.power || s.MemoryUsed != gpu.Some(want.used) || s.MemoryFree != gpu.Some(8188-want.used) || len(s.Throttle) != want.throttle {
			t.Errorf("step %d: %+v; want %+v", i, s, want)
		}
		if slow.Energy != gpu.Some(want.joules) || slow.Fan != gpu.Some(want.fan) {
			t.Errorf("step %d: energy %v, fan %v; want %v and %v", i, slow.Energy, slow.Fan, want.joules, want.fan)
		}
	}
	if err := devices[1].(device.Governor).SetPowerLimit(t.Context(), 100); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("a recording took a power limit: %v", err)
	}
}

// In a scenario, a recorded device has processes and faults on top of what was
// recorded, and time goes faster.
func TestRecordingInAScenario(t *testing.T) {
	spec := recording(t, "t_s,temp_c,power_w,util,mem_used_mb\n0,40,100,80,1000\n10,50,200,80,1000\n")
	path := scenario(t, `
devices: `+spec+`
speed: 10
timeline:
  - {at: 10s, device: 0, process: {pid: 5000001, memory_mb: 500, load: 50}}
  - {at: 15s, device: 0, lost: true}
`)
	clock := newHand()
	b := open(t, path, sim.Options{Clock: clock.Now})
	d := scan(t, b)[0]
	clock.pass(time.Second)
	s := fast(t, d)
	if s.Temperature != gpu.Some[gpu.Celsius](50) || s.MemoryUsed != gpu.Some[gpu.MiB](1500) || s.Utilization != gpu.Some[gpu.Percent](100) || len(s.Processes) != 1 {
		t.Errorf("it reads %+v", s)
	}
	clock.pass(time.Second)
	if left := scan(t, b); len(left) != 0 {
		t.Errorf("a lost device is listed")
	}
}

func TestRecordingRefused(t *testing.T) {
	const header = "t_s,temp_c,power_w\n"
	for name, c := range map[string]struct{ spec, says string }{
		"no file":       {"trace=", "trace= names no file"},
		"not there":     {"trace=nowhere.csv", "no such file"},
		"a folder":      {"trace=.", ". is not a file"},
		"no rows":       {recording(t, header), "a header and no rows"},
		"no header":     {recording(t, "0,40,100\n"), "line 1: there is no column t_s"},
		"a word":        {recording(t, header+"0,40,100\n1,hot,100\n"), `line 3: temp_c: "hot" is not a number`},
		"going back":    {recording(t, header+"5,40,100\n4,40,100\n"), "line 3: the time goes back"},
		"after a model": {"2xh200+trace=nowhere.csv", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sim.Open(c.spec, sim.Options{})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "berth record") {
				t.Errorf("it says %v; want %q, and what to do", err, c.says)
			}
		})
	}
}
