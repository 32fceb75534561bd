package query

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/history/series"
)

// script makes an expression out of bytes: each choice takes one.
type script struct {
	left  []byte
	depth int
}

// pick returns one of some texts.
func (s *script) pick(from ...string) string {
	if len(s.left) == 0 {
		return from[0]
	}
	n := int(s.left[0])
	s.left = s.left[1:]
	return from[n%len(from)]
}

// deeper reports whether an expression may have parts.
func (s *script) deeper() bool { return s.depth < 12 && len(s.left) > 0 }

func (s *script) length() string {
	return s.pick("1m", "1ms", "1s", "30s", "1h", "1d", "12h", "30d", "1y", "100y", "2m", "7s")
}

func (s *script) label() string {
	return s.pick(`"a"`, `"i"`, `"long"`, `"__name__"`, `"b"`, `"nothing"`)
}

func (s *script) selector() string {
	return s.pick(`many`, `up`, `many{i="7"}`, `{__name__=~".+"}`, `many{i=~"1.*"}`, `nothing`, `many{long!=""}`)
}

func (s *script) shift() string {
	return s.pick("", "", "", " offset 1m", " offset -1d", " @ 1700000060", " @ start()", " @ end() offset 1h")
}

// window writes something that has a range.
func (s *script) window() string {
	if !s.deeper() || s.pick("selector", "subquery") == "selector" {
		return s.selector() + "[" + s.length() + "]" + s.shift()
	}
	return "(" + s.vector() + ")[" + s.length() + ":" + s.pick("", s.length(), "1s", "1ms") + "]" + s.shift()
}

func (s *script) scalar() string {
	s.depth++
	defer func() { s.depth-- }()
	if !s.deeper() {
		return "1"
	}
	switch s.pick("number", "time", "scalar", "sum", "minus") {
	case "time":
		return "time()"
	case "scalar":
		return "scalar(" + s.vector() + ")"
	case "sum":
		return "(" + s.scalar() + s.pick(" + ", " * ", " / ", " % ", " ^ ", " == bool ") + s.scalar() + ")"
	case "minus":
		return "-" + s.scalar()
	}
	return s.pick("0", "1", "0.5", "1e9", "-1", "NaN", "Inf", "1000", "17")
}

// vector writes an expression whose value is a vector.
func (s *script) vector() string {
	s.depth++
	defer func() { s.depth-- }()
	if !s.deeper() {
		return s.selector()
	}
	switch s.pick("selector", "vector", "over", "replace", "join", "aggregate", "parameter", "values", "operator", "set", "match", "function", "quantiles", "absent", "time") {
	case "vector":
		return "vector(" + s.scalar() + ")"
	case "time":
		return "vector(time())"
	case "over":
		return s.pick("sum_over_time", "rate", "max_over_time", "count_over_time", "last_over_time", "stddev_over_time", "deriv", "changes", "absent_over_time", "irate", "present_over_time", "resets") + "(" + s.window() + ")"
	case "quantiles":
		if s.pick("over", "histogram") == "over" {
			return "quantile_over_time(" + s.scalar() + ", " + s.window() + ")"
		}
		return "histogram_quantile(" + s.scalar() + ", " + s.vector() + ")"
	case "replace":
		text := strings.Repeat(s.pick("$1", "${1}", "x", "$1-", "$2"), len(s.pick("1", "12", "1234567890", strings.Repeat("x", 100), strings.Repeat("x", 500))))
		return "label_replace(" + s.vector() + ", " + s.label() + `, "` + text + `", ` + s.label() + `, "` + s.pick("(.*)", "", "(.)(.*)", "(a|b|.)*", "((.*))+", ".{50}", strings.Repeat("(.?)", 40), "x*y*z*") + `")`
	case "join":
		return "label_join(" + s.vector() + ", " + s.label() + `, "` + s.pick("", "-", strings.Repeat("-", 300)) + `"` + strings.Repeat(", "+s.label(), len(s.pick("1", "12", "12345678", strings.Repeat("x", 60)))) + ")"
	case "aggregate":
		return s.pick("sum", "count", "max", "avg", "stddev", "group") + s.grouping() + "(" + s.vector() + ")"
	case "parameter":
		return s.pick("topk", "bottomk", "quantile") + s.grouping() + "(" + s.scalar() + ", " + s.vector() + ")"
	case "values":
		return "count_values" + s.grouping() + "(" + s.label() + ", " + s.vector() + ")"
	case "operator":
		return "(" + s.vector() + s.pick(" + ", " * ", " > ", " == bool ", " / ", " ^ ") + s.scalar() + ")"
	case "set":
		return "(" + s.vector() + s.pick(" or ", " and ", " unless ") + s.pick("", "on() ", "ignoring(i) ", "on(i) ") + s.vector() + ")"
	case "match":
		return "(" + s.vector() + s.pick(" + ", " > ", " / ") + s.pick("", "on(i) ", "ignoring(long) ", "on(i) group_left() ", "on(i) group_left(long, a) ", "on(i) group_right(b) ") + s.vector() + ")"
	case "function":
		return s.pick("abs", "sort", "timestamp", "hour", "ceil", "absent", "exp", "days_in_month", "-") + "(" + s.vector() + ")"
	case "absent":
		return `absent(many{a="` + strings.Repeat("y", len(s.pick("1", strings.Repeat("x", 900)))) + `"})`
	}
	return s.selector()
}

