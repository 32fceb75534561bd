package lease

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// RecordVersion is the newest version of a record that this berth knows. Each
// record has the lowest version that can say what it says: 2 for a bind, 1 for
// everything else. So an older berth reads a journal in which nothing newer has
// happened since it was last compacted.
//
// The promise on upgrade: a newer berth reads every record that an older one
// wrote. A field may be added under the same version only if a reader that does
// not know it still makes the same book without it; everything else raises the
// version. A berth that meets a version above its own refuses to read on and
// says so; it never guesses.
const RecordVersion = 2

// Record is a durable effect as it is stored, one JSON object. It is a type of
// its own so that the book can change without changing what was written.
// Times are nanoseconds since 1970, durations nanoseconds.
type Record struct {
	Version int          `json:"v"`
	Kind    Kind         `json:"kind"`
	Time    int64        `json:"time_ns,omitempty"`
	ID      string       `json:"id,omitempty"`
	Fence   uint64       `json:"fence"`
	Expires int64        `json:"expires_ns,omitempty"` // renew
	TTL     int64        `json:"ttl_ns,omitempty"`     // renew
	Why     string       `json:"why,omitempty"`        // for people
	Lease   *LeaseRecord `json:"lease,omitempty"`      // grant, bind
}

// FenceMark is the kind of a record that only says how far fences have got. A
// compacted journal needs it: the newest grant may have ended.
const FenceMark Kind = "fence"

// LeaseRecord is a lease as it is stored. Its id and fence are those of the
// record.
type LeaseRecord struct {
	User       string       `json:"user,omitempty"`
	UID        int          `json:"uid"`
	Service    string       `json:"service,omitempty"`
	Name       string       `json:"name,omitempty"`
	PID        int          `json:"pid,omitempty"`
	Start      uint64       `json:"start,omitempty"`
	Boot       string       `json:"boot,omitempty"`
	Binding    Binding      `json:"binding"`
	TTL        int64        `json:"ttl_ns,omitempty"`
	Granted    int64        `json:"granted_ns"`
	Expires    int64        `json:"expires_ns,omitempty"`
	Parts      []PartRecord `json:"parts"`
	Priority   int          `json:"priority,omitempty"`
	State      State        `json:"state"`
	EnforcedBy string       `json:"enforced_by,omitempty"`
	Raised     bool         `json:"raised,omitempty"`
	Note       string       `json:"note,omitempty"`
}

// PartRecord is a part of a lease as it is stored.
type PartRecord struct {
	GPU    string  `json:"gpu"`
	Memory gpu.MiB `json:"memory_mb,omitempty"`
	Slots  int     `json:"slots,omitempty"`
}

// RecordOf is the record of a durable effect.
func RecordOf(e *Effect) Record {
	l := e.Lease()
	r := Record{Version: 1, Kind: e.Kind, Time: e.Time.UnixNano(), ID: l.ID, Fence: l.Fence, Why: e.Why}
	switch e.Kind {
	case Granted:
		r.Lease = storedLease(l)
	case Bound:
		r.Version, r.Lease = 2, storedLease(l)
	case Renewed:
		r.Expires, r.TTL = l.Expires.UnixNano(), int64(l.TTL)
	}
	return r
}

// RecordOfLease is a record that gives back a lease as it is now, whatever has
// happened to it since its grant. A compacted journal begins with those of all
// leases in the order of Book.Leases, and then the FenceRecord.
func RecordOfLease(l *Lease) Record {
	return Record{
		Version: 1, Kind: Granted, Time: l.Granted.UnixNano(),
		ID: l.ID, Fence: l.Fence, Lease: storedLease(l),
	}
}

// FenceRecord is a record that says how far fences have got.
func FenceRecord(fence uint64) Record {
	return Record{Version: 1, Kind: FenceMark, Fence: fence}
}

func storedLease(l *Lease) *LeaseRecord {
	h := l.Holder
	s := &LeaseRecord{
		User: h.User, UID: h.UID, Service: h.Service, Name: h.Name, PID: h.PID, Start: h.Start, Boot: h.Boot,
		Binding: l.Binding, TTL: int64(l.TTL), Granted: l.Granted.UnixNano(),
		Parts: make([]PartRecord, len(l.Parts)), Priority: l.Priority, State: l.State,
		EnforcedBy: l.EnforcedBy, Raised: l.Raised, Note: l.Note,
	}
	if l.Binding == ByTTL {
		s.Expires = l.Expires.UnixNano()
	}
	for i, p := range l.Parts {
		s.Parts[i] = PartRecord(p)
	}
	return s
}

// lease is the other way round.
func (r *Record) lease() *Lease {
	s := r.Lease
	l := &Lease{
		ID: r.ID, Fence: r.Fence,
		Holder:  Holder{User: s.User, UID: s.UID, Service: s.Service, Name: s.Name, PID: s.PID, Start: s.Start, Boot: s.Boot},
		Binding: s.Binding, TTL: time.Duration(s.TTL), Granted: time.Unix(0, s.Granted),
		Parts: make([]Part, len(s.Parts)), Priority: s.Priority, State: s.State,
		EnforcedBy: s.EnforcedBy, Raised: s.Raised, Note: s.Note,
	}
	if s.Binding == ByTTL {
		l.Expires = time.Unix(0, s.Expires)
	}
	for i, p := range s.Parts {
		l.Parts[i] = Part(p)
	}
	return l
}

// VersionError refuses a record that a newer berth wrote.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("read record: it has version %d and this berth knows versions up to %d; use the berth that wrote it, or a newer one",
		e.Version, RecordVersion)
}

// DecodeRecord reads a record that Append wrote. What it returns is well formed
// but not yet true: Replay says whether it makes sense where it stands.
func DecodeRecord(data []byte) (Record, error) {
	var r Record
	err := json.Unmarshal(data, &r)
	switch {
	case r.Version > RecordVersion: // whatever else is in it
		return Record{}, &VersionError{r.Version}
	case err != nil:
		return Record{}, fmt.Errorf("read record: %w", err)
	case r.Version < 1:
		return Record{}, fmt.Errorf("read record: version %d does not exist", r.Version)
	}
	return r, nil
}
