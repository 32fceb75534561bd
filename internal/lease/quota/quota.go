// Package quota decides what users and services may have beside what the devices
// have room for.
//
// Rules are the sections users and groups of a configuration; Of returns the limits of
// one user, and where each of them comes from. A user's own entry decides, then the
// largest limit of the user's groups, then users.default, and then the limit that is
// built into berth. Apply and Within hold a request against these limits.
//
// Settings are the rest of the configuration that a request is held against;
// Admit applies those of its service.
//
// Pure: no clock, no I/O.
package quota

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Limits holds what one user may have.
type Limits struct {
	lease.Limits
	Calls       lease.Limit[float64] // a second
	Connections lease.Limit[int]
	Streams     lease.Limit[int] // of events
	Groups      []string         // of the user, with an entry in the configuration
}

// The limits that berth has by default; lease.Builtin has the rest.
const (
	Connections = 256
	Streams     = 32
)

// Rules says what everybody may have. It does not change once it is made. The
// zero value is for a configuration that says nothing.
type Rules struct {
	Generation uint64 // tells rules apart
	Default    Configured
	Users      map[int]User    // by user id
	Named      map[string]User // by the names of users without an id: token:NAME and cert:NAME
	Groups     map[int]Group   // by group id
}

// Configured holds what an entry of the configuration allows. It has the fields of
// config.Limits, so that one converts to the other.
type Configured struct {
	Memory      gpu.Opt[gpu.MiB]
	Slots       gpu.Opt[int]
	Leases      gpu.Opt[int]
	Waiting     gpu.Opt[int]
	GPUs        gpu.Opt[int]
	RunningJobs gpu.Opt[int]
	WaitingJobs gpu.Opt[int]
	LongestWait gpu.Opt[time.Duration]
	LongestTTL  gpu.Opt[time.Duration]
	LongestTime gpu.Opt[time.Duration]
	NamedLeases string // true, false or empty
	Calls       gpu.Opt[float64]
	Connections gpu.Opt[int]
	Streams     gpu.Opt[int]
	Service     string
}

// Least returns what both of two entries allow.
func (c Configured) Least(other Configured) Configured {
	for _, each := range []struct{ own, other *gpu.Opt[int] }{
		{&c.Slots, &other.Slots}, {&c.Leases, &other.Leases}, {&c.Waiting, &other.Waiting}, {&c.GPUs, &other.GPUs},
		{&c.RunningJobs, &other.RunningJobs}, {&c.WaitingJobs, &other.WaitingJobs}, {&c.Connections, &other.Connections}, {&c.Streams, &other.Streams},
	} {
		*each.own = least(*each.own, *each.other)
	}
	c.Memory, c.Calls = least(c.Memory, other.Memory), least(c.Calls, other.Calls)
	c.LongestWait, c.LongestTTL, c.LongestTime = least(c.LongestWait, other.LongestWait), least(c.LongestTTL, other.LongestTTL), least(c.LongestTime, other.LongestTime)
	if c.Service = cmp.Or(c.Service, other.Service); c.NamedLeases != "false" {
		c.NamedLeases = cmp.Or(other.NamedLeases, c.NamedLeases)
	}
	return c
}

// least returns the lesser of two limits, of which none is more than any.
func least[T cmp.Ordered](a, b gpu.Opt[T]) gpu.Opt[T] {
	if !a.Known() || b.Known() && b.Or(*new(T)) < a.Or(*new(T)) {
		return b
	}
	return a
}

// Together holds what the members of a group may have together, likewise.
type Together struct {
	Memory gpu.Opt[gpu.MiB]
	Slots  gpu.Opt[int]
	Leases gpu.Opt[int]
}

// User is the entry of a user.
type User struct {
	Name string // as configured
	Configured
}

// Group is the entry of a group.
type Group struct {
	Name string // as configured
	Configured
	Together Together
}

// SubjectOf returns a caller as a subject of limits. Groups are those of its process; nil
// if they are not known. A caller with a token or a certificate is in none.
func SubjectOf(a *access.Actor, groups []int) lease.Subject {
	return lease.Subject{Owner: lease.OwnerOf(a), Groups: groups, Sure: groups != nil || a.UID == access.NoUID}
}

// Grouped reports whether it matters which groups a user is in.
func (r *Rules) Grouped() bool { return len(r.Groups) > 0 }

