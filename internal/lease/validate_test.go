package lease

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

func TestValidID(t *testing.T) {
	for _, id := range []string{
		"a", "job-7/plate 3", "0", strings.Repeat("x", 128), "日本語のジョブ", "é", "a:b@c#d", strings.Repeat("é", 128),
	} {
		if err := validID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for id, want := range map[string]string{
		"":                       "is empty",
		" a":                     "begins or ends with a space",
		"a ":                     "begins or ends with a space",
		strings.Repeat("x", 129): "is longer than 128 characters",
		strings.Repeat("é", 129): "is longer than 128 characters",
		strings.Repeat("x", 1e6): "is longer than 128 characters",
		"a\nb":                   "contains U+000A",
		"a\x00":                  "contains U+0000",
		"a\x7f":                  "contains U+007F",
		"a\u200bb":               "contains U+200B",
		"a\u202eb":               "contains U+202E",
		"a\u00a0b":               "contains U+00A0",
		"\xff\xfe":               "is not valid UTF-8",
	} {
		var fields FieldErrors
		if err := validID(id); !errors.As(err, &fields) || len(fields) != 1 || fields[0].Field != "allocation_id" || !strings.Contains(fields[0].Detail, want) {
			t.Errorf("%.20q: %v, want %q", id, err, want)
		}
	}
	named := Request{ID: "a", Holder: Holder{Service: "\n"}, GPUs: 1, Memory: 1, Binding: ByName}
	if err := named.Validate(); err == nil || !strings.HasPrefix(err.Error(), "request: service: ") {
		t.Errorf("service: %v", err)
	}
}

// validID validates a request that may only be wrong by its id.
func validID(id string) error {
	return (&Request{ID: id, GPUs: 1, Memory: 1, Binding: ByName}).Validate()
}

func TestMemoryProblem(t *testing.T) {
	for _, m := range []gpu.MiB{0, -1, math.MinInt64, math.MaxInt64, MaxMemory + 1} {
		if bad := MemoryProblem(m, 1); !strings.HasPrefix(bad, "is ") || !strings.Contains(bad, "from 1 to 1073741824") {
			t.Errorf("%d: %s", m, bad)
		}
	}
	if bad := MemoryProblem(1, 1) + MemoryProblem(MaxMemory, 1); bad != "" {
		t.Error(bad)
	}
}

func TestValidate(t *testing.T) {
	good := Request{
		ID: "a", Holder: alice(), GPUs: 1, Memory: 1, Binding: ByTTL, TTL: time.Minute,
		Requested: noon, Deadline: noon.Add(time.Second),
	}
	cases := []struct {
		name string
		edit func(*Request)
		want string // fields, in order
	}{
		{"nothing wrong", func(r *Request) {}, ""},
		{"slots only", func(r *Request) { r.Memory, r.Slots = 0, 1 }, ""},
		{"by process", func(r *Request) { r.Binding, r.TTL = ByProcess, 0 }, ""},
		{"no waiting", func(r *Request) { r.Deadline = r.Requested }, ""},
		{"the longest and the shortest", func(r *Request) { r.TTL, r.Deadline = MinTTL, noon.Add(MaxWait) }, ""},
		{"neither memory nor slots", func(r *Request) { r.Memory = 0 }, "memory_mb"},
		{"negative memory", func(r *Request) { r.Memory = -1 }, "memory_mb"},
		{"2^63 memory", func(r *Request) { r.Memory = math.MaxInt64 }, "memory_mb"},
		{"negative slots", func(r *Request) { r.Slots = -1 }, "slots"},
		{"too many slots", func(r *Request) { r.Slots = math.MaxInt }, "slots"},
		{"no device", func(r *Request) { r.GPUs = 0 }, "gpus"},
		{"too many devices", func(r *Request) { r.GPUs = math.MaxInt }, "gpus"},
		{"a bad service", func(r *Request) { r.Holder.Service = "a\tb" }, "service"},
		{"an unheard priority", func(r *Request) { r.Priority = math.MinInt }, "priority"},
		{"a century", func(r *Request) { r.TTL = 876000 * time.Hour }, "ttl_seconds"},
		{"a blink", func(r *Request) { r.TTL = time.Millisecond }, "ttl_seconds"},
		{"a negative time", func(r *Request) { r.TTL = -time.Hour }, "ttl_seconds"},
		{"a time to live for a name", func(r *Request) { r.Binding = ByName }, "ttl_seconds"},
		{"an unknown binding", func(r *Request) { r.Binding = "blood" }, "binding"},
		{"no process", func(r *Request) { r.Binding, r.TTL, r.Holder.PID = ByProcess, 0, 0 }, "binding"},
		{"no boot", func(r *Request) { r.Binding, r.TTL, r.Holder.Boot = ByProcess, 0, "" }, "binding"},
		{"a deadline in the past", func(r *Request) { r.Deadline = noon.Add(-1) }, "timeout_seconds"},
		{"no deadline", func(r *Request) { r.Deadline = time.Time{} }, "timeout_seconds"},
		{"waiting for ever", func(r *Request) { r.Deadline = noon.Add(MaxWait + 1) }, "timeout_seconds"},
		{"everything", func(r *Request) { *r = Request{Memory: -1, Slots: -1, Requested: noon} }, "allocation_id memory_mb slots gpus binding timeout_seconds"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := good
			c.edit(&r)
			err := r.Validate()
			var fields FieldErrors
			errors.As(err, &fields)
			var names []string
			for _, f := range fields {
				names = append(names, f.Field)
			}
			if got := strings.Join(slices.Compact(names), " "); got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestSeconds(t *testing.T) {
	for n, want := range map[float64]time.Duration{
		0: 0, 1.5: 1500 * time.Millisecond, -2: -2 * time.Second, 3e9: 3e9 * time.Second,
		1e10: math.MaxInt64, 1e300: math.MaxInt64, math.Inf(1): math.MaxInt64, -1e10: math.MinInt64, math.Inf(-1): math.MinInt64,
	} {
		if got := Seconds(n); got != want {
			t.Errorf("%g seconds are %s, want %s", n, got, want)
		}
	}
	if got := Seconds(math.NaN()); got != math.MinInt64 {
		t.Errorf("not a number of seconds is %s", got)
	}
}

func FuzzValidID(f *testing.F) {
	f.Add("job-7")
	f.Add("a\u202e\xff")
	f.Fuzz(func(t *testing.T, id string) {
		if validID(id) != nil {
			return
		}
		b := New()
		b.SetCapacity(dev(0), roomy)
		grant(t, b, &Request{ID: id, Memory: 1, Binding: ByName}, dev(0))
		again := New()
		replayText(t, again, b.Dump())
		if again.Lease(only(again, id)) == nil {
			t.Errorf("%q was not found again", id)
		}
	})
}
