package quota

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// ErrCrowded refuses a user who has as many leases, or waiting requests, as one
// user may have.
var ErrCrowded = errors.New("one user may not have more")

// ErrLimit refuses a request that is over another limit of its user.
var ErrLimit = errors.New("it is over a limit of the user")

// LimitError reports that a limit of a user, or of a group together, refuses a
// request.
type LimitError struct {
	Name   string // of the setting: memory_mb, slots, leases, …
	Source string
	Group  string // whose members have the limit together; empty if the user has it
	Err    error  // ErrCrowded or ErrLimit

	// Later is true if the request may be granted once the user, or the group,
	// has released something. Then the request may wait.
	Later bool

	// The text is made when somebody asks: most refusals of requests that wait are not read.
	text              string // all of it, if there are no numbers
	behind            string // the request ahead that waits for the limit, if it is that
	asked, most, used int64  // else what does not fit
}

// Error says it to the user.
func (e *LimitError) Error() string {
	switch {
	case e.text != "":
		return e.text
	case e.behind != "" && e.Group != "":
		return "it is behind " + e.behind + ", which waits for the limits of " + e.Group
	case e.behind != "":
		return "it is behind " + e.behind + ", which waits for your limits"
	}
	_, most, _ := e.amounts()
	if e.Group != "" {
		return e.compare("the limit of "+most+" that members of "+e.Group+" have together", "they hold")
	}
	return e.compare("your limit of "+most, "you hold")
}

// Others says it to who is not the user.
func (e *LimitError) Others() string {
	switch {
	case e.text != "" || e.Group != "":
		return e.Error()
	case e.behind != "":
		return "it is behind " + e.behind + ", which waits for the limits of its user"
	}
	_, most, _ := e.amounts()
	return e.compare("the limit of "+most+" of its user", "who holds")
}

// compare says how a request is over a limit.
func (e *LimitError) compare(limit, holder string) string {
	asked, _, used := e.amounts()
	if !e.Later {
		return fmt.Sprintf("%s is more than %s (%s); %s %s", asked, limit, e.Source, holder, used)
	}
	verb := "is"
	if e.Name != "memory_mb" && used != "1" {
		verb = "are"
	}
	return fmt.Sprintf("%s of %s %s in use (%s), and the request is for %s", used, limit, verb, e.Source, asked)
}

// amounts writes what was asked for, the limit and what is used of it.
func (e *LimitError) amounts() (asked, most, used string) {
	noun := map[string]string{"slots": "slot", "leases": "lease", "gpus": "GPU"}[e.Name]
	if noun == "" {
		asked, most, used := gpu.MiB(e.asked), gpu.MiB(e.most), gpu.MiB(e.used)
		return asked.ExactBeside(most), most.ExactBeside(asked), used.ExactBeside(most, asked)
	}
	return words.Count(e.asked, noun), words.Count(e.most, noun), fmt.Sprint(e.used)
}

func (e *LimitError) Unwrap() error { return e.Err }

// Apply applies the limits that are about one request: it fills in the service
// and the time limit, shortens the wait, and refuses a ttl, a time limit or a
// binding that the user may not have.
func Apply(l *lease.Limits, r *lease.Request) error {
	if l.Uncertain {
		return &LimitError{Name: "groups", Err: ErrLimit,
			text: "groups have limits here, and the daemon cannot tell which groups you are in: call over its Unix socket"}
	}
	if service, given := l.Service.Get(); given && r.Holder.Service == "" {
		r.Holder.Service = service
	}
	if most, limited := l.LongestWait.Get(); limited && r.Deadline.Sub(r.Requested) > most {
		r.AddNote("waits %s at most, your longest_wait_seconds (%s)", words.Duration(most), l.LongestWait.Source)
		r.Deadline = r.Requested.Add(most)
	}
	if allowed, said := l.Named.Get(); said && !allowed && r.Binding == lease.ByName {
		return &LimitError{Name: "named_leases", Source: l.Named.Source, Err: ErrLimit,
			text: fmt.Sprintf("you may hold no named leases (%s): bind the lease to a process, or give it a ttl", l.Named.Source)}
	}
	if most, limited := l.LongestTime.Get(); limited {
		switch {
		case r.TimeLimit == 0 && r.Parent == "":
			r.TimeLimit, r.Imposed, r.Unchosen = most, true, true
			r.AddNote("ends after %s, your longest_time_seconds (%s)", words.Duration(most), l.LongestTime.Source)
		case r.TimeLimit == 0: // a child
			r.TimeLimit, r.Imposed, r.Unchosen = most, true, true
		case r.TimeLimit > most:
			return tooLong("longest_time_seconds", "a time limit", r.TimeLimit, l.LongestTime)
		}
	}
	return MayLast(l, r.TTL)
}

// MayLast refuses a time to live that is too long. Zero means none.
func MayLast(l *lease.Limits, ttl time.Duration) error {
	if l == nil {
		return nil
	}
	if most, limited := l.LongestTTL.Get(); limited && ttl > most {
		return tooLong("longest_ttl_seconds", "a ttl", ttl, l.LongestTTL)
	}
	return nil
}

func tooLong(name, what string, asked time.Duration, l lease.Limit[time.Duration]) error {
	has, most := sameUnit(asked, l.Or(0))
	return &LimitError{Name: name, Source: l.Source, Err: ErrLimit,
		text: fmt.Sprintf("%s of %s is longer than your limit of %s (%s)", what, has, most, l.Source)}
}

