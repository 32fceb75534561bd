package devicetest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// Generous limits of the physical world: a reading beyond them is a wrong unit, or a
// special value of the driver that passed for a number.
const (
	coldest  = -50
	hottest  = 200
	maxWatts = 5000
	maxMHz   = 30_000
)

func checkFast(t *testing.T, b device.Backend) {
	for _, dev := range Scan(t, b) {
		d := dev.Describe()
		var s gpu.Sample
		if err := dev.Fast(t.Context(), &s); err != nil {
			t.Errorf("%s: Fast on a device that is well must work: %v", d.UUID, err)
			continue
		}
		judgeSample(t, d, &s)
	}
}

func judgeSample(t *testing.T, d gpu.Device, s *gpu.Sample) {
	t.Helper()
	inRange(t, d.UUID, "Utilization", s.Utilization, 0, 100)
	inRange(t, d.UUID, "MemoryBusy", s.MemoryBusy, 0, 100)
	inRange(t, d.UUID, "Temperature", s.Temperature, coldest, hottest)
	inRange(t, d.UUID, "MemoryTemperature", s.MemoryTemperature, coldest, hottest)
	inRange(t, d.UUID, "Power", s.Power, 0, maxWatts)
	inRange(t, d.UUID, "ClockSM", s.ClockSM, 0, maxMHz)
	inRange(t, d.UUID, "ClockMemory", s.ClockMemory, 0, maxMHz)
	checkMemory(t, d, s)
	checkThrottle(t, d, s)
	checkProcesses(t, d, s)
}

func checkMemory(t *testing.T, d gpu.Device, s *gpu.Sample) {
	t.Helper()
	total, hasTotal := s.MemoryTotal.Get()
	used, hasUsed := s.MemoryUsed.Get()
	free, hasFree := s.MemoryFree.Get()
	if used < 0 || free < 0 || total < 0 {
		t.Errorf("%s: memory must not be negative, got used %d, free %d, total %d", d.UUID, used, free, total)
	}
	if hasTotal && total != d.MemoryTotal {
		t.Errorf("%s: MemoryTotal must be the same in Fast (%d) and Describe (%d)", d.UUID, total, d.MemoryTotal)
	}
	const rounding = 2 // each number was rounded to a whole MiB by itself
	if off := used + free - total; hasTotal && hasUsed && hasFree && (off > rounding || off < -rounding) {
		t.Errorf("%s: used + free must be total, but %d + %d is not %d", d.UUID, used, free, total)
	}
}

func checkThrottle(t *testing.T, d gpu.Device, s *gpu.Sample) {
	t.Helper()
	seen := map[gpu.ThrottleReason]bool{}
	for _, reason := range s.Throttle {
		if reason == "" || seen[reason] {
			t.Errorf("%s: Throttle must name each reason once, got %q", d.UUID, s.Throttle)
		}
		seen[reason] = true
	}
}

func checkProcesses(t *testing.T, d gpu.Device, s *gpu.Sample) {
	t.Helper()
	type use struct {
		pid  int
		kind gpu.ProcessKind
	}
	seen := map[use]bool{}
	for _, p := range s.Processes {
		if p.PID <= 0 {
			t.Errorf("%s: a process must have a pid, got %+v", d.UUID, p)
		}
		if seen[use{p.PID, p.Kind}] {
			t.Errorf("%s: Processes must name each process once, but %d is there twice", d.UUID, p.PID)
		}
		seen[use{p.PID, p.Kind}] = true
		if memory, ok := p.Memory.Get(); ok && memory < 0 {
			t.Errorf("%s: process %d: memory must be absent where it is unknown, got %d", d.UUID, p.PID, memory)
		}
	}
}

