package document

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/text/words"
)

// Keys says what a section may hold.
type Keys struct {
	What      string                  // what each entry is: "a setting", "a key of a step"
	Known     []string                // nil means that every key is known
	Otherwise string                  // advice about an unknown key that resembles none; empty means to choose from Known
	Elsewhere func(key string) string // returns where an unknown key belongs, or ""; may be nil
}

// Entries visits the entries of a section that have known keys, each key once.
// It reports what is wrong with the section and its keys, and ends early if
// report takes no more.
func (n *Node) Entries(keys Keys, report Report) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		if !n.is(Section, keys.shapes(), report) {
			return
		}
		first := make(map[string]int, len(n.Items))
		for _, e := range n.Items {
			line, again := first[e.Key]
			usable, more := false, true
			switch {
			case e.fault.ofKey():
				_, more = e.usable(report)
			case keys.Known != nil && !slices.Contains(keys.Known, e.Key):
				more = report(keys.unknown(e))
			case again:
				more = report(twice(e, line))
			default:
				first[e.Key] = e.KeyLine
				usable, more = e.usable(report)
			}
			if !more || usable && !yield(e) {
				return
			}
		}
	}
}

// All visits the items of a list. It reports a node that is not a list, and items that
// cannot be used; form says how to write the list.
func (n *Node) All(form string, report Report) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		if !n.is(List, form, report) {
			return
		}
		for _, item := range n.Items {
			if usable, more := item.usable(report); !more || usable && !yield(item) {
				return
			}
		}
	}
}

// is reports whether a node has the required shape. If not, it reports a problem. Only
// the root has not been checked before.
func (n *Node) is(shape Shape, remedy string, report Report) bool {
	if n.Parent == nil {
		if usable, more := n.usable(report); !usable || !more {
			return false
		}
	}
	if n.Shape == shape {
		return true
	}
	must := "must be " + shape.String()
	if shape == Section {
		must += " (key: value)"
	}
	report(Problem{Code: WrongShape, Line: n.Line, Node: n, Reason: must + ", not " + n.Shape.String(), Remedy: remedy})
	return false
}

// shapes says how to write the section, if its keys are known.
func (k Keys) shapes() string {
	if k.Known == nil || k.Otherwise != "" {
		return ""
	}
	return "it can have " + words.Few(k.Known, 20)
}

// unknown says where a misplaced key belongs, or which known key it resembles.
func (k Keys) unknown(e *Node) Problem {
	p := Problem{Code: UnknownKey, Line: e.KeyLine, Node: e, Reason: "is not " + k.What}
	if names := k.withWord(e.Key); len(names) > 0 && len(names) <= 3 { // nearer than what has this key elsewhere
		p.Remedy = "did you mean " + words.Or(names) + "?"
		return p
	}
	if k.Elsewhere != nil {
		if belongs := k.Elsewhere(e.Key); belongs != "" {
			p.Reason, p.Remedy = "is in the wrong place", belongs
			return p
		}
	}
	p.Remedy = words.Suggest(e.Key, k.Known, cmp.Or(k.Otherwise, k.shapes()))
	return p
}

// withWord returns the known keys that have a word among theirs, as running_jobs has jobs.
func (k Keys) withWord(word string) (names []string) {
	for _, known := range k.Known {
		if slices.Contains(strings.Split(known, "_"), word) {
			names = append(names, known)
		}
	}
	return names
}

func twice(e *Node, first int) Problem {
	reason := "is set twice"
	if first != e.KeyLine {
		reason += fmt.Sprintf(", the first time in line %d", first)
	}
	return Problem{Code: SetTwice, Line: e.KeyLine, Node: e, Reason: reason, Remedy: "remove one of them"}
}
