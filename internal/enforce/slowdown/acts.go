package slowdown

import "github.com/berth-gpu/berth/gpu"

// Acts says what berth does to a device.
type Acts struct {
	Policy   Policy
	Share    float64 // that leases are held to; 1: none is
	Paced    int     // leases that are held back
	Limit    gpu.Opt[gpu.Watts]
	Original gpu.Opt[gpu.Watts] // of the power limit that berth lowered
	Steps    int                // that lowered it
	Fan      gpu.Opt[gpu.Percent]
	Denied   string // why another daemon acts on the device; empty: this one does
}