// Of returns the limits of somebody. If it is not sure which groups they are in,
// each limit is the strictest that a group could give them.
func (r *Rules) Of(s lease.Subject) *Limits {
	own, named := r.Users[s.UID]
	if s.UID == lease.NoUID {
		own, named = r.Named[s.User]
	}
	s.Sure = s.Sure || s.UID == lease.NoUID
	groups := r.groupsOf(s)
	uncertain := !s.Sure && r.Grouped()
	find := finder{
		own: entry{source: "users." + own.Name, Configured: own.Configured}, hasOwn: named, uncertain: uncertain,
		fallback: entry{source: "users.default", Configured: r.Default},
	}
	for _, g := range groups {
		find.groups = append(find.groups, entry{"groups." + g.Name, g.Configured})
	}
	l := &Limits{Limits: lease.Builtin(), Connections: limitOf(gpu.Some(Connections), "default"), Streams: limitOf(gpu.Some(Streams), "default"), Calls: lease.Limit[float64]{Source: "default"}}
	l.Subject, l.Generation = s, r.Generation
	choose(&find, &l.Memory, func(c *Configured) gpu.Opt[gpu.MiB] { return c.Memory })
	choose(&find, &l.Slots, func(c *Configured) gpu.Opt[int] { return c.Slots })
	choose(&find, &l.Leases, func(c *Configured) gpu.Opt[int] { return c.Leases })
	choose(&find, &l.Waiting, func(c *Configured) gpu.Opt[int] { return c.Waiting })
	choose(&find, &l.GPUs, func(c *Configured) gpu.Opt[int] { return c.GPUs })
	choose(&find, &l.RunningJobs, func(c *Configured) gpu.Opt[int] { return c.RunningJobs })
	choose(&find, &l.WaitingJobs, func(c *Configured) gpu.Opt[int] { return c.WaitingJobs })
	choose(&find, &l.LongestWait, func(c *Configured) gpu.Opt[time.Duration] { return c.LongestWait })
	choose(&find, &l.LongestTTL, func(c *Configured) gpu.Opt[time.Duration] { return c.LongestTTL })
	choose(&find, &l.LongestTime, func(c *Configured) gpu.Opt[time.Duration] { return c.LongestTime })
	choose(&find, &l.Calls, func(c *Configured) gpu.Opt[float64] { return c.Calls })
	choose(&find, &l.Connections, func(c *Configured) gpu.Opt[int] { return c.Connections })
	choose(&find, &l.Streams, func(c *Configured) gpu.Opt[int] { return c.Streams })
	chooseNamed(&find, &l.Named)
	chooseService(&find, &l.Service)
	for _, g := range groups {
		if uncertain {
			l.Uncertain = l.Uncertain || g.Together != Together{}
			continue
		}
		l.Groups = append(l.Groups, g.Name)
		if t := g.Together; t != (Together{}) {
			l.Together = append(l.Together, lease.Together{Group: g.Name, Memory: t.Memory, Slots: t.Slots, Leases: t.Leases})
		}
	}
	return l
}

// MostConnections returns how many connections somebody may have open.
func (r *Rules) MostConnections(s lease.Subject) int {
	if len(r.Users)+len(r.Groups) == 0 && !r.Default.Connections.Known() {
		return Connections
	}
	return r.Of(s).Connections.Or(Connections)
}

// groupsOf lists the groups that count for somebody, by name: their own, or all
// if nobody knows which those are.
func (r *Rules) groupsOf(s lease.Subject) []Group {
	var list []Group
	if s.Sure {
		for _, gid := range s.Groups {
			if g, listed := r.Groups[gid]; listed {
				list = append(list, g)
			}
		}
	} else {
		for _, g := range r.Groups {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(list, func(a, b Group) bool { return a.Name == b.Name })
}

// entry is one entry of the configuration.
type entry struct {
	source string
	Configured
}

// finder has the entries that matter for one user.
type finder struct {
	own       entry
	hasOwn    bool
	groups    []entry
	fallback  entry
	uncertain bool // groups lists those that the user may be in
}

// number is a limit that is a number; the smaller is the stricter.
type number interface{ ~int | ~int64 | ~float64 }

// choose finds one limit, and sets it unless no entry has it.
func choose[T number](f *finder, limit *lease.Limit[T], of func(*Configured) gpu.Opt[T]) {
	if own := of(&f.own.Configured); f.hasOwn && own.Known() {
		*limit = lease.Limit[T]{Opt: own, Source: f.own.source}
		return
	}
	if all := of(&f.fallback.Configured); all.Known() {
		*limit = lease.Limit[T]{Opt: all, Source: f.fallback.source}
	}
	found := f.uncertain // then the strictest of all counts, else the largest of the groups
	for i := range f.groups {
		v, says := of(&f.groups[i].Configured).Get()
		if !says {
			continue
		}
		has, limited := limit.Get()
		if !found || f.uncertain && (!limited || v < has) || !f.uncertain && v > has {
			*limit, found = lease.Limit[T]{Opt: gpu.Some(v), Source: f.groups[i].source}, true
		}
	}
}

// chooseNamed finds whether the user may hold named leases.
func chooseNamed(f *finder, limit *lease.Limit[bool]) {
	as := lease.Limit[float64]{}
	choose(f, &as, func(c *Configured) gpu.Opt[float64] {
		switch c.NamedLeases {
		case "true":
			return gpu.Some(math.Inf(1))
		case "false":
			return gpu.Some(0.0)
		}
		return gpu.Opt[float64]{}
	})
	if v, says := as.Get(); says {
		*limit = lease.Limit[bool]{Opt: gpu.Some(v > 0), Source: as.Source}
	}
}

// chooseService finds the service of requests that name none: that of the user's own
// entry, of the first group by name, or of everybody.
func chooseService(f *finder, limit *lease.Limit[string]) {
	entries := []entry{f.own}
	if !f.uncertain {
		entries = append(entries, f.groups...)
	}
	for _, e := range append(entries, f.fallback) {
		if e.Service != "" {
			*limit = lease.Limit[string]{Opt: gpu.Some(words.Service(e.Service)), Source: e.source}
			return
		}
	}
}
