package gpu

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MiB is an amount of memory in units of 2^20 bytes. JSON fields of this type end in _mb.
// It is a type of its own, so that nobody passes bytes for mebibytes.
type MiB int64

// MiBOf converts bytes, rounding down: a device with 2^20-1 free bytes cannot
// hold one MiB more.
func MiBOf(bytes uint64) MiB { return MiB(bytes >> 20) }

// Celsius is a temperature.
type Celsius float64

// Watts is electrical power.
type Watts float64

// MHz is a clock frequency.
type MHz float64

// Percent is a share of a whole, 0 to 100.
type Percent float64

// String returns a memory amount as a person would say it.
func (m MiB) String() string {
	switch {
	case m >= 1<<20 || m <= -(1<<20):
		return trimFloat(float64(m)/(1<<20), 1) + " TiB"
	case m >= 1<<10 || m <= -(1<<10):
		return trimFloat(float64(m)/(1<<10), 1) + " GiB"
	}
	return strconv.FormatInt(int64(m), 10) + " MiB"
}

// Exact returns a memory amount as a text that ParseMiB reads back to the same
// amount, for messages that tell a user how much to ask for.
func (m MiB) Exact() string { return m.ExactBeside(m) }

// Beside returns what String does, in the unit of a message that names other amounts too:
// in GiB if one of them is a GiB or more.
func (m MiB) Beside(others ...MiB) string {
	if max(m, slices.Max(append(others, m))) < 1<<10 {
		return m.String()
	}
	return m.InGiB()
}

// InGiB returns an amount in GiB, for columns and messages that have one unit. It rounds to
// one decimal, but never rounds an amount to 0.
func (m MiB) InGiB() string {
	if text := trimFloat(float64(m)/(1<<10), 1); text != "0" && text != "-0" || m == 0 {
		return text + " GiB"
	}
	return trimFloat(max(float64(m)/(1<<10), 0.001), 3) + " GiB"
}

// ExactBeside returns what Exact does, in the unit of a message that names other amounts
// too: in GiB if one of them is a GiB or more.
func (m MiB) ExactBeside(others ...MiB) string {
	text := m.String()
	switch {
	case max(m, slices.Max(append(others, m))) < 1<<10:
		return text
	case m == 0:
		return "0 GiB"
	case m >= 1<<10 && m.reads(text):
		return text
	}
	for digits := 1; digits <= 4; digits++ { // the fourth is a tenth of a MiB
		shift := math.Pow10(digits)
		text := trimFloat(math.Ceil(float64(m)/(1<<10)*shift)/shift, digits) + " GiB"
		if m.reads(text) {
			return text
		}
	}
	return strconv.FormatInt(int64(m), 10) + " MiB"
}

// reads reports whether ParseMiB reads a text as m.
func (m MiB) reads(text string) bool {
	same, err := ParseMiB(text)
	return err == nil && same == m
}

func trimFloat(f float64, digits int) string {
	s := strconv.FormatFloat(f, 'f', digits, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// memoryUnits maps a suffix to its size in MiB. As everywhere in berth,
// a bare number and "MB" mean MiB; there is no unit of 10^6 bytes.
var memoryUnits = map[string]float64{
	"": 1, "m": 1, "mb": 1, "mib": 1,
	"g": 1 << 10, "gb": 1 << 10, "gib": 1 << 10,
	"t": 1 << 20, "tb": 1 << 20, "tib": 1 << 20,
	"k": 1.0 / (1 << 10), "kb": 1.0 / (1 << 10), "kib": 1.0 / (1 << 10),
}

// maxMemory is a PiB, which keeps sums of leases far from overflow.
const maxMemory = MiB(1) << 30

// ParseMiB reads "4GiB", "512M", "1.5g" or a plain number of MiB. The result is a whole,
// positive number of MiB; ParseMiB refuses anything else with a reason. It rounds a
// fraction of a GiB or of a TiB down to whole MiB, so that nobody gets more than they
// wrote. It refuses a fraction of a MiB as a mistake in the unit.
func ParseMiB(s string) (MiB, error) {
	text := strings.TrimSpace(s)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, unit := text[:end], strings.ToLower(strings.TrimSpace(text[end:]))
	size, ok := memoryUnits[unit]
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || strings.ContainsAny(number, "eExXpP_") {
		return 0, fmt.Errorf("%q is not an amount of memory: write it like 4GiB, 512M or 2048 (MiB)", s)
	}
	m := value * size
	switch {
	case math.IsNaN(m) || m <= 0:
		return 0, fmt.Errorf("%q is not a positive amount of memory", s)
	case m > float64(maxMemory):
		return 0, fmt.Errorf("%q is more memory than any machine has", s)
	case m < 1 || m != math.Trunc(m) && size <= 1:
		return 0, fmt.Errorf("%q is not a whole number of MiB: write it like 4GiB, 512M or 2048 (MiB)", s)
	}
	return MiB(m), nil
}

// Joules is an amount of energy.
type Joules float64

// WattHours returns the amount in watt-hours.
func (j Joules) WattHours() float64 { return float64(j) / 3600 }

// InWattHours returns an amount of energy in Wh, for columns, which have one unit. It never
// rounds an amount to 0.
func (j Joules) InWattHours() string {
	switch wh := j.WattHours(); {
	case wh == 0:
		return "0 Wh"
	case math.Abs(wh) < 0.001:
		return "<0.001 Wh"
	case math.Abs(wh) < 1:
		return trimFloat(wh, 3) + " Wh"
	case math.Abs(wh) < 100:
		return trimFloat(wh, 1) + " Wh"
	default:
		return strconv.FormatFloat(wh, 'f', 0, 64) + " Wh"
	}
}

// String returns an amount of energy as a person would say it.
func (j Joules) String() string {
	switch size := math.Abs(float64(j)); {
	case size >= 1e6*3600:
		return trimFloat(j.WattHours()/1e6, 1) + " MWh"
	case size >= 1000*3600:
		return trimFloat(j.WattHours()/1000, 1) + " kWh"
	case size >= 3600:
		return trimFloat(j.WattHours(), 1) + " Wh"
	}
	return strconv.FormatFloat(float64(j), 'f', 0, 64) + " J"
}
