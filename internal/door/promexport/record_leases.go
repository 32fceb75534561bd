package promexport

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

const (
	leaseAge    = time.Minute // age at which a lease gets series
	leaseMost   = 256         // leases with series
	leaseOfUser = 192         // of one user
	// leaseRest is how long an ended lease keeps its place, so that nobody fills the
	// store by leasing over and over.
	leaseRest = time.Hour
)

// leaseMetrics are the metrics of leases. The page does not have them: every
// lease makes new series.
var leaseMetrics = []series.Metric{
	{Name: "berth_lease_memory_mb", Kind: series.Gauge, Help: "Memory that the lease has on the device, in MiB; for a pool, what leases have not taken from it."},
	{Name: "berth_lease_used_mb", Kind: series.Gauge, Help: "Memory that the processes of the lease use on the device, in MiB."},
	{Name: "berth_lease_energy_joules_total", Kind: series.Counter, Help: "Energy that the lease used, above what its devices draw by themselves."},
}

// leaseSlots keeps which leases have series. The zero value has none.
type leaseSlots struct {
	taken  map[uint64]*leaseSlot // by fence
	ofUser map[string]int
}

type leaseSlot struct {
	user string
	seen time.Time
}

// take reports whether a lease has a place, and gives it one if any is left.
func (s *leaseSlots) take(l *lease.Lease, now time.Time) bool {
	if slot := s.taken[l.Fence]; slot != nil {
		slot.seen = now
		return true
	}
	if len(s.taken) >= leaseMost || s.ofUser[l.Holder.User] >= leaseOfUser {
		return false
	}
	if s.taken == nil {
		s.taken, s.ofUser = map[uint64]*leaseSlot{}, map[string]int{}
	}
	s.taken[l.Fence] = &leaseSlot{l.Holder.User, now}
	s.ofUser[l.Holder.User]++
	return true
}

// clear frees the places of leases that ended long ago.
func (s *leaseSlots) clear(now time.Time) {
	for fence, slot := range s.taken {
		if gone := now.Sub(slot.seen); gone > leaseRest || gone < -leaseRest { // the clock may have jumped
			delete(s.taken, fence)
			if s.ofUser[slot.user]--; s.ofUser[slot.user] == 0 {
				delete(s.ofUser, slot.user)
			}
		}
	}
}

// leases puts the values that each lease holds and uses.
func (r *Recorder) leases(now time.Time, put func(name string, kind series.Kind, v float64, own ...labels.Label)) {
	r.recorded.clear(now)
	var standing []ledger.Held
	shown := r.from.Look()
	if leases, _ := shown.Ledger.Len(); leases > 0 {
		standing = shown.Ledger.View().Leases
	}
	for _, held := range standing {
		if now.Sub(held.Granted) < leaseAge || !r.recorded.take(held.Lease, now) {
			continue
		}
		user, service := r.from.Labels.User(held.Holder.User), r.from.Labels.Service(held.Holder.Service, held.Holder.User)
		own := []labels.Label{{Name: "lease", Value: held.Holder.User + "/" + held.ID}, {Name: "user", Value: user}, {Name: "service", Value: service}}
		for i, part := range held.Parts {
			on := append(own[:len(own):len(own)], labels.Label{Name: "gpu", Value: part.GPU})
			memory := part.Memory
			if held.InPool != nil {
				memory -= held.InPool.Taken // its children have series of their own
			}
			put("berth_lease_memory_mb", series.Gauge, float64(memory), on...)
			if used, seen := held.Measured[i].Get(); seen {
				put("berth_lease_used_mb", series.Gauge, float64(used), on...)
			}
		}
		if shown.Energy == nil {
			continue
		}
		if used, known := shown.Energy.Lease(held.Fence).Get(); known {
			put("berth_lease_energy_joules_total", series.Counter, float64(used), own...)
		}
	}
}
