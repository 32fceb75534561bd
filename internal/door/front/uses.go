package front

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
)

const (
	// usePause is the time between two reports of who used services.
	usePause = 5 * time.Second
	// mostUsers is how many callers of a service are kept apart in a report, and as those
	// who have no request now; mostUses how many callers of all services one report has.
	mostUsers = 16
	mostUses  = 2000
)

// uses has who uses a service. Every moment in which requests are open belongs to them in
// equal parts. That would be a sum over all callers at each request, so a clock runs that
// is slower the more are open: what a request gets is how far it went meanwhile. The lock
// of the table guards it.
type uses struct {
	by    map[string]*use // by user; "": those who have no request and are not kept apart
	open  int             // requests
	clock float64         // seconds
	read  time.Time       // when the clock was read
	told  bool            // the daemon heard of somebody
}

// use is what a caller uses.
type use struct {
	user          string
	open, waiting int
	from          float64 // of the clock, when seconds was summed up
	seconds       float64
}

// of returns the use of a user.
func (u *uses) of(user string) *use {
	if u.by == nil {
		u.by = map[string]*use{}
	}
	if u.by[user] == nil {
		u.by[user] = &use{user: user, from: u.clock}
	}
	return u.by[user]
}

// has returns how many requests a user has, open or waiting.
func (u *uses) has(user string) int {
	if one := u.by[user]; one != nil {
		return one.open + one.waiting
	}
	return 0
}

// wait counts a request of a user as waiting, until it calls the returned function.
func (u *uses) wait(user string) func() {
	one := u.of(user)
	one.waiting++
	return func() { one.waiting--; u.merge(one) }
}

// merge puts a user without a request to those who are not kept apart, if there are many.
func (u *uses) merge(one *use) {
	if one.open+one.waiting == 0 && len(u.by) > mostUsers && one.user != "" {
		delete(u.by, one.user)
		u.of("").seconds += one.seconds
	}
}

// begin counts a request of a user as open.
func (u *uses) begin(user string, now time.Time) *use {
	u.tick(now)
	one := u.of(user)
	u.sum(one)
	one.open++
	u.open++
	return one
}

// end ends a request.
func (u *uses) end(one *use, now time.Time) {
	u.tick(now)
	u.sum(one)
	one.open--
	u.open--
	u.merge(one)
}

func (u *uses) tick(now time.Time) {
	if u.open > 0 {
		u.clock += max(now.Sub(u.read), 0).Seconds() / float64(u.open)
	}
	u.read = now
}

func (u *uses) sum(one *use) {
	one.seconds += float64(one.open) * (u.clock - one.from)
	one.from = u.clock
}

// report returns what the daemon has to hear of a service, or nil if that is nothing, and
// forgets who does not use it any more.
func (u *uses) report(service string, now time.Time) *api.FrontUsed {
	u.tick(now)
	r := &api.FrontUsed{Service: service, Callers: make([]api.FrontUse, 0, min(len(u.by), mostUsers+1))}
	for _, one := range u.by {
		u.sum(one)
	}
	mostFirst := func(a, b *use) int { return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.user, b.user)) }
	var rest use
	for _, one := range slices.SortedFunc(maps.Values(u.by), mostFirst) {
		if one.user == "" || len(r.Callers) >= mostUsers {
			rest.open, rest.waiting, rest.seconds = rest.open+one.open, rest.waiting+one.waiting, rest.seconds+one.seconds
		} else {
			r.Callers = one.tell(r.Callers)
		}
		if one.seconds = 0; one.open+one.waiting == 0 {
			delete(u.by, one.user)
		}
	}
	r.Callers = rest.tell(r.Callers)
	slices.SortFunc(r.Callers, func(a, b api.FrontUse) int { return cmp.Compare(a.User, b.User) })
	before := u.told
	if u.told = len(r.Callers) > 0; !u.told && !before {
		return nil
	}
	return r
}

// tell appends to a list what a user uses, unless that is nothing.
func (one *use) tell(list []api.FrontUse) []api.FrontUse {
	if one.open+one.waiting == 0 && one.seconds == 0 {
		return list
	}
	return append(list, api.FrontUse{User: one.user, Open: one.open, Waiting: one.waiting, Seconds: min(one.seconds, 1e6)})
}

// used returns who used services since it was last called.
func (t *table) used(now time.Time) (list []api.FrontReport) {
	rest := mostUses
	for _, name := range slices.Sorted(maps.Keys(t.services)) {
		s := t.services[name]
		if rest -= min(len(s.uses.by), mostUsers+1); rest < 0 {
			break // what they used is reported when there are fewer
		}
		if used := s.uses.report(name, now); used != nil {
			list = append(list, api.FrontReport{Used: used})
		}
	}
	return list
}
