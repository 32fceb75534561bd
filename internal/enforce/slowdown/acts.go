package slowdown

import "github.com/berth-gpu/berth/gpu"

// Acts says what berth does to a device.
type Acts struct {
	Policy   Policy
	Share    float64 // that leases are held to; 1 if none is held
	Paced    int     // leases that are held back
	Limit    gpu.Opt[gpu.Watts]
	Original gpu.Opt[gpu.Watts]   // power limit before berth lowered it
	Steps    int                  // number of steps that lowered it
	Fans     bool                 // berth holds the fans
	Fan      gpu.Opt[gpu.Percent] // the speed that it set; absent if the device took none
	Denied   string               // why another daemon acts on the device; empty if this one does
}