// sameUnit writes two lengths of time in the largest unit that both are whole numbers of,
// so that they can be compared.
func sameUnit(a, b time.Duration) (string, string) {
	for _, u := range []struct {
		size time.Duration
		word string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if a%u.size == 0 && b%u.size == 0 {
			return fmt.Sprintf("%d %s", a/u.size, u.word), fmt.Sprintf("%d %s", b/u.size, u.word)
		}
	}
	return words.Seconds(a) + " s", words.Seconds(b) + " s"
}

// TooManyWait refuses a request if more requests of its user wait than may wait. The
// request itself is in the queue already.
func TooManyWait(b *lease.Book, h lease.Holder, l *lease.Limits) error {
	has := b.UserCount(h.Owner()).Waiting
	most, limited := l.Waiting.Get()
	if !limited || has <= most {
		return nil
	}
	return &LimitError{Name: "waiting", Source: l.Waiting.Source, Err: ErrCrowded,
		text: fmt.Sprintf("%s of yours %s already, and your limit is %d (%s)", words.Count(has-1, "request"), words.Form(has-1, "waits", "wait"), most, l.Waiting.Source)}
}

// Within refuses a grant that would take a user, or a group, over what they may
// have. More is what the grant adds to what they have; leases is how many leases
// it adds, which is none if a lease grows.
func Within(b *lease.Book, l *lease.Limits, h lease.Holder, more lease.Usage, leases int) error {
	if l == nil {
		return nil
	}
	own := bounds{l.Memory, l.Slots, l.Leases, ""}
	if err := own.within(b.UserCount(h.Owner()), more, leases); err != nil {
		return err
	}
	for i := range l.Together {
		t := &l.Together[i]
		source := t.Source()
		all := bounds{limitOf(t.Memory, source), limitOf(t.Slots, source), limitOf(t.Leases, source), t.Group}
		if err := all.within(b.GroupCount(t.Group), more, leases); err != nil {
			return err
		}
	}
	return nil
}

// WithinGPUs refuses a new lease that would put a user on more devices than allowed. A child
// is on the devices of its parent, for as long as that stands.
func WithinGPUs(b *lease.Book, l *lease.Limits, r *lease.Request) error {
	if l == nil || r.Parent != "" {
		return nil
	}
	most, limited := l.GPUs.Get()
	more := max(r.Devices(), len(r.Exact))
	used := b.UserCount(r.Holder.Owner()).GPUs
	if !limited || used+more <= most {
		return nil
	}
	own := bounds{}
	return own.refuse("gpus", l.GPUs.Source, int64(more), int64(most), int64(used))
}

func limitOf[T any](most gpu.Opt[T], source string) lease.Limit[T] {
	return lease.Limit[T]{Opt: most, Source: source}
}

// bounds are the limits of a user, or of a group together.
type bounds struct {
	memory lease.Limit[gpu.MiB]
	slots  lease.Limit[int]
	leases lease.Limit[int]
	group  string // empty if they are the user's
}

func (b *bounds) within(used lease.Count, more lease.Usage, leases int) error {
	if most, limited := b.memory.Get(); limited && more.Memory > 0 && used.Memory+more.Memory > most {
		return b.refuse("memory_mb", b.memory.Source, int64(more.Memory), int64(most), int64(used.Memory))
	}
	if most, limited := b.slots.Get(); limited && more.Slots > 0 && used.Slots+more.Slots > most {
		return b.refuse("slots", b.slots.Source, int64(more.Slots), int64(most), int64(used.Slots))
	}
	if most, limited := b.leases.Get(); limited && leases > 0 && used.Leases+leases > most {
		return b.refuse("leases", b.leases.Source, int64(leases), int64(most), int64(used.Leases))
	}
	return nil
}

// refuse says which limit is in the way of a request for some amount.
func (b *bounds) refuse(name, source string, asked, most, used int64) error {
	e := &LimitError{Name: name, Source: source, Group: b.group, Later: asked <= most, Err: ErrLimit, asked: asked, most: most, used: used}
	if name == "leases" && b.group == "" {
		e.Err = ErrCrowded
	}
	return e
}

// Room returns how much of amount on each of several devices the limits leave beside what
// the user and the groups have; zero if nothing.
func Room(b *lease.Book, l *lease.Limits, h lease.Holder, gpus int, amount gpu.MiB) gpu.MiB {
	if l == nil {
		return amount
	}
	left := func(most gpu.Opt[gpu.MiB], used gpu.MiB) {
		if m, limited := most.Get(); limited {
			amount = min(amount, (m-used)/gpu.MiB(max(gpus, 1)))
		}
	}
	left(l.Memory.Opt, b.UserCount(h.Owner()).Memory)
	for i := range l.Together {
		left(l.Together[i].Memory, b.GroupCount(l.Together[i].Group).Memory)
	}
	return max(amount, 0)
}

// RoomEver returns what Room returns for a user and groups who have nothing.
func RoomEver(l *lease.Limits, gpus int, amount gpu.MiB) gpu.MiB {
	return Room(lease.New(), l, lease.Holder{}, gpus, amount)
}

// GroupNames lists the groups whose limits count for leases of the user.
func GroupNames(l *lease.Limits) []string {
	if l == nil || len(l.Together) == 0 {
		return nil
	}
	names := make([]string, len(l.Together))
	for i := range l.Together {
		names[i] = l.Together[i].Group
	}
	return names
}
