package wire

import (
	"bytes"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Read reads a request in the form that Append writes, if nothing in it could be
// refused for its form; the policy alone may be one that does not exist. It returns
// false for everything else, right or wrong, and encoding/json finds out which.
func (r *RequestBody) Read(data []byte) bool {
	*r = RequestBody{}
	s := scanner{data: data}
	for key := range s.fields {
		switch string(key) {
		case "id":
			r.ID = s.text(128)
		case "parent":
			r.Parent = s.text(128)
		case "service":
			r.Service = s.text(128)
		case "name":
			r.Name = s.text(128)
		case "gpus":
			r.GPUs = int(s.int(1, 1024))
		case "memory_mb":
			r.Memory = gpu.MiB(s.int(0, 1<<30))
		case "slots":
			r.Slots = gpu.Some(int(s.int(0, 1<<16)))
		case "gpu":
			r.GPU = gpu.Ref(s.text(128))
		case "prefer":
			r.Prefer = gpu.Ref(s.text(128))
		case "policy":
			r.Policy = s.text(128)
		case "where":
			r.Where = s.text(512)
		case "binding":
			r.Binding = s.oneOf("process", "ttl", "named")
		case "ttl_seconds":
			r.TTL = gpu.Some(s.float())
		case "timeout_seconds":
			r.Timeout = gpu.Some(s.float())
		case "time_limit_seconds":
			r.TimeLimit = gpu.Some(s.float())
		case "pid":
			r.PID = int(s.int(0, 1<<31))
		case "priority":
			r.Priority = gpu.Some(int(s.int(0, 1<<20)))
		case "learned_memory":
			r.Learned = s.bool()
		case "unit":
			r.Unit = s.text(128)
		case "enforce":
			r.Enforce = s.oneOf("auto", "mps", "framework", "watchdog", "none")
		case "isolation":
			r.Isolation = s.oneOf("env", "cgroup")
		case "parkable":
			r.Parkable = s.bool()
		case "unshared":
			r.Unshared = s.bool()
		default:
			return false
		}
	}
	return s.over()
}

// Read reads a release as RequestBody.Read reads a request.
func (r *ReleaseBody) Read(data []byte) bool {
	*r = ReleaseBody{}
	s := scanner{data: data}
	for key := range s.fields {
		switch string(key) {
		case "id":
			r.ID = s.text(512)
		case "user":
			r.User = s.text(256)
		case "fence":
			r.Fence = uint64(s.int(0, 1<<62))
		default:
			return false
		}
	}
	return s.over() && r.ID != ""
}

// Read reads a renewal as RequestBody.Read reads a request.
func (r *RenewalBody) Read(data []byte) bool {
	*r = RenewalBody{}
	s := scanner{data: data}
	for key := range s.fields {
		switch string(key) {
		case "id":
			r.ID = s.text(512)
		case "user":
			r.User = s.text(256)
		case "fence":
			r.Fence = uint64(s.int(1, 1<<62))
		case "ttl_seconds":
			r.TTL = gpu.Some(s.float())
		default:
			return false
		}
	}
	return s.over() && r.ID != "" && r.Fence != 0
}

// Read reads a lease as RequestBody.Read reads a request.
func (l *LeaseBody) Read(data []byte) bool {
	s := scanner{data: data}
	l.read(&s)
	return s.over()
}

func (l *LeaseBody) read(s *scanner) {
	*l = LeaseBody{}
	for key := range s.fields {
		switch string(key) {
		case "id":
			l.ID = s.text(512)
		case "fence":
			l.Fence = uint64(s.int(0, 1<<62))
		case "state":
			l.State = s.text(64)
		case "parent":
			l.Parent = s.text(512)
		case "holder":
			readHolder(&l.Holder, s)
		case "binding":
			l.Binding = s.text(64)
		case "granted":
			l.Granted = s.time()
		case "ttl_seconds":
			l.TTL = s.float()
		case "expires":
			expires := s.time()
			l.Expires = &expires
		case "time_limit_seconds":
			l.TimeLimit = s.float()
		case "ends":
			ends := s.time()
			l.Ends = &ends
		case "parts":
			s.bad = s.bad || l.Parts != nil // a duplicate field
			l.Parts = make([]api.LeasePart, 0, 1)
			for range s.items {
				var p api.LeasePart
				readPart(&p, s)
				l.Parts = append(l.Parts, p)
			}
		case "priority":
			l.Priority = int(s.int(-1<<31, 1<<31))
		case "enforced_by":
			l.EnforcedBy = s.text(64)
		case "isolated_by":
			l.IsolatedBy = s.text(64)
		case "note":
			l.Note = s.text(4096)
		case "unit":
			l.Unit = s.text(512)
		case "energy_joules":
			l.Energy = gpu.Some(gpu.Joules(s.float()))
		case "heir_pid":
			l.Heir = int(s.int(1, 1<<31))
		case "parkable":
			l.Parkable = s.bool()
		case "unshared":
			l.Unshared = s.bool()
		default:
			s.bad = true
		}
	}
}

// Read reads the end of a lease as RequestBody.Read reads a request.
func (e *EndedBody) Read(data []byte) bool {
	*e = EndedBody{}
	s := scanner{data: data}
	for key := range s.fields {
		switch string(key) {
		case "id":
			e.ID = s.text(512)
		case "lease":
			s.bad = s.bad || e.Lease != nil // a duplicate field
			e.Lease = new(api.Lease)
			(*LeaseBody)(e.Lease).read(&s)
		default:
			return false
		}
	}
	return s.over()
}

func readHolder(h *api.Holder, s *scanner) {
	for key := range s.fields {
		switch string(key) {
		case "service":
			h.Service = s.text(512)
		case "name":
			h.Name = s.text(512)
		case "user":
			h.User = s.text(512)
		case "uid":
			h.UID = gpu.Some(int(s.int(0, 1<<32)))
		case "pid":
			h.PID = int(s.int(0, 1<<31))
		default:
			s.bad = true
		}
	}
}

func readPart(p *api.LeasePart, s *scanner) {
	for key := range s.fields {
		switch string(key) {
		case "gpu":
			p.GPU = s.text(512)
		case "index":
			p.Index = gpu.Some(int(s.int(0, 1<<31)))
		case "memory_mb":
			p.Memory = gpu.MiB(s.int(0, 1<<50))
		case "slots":
			p.Slots = int(s.int(0, 1<<31))
		case "measured_mb":
			p.Measured = gpu.Some(gpu.MiB(s.int(0, 1<<50)))
		default:
			s.bad = true
		}
	}
}

// scanner reads compact JSON of a simple kind: no spaces, no escapes, no characters
// beyond ASCII, no null. It reads nothing after the first violation.
type scanner struct {
	data []byte
	at   int
	bad  bool
}

// over reports whether all input was read without a violation.
func (s *scanner) over() bool { return !s.bad && s.at == len(s.data) }

// take reads one byte if it is c.
func (s *scanner) take(c byte) bool {
	if s.bad || s.at >= len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// expect reads one byte that must be c.
func (s *scanner) expect(c byte) {
	if !s.take(c) {
		s.bad = true
	}
}

// fields iterates over the keys of an object. The body of the loop reads the values.
func (s *scanner) fields(yield func(key []byte) bool) {
	s.expect('{')
	if s.take('}') {
		return
	}
	for !s.bad {
		key := s.quoted()
		s.expect(':')
		if s.bad || !yield(key) || s.take('}') {
			return
		}
		s.expect(',')
	}
}

// items iterates over a list. The body of the loop reads the items.
func (s *scanner) items(yield func() bool) {
	s.expect('[')
	if s.take(']') {
		return
	}
	for !s.bad {
		if !yield() || s.take(']') {
			return
		}
		s.expect(',')
	}
}

// quoted reads a string.
func (s *scanner) quoted() []byte {
	s.expect('"')
	begin := s.at
	for !s.bad && s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return s.data[begin : s.at-1]
		case c < ' ', c >= 0x7f, c == '\\':
			s.bad = true
		}
		s.at++
	}
	s.bad = true
	return nil
}

