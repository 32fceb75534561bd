package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// holders returns what each user or each service held.
func (s *period) holders(kind string) []api.HolderPeriod {
	found := map[string]*api.HolderPeriod{}
	of := func(name string) *api.HolderPeriod {
		if found[name] == nil {
			found[name] = &api.HolderPeriod{Name: name}
		}
		return found[name]
	}
	for name, points := range s.by(kind+"_leased", kind) {
		of(name).Leased = amount(points) / hour
	}
	for name, points := range s.by(kind+"_leases", kind) {
		of(name).Leases = amount(points) / hour
	}
	for name, points := range s.by(kind+"_waiting", kind) {
		of(name).Waiting = amount(points) / hour
	}
	for name, points := range s.by(kind+"_measured", kind) {
		of(name).Measured = amount(points) / hour
	}
	for name, points := range s.by(kind+"_used", kind) {
		of(name).Used = amount(points) / hour
	}
	for name, points := range s.by(kind+"_energy", kind) {
		if used := gpu.Joules(amount(points)); used > 0 {
			of(name).Energy = gpu.Some(used)
		}
	}
	list := []api.HolderPeriod{}
	for _, h := range found {
		if h.Leased > 0 || h.Leases > 0 || h.Waiting > 0 || h.Energy.Or(0) > 0 {
			list = append(list, *h)
		}
	}
	slices.SortFunc(list, func(x, y api.HolderPeriod) int {
		return cmp.Or(cmp.Compare(y.Leased, x.Leased), cmp.Compare(y.Leases, x.Leases), strings.Compare(x.Name, y.Name))
	})
	return list
}

// leaseSpan is a lease in the period, whether it has ended or not.
type leaseSpan struct {
	api.PastLease // of one that has not ended, until the end of the period
	parked        bool
}

// name returns the name of a lease in a report.
func (h *leaseSpan) name() string {
	if h.Holder.Name == "berth" { // berth allocate is not the program that works under the lease
		return h.ID
	}
	return cmp.Or(h.Holder.Name, h.ID)
}

// seconds returns for how much of a time the lease existed.
func (h *leaseSpan) seconds(from, until time.Time) float64 {
	return overlap(from, until, h.Granted, h.Ended)
}

// inPeriod returns the leases that existed in the period, the oldest grant first.
func (s *period) inPeriod() (list []leaseSpan) {
	for _, l := range s.Past.Leases {
		list = append(list, leaseSpan{PastLease: l})
	}
	for _, l := range s.Leases.Leases {
		if !l.Granted.IsZero() {
			until := api.PastLease{ID: l.ID, Holder: l.Holder, Granted: l.Granted, Ended: s.Until, Parts: l.Parts, Energy: l.Energy, FromPool: l.FromPool}
			list = append(list, leaseSpan{until, l.State == "parked"})
		}
	}
	list = slices.DeleteFunc(list, func(h leaseSpan) bool { return h.seconds(s.From, s.Until) == 0 })
	slices.SortFunc(list, func(x, y leaseSpan) int { return cmp.Or(x.Granted.Compare(y.Granted), strings.Compare(x.ID, y.ID)) })
	return list
}

