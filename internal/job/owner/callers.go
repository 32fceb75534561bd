package owner

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
)

// A service waits for its lease in the place of that one of those who wait for it who has
// used least. What its stay costs is charged to those who use it: the time in which it has
// requests in the parts that the fronts report, and the time in which it comes to those
// who wait for it. Nobody is charged while it has no requests; its lease counts for the
// user of the service, as every lease does for its holder.

// placeAgain is how often services that wait get their places again: what callers have used
// fades.
const placeAgain = 5 * time.Second

// mostUse is the longest time that a report charges a caller with: a front that had no
// daemon for long reports it at once.
const mostUse = time.Hour

// callersOf returns who waits for a service.
func callersOf(s *owned) (list []string) {
	for _, w := range s.waiters {
		if w.user != "" && !slices.Contains(list, w.user) {
			list = append(list, w.user)
		}
	}
	return list
}

// place gives the services that wait for room their places in the queue. It is called before
// one begins to wait.
func (o *Owner) place(now time.Time) {
	shares := map[lease.Key]float64{}
	for _, s := range o.services {
		if s.life.State != service.Waiting && s.life.State != service.Returning {
			continue
		}
		if share, any := o.uses.Place(callersOf(s), now); any {
			shares[keyOf(s.life.Instance)] = share
		}
	}
	if len(shares) > 0 {
		o.lookAt(now.Add(placeAgain))
	}
	if maps.Equal(shares, o.shares) {
		return
	}
	o.shares = shares
	o.leases.SetShares(shares)
	if o.Nudge != nil {
		o.Nudge()
	}
}

// shareOf returns the share of the machine that a service takes, or took when it was last
// there.
func (o *Owner) shareOf(s *owned) float64 {
	if i := s.life.Instance; i != nil && i.Fence != 0 {
		if share := o.leases.Share(keyOf(i), i.Fence); share > 0 {
			s.share = share
		}
	}
	return s.share
}

// chargeComing charges those who wait for a service that has come with the time that it
// took. One that returns may have waited for room, and only its moving counts.
func (o *Owner) chargeComing(s *owned, was *service.Life, now time.Time) {
	callers, share, took := callersOf(s), o.shareOf(s), now.Sub(was.Since)
	if was.State == service.Returning {
		moved := s.life.Took.Resume.Last
		if was.Instance.Way == service.Sleep {
			moved = s.life.Took.Wake.Last
		}
		took = min(took, time.Duration(moved*float64(time.Second)))
	}
	list := make([]service.Used, 0, len(callers))
	for _, caller := range callers {
		list = append(list, service.Used{Caller: caller, Share: share, For: took / time.Duration(len(callers))})
	}
	o.charge(list)
}

// usesOf returns what a report says that callers have used.
func (o *Owner) usesOf(all []api.FrontReport) (list []service.Used) {
	for _, r := range all {
		if r.Used == nil || o.services[r.Used.Service] == nil {
			continue
		}
		share := o.shareOf(o.services[r.Used.Service])
		for _, c := range r.Used.Callers {
			if c.Seconds > 0 {
				list = append(list, service.Used{Caller: c.User, Share: share, For: time.Duration(min(c.Seconds, mostUse.Seconds()) * float64(time.Second))})
			}
		}
	}
	return list
}

// charge charges callers and writes that down: a daemon that is killed loses the last report.
func (o *Owner) charge(list []service.Used) {
	if len(list) == 0 {
		return
	}
	uses := o.uses.Charge(list, time.Now())
	o.set(func() { o.uses = uses })
	_ = o.write(nil, nil, o.leftovers) // else with the next change
}

// callers returns who uses a service or waits for it, as people see it. The caller holds mu.
func (o *Owner) callers(s *owned, now time.Time) []api.ServiceCaller {
	all := map[string]api.ServiceCaller{}
	for _, f := range o.fronts {
		for _, c := range f.used[s.name] {
			one := all[c.User]
			one.Open, one.Waiting = one.Open+c.Open, one.Waiting+c.Waiting
			all[c.User] = one
		}
	}
	for _, user := range callersOf(s) { // the fronts report a few seconds later
		one := all[user]
		one.Waiting = max(one.Waiting, 1)
		all[user] = one
	}
	var list []api.ServiceCaller
	for _, user := range slices.Sorted(maps.Keys(all)) {
		if one := all[user]; one.Open+one.Waiting > 0 {
			one.User, one.Used = user, o.uses.Share(user, now)
			list = append(list, one)
		}
	}
	return list
}
