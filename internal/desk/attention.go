package desk

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Attention finds what may need a person. To look at every lease takes longer than the rest of
// a status, which many ask for, so it looks at most once a second.
type Attention struct {
	leases  *Leases
	monitor *monitor.Monitor
	ledger  *ledger.Ledger
	peaks   *peaks.Peaks
	mps     MPS

	mu   sync.Mutex // guards what follows
	at   time.Time
	last Troubles
}

// Troubles looks for what may need a person. What it returns is at most a second old.
func (d *Attention) Troubles(now time.Time) Troubles {
	d.mu.Lock()
	defer d.mu.Unlock()
	if age := now.Sub(d.at); age >= 0 && age < time.Second {
		return d.last
	}
	var found Troubles
	page := d.ledger.Page(placement.Mark{}, mostTroubles)
	for _, held := range page.Leases {
		l := LeaseOf(held)
		if d.leases.Whereabouts(&l, true); len(leaseNeeds(&l, now)) > 0 {
			found.Leases = append(found.Leases, held)
		}
	}
	for _, w := range page.Waiting {
		if now.Sub(w.Request.Requested) > longWait {
			request := *w.Request // it is kept for a second, and the book goes on
			w.Request = &request
			found.Waiting = append(found.Waiting, w)
		}
	}
	found.Hogs = d.hogging(page, now)
	for _, r := range d.monitor.Readings() {
		for _, p := range d.ledger.Processes(r.Device.UUID) {
			if p.Lease == nil && p.Ended != "" && !d.mps.Serves(p.Line) {
				found.Orphans++
			}
		}
	}
	d.at, d.last = now, found
	return found
}

// Troubles has the leases and the requests that may need a person, and the number of
// processes that use devices after the end of their lease.
type Troubles struct {
	Leases  []ledger.Held
	Waiting []placement.Placed
	Hogs    []Hogging
	Orphans int
}

// Hogging is a lease that may keep from others what it does not use, and those who wait
// for what it holds.
type Hogging struct {
	ledger.Held
	Waiting []placement.Placed
}

// hogging returns the leases that do not use what they hold while somebody waits for it,
// the largest first.
func (d *Attention) hogging(page ledger.Page, now time.Time) []Hogging {
	var late []placement.Placed
	for _, w := range page.Waiting {
		if now.Sub(w.Requested) >= hogWait && !w.Absent {
			late = append(late, w)
		}
	}
	if len(late) == 0 {
		return nil
	}
	slices.SortFunc(late, func(a, b placement.Placed) int { return a.Requested.Compare(b.Requested) })
	late = late[:min(len(late), 64)]
	for i := range late {
		request := *late[i].Request // it is kept for a second, and the book goes on
		late[i].Request = &request
	}
	var found []Hogging
	for _, held := range page.Leases {
		l, peak := d.used(held)
		if Unused(&l, peak, now) == "" {
			continue
		}
		h := Hogging{Held: held}
		for _, w := range late {
			if d.waitsFor(w.Request, held.Lease) {
				h.Waiting = append(h.Waiting, w)
			}
		}
		if len(h.Waiting) > 0 {
			found = append(found, h)
		}
	}
	slices.SortStableFunc(found, func(a, b Hogging) int { return cmp.Compare(b.Total().Memory, a.Total().Memory) })
	return found[:min(len(found), mostHogs)]
}

// waitsFor reports whether a request waits for what a lease holds: memory or slots on a
// device that it may have.
func (d *Attention) waitsFor(r *lease.Request, held *lease.Lease) bool {
	if r.Into == held.Fence || r.ParentFence == held.Fence {
		return false
	}
	return slices.ContainsFunc(held.Parts, func(p lease.Part) bool {
		if !(p.Memory > 0 && r.Memory > 0 || p.Slots > 0 && r.Slots > 0) || len(r.Only) > 0 && !slices.Contains(r.Only, p.GPU) {
			return false
		}
		on, known := d.monitor.Find(p.GPU)
		return known && r.Where.Meets(&on.Device)
	})
}

// used returns a lease with what is known about its use, and the most that it has used on
// one device.
func (d *Attention) used(held ledger.Held) (api.Lease, gpu.MiB) {
	l := LeaseOf(held)
	d.leases.Whereabouts(&l, false)
	d.leases.addIdle(&l, held.Fence)
	if d.peaks == nil {
		return l, 0
	}
	peak, _ := d.peaks.Most(held.Fence)
	return l, peak
}

// UnusedOf says that a lease does not use what it holds, or returns "".
func (d *Attention) UnusedOf(k lease.Key, now time.Time) string {
	held, stands := d.ledger.Find(k)
	if !stands {
		return ""
	}
	l, peak := d.used(held)
	return Unused(&l, peak, now)
}

// HogOf returns a lease that may be a hog, without those who wait. L is the lease as the
// caller sees it.
func (d *Attention) HogOf(h Hogging, l api.Lease, yours bool) Hog {
	of, peak := d.used(h.Held)
	l.State, l.Idle = of.State, of.Idle
	return Hog{Lease: l, Peak: peak, Yours: yours}
}
