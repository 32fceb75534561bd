package lease

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// When a request can start is known at the latest if it fits beside all leases that have no
// end. While it does not, it waits for something of which nobody knows the end, and to
// keep devices free for it might keep them idle for ever. So others may pass it, within
// limits that keep its wait finite: see Book.EndlessSince.

// Endless reports whether nobody knows when a lease ends at the latest.
func (l *Lease) Endless() bool { return l.TimeLimit == 0 && l.Cancelled == nil }

// Endless reports whether the lease for the request would be endless.
func (r *Request) Endless() bool { return r.TimeLimit == 0 }

// stays reports whether an endless lease is meant to stay: it is a named one, or that of a
// service. The program of any other one comes to its end.
func (l *Lease) stays() bool {
	return l.Endless() && (l.Binding == ByName && l.Run.Kind != OfJob || l.Run.Kind == OfService)
}

// endless sums up the active leases on a device that have no end.
type endless struct {
	load  Load
	count int
	alone int // have the device alone
	stay  int // are meant to stay
}

func (s *endless) add(l *Lease, of Load, sign int) {
	s.load.Memory += of.Memory * gpu.MiB(sign)
	s.load.Slots += of.Slots * sign
	s.count += sign
	if l.Exclusive {
		s.alone += sign
	}
	if l.stays() {
		s.stay += sign
	}
}

// FitsBesideEndless reports whether a load, alone there or not, fits on a device once every
// lease there that has an end has ended. What processes under no lease use has no end.
func (b *Book) FitsBesideEndless(uuid string, l Load, alone bool) bool {
	d := b.devices[uuid]
	if d == nil {
		return false
	}
	s := &d.endless
	if s.alone > 0 || alone && s.count > 0 {
		return false
	}
	return l.Within(Load{Memory: d.Ceiling() - d.Foreign - s.load.Memory, Slots: d.MaxPipelines - s.load.Slots})
}

// FitsBesideForeign reports whether a load fits on a device once every lease there has
// ended, beside what processes under no lease use.
func (b *Book) FitsBesideForeign(uuid string, l Load) bool {
	d := b.devices[uuid]
	return d != nil && l.Memory <= d.Ceiling()-d.Foreign
}

// EndlessSince returns since when a device has an endless lease; nothing if it has none, and
// the zero time if one is meant to stay. It may go to further endless leases although a
// request waits for it that came later than that. Once no lease is left that is meant to
// stay, or stood when the request came, those that came meanwhile end one after the other,
// and no further ones come: so the request starts.
func (b *Book) EndlessSince(uuid string) (since gpu.Opt[time.Time]) {
	d := b.devices[uuid]
	if d == nil || d.endless.stay > 0 {
		return gpu.Some(time.Time{})
	}
	for i := 0; i < len(d.spots) && d.endless.count > 0; i++ {
		l := d.spots[i].entry.lease
		if oldest, any := since.Get(); l.State == Active && l.Endless() && (!any || l.Granted.Before(oldest)) {
			since = gpu.Some(l.Granted)
		}
	}
	return since
}

// Pass notes that another one was granted before a waiting request that it delays.
func (b *Book) Pass(r *Request) {
	if w := b.waiting.get(r.Key()); w != nil && w.request == r {
		w.passed++
	}
}

// Passed returns how many were granted before a waiting request that they delay.
func (b *Book) Passed(k Key) int {
	if w := b.waiting.get(k); w != nil {
		return w.passed
	}
	return 0
}
