package thermal_test

import (
	"math"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// sample has a temperature and a share of memory in use; NaN leaves one out.
func sample(celsius, percent float64) *gpu.Sample {
	s := &gpu.Sample{}
	if !math.IsNaN(celsius) {
		s.Temperature = gpu.Some(gpu.Celsius(celsius))
	}
	if !math.IsNaN(percent) {
		s.MemoryTotal = gpu.Some(gpu.MiB(100000))
		s.MemoryUsed = gpu.Some(gpu.MiB(math.Round(percent * 1000)))
	}
	return s
}

var none = math.NaN()

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		celsius, percent float64
		state            gpu.State
		reason           string
	}{
		{38, 1, gpu.Optimal, "38 °C is below temp_optimal 65 °C and memory use 1 % is below memory_optimal 70 %"},
		{64.9, none, gpu.Optimal, "64.9 °C is below temp_optimal 65 °C"},
		{64.99, none, gpu.Optimal, "65 °C is just below temp_optimal 65 °C"},
		{65, none, gpu.Normal, "65 °C is at temp_optimal 65 °C"},
		{74.9, none, gpu.Normal, "74.9 °C is above temp_optimal 65 °C"},
		{75, none, gpu.Throttled, "75 °C is at temp_normal 75 °C"},
		{81, 10, gpu.Throttled, "81 °C is above temp_normal 75 °C"},
		{85, none, gpu.Throttled, "85 °C is above temp_normal 75 °C"},
		{85.5, none, gpu.Critical, "85.5 °C is above 85 °C, where CRITICAL begins"},
		{90, none, gpu.Critical, "90 °C is above 85 °C, where CRITICAL begins"},
		{91, none, gpu.Critical, "91 °C is above temp_critical 90 °C"},
		{none, 69.9, gpu.Optimal, "memory use 69.9 % is below memory_optimal 70 %"},
		{none, 70, gpu.Normal, "memory use 70 % is at memory_optimal 70 %"},
		{none, 85, gpu.Throttled, "memory use 85 % is at memory_normal 85 %"},
		{none, 95, gpu.Throttled, "memory use 95 % is above memory_normal 85 %"},
		{none, 95.01, gpu.Critical, "memory use 95 % is just above 95 %, where CRITICAL begins"},
		{60, 97, gpu.Critical, "memory use 97 % is above 95 %, where CRITICAL begins"},
		{88, 97, gpu.Critical, "88 °C is above 85 °C, where CRITICAL begins, and memory use 97 % is above 95 %, where CRITICAL begins"},
		{none, none, gpu.Unavailable, "nothing measured"},
	} {
		state, reason := thermal.Classify(gpu.DefaultThresholds(), sample(c.celsius, c.percent))
		if state != c.state || reason != c.reason {
			t.Errorf("%g °C, %g %%: %s, %q; want %s, %q", c.celsius, c.percent, state, reason, c.state, c.reason)
		}
	}
}

// A device that cannot tell is neither well nor away.
func TestClassifyBlindDevices(t *testing.T) {
	state, reason := thermal.Classify(gpu.DefaultThresholds(), &gpu.Sample{Blind: true})
	if state != gpu.Normal || reason != "its driver tells neither temperature nor memory" {
		t.Errorf("%s: %s", state, reason)
	}
}

func TestClassifyTakesNoNumberForMissing(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -20, 255} {
		s := &gpu.Sample{Temperature: gpu.Some(gpu.Celsius(v))}
		if state, _ := thermal.Classify(gpu.DefaultThresholds(), s); state != gpu.Unavailable {
			t.Errorf("%g °C: %s, want UNAVAILABLE", v, state)
		}
	}
}
