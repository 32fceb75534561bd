package slowdown

import (
	"math"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
)

// cooler is how many degrees a device must cool before its fans follow the curve down.
// Fans that follow every degree can be heard.
const cooler = gpu.Celsius(3)

// Fan is the state of the fans of one device. The zero Fan leaves them to the driver.
type Fan struct {
	Held  bool        `json:"held"`
	Speed gpu.Percent `json:"speed_percent"`
}

// Follow returns how fast the fans should turn at a temperature. Without a curve or a
// temperature, they go back to the driver. An impossible reading changes nothing.
func (f Fan) Follow(curve []config.CurvePoint, t gpu.Opt[gpu.Celsius]) Fan {
	celsius, measured := t.Get()
	switch {
	case len(curve) == 0 || !measured:
		return Fan{}
	case !(celsius > 0 && celsius < 150):
		return f
	}
	speed := along(curve, celsius)
	if f.Held && speed < f.Speed {
		speed = min(f.Speed, along(curve, celsius+cooler))
	}
	return Fan{Held: true, Speed: speed}
}

// along returns the speed of a curve at a temperature, in whole percent. Between
// two points it follows the straight line.
func along(curve []config.CurvePoint, t gpu.Celsius) gpu.Percent {
	last := curve[0]
	if t <= last.At {
		return last.Speed
	}
	for _, p := range curve[1:] {
		if t < p.At {
			share := float64(t-last.At) / float64(p.At-last.At)
			return gpu.Percent(math.Round(float64(last.Speed) + share*float64(p.Speed-last.Speed)))
		}
		last = p
	}
	return last.Speed
}