func (s *script) grouping() string { return s.pick("", " by (i) ", " without (long) ", " by () ") }

// used returns the memory that the process has of the system, and its CPU time.
func used() (bytes uint64, cpu time.Duration) {
	list := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(list)
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return list[0].Value.Uint64() - list[1].Value.Uint64(), time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Whatever is asked, the question ends when its time is over, and it takes no more
// memory than a daemon can spare.
func FuzzQueries(f *testing.F) {
	const (
		limit = 20 * time.Millisecond
		grace = 20 * time.Second // of CPU time, of a process that others share a machine with
		spare = 500 << 20
	)
	debug.SetMemoryLimit(200 << 20) // so that what is not needed is given back
	store := open(f, func(second int, add func(float64, string, ...string)) {
		if second%2 == 0 {
			add(1, "up")
			for i := range 200 {
				add(float64(second*i%97), "many", "i", fmt.Sprint(i), "long", strings.Repeat("x", 100), "le", fmt.Sprint(i%10))
			}
		}
	})
	e := New(store, Limits{Time: limit})
	f.Add([]byte{}, byte(0))
	for i := range 64 {
		f.Add([]byte(strings.Repeat(string(rune(' '+i))+"\x03\x01\x02\x07", 3+i%5)), byte(i))
	}
	f.Fuzz(func(t *testing.T, bytes []byte, kind byte) {
		if len(bytes) > 200 {
			return
		}
		s := &script{left: bytes}
		expr := s.vector()
		_, before := used()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		var err error
		var answer series.Answer
		switch over := []time.Duration{0, 0, 100 * time.Second, 1000 * time.Second, 24 * time.Hour, 365 * 24 * time.Hour}[kind%6]; over {
		case 0:
			answer, err = e.Instant(ctx, expr, at(120), series.Options{Waits: true})
		default:
			step := max(over/[]time.Duration{10, 100, 1000, 10_000}[kind/6%4], time.Millisecond)
			answer, err = e.Range(ctx, expr, at(120).Add(-over), at(120), step, series.Options{Waits: true})
		}
		if answer.Release != nil {
			answer.Release()
		}
		memory, after := used()
		if after-before > grace {
			t.Errorf("%s took %v of CPU time, and its limit was %v", expr, after-before, limit)
		}
		if memory > spare {
			t.Errorf("after %s the process has %d MiB", expr, memory>>20)
		}
		var found *series.Error
		if err != nil && (!errors.As(err, &found) || found.Fault == series.Internal || strings.Contains(found.Text, "unexpected error")) {
			t.Errorf("%s: %v", expr, err)
		}
		if len(e.places) != 0 {
			t.Errorf("%s left a place behind", expr)
		}
	})
}
