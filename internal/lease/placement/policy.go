package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// The policies, by name. LeastLoaded is the default.
const (
	LeastLoaded = "least_loaded"
	MostFree    = "most_free"
	BestFit     = "best_fit"
	Spread      = "spread"
	Pack        = "pack"
)

// policies lists the policies, the default first. To add one, write its key below and
// add its line here; docs/develop/adding-a-policy.md shows how.
var policies = []policy{
	{name: LeastLoaded, key: leastLoaded},
	{name: MostFree, key: mostFree},
	{name: BestFit, key: bestFit, fills: true},
	{name: Spread, key: spread, apart: true},
	{name: Pack, key: pack, fills: true},
}

// policy chooses among the devices that fit. It orders them by key: one number per
// device, computed from the Use of the device alone whenever that changes.
type policy struct {
	name  string
	key   func(*Use) Key
	fills bool // take the same device again although it gets hot
	apart bool // keep the leases of a service apart even if the service wants them together
}

// PolicyNames lists the names of all policies, the default first.
func PolicyNames() []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].name
	}
	return names
}

// CheckPolicy returns an error if no policy has this name. The empty name means the
// default.
func CheckPolicy(name string) error {
	if name == "" || slices.Contains(PolicyNames(), name) {
		return nil
	}
	return fmt.Errorf("policy %q is not known: use one of %s", name, strings.Join(PolicyNames(), ", "))
}

// PolicyOf returns the name of the policy that chooses for a request.
func PolicyOf(r *lease.Request) string { return policies[indexOf(r.Policy)].name }

// indexOf returns the index of the policy with this name, or of the default if there is
// none.
func indexOf(name string) int {
	for i := range policies {
		if policies[i].name == name {
			return i
		}
	}
	return 0
}

// leastLoaded takes the device with the smallest active / max_pipelines, then the one
// that worked least lately, then the coolest, then the one with the most memory to lease.
// Leases without slots do not load a device; between devices with only those, the
// measurements decide.
func leastLoaded(u *Use) Key { return loadFirst(share(u), measured(u), most(memory(u))) }

// mostFree takes the device with the most memory to lease, then the least
// loaded one.
func mostFree(u *Use) Key { return memoryFirst(most(memory(u)), share(u), measured(u)) }

// bestFit takes the device that would have the least memory left over, so that large
// holes stay for large requests, then the one with the smallest share of its slots in
// use. A request takes the same memory on every device, so the available memory alone
// gives the order. bestFit fills devices and ignores what was measured on them.
func bestFit(u *Use) Key { return memoryFirst(memory(u), share(u), 0) }

// spread takes the device with the fewest slots in use, however many it has, then the one
// that worked least lately, then the coolest, then the one with the most memory to lease.
// It keeps the leases of a service apart even if the service wants them together: a user
// who asks for spread wants to lose little when one device fails.
func spread(u *Use) Key { return loadFirst(count(u.Active), measured(u), most(memory(u))) }

// pack takes the device with the largest share of its slots in use, then the
// one with the least memory to lease, so that idle devices stay idle: free for
// requests that need all of one, or cool. It ignores what was measured: the
// device that it fills is the busiest and the hottest.
func pack(u *Use) Key { return loadFirst(mostLoad-share(u), 0, memory(u)) }

// Key orders devices under a policy: the smallest is taken. It holds a share or a count
// in loadBits, measurements in measuredBits and an amount of memory in memoryBits, in the
// order that the policy chooses. Position decides between equal keys.
type Key uint64

const (
	loadBits     = 24
	measuredBits = 4 + heatBits // the step of the load, and that of the heat
	memoryBits   = 31
	mostLoad     = 1<<loadBits - 2 // one below the top: no key equals noKey
	mostMemory   = 1<<memoryBits - 1
	noKey        = Key(math.MaxUint64)
)

// loadFirst orders by load, then by measurements, then by memory.
func loadFirst(load, measured, memory uint64) Key {
	return Key(load<<(measuredBits+memoryBits) | measured<<memoryBits | memory)
}

// memoryFirst orders by memory, then by load, then by measurements.
func memoryFirst(memory, load, measured uint64) Key {
	return Key(memory<<(loadBits+measuredBits) | load<<measuredBits | measured)
}

// share returns active / max_pipelines in steps of 2^-20, fine enough to tell
// any two shares of up to a thousand slots apart.
func share(u *Use) uint64 {
	if u.MaxPipelines <= 0 {
		return mostLoad
	}
	return min(count(u.Active)<<20/uint64(u.MaxPipelines), mostLoad)
}

// count limits n to the range that fits a key.
func count(n int) uint64 { return uint64(min(max(n, 0), mostLoad)) }

// measured orders devices by how busy they were lately, then by how hot.
func measured(u *Use) uint64 { return uint64(u.Recent.Order()) }

// memory returns the memory that berth can lease now. Over-used devices count as full.
func memory(u *Use) uint64 { return uint64(min(max(u.Available, 0), gpu.MiB(mostMemory))) }

// most puts the largest amount of memory first.
func most(memory uint64) uint64 { return mostMemory - memory }
