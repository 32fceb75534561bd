package document

// Problem describes one mistake in a document.
type Problem struct {
	Code   Code
	Line   int    // 0 if no line is at fault
	Node   *Node  // the node at fault; nil means the whole text
	Reason string // what is wrong, with Node as its subject: "is set twice"; a whole sentence if Node is nil
	Remedy string // what to do; may be empty
}

// Code names a kind of problem.
type Code string

// The codes.
const (
	TooLarge     Code = "too_large"     // more bytes than the format allows
	NotReadable  Code = "not_readable"  // neither YAML nor JSON, or more than one document
	NotSupported Code = "not_supported" // an anchor, a tag, a key that is not a word, or too much nesting
	Repeated     Code = "repeated"      // an alias or a merge key, which repeats another value
	WrongShape   Code = "wrong_shape"   // for example a list instead of a section
	UnknownKey   Code = "unknown_key"   // a key that means nothing here
	SetTwice     Code = "set_twice"     // a key that the section already has
)

// Report takes a problem and reports whether it takes more.
type Report func(Problem) (more bool)

// fault says why no caller can use a node.
type fault int

const (
	none fault = iota
	alias
	tagged
	anchored
	deep
	mergeKey
	complexKey
)

// ofKey reports whether the fault is in the key and not in the value.
func (f fault) ofKey() bool { return f == mergeKey || f == complexKey }

// usable reports a feature that the format does not have. It returns whether the value
// can be read in spite of it, and whether report takes more.
func (n *Node) usable(report Report) (usable, more bool) {
	if n.fault == none {
		return true, true
	}
	p := faults[n.fault]
	p.Line, p.Node = n.Line, n
	if n.fault.ofKey() {
		p.Line, p.Node = n.KeyLine, n.Parent
	}
	return n.fault == anchored, report(p)
}

// faults has the problem of each fault, without its place.
var faults = [...]Problem{
	alias:      {Code: Repeated, Reason: "is an alias (*), which is not supported", Remedy: "write the value itself"},
	tagged:     {Code: NotSupported, Reason: "has a tag (!), which is not supported", Remedy: "write the plain value"},
	anchored:   {Code: NotSupported, Reason: "has an anchor (&), which is not supported", Remedy: "remove it"},
	deep:       {Code: NotSupported, Reason: "is nested too deeply", Remedy: "nothing is read that far down: check how far it is indented"},
	mergeKey:   {Code: Repeated, Reason: "has a merge key (<<), which is not supported", Remedy: "write the entries themselves"},
	complexKey: {Code: NotSupported, Reason: "has a key that is not a plain word", Remedy: "write one word before the colon"},
}
