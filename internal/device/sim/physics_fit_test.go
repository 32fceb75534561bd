package sim

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"
)

// row is one line of the record of a real H200: idle, 80 seconds of full load,
// idle again, ten times a second.
type row struct {
	at                    time.Duration
	load                  float64
	celsius, memory, watt float64
	clock                 float64
}

func readRecord(t *testing.T) []row {
	t.Helper()
	file, err := os.Open("testdata/h200-load.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for _, line := range lines[1:] {
		value := func(column int) float64 {
			v, err := strconv.ParseFloat(line[column], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		rows = append(rows, row{
			at:   time.Duration(value(0) * float64(time.Second)),
			load: value(1) / 100, celsius: value(4), memory: value(5), watt: value(6), clock: value(7),
		})
	}
	return rows
}

// fit is how far a simulation is from the record, as root of the mean square.
type fit struct{ celsius, memory, watt float64 }

// replay runs a model through the record. What drives it is asked for the load
// at a moment before a row.
func replay(m *model, rows []row, load func(time.Duration, row) float64) fit {
	p := newPlant(m)
	p.now = rows[0].at
	var sum fit
	for _, r := range rows {
		for p.now < r.at {
			next := min(r.at, p.now+10*time.Millisecond)
			p.advance(next, drive{load: load(next, r), ambient: m.Ambient, cooling: 1})
		}
		sum.celsius += square(p.celsius() - r.celsius)
		sum.memory += square(p.memoryCelsius() - r.memory)
		sum.watt += square(p.sensor - r.watt)
	}
	n := float64(len(rows))
	return fit{math.Sqrt(sum.celsius / n), math.Sqrt(sum.memory / n), math.Sqrt(sum.watt / n)}
}

func square(x float64) float64 { return x * x }

// asRecorded is the utilisation that the driver showed: a reading is about the
// time before it, and late by up to a third of a second on top.
func asRecorded(_ time.Duration, r row) float64 { return r.load }

// asItWas is the load itself: its ends show in the temperature.
func asItWas(t time.Duration, _ row) float64 {
	if t > 14800*time.Millisecond && t <= 94760*time.Millisecond {
		return 1
	}
	return 0
}

func h200(t *testing.T) *model {
	t.Helper()
	known, err := readCatalog()
	if err != nil {
		t.Fatal(err)
	}
	return known.model("h200")
}

func TestPhysicsFollowsTheRecord(t *testing.T) {
	m, rows := h200(t), readRecord(t)
	got := replay(m, rows, asRecorded)
	t.Logf("driven by the recorded utilisation: %.2f °C, memory %.2f °C, %.1f W RMS", got.celsius, got.memory, got.watt)
	t.Logf("driven by the load itself: %.2f", replay(m, rows, asItWas))
	if got.celsius > 0.7 {
		t.Errorf("temperature is off by %.2f °C RMS; want at most 0.7", got.celsius)
	}
	if got.memory > 0.6 {
		t.Errorf("memory temperature is off by %.2f °C RMS; want at most 0.6", got.memory)
	}
	if got.watt > 12 {
		t.Errorf("power is off by %.1f W RMS; want at most 12", got.watt)
	}
}

// The thermal numbers of the h200 came out of a least-squares fit (Nelder-Mead)
// on this record. So moving any of them must not lead to a better fit.
func TestThermalNumbersAreTheBestFit(t *testing.T) {
	m, rows := h200(t), readRecord(t)
	check := func(what string, number *float64, errorOf func(fit) float64) {
		t.Helper()
		best := errorOf(replay(m, rows, asItWas))
		for _, factor := range []float64{0.8, 1.25} {
			was := *number
			*number *= factor
			moved := errorOf(replay(m, rows, asItWas))
			*number = was
			if moved < best {
				t.Errorf("%s times %g: %.3f °C RMS is better than %.3f", what, factor, moved, best)
			}
		}
	}
	die := func(f fit) float64 { return f.celsius }
	memory := func(f fit) float64 { return f.memory }
	check("ambient", &m.Ambient, die)
	for i := range m.Die {
		check(fmt.Sprintf("die %d: resistance", i), &m.Die[i].CelsiusPerWatt, die)
		check(fmt.Sprintf("die %d: time", i), &m.Die[i].Seconds, die)
	}
	for i := range m.MemoryModes {
		check(fmt.Sprintf("memory %d: resistance", i), &m.MemoryModes[i].CelsiusPerWatt, memory)
		check(fmt.Sprintf("memory %d: time", i), &m.MemoryModes[i].Seconds, memory)
	}
}

func TestPowerCapHoldsTheClockOfTheRecord(t *testing.T) {
	m, rows := h200(t), readRecord(t)
	p := newPlant(m)
	p.advance(time.Minute, drive{load: 1, ambient: m.Ambient, cooling: 1})
	sum, n := 0.0, 0.0
	for _, r := range rows {
		if r.at > 20*time.Second && r.at < 90*time.Second {
			sum, n = sum+r.clock, n+1
		}
	}
	if got, want := p.clock(1)*float64(m.Clocks.SM), sum/n; math.Abs(got-want) > 20 {
		t.Errorf("clock under full load is %.0f MHz; the record has %.0f", got, want)
	}
	if p.watts(1) > m.Power.Cap {
		t.Errorf("power under full load is %.1f W, over the cap of %.0f", p.watts(1), m.Power.Cap)
	}
}
