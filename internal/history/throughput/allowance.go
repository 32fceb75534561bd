package throughput

import (
	"maps"
	"time"
)

// allowance is the number of operations that a user may report now. It grows with time,
// so that programs may report as often or as rarely as they like.
type allowance struct {
	left   float64
	filled time.Time // when left was last computed
}

// fewUsers is the number of allowances below which none is dropped.
const fewUsers = 64

// allow reports whether a user may report this many operations now, and takes them from
// the allowance. The caller holds mu.
func (c *Counter) allow(user string, count int64, now time.Time) bool {
	a := c.allowances[user]
	if a == nil {
		if len(c.allowances) >= fewUsers {
			maps.DeleteFunc(c.allowances, func(_ string, a *allowance) bool { return a.at(now) == most })
		}
		a = &allowance{left: most, filled: now}
		c.allowances[user] = a
	}
	a.left, a.filled = a.at(now), now
	if float64(count) > a.left {
		return false
	}
	a.left -= float64(count)
	return true
}

// at returns how many operations may be reported at a time.
func (a *allowance) at(now time.Time) float64 {
	return min(a.left+max(now.Sub(a.filled).Seconds(), 0)*perSecond, most)
}
