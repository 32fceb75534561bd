package service

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// Uses is what callers have used of the machine through services. For each caller it is a
// mean of the share of the machine that services took for them, in which the past counts
// half as much with each HalfLife: whoever kept half of the machine busy for long has 0.5.
// It has the unit of the shares in the queue of leases, so that both can be compared. A
// caller who is not in it has used nothing that counts any more.
type Uses struct {
	At time.Time          `json:"at"` // of the values below
	Of map[string]float64 `json:"of"` // by caller; never changed, but replaced
}

const (
	// HalfLife is how long it takes until use counts half. It is a few of the turns that
	// services take, so that a caller is not ahead again as soon as its model has left; and
	// it bounds how long a caller who had everything waits for others who had nothing.
	HalfLife = 5 * time.Minute
	// smallUse is a share that gives a place as none does, leastUse one that is forgotten, and
	// mostUses how many callers are kept.
	smallUse = 1e-3
	leastUse = 1e-4
	mostUses = 1024
)

// Used is what a caller has used: a share of the machine, for some time.
type Used struct {
	Caller string
	Share  float64 // from 0 to 1
	For    time.Duration
}

// left returns how much of a use at At counts at a time.
func (u Uses) left(now time.Time) float64 {
	return math.Exp2(-max(now.Sub(u.At), 0).Seconds() / HalfLife.Seconds())
}

// Share returns what a caller has used, as a share of the machine.
func (u Uses) Share(caller string, now time.Time) float64 { return u.Of[caller] * u.left(now) }

// Place returns the share of the machine by which a service has its place in the queue: that
// of the caller who has used least; false if there is none. It is rounded to a power of the
// square root of two, and to 0 if it is small, so that age decides between callers who have
// used about as much.
func (u Uses) Place(callers []string, now time.Time) (share float64, any bool) {
	for _, caller := range callers {
		if s := u.Share(caller, now); !any || s < share {
			share, any = s, true
		}
	}
	if share < smallUse {
		return 0, any
	}
	return math.Exp2(math.Round(2*math.Log2(share)) / 2), any
}

// Charge returns the uses with those of a list added.
func (u Uses) Charge(list []Used, now time.Time) Uses {
	all, left := make(map[string]float64, len(u.Of)+len(list)), u.left(now)
	for caller, share := range u.Of {
		all[caller] = share * left
	}
	for _, each := range list {
		all[each.Caller] = min(all[each.Caller]+each.Share*each.For.Seconds()*math.Ln2/HalfLife.Seconds(), 1)
	}
	maps.DeleteFunc(all, func(_ string, share float64) bool { return share < leastUse })
	if len(all) > mostUses { // those who used least are as those who used nothing
		names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
		for _, name := range names[mostUses:] {
			delete(all, name)
		}
	}
	return Uses{At: now, Of: all}
}
