// Package energy works out how much energy a device used, and who used it.
//
// A Meter counts for one device, without a clock and without I/O. Meters keeps one for
// each device, in a file.
//
// The package trusts a driver that counts energy, but it reads the counter rarely,
// because that takes milliseconds. Between two readings, it adds up the power of the
// samples, and at the next reading it corrects the sum. A device without a counter has
// only the sum, and nothing for the time in which nothing was measured.
//
// Amounts are whole microjoules. So the energy of the leases, that of processes under no
// lease, and that of the idle device add up to the energy of the device exactly.
package energy

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// Amount is an amount of energy in microjoules.
type Amount int64

const perJoule = 1e6

// mostJoules keeps sums far from overflow. It is more than any device uses in a century.
const mostJoules = 4e12

// Of returns an amount of joules, rounded to a microjoule.
func Of(j gpu.Joules) Amount { return Amount(math.Round(float64(j) * perJoule)) }

// Joules returns the amount in joules.
func (a Amount) Joules() gpu.Joules { return gpu.Joules(float64(a) / perJoule) }

// Party is a user of energy: a lease by its fence, Others, or Idle.
type Party uint64

// The parties that are not leases. No fence has these values.
const (
	// Others are the processes under no lease.
	Others Party = 0
	// Idle stands for the energy that the device uses without any process.
	Idle Party = math.MaxUint64
)

// Shares holds the share of each party. Only the proportions matter.
type Shares map[Party]float64

// clean returns the shares that are positive numbers.
func (s Shares) clean() Shares {
	kept := Shares{}
	for p, share := range s {
		if share > 0 && !math.IsInf(share, 0) {
			kept[p] = share
		}
	}
	return kept
}

// proportion returns the shares scaled so that they add up to 1.
func (s Shares) proportion() Shares {
	sum, scaled := 0.0, make(Shares, len(s))
	for _, share := range s {
		sum += share
	}
	for p, share := range s {
		scaled[p] = share / sum
	}
	return scaled
}

// mean returns the average of the shares at two moments. If one of them is empty, the
// other counts for all of the time.
func mean(a, b Shares) Shares {
	switch {
	case len(a) == 0:
		return b.proportion()
	case len(b) == 0:
		return a.proportion()
	}
	between := a.proportion()
	for p, share := range b.proportion() {
		between[p] += share
	}
	return between.proportion()
}

// throughout returns the shares that parties certainly had between two moments that are
// far apart. The rest belongs to Others, because its users are not known.
func throughout(a, b Shares) Shares {
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	sure, rest := Shares{}, 1.0
	before, after := a.proportion(), b.proportion()
	for p, share := range before {
		if both := min(share, after[p]); both > 0 {
			sure[p] = both
			rest -= both
		}
	}
	if rest > 1e-9 {
		sure[Others] += rest
	}
	return sure
}

// split divides an amount by shares. The parts add up to the amount exactly. Without
// shares, Idle gets all of it.
func split(amount Amount, shares Shares) map[Party]Amount {
	if len(shares) == 0 {
		return map[Party]Amount{Idle: amount}
	}
	parts, left := make(map[Party]Amount, len(shares)), amount
	proportions := shares.proportion()
	for p, share := range proportions {
		part := min(Amount(float64(amount)*share), left)
		parts[p] = part
		left -= part
	}
	parts[largest(proportions)] += left // the rounding error
	return parts
}

// largest returns the party with the largest share. Of several, it returns the least.
func largest(s Shares) Party {
	return slices.MinFunc(slices.Collect(maps.Keys(s)), func(a, b Party) int {
		return cmp.Or(cmp.Compare(s[b], s[a]), cmp.Compare(a, b))
	})
}
