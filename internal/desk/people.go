package desk

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when/later"
)

// People are those who use this machine: who they are, and what they may have.
type People struct {
	users     *users.Names
	tokens    *tokens.Tokens
	limits    *atomic.Pointer[quota.Rules]
	ledger    *ledger.Ledger
	keeper    *keeper.Keeper // nil if this daemon runs no jobs
	processes process.Table
	record    recorder
}

// Quota returns the limits of a user, and what the user has of them. Own holds the limits
// of the caller; an empty user means the caller. For others it uses the groups in the
// user database; a process may have other groups, and those count.
func (d *People) Quota(by Caller, own *quota.Limits, user string) (api.Quota, error) {
	if user == "" || user == by.User || by.UID != access.NoUID && user == strconv.Itoa(by.UID) {
		q := d.quota(by.User, own, access.May(by.Actor, access.Exceed, access.Object{}) == nil)
		q.Role = by.Role.String()
		return q, nil
	}
	if err := access.May(by.Actor, access.Inspect, access.Everything()); err != nil {
		return api.Quota{}, Refused(err)
	}
	subject := lease.Subject{Owner: lease.Owner{UID: lease.NoUID, User: user}, Sure: true}
	if user != "token" && !strings.Contains(user, ":") {
		uid, groups, known := d.account(user)
		if !known {
			return api.Quota{}, Refuse(Unknown, "unknown_user", "There is no user %q on this machine: %s", user, words.Suggest(user, d.people(by), "write a login name, a user id, token:NAME or cert:NAME."))
		}
		subject = lease.Subject{Owner: lease.Owner{UID: uid}, Groups: groups, Sure: groups != nil}
	}
	return d.quota(user, d.limits.Load().Of(subject), false), nil
}

// people returns the names of users who have a lease, wait for one or have limits, and of
// the caller.
func (d *People) people(by Caller) []string {
	names := map[string]bool{by.User: true}
	page := d.ledger.Page(placement.Mark{}, mostTroubles)
	for _, held := range page.Leases {
		names[held.Lease.Holder.User] = true
	}
	for _, w := range page.Waiting {
		names[w.Request.Holder.User] = true
	}
	for uid := range d.limits.Load().Users {
		names[d.users.Now(uid)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// account finds a user by login name or number.
func (d *People) account(user string) (uid int, groups []int, known bool) {
	if uid, err := strconv.Atoi(user); err == nil && uid >= 0 {
		_, groups, _ = d.users.Account(d.users.Now(uid))
		return uid, groups, true
	}
	return d.users.Account(user)
}

// quota lists limits, with what is used of them. A user who may exceed them has none.
func (d *People) quota(user string, l *quota.Limits, exceeds bool) api.Quota {
	has := d.ledger.Usage(&l.Limits)
	q := api.Quota{User: user, Service: l.Service.Or(""), Limits: []api.QuotaLimit{}}
	add := func(name, source string, limit, used gpu.Opt[float64]) {
		if exceeds {
			limit, source = gpu.Opt[float64]{}, "role admin"
		}
		q.Limits = append(q.Limits, api.QuotaLimit{Name: name, Limit: limit, Used: used, Source: source})
	}
	add("memory_mb", l.Memory.Source, float(l.Memory.Opt), gpu.Some(float64(has.Has.Memory)))
	add("slots", l.Slots.Source, float(l.Slots.Opt), gpu.Some(float64(has.Has.Slots)))
	add("leases", l.Leases.Source, float(l.Leases.Opt), gpu.Some(float64(has.Has.Leases)))
	add("waiting", l.Waiting.Source, float(l.Waiting.Opt), gpu.Some(float64(has.Has.Waiting)))
	add("gpus", l.GPUs.Source, float(l.GPUs.Opt), gpu.Some(float64(has.Has.GPUs)))
	if d.keeper != nil {
		running, waiting := d.keeper.Of(l.Subject.UID)
		add("running_jobs", l.RunningJobs.Source, float(l.RunningJobs.Opt), gpu.Some(float64(running)))
		add("waiting_jobs", l.WaitingJobs.Source, float(l.WaitingJobs.Opt), gpu.Some(float64(waiting)))
	}
	none := gpu.Opt[float64]{}
	add("longest_wait_seconds", l.LongestWait.Source, secondsOf(l.LongestWait.Opt), none)
	add("longest_ttl_seconds", l.LongestTTL.Source, secondsOf(l.LongestTTL.Opt), none)
	add("longest_time_seconds", l.LongestTime.Source, secondsOf(l.LongestTime.Opt), none)
	if named, said := l.Named.Get(); said && !named {
		add("named_leases", l.Named.Source, gpu.Some(0.0), none)
	}
	add("calls_per_second", l.Calls.Source, l.Calls.Opt, none)
	add("connections", l.Connections.Source, float(l.Connections.Opt), none)
	add("streams", l.Streams.Source, float(l.Streams.Opt), none)
	for i, t := range l.Together {
		used := has.Together[i]
		for _, one := range []struct {
			name  string
			limit gpu.Opt[float64]
			used  float64
		}{{"memory_mb", float(t.Memory), float64(used.Memory)}, {"slots", float(t.Slots), float64(used.Slots)}, {"leases", float(t.Leases), float64(used.Leases)}} {
			if one.limit.Known() {
				add(one.name, t.Source(), one.limit, gpu.Some(one.used))
				q.Limits[len(q.Limits)-1].Group = t.Group
			}
		}
	}
	return q
}

// float converts a limit to the form of the API.
func float[T ~int | ~int64](o gpu.Opt[T]) gpu.Opt[float64] {
	v, known := o.Get()
	if !known {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(float64(v))
}

func secondsOf(o gpu.Opt[time.Duration]) gpu.Opt[float64] {
	v, known := o.Get()
	if !known {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(v.Seconds())
}

// limitsOf returns the limits of the holder of a lease, or nil if the ledger has to find
// them. If the holder is not the caller, the groups are those of the process that is
// going to hold the lease.
func (d *People) limitsOf(by *Caller, h lease.Holder) *lease.Limits {
	if h.Owner() == lease.OwnerOf(&by.Actor) {
		return by.limits()
	}
	rules := d.limits.Load()
	subject := lease.Subject{Owner: h.Owner()}
	if rules.Grouped() {
		subject.Groups, subject.Sure = d.processes.Groups(process.ID{PID: h.PID, Start: h.Start})
	}
	return &rules.Of(subject).Limits
}

// asUser returns a user of this machine as one for whom the daemon runs a program.
func asUser(uid int, user string) access.Actor {
	return access.Actor{User: user, UID: uid, Door: access.Socket, Role: access.User}
}

// LimitsOf returns what a user of this machine may have, with the groups that the user
// database names. If it names none, the limits are the strictest that any group could give,
// and the error says why: it passes, unless nobody has the name. What cannot be taken back,
// such as the end of a job, is not decided by such limits.
func LimitsOf(names *users.Names, rules *quota.Rules, uid int, user string) (*quota.Limits, error) {
	subject, err := lease.Subject{Owner: lease.Owner{UID: uid}}, error(nil)
	if rules.Grouped() {
		_, subject.Groups, err = names.AccountOf(user)
		subject.Sure = err == nil && subject.Groups != nil
		if err == nil && !subject.Sure {
			err = later.Because(errors.New("the user database does not say which groups the user is in"), 0)
		}
	}
	return rules.Of(subject), err
}

// mostTroubles limits the leases and requests that Troubles looks at.
const mostTroubles = 10_000
