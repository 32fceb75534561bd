package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// The bodies of frames. They are the types of package api with their own encoding:
// Append writes JSON that decodes to the same value as the output of encoding/json, and
// Read reads what Append wrote. Both take a fraction of the time, and every call on the
// lease stream goes through them: with encoding/json and its checks, an acquire and a
// release take 1.3 to 1.9 times as long.
type (
	RequestBody api.LeaseRequest
	ReleaseBody api.Release
	RenewalBody api.Renewal
	LeaseBody   api.Lease
	EndedBody   api.Ended
)

// Append appends the request to dst as JSON.
func (r *RequestBody) Append(dst []byte) []byte {
	w := writer{dst: append(dst, '{')}
	w.textUnlessEmpty("id", r.ID)
	w.textUnlessEmpty("parent", r.Parent)
	w.textUnlessEmpty("service", r.Service)
	w.textUnlessEmpty("name", r.Name)
	w.intUnlessZero("gpus", int64(r.GPUs))
	w.intUnlessZero("memory_mb", int64(r.Memory))
	w.optInt("slots", r.Slots)
	w.textUnlessEmpty("gpu", string(r.GPU))
	w.textUnlessEmpty("prefer", string(r.Prefer))
	w.textUnlessEmpty("policy", r.Policy)
	w.textUnlessEmpty("where", r.Where)
	w.textUnlessEmpty("binding", r.Binding)
	w.intUnlessZero("pid", int64(r.PID))
	w.optFloat("ttl_seconds", r.TTL)
	w.optFloat("timeout_seconds", r.Timeout)
	w.optInt("priority", r.Priority)
	w.trueUnlessFalse("learned_memory", r.Learned)
	w.textUnlessEmpty("enforce", r.Enforce)
	w.textUnlessEmpty("isolation", r.Isolation)
	w.textUnlessEmpty("unit", r.Unit)
	if len(r.Scope) > 0 {
		w.rare("scope", r.Scope)
	}
	if len(r.Parts) > 0 {
		w.rare("parts", r.Parts)
	}
	w.trueUnlessFalse("admitted", r.Admitted)
	if len(r.Caps) > 0 {
		w.rare("caps", r.Caps)
	}
	w.optFloat("time_limit_seconds", r.TimeLimit)
	w.trueUnlessFalse("parkable", r.Parkable)
	w.trueUnlessFalse("unshared", r.Unshared)
	return append(w.dst, '}')
}

// Append appends the release to dst as JSON.
func (r *ReleaseBody) Append(dst []byte) []byte {
	w := writer{dst: append(dst, '{')}
	w.text("id", r.ID)
	w.textUnlessEmpty("user", r.User)
	if r.Fence != 0 {
		w.uint("fence", r.Fence)
	}
	return append(w.dst, '}')
}

// Append appends the renewal to dst as JSON.
func (r *RenewalBody) Append(dst []byte) []byte {
	w := writer{dst: append(dst, '{')}
	w.text("id", r.ID)
	w.textUnlessEmpty("user", r.User)
	w.uint("fence", r.Fence)
	w.optFloat("ttl_seconds", r.TTL)
	return append(w.dst, '}')
}

// Append appends the lease to dst as JSON.
func (l *LeaseBody) Append(dst []byte) []byte {
	w := writer{dst: append(dst, '{')}
	w.text("id", l.ID)
	w.uint("fence", l.Fence)
	w.text("state", l.State)
	w.textUnlessEmpty("parent", l.Parent)
	w.key("holder")
	w.dst = appendHolder(w.dst, &l.Holder)
	w.text("binding", l.Binding)
	if !l.Granted.IsZero() {
		w.time("granted", l.Granted)
	}
	if l.TTL != 0 {
		w.float("ttl_seconds", l.TTL)
	}
	if l.Expires != nil {
		w.time("expires", *l.Expires)
	}
	if l.TimeLimit != 0 {
		w.float("time_limit_seconds", l.TimeLimit)
	}
	if l.Ends != nil {
		w.time("ends", *l.Ends)
	}
	w.key("parts")
	w.dst = append(w.dst, '[')
	for i, p := range l.Parts {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.dst = appendPart(w.dst, &p)
	}
	w.dst = append(w.dst, ']')
	w.int("priority", int64(l.Priority))
	w.text("enforced_by", l.EnforcedBy)
	w.textUnlessEmpty("isolated_by", l.IsolatedBy)
	w.trueUnlessFalse("stood", l.Stood)
	w.intUnlessZero("was_mb", int64(l.Was))
	w.textUnlessEmpty("note", l.Note)
	w.intUnlessZero("heir_pid", int64(l.Heir))
	if used, known := l.Energy.Get(); known {
		w.float("energy_joules", float64(used))
	}
	w.textUnlessEmpty("unit", l.Unit)
	if len(l.Scope) > 0 {
		w.rare("scope", l.Scope)
	}
	if len(l.Processes) > 0 {
		w.rare("processes", l.Processes)
	}
	if l.Waiting != nil {
		w.rare("waiting", l.Waiting)
	}
	if l.Launch != nil {
		w.rare("launch", l.Launch)
	}
	if l.Paced != nil {
		w.rare("paced", l.Paced)
	}
	w.trueUnlessFalse("parkable", l.Parkable)
	w.trueUnlessFalse("unshared", l.Unshared)
	if l.Parking != nil {
		w.rare("parking", l.Parking)
	}
	if l.Idle != nil {
		w.rare("idle", l.Idle)
	}
	w.intUnlessZero("asked_mb", int64(l.Asked))
	return append(w.dst, '}')
}

