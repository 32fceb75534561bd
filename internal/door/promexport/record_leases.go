package promexport

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

const (
	leaseAge    = time.Minute // age at which a lease gets series, which begin at its grant
	mostYoung   = 120         // readings of a lease before that age
	leaseMost   = 256         // leases with series
	leaseOfUser = 192         // of one user
	// leaseRest is how long an ended lease keeps its place, so that nobody fills the
	// store by leasing over and over.
	leaseRest = time.Hour
)

// leaseValue is a value of a lease.
type leaseValue struct {
	name string
	kind series.Kind
	v    float64
	own  []labels.Label
}

// youth is what was read of a lease since its grant, before it has series.
type youth struct {
	user string
	at   []time.Time
	read [][]leaseValue
	seen uint64 // the round in which it was read last
}

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
	young  map[uint64]*youth // by fence
}

type leaseSlot struct {
	user string
	seen time.Time
}

// room reports whether a place is left for a lease of a user.
func (s *leaseSlots) room(user string) bool {
	return len(s.taken) < leaseMost && s.ofUser[user] < leaseOfUser
}

// note keeps what was read of a lease that is too young for series, and what it had at its
// grant. It keeps nothing where the lease would have no series either.
func (s *leaseSlots) note(l *ledger.Held, now time.Time, round uint64, read []leaseValue) {
	y := s.young[l.Fence]
	if y == nil {
		if len(s.young) >= leaseMost || !s.room(l.Holder.User) || s.youngOf(l.Holder.User) >= leaseOfUser {
			return
		}
		if s.young == nil {
			s.young = map[uint64]*youth{}
		}
		y = &youth{user: l.Holder.User}
		s.young[l.Fence] = y
		granted := slices.DeleteFunc(slices.Clone(read), func(r leaseValue) bool { return r.name != leaseMetrics[0].Name })
		y.at, y.read = append(y.at, l.Granted), append(y.read, granted)
	}
	y.seen = round
	if len(y.at) <= mostYoung && now.After(y.at[len(y.at)-1]) { // the clock may have gone back
		y.at, y.read = append(y.at, now), append(y.read, read)
	}
}

// youngOf returns how many leases of a user are kept that are too young for series.
func (s *leaseSlots) youngOf(user string) (n int) {
	for _, y := range s.young {
		if y.user == user {
			n++
		}
	}
	return n
}

// take reports whether a lease has a place, and gives it one if any is left.
func (s *leaseSlots) take(l *lease.Lease, now time.Time) bool {
	if slot := s.taken[l.Fence]; slot != nil {
		slot.seen = now
		return true
	}
	if !s.room(l.Holder.User) {
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

// leases puts the values that each lease holds and uses. Those of a lease that comes of age
// begin with what was read of it before.
func (r *Recorder) leases(now time.Time, put func(name string, kind series.Kind, v float64, before time.Duration, own ...labels.Label)) {
	r.recorded.clear(now)
	var standing []ledger.Held
	shown := r.from.Look()
	if leases, _ := shown.Ledger.Len(); leases > 0 {
		standing = shown.Ledger.View().Leases
	}
	for i := range standing {
		held := &standing[i]
		if now.Sub(held.Granted) < leaseAge {
			r.recorded.note(held, now, r.round, r.readings(held, shown))
			continue
		}
		if !r.recorded.take(held.Lease, now) {
			continue
		}
		if y := r.recorded.young[held.Fence]; y != nil {
			for k, at := range y.at {
				before := now.Sub(at).Round(time.Second) // samples are on a grid of whole seconds, mostly
				if before <= 0 || k > 0 && before >= now.Sub(y.at[k-1]).Round(time.Second) {
					continue
				}
				for _, one := range y.read[k] {
					put(one.name, one.kind, one.v, before, one.own...)
				}
			}
		}
		for _, one := range r.readings(held, shown) {
			put(one.name, one.kind, one.v, 0, one.own...)
		}
	}
	maps.DeleteFunc(r.recorded.young, func(_ uint64, y *youth) bool { return y.seen != r.round })
}

// readings returns what a lease holds and uses now.
func (r *Recorder) readings(held *ledger.Held, shown Values) (list []leaseValue) {
	user, service := r.from.Labels.User(held.Holder.User), r.from.Labels.Service(held.Holder.Service, held.Holder.User)
	own := []labels.Label{{Name: "lease", Value: held.Holder.User + "/" + held.ID}, {Name: "user", Value: user}, {Name: "service", Value: service}}
	for i, part := range held.Parts {
		on := append(own[:len(own):len(own)], labels.Label{Name: "gpu", Value: part.GPU})
		memory := part.Memory
		if held.InPool != nil {
			memory -= held.InPool.Taken // its children have series of their own
		}
		list = append(list, leaseValue{"berth_lease_memory_mb", series.Gauge, float64(memory), on})
		if used, seen := held.Measured[i].Get(); seen {
			list = append(list, leaseValue{"berth_lease_used_mb", series.Gauge, float64(used), on})
		}
	}
	if shown.Energy != nil {
		if used, known := shown.Energy.Lease(held.Fence).Get(); known {
			list = append(list, leaseValue{"berth_lease_energy_joules_total", series.Counter, float64(used), own})
		}
	}
	return list
}
