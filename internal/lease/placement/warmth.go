package placement

import (
	"fmt"
	"math"

	"github.com/berth-gpu/berth/gpu"
)

// Warmth predicts the temperature at which a device settles.
type Warmth struct {
	Settles gpu.Celsius // at its present power
	PerWatt float64     // degrees that one more watt adds in the end
	Limit   gpu.Celsius // temp_normal of the device
}

// With returns where the temperature settles if the device draws this much more power.
func (w Warmth) With(more gpu.Watts) gpu.Celsius {
	return w.Settles + gpu.Celsius(w.PerWatt*float64(more))
}

// Text describes where the temperature settles, compared with the limit.
func (w Warmth) Text(more gpu.Watts) string {
	end, relation := math.Round(float64(w.With(more))), "above"
	if end <= math.Round(float64(w.Limit)) {
		relation = "at"
	}
	return fmt.Sprintf("it would settle at %.0f °C, %s temp_normal %.0f °C", end, relation, float64(w.Limit))
}

// spare returns how many watts can be added before the device settles at its limit. It is
// infinite for a device that cannot tell where it settles, so that the device still gets
// work.
func (u *Use) spare() float32 {
	w, known := u.Warmth.Get()
	room := float64(w.Limit - w.Settles)
	if known && w.PerWatt > 0 && !math.IsNaN(room) {
		return float32(room / w.PerWatt)
	}
	if known && room <= 0 {
		return float32(math.Inf(-1))
	}
	return float32(math.Inf(1))
}

// warmTier is the tier of devices that get too hot: behind all others.
const warmTier = 1 << 30

// warm reports whether a device gets too hot for a request that heeds it. If so, it sets
// n.hot.
func (s *Snapshot) warm(n *need, i int) bool {
	hot := n.heeds && !(n.draw < s.spare[i])
	n.hot = n.hot || hot
	return hot
}
