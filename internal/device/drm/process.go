package drm

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// Processes returns the users of a card in berth's words, by pid. It never returns nil:
// an empty list says that nobody uses the card.
func Processes(used []Used) []gpu.Process {
	list := []gpu.Process{}
	for _, u := range used {
		p := gpu.Process{PID: u.PID, Name: u.Name, Kind: gpu.Graphics}
		var sum uint64
		counted := false
		for i := range u.Clients {
			c := &u.Clients[i]
			sum, counted = addUp(sum, c.Memory), counted || c.Counted
			if c.Computes() {
				p.Kind = gpu.Compute
			}
		}
		if counted {
			p.Memory = gpu.Some(gpu.MiBOf(sum))
		}
		list = append(list, p)
	}
	return slices.Clip(list)
}
