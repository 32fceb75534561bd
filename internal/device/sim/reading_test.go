package sim_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/sim"
)

// A device under load shows what the record of a real one shows.
func TestLoadAndIdle(t *testing.T) {
	clock := newHand()
	b := open(t, scenario(t, "devices: 1\ntimeline: [{at: 10s, for: 60s, device: 0, load: 100}]"), sim.Options{Clock: clock.Now})
	dev := scan(t, b)[0]

	idle := fast(t, dev)
	if !slices.Equal(idle.Throttle, []gpu.ThrottleReason{gpu.ThrottleIdle}) || idle.ClockSM != gpu.Some(gpu.MHz(345)) {
		t.Errorf("idle: throttle %q, clock %v; want idle and 345", idle.Throttle, idle.ClockSM)
	}
	if idle.Temperature != gpu.Some(gpu.Celsius(39)) || idle.Power != gpu.Some(gpu.Watts(79.4)) {
		t.Errorf("idle: %v °C, %v W; want 39 and 79.4", idle.Temperature, idle.Power)
	}
	if idle.MemoryUsed != gpu.Some(gpu.MiB(615)) || idle.Processes == nil || len(idle.Processes) != 0 {
		t.Errorf("idle: %v MiB used by %v; want the driver's 615 and no process", idle.MemoryUsed, idle.Processes)
	}
	energy := slow(t, dev)

	clock.pass(65 * time.Second)
	busy := fast(t, dev)
	if !slices.Equal(busy.Throttle, []gpu.ThrottleReason{gpu.ThrottlePowerCap}) || busy.ClockSM != gpu.Some(gpu.MHz(1470)) {
		t.Errorf("busy: throttle %q, clock %v; want power_cap and 1470", busy.Throttle, busy.ClockSM)
	}
	if busy.Temperature != gpu.Some(gpu.Celsius(62)) || busy.MemoryTemperature != gpu.Some(gpu.Celsius(54)) {
		t.Errorf("busy: %v °C, memory %v °C; want 62 and 54", busy.Temperature, busy.MemoryTemperature)
	}
	if busy.Utilization != gpu.Some(gpu.Percent(100)) || busy.MemoryBusy != gpu.Some(gpu.Percent(23)) {
		t.Errorf("busy: load %v, memory %v; want 100 and 23", busy.Utilization, busy.MemoryBusy)
	}
	after := slow(t, dev)
	if used := after.Energy.Or(0) - energy.Energy.Or(0); used < 38_000 || used > 40_000 {
		t.Errorf("10 s of idling and 55 s of load took %.0f J; want about 39,000", used)
	}

	clock.pass(6 * time.Second)
	awake := fast(t, dev)
	if awake.ClockSM != gpu.Some(gpu.MHz(1980)) || len(awake.Throttle) != 0 || awake.Throttle == nil {
		t.Errorf("a second after load: clock %v, throttle %q; want 1980 and none", awake.ClockSM, awake.Throttle)
	}
	clock.pass(5 * time.Second)
	if asleep := fast(t, dev); asleep.Temperature != gpu.Some(gpu.Celsius(40)) || asleep.ClockSM != gpu.Some(gpu.MHz(345)) {
		t.Errorf("six seconds after load: %v °C, %v MHz; want 40 and 345", asleep.Temperature, asleep.ClockSM)
	}
}

func TestThermalThrottling(t *testing.T) {
	clock := newHand()
	b := open(t, scenario(t, "devices: rtx-4060\ntimeline: [{device: 0, load: 100, ambient_celsius: 70}]"), sim.Options{Clock: clock.Now})
	dev := scan(t, b)[0]
	clock.pass(10 * time.Minute)
	s := fast(t, dev)
	if !slices.Contains(s.Throttle, gpu.ThrottleThermal) || s.ClockSM.Or(0) >= 2760 {
		t.Errorf("in an oven: throttle %q, clock %v; want thermal, below 2760", s.Throttle, s.ClockSM)
	}
	if c := s.Temperature.Or(0); c < 92 || c > 97 {
		t.Errorf("in an oven: %v °C; want it held near the slowdown point of 92", c)
	}
	if fan := slow(t, dev).Fan; fan != gpu.Some(gpu.Percent(100)) {
		t.Errorf("in an oven: fan at %v; want 100", fan)
	}
}

func TestAbsentIsAbsent(t *testing.T) {
	devices := scan(t, open(t, "rtx-4060+h200"))
	consumer, server := fast(t, devices[0]), fast(t, devices[1])
	if consumer.MemoryTemperature.Known() || !server.MemoryTemperature.Known() {
		t.Error("the H200 has a memory sensor and the RTX 4060 has none")
	}
	consumerSlow, serverSlow := slow(t, devices[0]), slow(t, devices[1])
	if !consumerSlow.Fan.Known() || serverSlow.Fan.Known() {
		t.Error("the RTX 4060 has a fan and the H200 has none")
	}
	if consumerSlow.ECCCorrected.Known() || !serverSlow.ECCCorrected.Known() {
		t.Error("the H200 has ECC and the RTX 4060 has none")
	}
}

