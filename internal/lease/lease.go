package lease

import (
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Lease is a claim to slots and memory on one or more devices. It does not change
// once it is in a book.
type Lease struct {
	ID     string // the allocation id; only one lease or waiting request of a user has it at a time
	Fence  uint64 // grows with every grant; set by the book
	Parent string // the id of the lease of the same user that it is a child of; may be empty
	Run    Run    // the program of berth's own that it is for
	From   uint64 // the fence of the pool that its memory is from; zero if it is from none

	// ParentFence is the fence of the parent, which is smaller than the own one; set by
	// the book. It is zero for a lease from the journal of an earlier berth whose parent
	// had ended.
	ParentFence uint64

	Holder   Holder
	Binding  Binding
	Implied  bool          // nobody said what ends it; see Settle, Detach and Keep
	TTL      time.Duration // how long a grant or a renewal lasts, for Binding ByTTL; else zero
	Granted  time.Time     // set by the book
	Expires  time.Time     // set by the book for Binding ByTTL; else zero
	Parts    []Part        // on different devices
	Priority int
	State    State

	// TimeLimit is how long it lasts at most from its grant on, without the time for
	// which it was parked; zero means no limit.
	TimeLimit time.Duration
	Imposed   bool // an operator or a rule chose TimeLimit, not its user
	Unchosen  bool // nobody chose TimeLimit for this lease: it is the most that its user may have

	ParkedAt time.Time     // since when it is parked; zero if it is active
	Returned time.Time     // when it was last resumed; zero if never
	Paused   time.Duration // how long it was parked before, in total

	Cancelled *Cancellation // who asked to end its programs; nil if nobody did

	// Asked is the memory that it had on each device before berth shrank it; zero if
	// berth did not. It gets that back before others are served.
	Asked gpu.MiB

	Terms

	// Groups are the groups whose limits together count this lease, as of the grant.
	Groups []string

	By access.Actor // who asked for it; without a door if that is not known
}

// Terms are what a lease has from its request as it is.
type Terms struct {
	EnforcedBy string // what enforces the memory limit: mps, framework, watchdog or none
	Raised     bool   // the minimum of the service made it larger than the request
	Note       string // how it differs from the request, one sentence; empty if it does not

	// Unit and Scope say which processes belong to it beside those of the holder. See
	// package kinship.
	Unit  string   // systemd unit or container; may be empty
	Scope []string // names of control groups; if there are any, no other processes belong to it

	// Exclusive leases have their devices alone: no lease is granted there beside them
	// but their children. Their memory is what could be leased at the grant.
	Exclusive bool

	Pool bool // its memory is for its children; see pool.go

	Parkable bool // berth may park it by itself; its service may override this
	Unshared bool // its owner says that its processes share no GPU memory

	// Optimize lists what berth may do to a lease with a scope, to win memory back:
	// MayTrim, MayShrink, MayPark. See Allows.
	Optimize []string

	Comment string // a note of its owner, for people; may be empty
}

// What berth may do to a lease, to win memory back.
const (
	MayTrim   = "trim"
	MayShrink = "shrink"
	MayPark   = "park"
)

// Allows reports whether berth may do something to a lease, to win memory back, as far as
// its terms decide that. A lease with a scope belongs to another manager, such as a
// cluster, so it allows what its request says and nothing else. For others, the service
// and the request decide.
func (t *Terms) Allows(what string) bool {
	return len(t.Scope) == 0 || slices.Contains(t.Optimize, what)
}

// AddNote adds to the note.
func (t *Terms) AddNote(format string, args ...any) {
	if t.Note != "" {
		t.Note += "; "
	}
	t.Note += fmt.Sprintf(format, args...)
}

// MaxComment is the most bytes of a comment.
const MaxComment = 256

func commentProblem(text string) string {
	switch {
	case len(text) > MaxComment:
		return fmt.Sprintf("has %d bytes; it may have %d", len(text), MaxComment)
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	}
	for _, c := range text {
		if !unicode.IsPrint(c) {
			return fmt.Sprintf("contains %U, which cannot be printed; write it on one line", c)
		}
	}
	return ""
}

// validate calls refuse for each field, with what is wrong with it or "".
func (t *Terms) validate(refuse func(field, detail string)) {
	if t.Unit != "" {
		refuse("unit", words.NameProblem(t.Unit))
	}
	refuse("scope", words.NamesProblem(t.Scope, MaxScope))
	refuse("comment", commentProblem(t.Comment))
}

// Part holds what a lease has on one device.
type Part struct {
	GPU    string // UUID
	Memory gpu.MiB
	Slots  int
}

// Total returns what the lease has over all its devices.
func (l *Lease) Total() Usage { return totalOf(l.Parts) }

func totalOf(parts []Part) (u Usage) {
	for _, p := range parts {
		u.Memory += p.Memory
		u.Slots += p.Slots
	}
	return u
}

// Devices returns the UUIDs of its devices.
func (l *Lease) Devices() []string {
	devices := make([]string, len(l.Parts))
	for i, p := range l.Parts {
		devices[i] = p.GPU
	}
	return devices
}

// OutlivesBoot reports whether the lease lasts when the machine starts again. A lease
// that is bound to a process does not, so its entries must survive the end of the daemon
// but not that of the machine.
func (l *Lease) OutlivesBoot() bool { return l.Binding != ByProcess }

// Holder is the user and the process that have a lease. The daemon takes them
// from the kernel for a request over the local socket. It believes the client
// only about the service and the name.
type Holder struct {
	User    string // login name, or the number as text
	UID     int    // NoUID if the kernel did not say
	Service string // may be empty
	Name    string // what the process calls itself, for people

	// The process, for Binding ByProcess and for finding the processes that a
	// lease covers. The pid alone does not identify a process: the kernel uses it
	// again.
	PID   int
	Start uint64 // when the process started, in ticks since boot
	Boot  string // the id of that boot
}

// NoUID is the UID of a holder whose user id is not known.
const NoUID = access.NoUID

// Same reports whether two holders are the same user.
func (h Holder) Same(other Holder) bool {
	return h.UID == other.UID && (h.UID != NoUID || h.User == other.User)
}

// Object returns the lease as the object of access decisions.
func (l *Lease) Object() access.Object { return access.Of(access.Held, l.Holder.UID, l.Holder.User) }

// Binding says what ends a lease without a release.
type Binding string

// The bindings.
const (
	ByProcess Binding = "process" // the end of its process
	ByTTL     Binding = "ttl"     // no renewal in time
	ByName    Binding = "named"   // nothing: it lasts until it is released
)

// State says whether a lease takes room on its devices.
type State string

// The states.
const (
	Active State = "active"
	Parked State = "parked" // its memory was moved off the devices; it takes nothing there
)
