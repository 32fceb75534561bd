// Package slowdown decides what berth does by itself about a device that should run
// slower: how far its leases are held back, which power limit it gets, and how fast its
// fans turn.
//
// It only computes: it takes measurements and times as arguments, and returns steps.
// Package throttle carries them out.
//
// Pure: no clock, no I/O.
package slowdown

import "slices"

// Policy says what berth does about a device or the leases of a service. Each policy
// includes the ones before it.
type Policy string

// The policies, from the one that does least. Only a service can be Exempt.
const (
	Exempt Policy = "exempt"
	Advise Policy = "advise"
	Slots  Policy = "slots"
	Pace   Policy = "pace"
	Power  Policy = "power"
)

// Does reports whether a policy includes another one. An unknown policy includes nothing.
func (p Policy) Does(what Policy) bool {
	order := []Policy{Exempt, Advise, Slots, Pace, Power}
	return slices.Index(order, p) >= slices.Index(order, what)
}

// SlotSpeed returns the multiplier that the slots of a device follow. Under a policy that
// only advises, the slots stay, unless nothing may be granted.
func SlotSpeed(p Policy, multiplier float64) float64 {
	if multiplier > 0 && !p.Does(Slots) {
		return 1
	}
	return multiplier
}