func TestProcesses(t *testing.T) {
	clock := newHand()
	b := open(t, scenario(t, `
devices: rtx-4060
timeline:
  - {at: 0s, for: 60s, device: 0, process: {pid: 5000001, name: train.py, memory_mb: 1GiB, grow_mb_per_second: 100, load: 80}}
  - {at: 10s, device: 0, process: {pid: 5000000, memory_mb: 500, load: 60}}
  - {at: 70s, device: 0, process: {pid: 5000000, memory_mb: 1000}}
`), sim.Options{Clock: clock.Now})
	dev := scan(t, b)[0]
	process := func(pid int, name string, memory gpu.MiB) gpu.Process {
		return gpu.Process{PID: pid, Name: name, Kind: gpu.Compute, Memory: gpu.Some(memory)}
	}
	for _, c := range []struct {
		at     time.Duration
		list   []gpu.Process
		used   gpu.MiB
		load   gpu.Percent
		shares map[int]gpu.Percent
	}{
		{0, []gpu.Process{process(5000001, "train.py", 1024)}, 260 + 1024, 80, map[int]gpu.Percent{5000001: 80}},
		{20 * time.Second, []gpu.Process{process(5000000, "", 500), process(5000001, "train.py", 3024)}, 260 + 3524, 100,
			map[int]gpu.Percent{5000000: 43, 5000001: 57}},
		{59 * time.Second, []gpu.Process{process(5000000, "", 500), process(5000001, "train.py", 6924)}, 260 + 7424, 100,
			map[int]gpu.Percent{5000000: 43, 5000001: 57}},
		{60 * time.Second, []gpu.Process{process(5000000, "", 500)}, 760, 60, map[int]gpu.Percent{5000000: 60}},
		{70 * time.Second, []gpu.Process{process(5000000, "", 1000)}, 1260, 0, map[int]gpu.Percent{5000000: 0}},
	} {
		clock.now = newHand().now.Add(c.at)
		s := fast(t, dev)
		if !reflect.DeepEqual(s.Processes, c.list) || s.MemoryUsed != gpu.Some(c.used) || s.Utilization != gpu.Some(c.load) {
			t.Errorf("at %v: %+v, %v MiB, %v %%; want %+v, %d, %v", c.at, s.Processes, s.MemoryUsed, s.Utilization, c.list, c.used, c.load)
		}
		if shares := slow(t, dev).ProcessUtilization; !reflect.DeepEqual(shares, c.shares) {
			t.Errorf("at %v: load by process %v; want %v", c.at, shares, c.shares)
		}
	}
}

func TestMemoryIsNeverMoreThanThereIs(t *testing.T) {
	clock := newHand()
	b := open(t, scenario(t, `
devices: t4
timeline: [{device: 0, process: {pid: 5000001, grow_mb_per_second: 1000000}}, {device: 0, process: {pid: 5000002, memory_mb: 1}}]
`), sim.Options{Clock: clock.Now})
	dev := scan(t, b)[0]
	clock.pass(365 * 24 * time.Hour)
	s := fast(t, dev)
	if s.MemoryFree != gpu.Some(gpu.MiB(0)) || s.MemoryUsed != s.MemoryTotal {
		t.Errorf("used %v, free %v of %v; want all of it used", s.MemoryUsed, s.MemoryFree, s.MemoryTotal)
	}
}

// A plain simulation looks alive, stays in the best state on every model, takes
// no memory, and is the same every time.
func TestUnscripted(t *testing.T) {
	all := "h200+h100+a100+l4+t4+rtx-4060+rtx-4090+mi300x+4"
	run := func() (samples []gpu.Sample) {
		clock := newHand()
		devices := scan(t, open(t, all, sim.Options{Clock: clock.Now}))
		for range 300 {
			for _, dev := range devices {
				samples = append(samples, fast(t, dev))
			}
			clock.pass(4 * time.Second)
		}
		return samples
	}
	samples := run()
	limits := gpu.DefaultThresholds()
	loads := map[gpu.Percent]bool{}
	for _, s := range samples {
		if s.Temperature.Or(999) > limits.TempOptimal-3 || s.MemoryPercent().Or(100) > 5 || len(s.Processes) != 0 {
			t.Fatalf("%v °C, %v %% of memory, processes %v; want it cool and empty", s.Temperature, s.MemoryPercent(), s.Processes)
		}
		loads[s.Utilization.Or(-1)] = true
	}
	if len(loads) < 20 || !loads[0] {
		t.Errorf("only these loads were seen: %v; want it to look alive", loads)
	}
	if !reflect.DeepEqual(samples, run()) {
		t.Error("two runs by the same clock differ")
	}
}

// One reading must not depend on the others, so a slow reader sees what a fast
// one sees.
func TestReadingsDoNotDependOnEachOther(t *testing.T) {
	file := scenario(t, `
devices: 2xrtx-4060
timeline:
  - {at: 3.05s, for: 55s, repeat: 60s, device: all, load: 100, ramp: 20s}
  - {at: 7s, for: 20s, repeat: 37s, device: all, load: 30}
  - {at: 20s, device: all, ambient_celsius: 75, cooling: 0.4}
`)
	const end = 5 * time.Minute
	final := func(step time.Duration) (s gpu.Sample) {
		clock := newHand()
		dev := scan(t, open(t, file, sim.Options{Clock: clock.Now}))[0]
		for range end / step {
			clock.pass(step)
			s = fast(t, dev)
		}
		return s
	}
	once := final(end)
	for _, step := range []time.Duration{125 * time.Millisecond, 300 * time.Millisecond, 12 * time.Second} {
		if often := final(step); !reflect.DeepEqual(often, once) {
			t.Errorf("read every %v it ends as\n%+v\nread once as\n%+v", step, often, once)
		}
	}
}
