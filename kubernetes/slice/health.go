package slice

import (
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// maxMessage is the largest size of a message in the health of a device.
const maxMessage = 1024

// Health is the health of one published device.
type Health struct {
	Device  string // its published name
	State   gpu.Health
	Message string // why it is not healthy, in berth's words; empty if it is
}

// healthOf returns the worst of a list of troubles.
func healthOf(list []trouble) (gpu.Health, string) {
	rank := map[gpu.Health]int{gpu.Healthy: 0, gpu.HealthUnknown: 1, gpu.Unhealthy: 2}
	state, text := gpu.Healthy, ""
	for _, t := range list {
		if rank[t.health] > rank[state] {
			state, text = t.health, t.text
		}
	}
	return state, gpu.Printable(text, maxMessage)
}

// summary returns the subjects of a list of troubles, without the parts that change from
// one sample to the next.
func summary(list []trouble) string {
	var b strings.Builder
	for _, t := range list {
		b.WriteString(t.key + "=" + t.value + ":" + string(t.health) + " ")
	}
	return b.String()
}