// text reads a string of up to most characters.
func (s *scanner) text(most int) string {
	text := s.quoted()
	if len(text) > most {
		s.bad = true
	}
	return string(text)
}

// oneOf reads a string that is one of words.
func (s *scanner) oneOf(words ...string) string {
	text := s.quoted()
	for _, word := range words {
		if string(text) == word {
			return word
		}
	}
	s.bad = true
	return ""
}

// bool reads true or false.
func (s *scanner) bool() bool {
	for _, word := range [...]string{"true", "false"} {
		if !s.bad && bytes.HasPrefix(s.data[s.at:], []byte(word)) {
			s.at += len(word)
			return word == "true"
		}
	}
	s.bad = true
	return false
}

// digits reads at least one digit, and returns where the digits begin.
func (s *scanner) digits() (begin int) {
	begin = s.at
	for !s.bad && s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	if s.at == begin {
		s.bad = true
	}
	return begin
}

// int reads a whole number between least and most.
func (s *scanner) int(least, most int64) int64 {
	negative := s.take('-')
	begin := s.digits()
	if n := s.at - begin; s.bad || n > 18 || n > 1 && s.data[begin] == '0' {
		s.bad = true
		return 0
	}
	var value int64
	for _, c := range s.data[begin:s.at] {
		value = 10*value + int64(c-'0')
	}
	if negative {
		value = -value
	}
	if value < least || value > most {
		s.bad = true
	}
	return value
}

// float reads a number without an exponent.
func (s *scanner) float() float64 {
	from := s.at
	s.take('-')
	if begin := s.digits(); !s.bad && s.at-begin > 1 && s.data[begin] == '0' {
		s.bad = true
	}
	if s.take('.') {
		s.digits()
	}
	if s.bad {
		return 0
	}
	value, err := strconv.ParseFloat(string(s.data[from:s.at]), 64)
	if err != nil {
		s.bad = true
	}
	return value
}

func (s *scanner) time() time.Time {
	var t time.Time
	if err := t.UnmarshalText(s.quoted()); err != nil {
		s.bad = true
	}
	return t
}
