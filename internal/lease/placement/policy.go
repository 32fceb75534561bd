package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// The policies, by name. Each has its own file. LeastLoaded is the default.
const (
	LeastLoaded = "least_loaded"
	MostFree    = "most_free"
	BestFit     = "best_fit"
	Spread      = "spread"
	Pack        = "pack"
)

// policies lists the policies, the default first. To add one, write its file
// and add its line here; docs/develop/adding-a-policy.md shows how.
var policies = []policy{
	{name: LeastLoaded, about: "the device with the smallest share of its slots in use, then the one that works least and is coolest", key: leastLoaded},
	{name: MostFree, about: "the device with the most memory to lease", key: mostFree},
	{name: BestFit, about: "the device with the least memory left over", key: bestFit, fills: true},
	{name: Spread, about: "the device with the fewest slots in use, away from the same service", key: spread, apart: true},
	{name: Pack, about: "the fullest device, so that others stay empty", key: pack, fills: true},
}

// policy chooses among the devices that fit. It orders them by key: one number per
// device, computed from the Use of the device alone whenever that changes. A policy with
// a score looks at the request too: it scores the first scored devices in the order of
// its key.
type policy struct {
	name  string
	about string
	key   func(*Use) Key
	score func(*View, *lease.Request) float64 // the largest is taken; nil if the key decides alone
	fills bool                                // take the same device again although it gets hot
	apart bool                                // keep the leases of a service apart even if the service wants them together
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
func PolicyOf(r *lease.Request) string { return policies[indexOf(policies, r.Policy)].name }

// AboutPolicy describes in a few words which device a policy takes.
func AboutPolicy(name string) string { return policies[indexOf(policies, name)].about }

// indexOf returns the index of the policy with this name, or of the default if there is
// none.
func indexOf(list []policy, name string) int {
	for i := range list {
		if list[i].name == name {
			return i
		}
	}
	return 0
}

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
