// Package stored holds what the ledger writes into the journal: plain structs
// with a version, as one JSON object each.
//
// Package lease converts between its leases and these entries, and writes them, so that
// the rules can change without changing what is on people's disks. The fields of the
// structs and their tags are all that it knows about their form.
//
// # The promise
//
// Upgrade: a newer berth reads every entry that any earlier berth wrote. The
// folder testdata holds journals of earlier releases; tests read them, and the
// files there never change.
//
// Downgrade: each entry carries the lowest version that can say what it says
// (see New). An older berth therefore reads a journal in which nothing newer
// has happened since the journal was last compacted. A berth that meets a
// version above its own refuses to read on and says so (VersionError). It
// never guesses.
//
// # Adding to an entry
//
// A field may be added under the same version if a reader that does not know
// the field still makes the same book. Everything else raises Version:
//
//  1. Add the field to Entry, Lease or Part, with omitempty.
//  2. If the version rises, raise Version and let New, or the code that sets
//     the field, give the new version to the entries that need it.
//  3. Fill the field in package lease (EntryOf) and read it (Book.Replay).
//     The zero value means "written by an earlier berth".
//  4. Add a journal of the new release to testdata, and the version to
//     docs/reference/journal.md.
//
// Pure: no clock, no I/O.
package stored

import (
	"encoding/json"
	"fmt"
	"time"
)

// Version is the newest version of an entry that this berth reads and writes.
//
//	1  everything but what follows
//	2  Bind
//	3  Scope, Detach, Resize, a lease without memory and slots
//	4  Audit, a grant of an id that a lease of another user has, Lease.TimeLimit,
//	   Lease.Groups
//	5  Park and Resume with a lease, a lease that is parked, Lease.Paused beside
//	   Lease.TimeLimit
//	6  Lease.Pool, Lease.From
//	7  a grant of an id that another lease of the same user has, see Lease.Run
//
// Added later under the same versions, because the book is the same without them:
// Entry.By, Lease.Parent, Lease.Unit, Lease.Scope, Lease.Implied, Lease.Parkable,
// Lease.Unshared, Lease.Returned, Lease.Asked, Lease.Imposed, Lease.Unchosen, Lease.Comment,
// Lease.Cancelled, Lease.Exclusive, Lease.Optimize, Lease.ParentFence and Lease.Run. An
// older berth ignores them: it does not end what was cancelled, and may grant slots beside
// a lease that should be alone.
const Version = 7

// Entry is one entry of the journal: what happened to a lease, as one JSON
// object. Times are nanoseconds since 1970, durations are nanoseconds.
type Entry struct {
	Version   int       `json:"v"`
	Kind      Kind      `json:"kind"`
	Time      int64     `json:"time_ns,omitempty"`
	ID        string    `json:"id,omitempty"`
	Fence     uint64    `json:"fence"`
	Expires   int64     `json:"expires_ns,omitempty"` // Renew
	TTL       int64     `json:"ttl_ns,omitempty"`     // Renew
	Why       string    `json:"why,omitempty"`        // for people; in a Fence entry, the boot id
	By        By        `json:"by,omitzero"`          // zero if an earlier berth wrote it, or for a Fence entry
	Lease     *Lease    `json:"lease,omitempty"`      // Grant, Bind, Scope, Detach, Resize, Park, Resume
	AuditLine AuditLine `json:"line,omitzero"`        // Audit
}

// By says who did it. In the entry of a lease in a compacted journal, it says who asked
// for the lease.
type By struct {
	UID   int    `json:"uid"` // -1 if not known
	User  string `json:"user,omitempty"`
	Token string `json:"token,omitempty"` // name of the token that was shown
	Door  string `json:"door,omitempty"`  // socket, tcp, process, or daemon for what berth did by itself
}

// AuditLine names an entry of the audit log: by its number and by the SHA-256 of its
// line, in hexadecimal. The zero value names none.
type AuditLine struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// Kind says what an entry reports.
type Kind string

// The kinds of entry.
const (
	Grant   Kind = "grant"
	Renew   Kind = "renew"
	Bind    Kind = "bind"
	Release Kind = "release"
	Expire  Kind = "expire"
	Revoke  Kind = "revoke"
	Park    Kind = "park"
	Resume  Kind = "resume"
	Scope   Kind = "scope"
	Detach  Kind = "detach"
	Resize  Kind = "resize"
	// Fence only reports how far fences have got. A compacted journal needs
	// it, because the newest grant may have ended.
	Fence Kind = "fence"
	// Audit only names the newest line of the audit log that the disk has, so
	// that berth notices a log whose end was cut off.
	Audit Kind = "audit"
)

