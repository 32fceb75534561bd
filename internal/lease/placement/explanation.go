package placement

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Explanation says whether a request would be granted, and what is in its way.
type Explanation struct {
	Refusal  *NoFitError // nil if it would be granted now
	Quota    error       // how the service is over its quota; nil if it is not
	Position int         // in the queue, from 1; 0 if it does not wait
	Ahead    []*lease.Request
	Holdings map[string][]lease.Holding // by device: who holds it
	Foreign  map[string]ForeignUse      // by device: who uses it under no lease
	Grant    *lease.Lease               // the lease that it would get now; nil if none
	Policy   string                     // the policy that chooses
	Ranking  []Place                    // every device, in the order in which the request would get them

	// LargestNow and LargestEver are the most memory on each device that the same request
	// could have, now and on an empty machine; zero if none.
	LargestNow, LargestEver gpu.MiB
}

// ForeignUse is the memory that processes under no lease use on a device.
type ForeignUse struct {
	Memory gpu.MiB
	PIDs   []int
}
