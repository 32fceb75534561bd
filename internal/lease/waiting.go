package lease

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/stored"
	"github.com/berth-gpu/berth/internal/text/quickjson"
	"github.com/berth-gpu/berth/internal/text/words"
)

var waitingEntries = quickjson.Codec[stored.Waiting]{Inline: []any{stored.Run{}}}

// AppendWaiting appends an entry about a request that waits to dst, as JSON without a
// newline. ReadWaiting reads it.
func AppendWaiting(dst []byte, r *Request) []byte {
	h := &r.Holder
	deadline := r.Deadline
	if r.Absent {
		deadline = r.Until
	}
	return waitingEntries.Append(dst, &stored.Waiting{
		Version: stored.WaitingVersion, ID: r.ID, UID: h.UID, User: h.User, Run: storedRun(r.Run), Parent: r.Parent, ParentFence: r.ParentFence, Service: h.Service, Name: h.Name, PID: h.PID, Start: h.Start, Boot: h.Boot,
		Binding: string(r.Binding), TTL: int64(r.TTL), TimeLimit: int64(r.TimeLimit), GPUs: r.GPUs, Memory: int64(r.Memory), Slots: r.Slots, Exclusive: r.Exclusive, Least: int64(r.Least),
		Where: r.Where.String(), Only: r.Only, Preferred: r.Preferred, Policy: r.Policy, Priority: r.Priority, Groups: r.Groups, Unit: r.Unit,
		Requested: r.Requested.UnixNano(), Arrival: r.Arrival, Deadline: deadline.UnixNano(),
	})
}

// AppendGone appends an entry about a request that waits no longer.
func AppendGone(dst []byte, k Key) []byte {
	return waitingEntries.Append(dst, &stored.Waiting{Version: stored.WaitingVersion, Gone: true, ID: k.ID, UID: k.UID, User: k.User, Run: storedRun(k.Run)})
}

// ReadWaiting reads an entry that AppendWaiting or AppendGone wrote. It returns the key
// of the request, and the request as one whose client is absent; nil if it is gone.
func ReadWaiting(data []byte) (Key, *Request, error) {
	s, err := stored.DecodeWaiting(data)
	if err != nil {
		return Key{}, nil, err
	}
	h := Holder{User: s.User, UID: s.UID, Service: words.Service(s.Service), Name: s.Name, PID: s.PID, Start: s.Start, Boot: s.Boot}
	if s.Gone {
		return Key{h.Owner(), s.ID, restoredRun(s.Run)}, nil, nil
	}
	where, err := gpu.ParseWhere(s.Where)
	if err != nil {
		return Key{}, nil, err
	}
	r := &Request{
		ID: s.ID, Run: restoredRun(s.Run), Parent: s.Parent, ParentFence: s.ParentFence, Holder: h, Binding: Binding(s.Binding), TTL: time.Duration(s.TTL), TimeLimit: time.Duration(s.TimeLimit),
		GPUs: s.GPUs, Memory: gpu.MiB(s.Memory), Slots: s.Slots, Where: where, Only: s.Only, Preferred: s.Preferred, Policy: s.Policy,
		Priority: s.Priority, Groups: s.Groups, Requested: time.Unix(0, s.Requested), Arrival: s.Arrival, Absent: true, Until: time.Unix(0, s.Deadline),
		Least: gpu.MiB(s.Least), Terms: Terms{Exclusive: s.Exclusive, Unit: s.Unit},
	}
	r.Since = r.Requested
	return r.Key(), r, nil
}

// Returns reports whether r is the absent request asked again. Both have the same key.
// It must come from the same process; where no process holds the lease, the client may
// also say that it asks again.
func (r *Request) Returns(absent *Request) bool {
	same := r.Holder.PID != 0 && r.Holder.PID == absent.Holder.PID && r.Holder.Start == absent.Holder.Start && r.Holder.Boot == absent.Holder.Boot
	return absent.Absent && (same || r.Repeated && r.Binding != ByProcess)
}