// Lease is a lease as the journal keeps it. Its id and its fence are those of
// the entry.
type Lease struct {
	UID        int    `json:"uid"`
	Parent     string `json:"parent,omitempty"`
	User       string `json:"user,omitempty"`
	Service    string `json:"service,omitempty"`
	Name       string `json:"name,omitempty"`
	PID        int    `json:"pid,omitempty"`
	Start      uint64 `json:"start,omitempty"`
	Boot       string `json:"boot,omitempty"`
	Binding    string `json:"binding"`
	Implied    bool   `json:"implied,omitempty"`
	TTL        int64  `json:"ttl_ns,omitempty"`
	Granted    int64  `json:"granted_ns"`
	Expires    int64  `json:"expires_ns,omitempty"`
	Parts      []Part `json:"parts"`
	Priority   int    `json:"priority,omitempty"`
	State      string `json:"state"`
	EnforcedBy string `json:"enforced_by,omitempty"`
	Raised     bool   `json:"raised,omitempty"`
	Note       string `json:"note,omitempty"`

	Unit  string   `json:"unit,omitempty"`
	Scope []string `json:"scope,omitempty"`

	TimeLimit int64    `json:"time_limit_ns,omitempty"` // from the grant to the end
	Imposed   bool     `json:"imposed,omitempty"`       // its user did not choose the time limit
	Unchosen  bool     `json:"unchosen,omitempty"`      // nobody chose the time limit
	Groups    []string `json:"groups,omitempty"`        // whose limits together count the lease

	Parkable bool `json:"parkable,omitempty"`
	Unshared bool `json:"unshared,omitempty"`

	Optimize []string `json:"optimize,omitempty"` // what berth may do to a lease with a scope

	ParkedAt int64 `json:"parked_ns,omitempty"`   // 0 if it is active, or if an earlier berth parked it
	Returned int64 `json:"returned_ns,omitempty"` // 0 if it was never parked
	Paused   int64 `json:"paused_ns,omitempty"`   // how long it was parked before
	Asked    int64 `json:"asked_mb,omitempty"`    // MiB; what it had before berth shrank it

	Comment string `json:"comment,omitempty"`

	Exclusive bool `json:"exclusive,omitempty"` // it has its devices alone

	Pool bool   `json:"pool,omitempty"`       // its memory is for its children
	From uint64 `json:"from_fence,omitempty"` // the pool that its memory is from

	// ParentFence is the fence of the parent, and Run the program of berth's own that the
	// lease is for. An earlier berth wrote neither.
	ParentFence uint64 `json:"parent_fence,omitempty"`
	Run         Run    `json:"run,omitzero"`

	Cancelled *Cancelled `json:"cancelled,omitempty"` // absent if nobody has cancelled it
}

// Run is a program that berth itself runs.
type Run struct {
	Kind   string `json:"kind"`           // job or service
	Number int64  `json:"number"`         // of the job, or of the instance of the service
	Task   int    `json:"task,omitempty"` // of the job
}

// Cancelled says that somebody asked to end the programs of a lease.
type Cancelled struct {
	At  int64  `json:"at_ns"`
	By  By     `json:"by,omitzero"`
	Why string `json:"why,omitempty"`
	All bool   `json:"all,omitempty"` // it reaches every process of the lease
}

// Part holds what a lease has on one device.
type Part struct {
	GPU    string `json:"gpu"`
	Memory int64  `json:"memory_mb,omitempty"` // MiB
	Slots  int    `json:"slots,omitempty"`
}

// New returns an entry of a kind, with the lowest version that has this kind.
func New(kind Kind) Entry {
	e := Entry{Version: 1, Kind: kind}
	switch kind {
	case Bind:
		e.Version = 2
	case Scope, Detach, Resize:
		e.Version = 3
	case Audit:
		e.Version = 4
	}
	return e
}

// NewAudit returns an entry that names a line of the audit log.
func NewAudit(line AuditLine) Entry {
	e := New(Audit)
	e.AuditLine = line
	return e
}

// SetLease puts a lease into an entry, and raises the version of the entry if the lease
// needs that. An earlier berth refuses a lease that has neither memory nor slots, which
// only a child can be, and would let a lease outlive its time limit and groups exceed
// their limits. One that does not know how to park would let time go on for a parked
// lease, and end it too early. One that does not know pools would count their memory
// twice.
func (e *Entry) SetLease(l *Lease) {
	e.Lease = l
	if l.Pool || l.From != 0 {
		e.Version = max(e.Version, 6)
	}
	if e.Kind == Park || e.Kind == Resume || l.ParkedAt != 0 || l.Paused != 0 && l.TimeLimit != 0 {
		e.Version = max(e.Version, 5)
	}
	if l.TimeLimit != 0 || len(l.Groups) > 0 {
		e.Version = max(e.Version, 4)
	}
	for _, p := range l.Parts {
		if p.Memory == 0 && p.Slots == 0 {
			e.Version = max(e.Version, 3)
		}
	}
}

// ShareOwn gives the entry of a grant the version for an id that another lease of the same
// user has.
func (e *Entry) ShareOwn() { e.Version = max(e.Version, 7) }

// Share marks the grant of an id that a lease of another user has. To an earlier
// berth, ids are unique on the machine.
func (e *Entry) Share() { e.Version = max(e.Version, 4) }

// NewFence returns an entry that says how far fences have got, and in which
// boot of the machine. The daemon lets the fences jump when it starts and the
// last such entry is of another boot.
func NewFence(fence uint64, boot string) Entry {
	e := New(Fence)
	e.Fence, e.Why = fence, boot
	return e
}

// Nanoseconds returns a time as entries keep it; the zero time is 0.
func Nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Time converts back what Nanoseconds returned.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// VersionError refuses an entry that a newer berth wrote.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("read record: it has version %d and this berth knows versions up to %d; use the berth that wrote it, or a newer one",
		e.Version, Version)
}

// Decode reads an entry that lease.AppendEntry wrote. The entry is well formed, but it
// may still be false: lease.Book.Replay reports whether it follows from the
// entries before it.
func Decode(data []byte) (Entry, error) {
	var e Entry
	err := json.Unmarshal(data, &e)
	switch {
	case e.Version > Version: // whatever else is in it
		return Entry{}, &VersionError{e.Version}
	case err != nil:
		return Entry{}, fmt.Errorf("read record: %w", err)
	case e.Version < 1:
		return Entry{}, fmt.Errorf("read record: version %d does not exist", e.Version)
	}
	return e, nil
}
