// Package throughput counts the work that services report, so that a metric can show
// their throughput and how long an operation takes.
//
// Reports come from users and may say anything. So a report has limits, each user can
// report a limited number of operations a second, and names go through labels.
package throughput

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
)

// The limits. No user does more on a machine: the fastest batches measured did
// less than a tenth of perSecond.
const (
	perSecond  = 10_000_000     // operations of one user
	most       = 10 * perSecond // in one report, and after a silence
	longest    = 24 * 60 * 60   // seconds of one operation
	mostPlaces = 256            // services on devices; beyond them, devices are left out
)

// Report is a report of a service.
type Report struct {
	Service string
	User    string // who reports
	GPU     string // UUID; empty if not known
	api.Operations
}

// Total is the work of a service on a device since the daemon started.
type Total struct {
	Service string // its label
	GPU     string // UUID; empty if not known
	Count   uint64
	Latency api.Latency // of the operations whose time is known; without bounds if there are none
}

// Counter counts the operations that services report.
type Counter struct {
	label func(service, user string) string

	mu         sync.Mutex // guards what follows
	totals     map[place]*Total
	allowances map[string]*allowance // by user
}

type place struct{ service, gpu string }

// New returns a Counter that has counted nothing. label returns the label under which
// metrics show a service of a user, and bounds how many labels there are.
func New(label func(service, user string) string) *Counter {
	return &Counter{label: label, totals: map[place]*Total{}, allowances: map[string]*allowance{}}
}

// InvalidError says what is wrong with a field of a report.
type InvalidError struct{ Field, Detail string }

func (e *InvalidError) Error() string { return e.Field + " " + e.Detail }

// RateError means that a user reports too much.
type RateError struct{ Count int64 }

func (e *RateError) Error() string {
	return fmt.Sprintf("%d operations are more than one user may report now: at most %d a second count, and at most %d after a silence", e.Count, perSecond, most)
}

// Add counts a report, wholly or not at all, and returns how many operations it has.
func (c *Counter) Add(r Report, now time.Time) (int64, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	count := cmp.Or(r.Count, int64(len(r.Latencies)))
	label := c.label(r.Service, r.User)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.allow(r.User, count, now) {
		return 0, &RateError{count}
	}
	t := c.total(label, r.GPU)
	t.Count = add(t.Count, uint64(count))
	switch {
	case len(r.Latencies) > 0:
		for _, seconds := range r.Latencies {
			t.observe(1, seconds)
		}
	case r.Seconds > 0:
		t.observe(uint64(count), r.Seconds/float64(count))
	}
	return count, nil
}

// check returns what is wrong with a report. The door has already checked the limits that
// a description of the API can state.
func (r *Report) check() error {
	each := r.Seconds / float64(max(r.Count, 1))
	switch {
	case r.Count < 0 || r.Count > most:
		return &InvalidError{"count", fmt.Sprintf("must be from 1 to %d", most)}
	case r.Count == 0 && len(r.Latencies) == 0:
		return &InvalidError{"count", "is missing: give count, or latencies"}
	case len(r.Latencies) > 0 && r.Seconds != 0:
		return &InvalidError{"seconds", "goes with count: give either seconds or latencies"}
	case len(r.Latencies) > 0 && r.Count != 0 && r.Count != int64(len(r.Latencies)):
		return &InvalidError{"count", fmt.Sprintf("must be the number of latencies, which is %d; or leave it out", len(r.Latencies))}
	case !valid(each):
		return &InvalidError{"seconds", fmt.Sprintf("must be from 0 to %d for each operation, a day", longest)}
	}
	for i, seconds := range r.Latencies {
		if !valid(seconds) {
			return &InvalidError{fmt.Sprintf("latencies[%d]", i), fmt.Sprintf("must be from 0 to %d, a day", longest)}
		}
	}
	return nil
}

func valid(seconds float64) bool { return seconds >= 0 && seconds <= longest } // NaN is neither

// total returns the total of a service on a device, and makes it if it is new.
// The caller holds mu.
func (c *Counter) total(label, gpu string) *Total {
	p := place{label, gpu}
	if c.totals[p] == nil && len(c.totals) >= mostPlaces {
		p.gpu = ""
	}
	if c.totals[p] == nil {
		c.totals[p] = &Total{Service: p.service, GPU: p.gpu}
	}
	return c.totals[p]
}

// observe counts operations that took this long each.
func (t *Total) observe(count uint64, seconds float64) {
	if t.Latency.Bounds == nil {
		t.Latency.Bounds = api.LatencyBounds()
		t.Latency.Counts = make([]uint64, len(t.Latency.Bounds)+1)
	}
	i, _ := slices.BinarySearch(t.Latency.Bounds, seconds)
	t.Latency.Counts[i] = add(t.Latency.Counts[i], count)
	t.Latency.Sum += float64(count) * seconds
}

// add returns a+b, or the largest number if that overflows.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// Totals returns the totals, in the order of services and devices.
func (c *Counter) Totals() []Total {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Total, 0, len(c.totals))
	for _, t := range c.totals {
		one := *t
		one.Latency.Counts = slices.Clone(t.Latency.Counts)
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Total) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.GPU, b.GPU))
	})
	return list
}

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
