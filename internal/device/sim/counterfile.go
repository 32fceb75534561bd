package sim

import "time"

// counterName is the name of the file with the energy counter of a device. The simulation
// writes the file, and goes on from it: the counter of a driver goes on while the daemon is
// replaced.
const counterName = "counter"

// counterFile is the content of the file.
type counterFile struct {
	Joules float64   `json:"joules"`
	Watts  float64   `json:"watts"` // what the device drew then
	At     time.Time `json:"at"`
}

const (
	// noteEvery is how often the file is written, in simulated time.
	noteEvery = time.Second
	// goesOn is how long a device draws what it drew when nobody simulates it. After that
	// it is idle.
	goesOn = time.Minute
)

// recall returns what the counter of a device with an idle power is now.
func (g *guests) recall(now time.Time, idle float64) float64 {
	var f counterFile
	if g == nil {
		return 0
	}
	if owner, ok := g.decode(counterName, &f); !ok || !ours(owner) || !(f.Joules >= 0 && f.Watts >= 0) {
		return 0
	}
	away := max(0, now.Sub(f.At))
	busy := min(away, goesOn)
	return f.Joules + f.Watts*busy.Seconds() + idle*(away-busy).Seconds()
}

// note keeps the counter. Without a folder for the device, nobody works on it.
func (g *guests) note(joules, watts float64, now time.Time) {
	_ = g.put(counterName, counterFile{joules, watts, now})
}
