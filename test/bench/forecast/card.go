package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/health/heat"
)

// card is a simulated consumer card that idles for a while, and is then under a
// constant load until it shows a temperature.
type card struct {
	model    string
	ambient  float64       // °C
	cooling  float64       // times the usual flow of air
	idle     time.Duration // that the model sees before the load
	load     int           // percent
	throttle gpu.Celsius
}

// cards are the simulated cases: in a warm case, and with a threshold that a user
// set lower; known from a time of rest, and loaded from the first sample on.
var cards = []card{
	{"rtx-4060", 45, 0.8, 10 * time.Minute, 100, 85},
	{"rtx-4090", 45, 0.8, 10 * time.Minute, 100, 85},
	{"rtx-4090", 40, 0.6, 5 * time.Minute, 90, 85},
	{"rtx-4060", 28, 0.5, time.Minute, 100, 80},
	{"rtx-4090", 28, 0.5, 0, 100, 75},
	{"rtx-4060", 28, 0.6, 0, 100, 75},
}

func (c card) String() string {
	return fmt.Sprintf("%s at %d %% load in air of %.0f °C, idle for %v before: %v °C", c.model, c.load, c.ambient, c.idle, float64(c.throttle))
}

// warming is how long the case has been as warm as it is when the model begins.
const warming = time.Hour

// reached is how well the time to the threshold was told.
type reached struct {
	after time.Duration // of load
	worst time.Duration // error from half-way on
	at    time.Duration // of load, of the worst error
}

// share is the worst error as a share of the whole time.
func (r reached) share() float64 { return r.worst.Seconds() / r.after.Seconds() }

// run heats the card in simulated time, a sample a second.
func (c card) run() (reached, error) {
	dir, err := os.MkdirTemp("", "bench-forecast-")
	if err != nil {
		return reached{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "card.yaml")
	text := fmt.Sprintf("devices: %s\ntimeline:\n  - {device: 0, ambient_celsius: %v, cooling: %v}\n  - {at: %v, device: 0, load: %d}\n", c.model, c.ambient, c.cooling, warming+c.idle, c.load)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return reached{}, err
	}
	now := time.Unix(1_700_000_000, 0)
	backend, err := sim.Open(file, sim.Options{Clock: func() time.Time { return now }})
	if err != nil {
		return reached{}, err
	}
	defer backend.Close()
	devices, err := backend.Scan(context.Background())
	if err != nil {
		return reached{}, err
	}
	start := now.Add(warming)
	var m heat.Model
	var told []heat.Crossing // each second from the start of the load on
	for now = start; now.Sub(start) < c.idle+time.Hour; now = now.Add(time.Second) {
		var s gpu.Sample
		if err := devices[0].Fast(context.Background(), &s); err != nil {
			return reached{}, err
		}
		if s.Temperature.Or(0) >= c.throttle {
			return c.compare(told, now.Sub(start)-c.idle), nil
		}
		m.Learn(now, s.Temperature, s.Power)
		if now.Sub(start) >= c.idle {
			told = append(told, m.Reach(c.throttle, s.Power.Or(0)))
		}
	}
	return reached{}, fmt.Errorf("%v is never shown", c)
}

func (c card) compare(told []heat.Crossing, after time.Duration) reached {
	r := reached{after: after}
	for i, t := range told {
		at := time.Duration(i) * time.Second
		if at < after/2 {
			continue
		}
		off := (t.In - (after - at)).Abs()
		if t.Never {
			off = math.MaxInt64
		}
		if off > r.worst {
			r.worst, r.at = off, at
		}
	}
	return r
}
