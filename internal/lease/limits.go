package lease

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Limits holds what one user may have. Package quota finds it in a configuration and
// decides by it.
type Limits struct {
	Subject    Subject
	Generation uint64 // of the configuration that it comes from

	Memory  Limit[gpu.MiB] // of all leases of the user
	Slots   Limit[int]
	Leases  Limit[int]
	Waiting Limit[int] // requests that wait
	GPUs    Limit[int] // devices of all leases, each counted for each lease

	RunningJobs Limit[int] // tasks of jobs
	WaitingJobs Limit[int]

	LongestWait Limit[time.Duration] // a longer wait is shortened
	LongestTTL  Limit[time.Duration] // a longer ttl is refused
	LongestTime Limit[time.Duration] // from the grant of a lease to its end

	Named   Limit[bool]   // whether leases may be bound to nothing but a release; absent means yes
	Service Limit[string] // the service of requests that name none

	Together []Together // of the groups that the user is in

	// Uncertain is true if a group has limits together and nobody knows whether
	// the user is in it. Then the user gets no lease.
	Uncertain bool
}

// Limit is the most that somebody may have, and the setting that says so.
type Limit[T any] struct {
	gpu.Opt[T]        // absent if there is no limit
	Source     string // users.alice, groups.students, users.default or default
}

// Together holds what all members of a group may have together.
type Together struct {
	Group  string
	Memory gpu.Opt[gpu.MiB]
	Slots  gpu.Opt[int]
	Leases gpu.Opt[int]
}

// Source returns the name of the setting that holds the limit.
func (t *Together) Source() string { return "groups." + t.Group + ".together" }

// Subject is somebody who has limits.
type Subject struct {
	Owner
	Groups []int // ids of groups
	Sure   bool  // Groups lists all of them; false if they are not known

	Program bool // the lease is for a program of theirs that the daemon runs; see OfProgram
}

// OfProgram returns what a user may have for a program that the daemon runs: how long that
// waits, and that its lease is a named one until its minder lives, is nothing to the limits.
func (l Limits) OfProgram() *Limits {
	l.Subject.Program = true
	l.Named, l.LongestWait = Limit[bool]{}, Limit[time.Duration]{}
	return &l
}

// Builtin returns the limits of a user for whom nobody has set any. Each lease
// costs memory, and a file descriptor if it is bound to a process; each waiting
// request costs a little whenever a lease ends.
func Builtin() Limits {
	return Limits{
		Memory: Limit[gpu.MiB]{Source: builtin}, Slots: Limit[int]{Source: builtin},
		Leases: Limit[int]{gpu.Some(1024), builtin}, Waiting: Limit[int]{gpu.Some(256), builtin},
		GPUs: Limit[int]{Source: builtin}, RunningJobs: Limit[int]{Source: builtin}, WaitingJobs: Limit[int]{gpu.Some(10_000), builtin},
		LongestWait: Limit[time.Duration]{Source: builtin}, LongestTTL: Limit[time.Duration]{Source: builtin}, LongestTime: Limit[time.Duration]{Source: builtin},
		Named: Limit[bool]{Source: builtin}, Service: Limit[string]{Source: builtin},
	}
}

// builtin is the source of a limit that nobody has set.
const builtin = "default"

// UserCount returns what a user has.
func (b *Book) UserCount(user Owner) Count { return countOf(b.users[user]) }

// GroupCount returns what the members of a group have, for those who counted as members
// when they asked.
func (b *Book) GroupCount(group string) Count { return countOf(b.groups[group]) }

func countOf(a *Count) Count {
	if a == nil {
		return Count{}
	}
	return *a
}

// Allowance names a quota or a limit that a request may have to wait for although there
// is room: the quota of its service, a limit of its user or of a group, or that the audit
// log takes its grant.
type Allowance struct {
	Group string // empty if it is not the limit of a group

	user    bool
	audit   bool
	service string
	owner   Owner
}

// ServiceQuota returns the quota of a service as an allowance.
func ServiceQuota(service string) Allowance { return Allowance{service: service} }

// UserLimit returns the limits of a user as an allowance.
func UserLimit(user Owner) Allowance { return Allowance{user: true, owner: user} }

// AuditLog returns that the audit log takes a grant as an allowance.
func AuditLog() Allowance { return Allowance{audit: true} }

// GroupLimit returns the limits of a group as an allowance.
func GroupLimit(group string) Allowance { return Allowance{Group: group} }
