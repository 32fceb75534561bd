package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// Policy says which of the devices that fit is taken.
type Policy uint8

// The policies. Each has its own file. The zero value is the default.
const (
	LeastLoaded Policy = iota
	MostFree
	BestFit
	Spread
	Pack

	policyCount = iota
)

// policies describes each policy. A policy is one number per device: its key,
// computed from what is known about the device alone whenever that changes.
var policies = [policyCount]struct {
	name  string
	about string
	key   func(*Use) Key
	apart bool // keep the leases of a service on different devices
}{
	LeastLoaded: {name: "least_loaded", about: "the device with the smallest share of its slots in use", key: leastLoaded},
	MostFree:    {name: "most_free", about: "the device with the most memory to lease", key: mostFree},
	BestFit:     {name: "best_fit", about: "the device with the least memory left over", key: bestFit},
	Spread:      {name: "spread", about: "the device with the fewest slots in use, away from the same service", key: spread, apart: true},
	Pack:        {name: "pack", about: "the fullest device, so that others stay empty", key: pack},
}

// Policies lists all policies, the default first.
func Policies() []Policy {
	all := make([]Policy, policyCount)
	for i := range all {
		all[i] = Policy(i)
	}
	return all
}

// PolicyNames lists the names of all policies, the default first.
func PolicyNames() []string {
	names := make([]string, policyCount)
	for i, p := range policies {
		names[i] = p.name
	}
	return names
}

// ParsePolicy reads the name of a policy; empty is the default.
func ParsePolicy(name string) (Policy, error) {
	if name == "" {
		return LeastLoaded, nil
	}
	if i := slices.Index(PolicyNames(), name); i >= 0 {
		return Policy(i), nil
	}
	return 0, fmt.Errorf("policy %q is not known: use one of %s", name, strings.Join(PolicyNames(), ", "))
}

func (p Policy) String() string { return policies[p.known()].name }

// About says in a few words which device the policy takes.
func (p Policy) About() string { return policies[p.known()].about }

// known turns a number that is no policy into the default.
func (p Policy) known() Policy {
	if p >= policyCount {
		return LeastLoaded
	}
	return p
}

// Key orders devices under a policy: the smallest is taken. It holds a share or
// a count in loadBits and an amount of memory in memoryBits, in the order that
// the policy puts them in; equal keys are told apart by position.
type Key uint64

const (
	loadBits   = 24
	memoryBits = 40
	mostLoad   = 1<<loadBits - 2 // one below the top: no key equals noKey
	mostMemory = 1<<memoryBits - 1
	noKey      = Key(math.MaxUint64)
)

// loadFirst orders by load and, where it is equal, by memory.
func loadFirst(load, memory uint64) Key { return Key(load<<memoryBits | memory) }

// memoryFirst orders by memory and, where it is equal, by load.
func memoryFirst(memory, load uint64) Key { return Key(memory<<loadBits | load) }

// share is active / max_pipelines in steps of 2^-20, fine enough to tell any
// two shares of up to a thousand slots apart.
func share(u *Use) uint64 {
	if u.MaxPipelines <= 0 {
		return mostLoad
	}
	return min(count(u.Active)<<20/uint64(u.MaxPipelines), mostLoad)
}

// count is a number that is not negative and fits a key.
func count(n int) uint64 { return uint64(min(max(n, 0), mostLoad)) }

// memory is what can be leased now. Over-used devices count as full.
func memory(u *Use) uint64 { return uint64(min(max(u.Available, 0), gpu.MiB(mostMemory))) }

// most puts the largest amount of memory first.
func most(memory uint64) uint64 { return mostMemory - memory }