// perProgram returns what the leases of each name held.
func (s *period) perProgram() []api.ProgramPeriod {
	type key struct{ program, user, service string }
	found := map[key]*api.ProgramPeriod{}
	of := func(h *leaseSpan) *api.ProgramPeriod {
		k := key{h.name(), h.Holder.User, h.Holder.Service}
		if found[k] == nil {
			found[k] = &api.ProgramPeriod{Program: k.program, User: k.user, Service: k.service}
		}
		return found[k]
	}
	leases, idle := map[string][]leaseSpan{}, s.idle()
	all, pools := s.inPeriod(), Pools[*leaseSpan]{}
	for i, h := range all {
		pools.Add(h.Holder.User, h.ID, h.Granted, h.Ended, &all[i])
	}
	for _, h := range all {
		leases[h.Holder.User+"/"+h.ID] = append(leases[h.Holder.User+"/"+h.ID], h)
		r := of(&h)
		r.Leases++
		r.Peak = max(r.Peak, h.Peak)
		hours := h.seconds(s.From, s.Until) / hour
		r.Hours += hours
		for _, p := range h.Parts {
			if !h.parked {
				r.Leased += hours * float64(p.Memory)
			}
		}
		if pool, ended, found := pools.Of(h.Holder.User, h.FromPool, h.Granted); found && len(h.Parts) > 0 {
			if ended.After(s.Until) {
				ended = s.Until
			}
			of(pool).Leased -= h.seconds(s.From, ended) / hour * float64(h.Parts[0].Memory)
		}
		r.Idle += s.idleHours(&h, idle)
		if used, known := h.Energy.Get(); known && !h.Granted.Before(s.From) && !h.Ended.After(s.Until) {
			r.Energy = gpu.Some(r.Energy.Or(0) + used)
		}
	}
	s.share("lease_measured", leases, func(h *leaseSpan, memory float64) { of(h).Measured += memory })
	s.share("lease_used", leases, func(h *leaseSpan, memory float64) { of(h).Used += memory })
	list := make([]api.ProgramPeriod, 0, len(found))
	for _, r := range found {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(x, y api.ProgramPeriod) int {
		return cmp.Or(cmp.Compare(y.Leased, x.Leased), cmp.Compare(y.Hours, x.Hours), strings.Compare(x.Program, y.Program), strings.Compare(x.User, y.User), strings.Compare(x.Service, y.Service))
	})
	return list
}

// share gives each lease what a question says of its id. Leases with the same id have the
// parts of a step for which they stood.
func (s *period) share(question string, leases map[string][]leaseSpan, give func(h *leaseSpan, amount float64)) {
	step := s.Step()
	for _, each := range s.Series[question] {
		known := leases[each.Labels["lease"]]
		for _, p := range finite(each.Points) {
			all := 0.0
			for i := range known {
				all += known[i].seconds(p.Time.Add(-step), p.Time)
			}
			for i := range known {
				if stood := known[i].seconds(p.Time.Add(-step), p.Time); stood > 0 {
					give(&known[i], p.Value*stood/all/hour)
				}
			}
		}
	}
}

// idleHours returns how long a lease existed while none of its devices did anything.
func (s *period) idleHours(h *leaseSpan, idle map[string]map[time.Time]float64) float64 {
	if len(h.Parts) == 0 {
		return 0
	}
	from, until, sum := h.Granted, h.Ended, 0.0
	if from.Before(s.From) {
		from = s.From
	}
	if until.After(s.Until) {
		until = s.Until
	}
	for begin := from.UTC().Truncate(s.pause()); begin.Before(until); begin = begin.Add(s.pause()) {
		end, stood := begin.Add(s.pause()), until.Sub(from).Seconds()
		for _, p := range h.Parts {
			if stood = min(stood, s.during(end, idle[p.GPU][end], from, until)); stood == 0 { // it did something
				break
			}
		}
		sum += stood
	}
	return sum / hour
}

// waits returns how long requests waited.
func (s *period) waits() api.WaitingPeriod {
	w := api.WaitingPeriod{Times: []api.WaitCount{}, Now: s.Leases.Waiting}
	if w.Now == nil {
		w.Now = []api.Waiting{}
	}
	first := func(question string) []api.QueryPoint {
		for _, each := range s.Series[question] {
			return each.Points
		}
		return nil
	}
	type bucket struct{ below, count float64 }
	var buckets []bucket
	for le, points := range s.by("waits", "le") {
		if below, err := strconv.ParseFloat(le, 64); err == nil {
			buckets = append(buckets, bucket{below, amount(points)})
		}
	}
	slices.SortFunc(buckets, func(x, y bucket) int { return cmp.Compare(x.below, y.below) })
	before := 0.0
	for i, b := range buckets {
		if b.below < shortWait && i < len(buckets)-1 {
			continue // nobody notices a shorter wait
		}
		count := api.WaitCount{Below: b.below, Count: max(math.Round(b.count-before), 0)}
		if math.IsInf(b.below, 1) {
			count.Below = 0
		}
		w.Times, before = append(w.Times, count), b.count
	}
	if before > 0 { // all that were answered
		w.Mean = gpu.Some(amount(first("waits_sum")) / before)
	}
	w.Answered = math.Round(amount(first("granted")))
	w.Refused = math.Round(amount(first("refused")))
	w.Queue, _ = average(first("queue"), s.up)
	for _, p := range first("queue_most") {
		w.Longest = max(w.Longest, p.Value)
	}
	return w
}

const shortWait = 0.1 // seconds