func checkFastLeavesRest(t *testing.T, b device.Backend) {
	for _, dev := range Scan(t, b) {
		uuid := dev.Describe().UUID
		slow := gpu.Slow{
			SlowTime: time.Unix(1, 0), Energy: gpu.Some(-1.0), Fan: gpu.Some(gpu.Percent(-1)),
			PCIeTx: gpu.Some(-1.0), PCIeRx: gpu.Some(-1.0),
			ECCCorrected: gpu.Some(int64(-1)), ECCUncorrected: gpu.Some(int64(-1)),
			ProcessUtilization: map[int]gpu.Percent{-1: -1},
		}
		s := gpu.Sample{GPU: "somebody", Time: time.Unix(2, 0), Slow: slow}
		if err := dev.Fast(t.Context(), &s); err != nil {
			t.Errorf("%s: Fast on a device that is well must work: %v", uuid, err)
			continue
		}
		if s.GPU != "somebody" || !s.Time.Equal(time.Unix(2, 0)) {
			t.Errorf("%s: Fast must leave GPU and Time to its caller, made them %q and %v", uuid, s.GPU, s.Time)
		}
		if !reflect.DeepEqual(s.Slow, slow) {
			t.Errorf("%s: Fast must leave the Slow part alone, but made\n%+v\nof\n%+v", uuid, s.Slow, slow)
		}
	}
}

func checkSlow(t *testing.T, b device.Backend) {
	for _, dev := range Scan(t, b) {
		uuid := dev.Describe().UUID
		var s gpu.Slow
		if err := dev.Slow(t.Context(), &s); err != nil {
			t.Errorf("%s: Slow on a device that is well must work: %v", uuid, err)
			continue
		}
		judgeSlow(t, uuid, &s)
	}
}

func judgeSlow(t *testing.T, uuid string, s *gpu.Slow) {
	t.Helper()
	inRange(t, uuid, "Energy", s.Energy, 0, 1e15)
	inRange(t, uuid, "Fan", s.Fan, 0, 100)
	inRange(t, uuid, "PCIeTx", s.PCIeTx, 0, 1e7)
	inRange(t, uuid, "PCIeRx", s.PCIeRx, 0, 1e7)
	inRange(t, uuid, "ECCCorrected", s.ECCCorrected, 0, 1<<62)
	inRange(t, uuid, "ECCUncorrected", s.ECCUncorrected, 0, 1<<62)
	for pid, share := range s.ProcessUtilization {
		inRange(t, uuid, fmt.Sprintf("ProcessUtilization of %d", pid), gpu.Some(share), 0, 100)
	}
}

func checkCounters(t *testing.T, b device.Backend) {
	for _, dev := range Scan(t, b) {
		uuid := dev.Describe().UUID
		var before, after gpu.Slow
		for _, s := range []*gpu.Slow{&before, &after} {
			if err := dev.Slow(t.Context(), s); err != nil {
				t.Errorf("%s: Slow on a device that is well must work: %v", uuid, err)
			}
		}
		grows(t, uuid, "Energy", before.Energy, after.Energy)
		grows(t, uuid, "ECCCorrected", before.ECCCorrected, after.ECCCorrected)
		grows(t, uuid, "ECCUncorrected", before.ECCUncorrected, after.ECCUncorrected)
	}
}

func inRange[T ~float64 | ~int64](t *testing.T, uuid, metric string, o gpu.Opt[T], low, high float64) {
	t.Helper()
	// Written so that NaN is out of range too.
	if v, ok := o.Get(); ok && !(float64(v) >= low && float64(v) <= high) {
		t.Errorf("%s: %s must be absent or between %g and %g, got %v", uuid, metric, low, high, v)
	}
}

func grows[T ~float64 | ~int64](t *testing.T, uuid, metric string, before, after gpu.Opt[T]) {
	t.Helper()
	if before.Known() != after.Known() {
		t.Errorf("%s: %s must be there always or never, was known %v and then %v", uuid, metric, before.Known(), after.Known())
	}
	if before.Or(0) > after.Or(0) {
		t.Errorf("%s: %s counts up, but went from %v to %v", uuid, metric, before.Or(0), after.Or(0))
	}
}