// Append appends the end of a lease to dst as JSON.
func (e *EndedBody) Append(dst []byte) []byte {
	w := writer{dst: append(dst, '{')}
	w.text("id", e.ID)
	if e.Lease != nil {
		w.key("lease")
		w.dst = (*LeaseBody)(e.Lease).Append(w.dst)
	}
	return append(w.dst, '}')
}

func appendHolder(dst []byte, h *api.Holder) []byte {
	w := writer{dst: append(dst, '{')}
	w.textUnlessEmpty("service", h.Service)
	w.textUnlessEmpty("name", h.Name)
	w.textUnlessEmpty("user", h.User)
	w.optInt("uid", h.UID)
	w.intUnlessZero("pid", int64(h.PID))
	return append(w.dst, '}')
}

func appendPart(dst []byte, p *api.LeasePart) []byte {
	w := writer{dst: append(dst, '{')}
	w.text("gpu", p.GPU)
	w.optInt("index", p.Index)
	w.int("memory_mb", int64(p.Memory))
	w.int("slots", int64(p.Slots))
	if measured, known := p.Measured.Get(); known {
		w.int("measured_mb", int64(measured))
	}
	return append(w.dst, '}')
}

// writer writes the fields of an object.
type writer struct{ dst []byte }

func (w *writer) key(name string) {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(append(append(w.dst, '"'), name...), '"', ':')
}

// rare writes a rare or long field.
func (w *writer) rare(name string, value any) {
	w.key(name)
	text, _ := json.Marshal(value) // cannot fail
	w.dst = append(w.dst, text...)
}

func (w *writer) text(name, value string) {
	w.key(name)
	if isPlain(value) {
		w.dst = append(append(append(w.dst, '"'), value...), '"')
		return
	}
	quoted, _ := json.Marshal(value) // cannot fail for a string
	w.dst = append(w.dst, quoted...)
}

// isPlain reports whether JSON writes a text without escapes.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (w *writer) trueUnlessFalse(key string, v bool) {
	if v {
		w.key(key)
		w.dst = append(w.dst, "true"...)
	}
}

func (w *writer) textUnlessEmpty(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func (w *writer) int(name string, value int64) {
	w.key(name)
	w.dst = strconv.AppendInt(w.dst, value, 10)
}

func (w *writer) uint(name string, value uint64) {
	w.key(name)
	w.dst = strconv.AppendUint(w.dst, value, 10)
}

func (w *writer) intUnlessZero(name string, value int64) {
	if value != 0 {
		w.int(name, value)
	}
}

// float writes NaN and infinities as they are. No reader accepts them, and
// encoding/json does not write them.
func (w *writer) float(name string, value float64) {
	w.key(name)
	w.dst = strconv.AppendFloat(w.dst, value, 'g', -1, 64)
}

func (w *writer) optInt(name string, value gpu.Opt[int]) {
	if v, known := value.Get(); known {
		w.int(name, int64(v))
	}
}

func (w *writer) optFloat(name string, value gpu.Opt[float64]) {
	if v, known := value.Get(); known {
		w.float(name, v)
	}
}

func (w *writer) time(name string, value time.Time) {
	w.key(name)
	w.dst = append(value.AppendFormat(append(w.dst, '"'), time.RFC3339Nano), '"')
}
