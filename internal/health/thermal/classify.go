package thermal

import (
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// classify returns the state of a sample by itself, regardless of earlier ones, and why.
// The worse of temperature and memory counts. classify skips one that was not measured.
// With neither, the device is UNAVAILABLE, or NORMAL if its driver reports neither.
func classify(s *gpu.Sample, heat, memory gpu.State, heatWhy, memoryWhy string) (gpu.State, string) {
	switch {
	case heat == "" && memory == "":
		if s.Blind { // it answers, and berth cannot know more
			return gpu.Normal, "its driver tells neither temperature nor memory"
		}
		return gpu.Unavailable, "nothing measured"
	case memory == "" || heat != "" && heat.Worse(memory):
		return heat, heatWhy
	case heat == "" || memory.Worse(heat):
		return memory, memoryWhy
	}
	if heat == gpu.Critical {
		heatWhy += ","
	}
	return heat, heatWhy + " and " + memoryWhy
}

// classifyTemperature judges the temperature alone. It returns no state if there is none.
func classifyTemperature(t gpu.Thresholds, s *gpu.Sample) (gpu.State, string) {
	v, ok := Temperature(s)
	if !ok {
		return "", ""
	}
	state, crossed := place(float64(v),
		limit{"temp_optimal", float64(t.TempOptimal)},
		limit{"temp_normal", float64(t.TempNormal)},
		limit{"temp_throttle", float64(t.TempThrottle)})
	if tooHot(t, s) {
		crossed = limit{"temp_critical", float64(t.TempCritical)}
	}
	return state, compare("", float64(v), crossed, " °C", state)
}

// classifyMemory judges the memory alone. It returns no state if it was not measured.
func classifyMemory(t gpu.Thresholds, s *gpu.Sample) (gpu.State, string) {
	v, ok := s.MemoryPercent().Get()
	if !ok {
		return "", ""
	}
	state, crossed := place(float64(v),
		limit{"memory_optimal", float64(t.MemoryOptimal)},
		limit{"memory_normal", float64(t.MemoryNormal)},
		limit{"memory_critical", float64(t.MemoryCritical)})
	return state, compare("memory use ", float64(v), crossed, " %", state)
}

// Exhausted reports whether the memory of a device has run out, or nearly.
func Exhausted(t gpu.Thresholds, s *gpu.Sample) bool {
	v, ok := s.MemoryPercent().Get()
	return ok && v > t.MemoryCritical
}

// tooHot reports whether the temperature is so high that holders must stop now.
func tooHot(t gpu.Thresholds, s *gpu.Sample) bool {
	v, ok := Temperature(s)
	return ok && v > t.TempCritical
}

// Temperature returns the measured temperature. A sensor that fails reads 0, 255 or no
// number at all, none of which a GPU at work can have: such a reading counts as not
// measured.
func Temperature(s *gpu.Sample) (gpu.Celsius, bool) {
	v, ok := s.Temperature.Get()
	return v, ok && v > 0 && v < 150
}

// limit is a threshold with the name of its setting.
type limit struct {
	name string
	at   float64
}

// place returns the state of a value, and the limit that decided it. A value at one of
// the first two limits is in the state above it, a value at the last is still below.
func place(v float64, optimal, normal, throttled limit) (gpu.State, limit) {
	switch {
	case v < optimal.at:
		return gpu.Optimal, optimal
	case v < normal.at:
		return gpu.Normal, optimal
	case v <= throttled.at:
		return gpu.Throttled, normal
	}
	return gpu.Critical, throttled
}

// compare returns a text such as "81 °C is above temp_normal 75 °C". If the
// digits do not show the difference, compare says "just". CRITICAL begins at settings with
// other names, which would read as if something else were meant: compare leaves them out.
func compare(what string, v float64, l limit, unit string, state gpu.State) string {
	value, threshold := digits(v), digits(l.at)
	relation := " is at "
	if v > l.at {
		relation = " is above "
	} else if v < l.at {
		relation = " is below "
	}
	if v != l.at && value == threshold {
		relation = " is just" + relation[len(" is"):]
	}
	if state == gpu.Critical && l.name != "temp_critical" {
		return what + value + unit + relation + threshold + unit + ", where CRITICAL begins"
	}
	return what + value + unit + relation + l.name + " " + threshold + unit
}

func digits(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}
