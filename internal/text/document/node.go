package document

import (
	"strconv"
	"strings"
)

// Node is one value of a document, the same for YAML and JSON.
type Node struct {
	Line    int    // where the value begins
	Key     string // its key in a section; empty in a list and for the root
	KeyLine int    // where the key stands
	Shape   Shape
	Text    string  // of a single value, as written, without quotes
	Type    Type    // of a single value
	Items   []*Node // of a list, or the entries of a section, in order, duplicates included
	Parent  *Node   // nil for the root
	Index   int     // in Items of Parent

	fault fault // why the value or its key cannot be used
}

// Shape says whether a value is single, a list or a section.
type Shape int

// The shapes. Refused is a value that Entries and All report and do not visit.
const (
	Nothing Shape = iota
	Single
	List
	Section
	Refused
)

func (s Shape) String() string {
	return [...]string{"nothing", "a single value", "a list", "a section", "a value that is not supported"}[s]
}

// Type is the type that YAML or JSON gives a single value.
type Type int

// The types of single values. Other is true, false, a date and the like.
const (
	Text Type = iota
	Number
	Other
)

// Number returns the value of n as a number. It reports false if n is not a number, or
// not a finite one.
func (n *Node) Number() (float64, bool) {
	if n.Shape != Single || n.Type != Number {
		return 0, false
	}
	digits := strings.ReplaceAll(n.Text, "_", "")
	if whole, err := strconv.ParseInt(digits, 0, 64); err == nil {
		return float64(whole), true
	}
	v, err := strconv.ParseFloat(digits, 64)
	return v, err == nil
}

// Entry returns the first entry of a section that has this key, or nil.
func (n *Node) Entry(key string) *Node {
	if n.Shape == Section {
		for _, e := range n.Items {
			if e.Key == key && !e.fault.ofKey() {
				return e
			}
		}
	}
	return nil
}

// Path returns the keys that lead from the root to n. For an item of a list, its position
// in brackets is the key.
func (n *Node) Path() []string {
	depth := 0
	for at := n; at.Parent != nil; at = at.Parent {
		depth++
	}
	path := make([]string, depth)
	for at := n; at.Parent != nil; at = at.Parent {
		depth--
		path[depth] = at.Key
		if at.Parent.Shape == List {
			path[depth] = "[" + strconv.Itoa(at.Index) + "]"
		}
	}
	return path
}

// Name returns the path of n as people write it: "timeline[2].load". It is
// empty for the root.
func (n *Node) Name() string {
	return strings.TrimPrefix(strings.ReplaceAll(strings.Join(n.Path(), "."), ".[", "["), ".")
}
