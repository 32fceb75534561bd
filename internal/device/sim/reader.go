package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/document"
)

// reader takes values out of a document and collects complaints instead of stopping at
// the first.
type reader struct {
	file       string
	complaints []complaint
}

type complaint struct {
	line int
	text string
}

// field is a key that a section may have, with the function that reads its value.
type field struct {
	key  string
	read func(*document.Node)
}

func (r *reader) complain(n *document.Node, format string, args ...any) {
	r.complaints = append(r.complaints, complaint{n.Line, fmt.Sprintf(format, args...)})
}

// report records a problem of the document.
func (r *reader) report(p document.Problem) (more bool) {
	text := p.Reason
	if p.Node != nil && p.Node.Parent != nil {
		text = clip(p.Node.Name()) + ": " + text
	}
	if p.Remedy != "" {
		text += ": " + p.Remedy
	}
	r.complaints = append(r.complaints, complaint{p.Line, text})
	return true
}

// err returns every complaint, in the order of the lines, or nil.
func (r *reader) err() error {
	const most = 20
	slices.SortStableFunc(r.complaints, func(a, b complaint) int { return a.line - b.line })
	var list []error
	for i, c := range r.complaints {
		if i == most {
			list = append(list, fmt.Errorf("%s: and %d more", r.file, len(r.complaints)-most))
			break
		}
		list = append(list, fmt.Errorf("%s:%d: %s", r.file, c.line, c.text))
	}
	return errors.Join(list...)
}

// section reads the values of the keys that a section may have. It reports whether n is a
// section at all.
func (r *reader) section(n *document.Node, what string, fields []field) bool {
	keys := document.Keys{What: "a key of " + what}
	for _, f := range fields {
		keys.Known = append(keys.Known, f.key)
	}
	for e := range n.Entries(keys, r.report) {
		fields[slices.Index(keys.Known, e.Key)].read(e)
	}
	return n.Shape == document.Section
}

// number reads a number from low to high.
func (r *reader) number(n *document.Node, key string, low, high float64, unit string) float64 {
	v, ok := n.Number()
	if !ok || !(v >= low && v <= high) {
		r.complain(n, "%s: expected a number from %s to %s (%s), got %s", key, plain(low), plain(high), unit, show(n))
		return low
	}
	return v
}

// whole reads a whole number from low to high.
func (r *reader) whole(n *document.Node, key string, low, high int, unit string) int {
	v := r.number(n, key, float64(low), float64(high), unit)
	if v != math.Trunc(v) {
		r.complain(n, "%s: expected a whole number, got %s", key, show(n))
		return low
	}
	return int(v)
}

func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// duration reads "90s", "1m30s", or a plain number of seconds.
func (r *reader) duration(n *document.Node, key string, shortest time.Duration) time.Duration {
	var d time.Duration
	seconds, err := strconv.ParseFloat(n.Text, 64)
	if err == nil && seconds >= 0 && seconds <= longest.Seconds() {
		d = time.Duration(seconds * float64(time.Second))
	} else {
		d, err = time.ParseDuration(n.Text)
	}
	if n.Shape != document.Single || err != nil || d < shortest || d > longest {
		r.complain(n, "%s: expected a duration such as 90s or 2m30s, at least %v and at most a year, got %s", key, shortest, show(n))
		return shortest
	}
	return d
}

// memory reads an amount of memory, which may be none.
func (r *reader) memory(n *document.Node, key string) float64 {
	if n.Shape == document.Single && n.Text == "0" {
		return 0
	}
	amount, err := gpu.ParseMiB(n.Text)
	if n.Shape != document.Single || err != nil {
		r.complain(n, "%s: expected an amount of memory such as 2048 (MiB) or 4GiB, got %s", key, show(n))
	}
	return float64(amount)
}

// text reads a plain word or sentence.
func (r *reader) text(n *document.Node, key, what string) string {
	if n.Shape != document.Single {
		r.complain(n, "%s: expected %s, got %s", key, what, show(n))
		return ""
	}
	return n.Text
}

// yes reads a switch that can only be on: to have it off, leave it out.
func (r *reader) yes(n *document.Node, key string) bool {
	if n.Shape != document.Single || n.Text != "true" {
		r.complain(n, "%s: expected true, got %s (say how long with for)", key, show(n))
	}
	return true
}

// show describes a value that is not what was expected.
func show(n *document.Node) string {
	if n.Shape == document.Single {
		return strconv.Quote(clip(n.Text))
	}
	return n.Shape.String()
}
