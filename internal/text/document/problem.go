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
	p := Problem{Code: NotSupported, Line: n.Line, Node: n}
	switch n.fault {
	case none:
		return true, true
	case alias:
		p.Code, p.Reason, p.Remedy = Repeated, "is an alias (*), which is not supported", "write the value itself"
	case tagged:
		p.Reason, p.Remedy = "has a tag (!), which is not supported", "write the plain value"
	case anchored:
		p.Reason, p.Remedy = "has an anchor (&), which is not supported", "remove it"
	case deep:
		p.Reason, p.Remedy = "is nested too deeply", "nothing is read that far down: check how far it is indented"
	case mergeKey:
		p.Code, p.Line, p.Node = Repeated, n.KeyLine, n.Parent
		p.Reason, p.Remedy = "has a merge key (<<), which is not supported", "write the entries themselves"
	case complexKey:
		p.Line, p.Node = n.KeyLine, n.Parent
		p.Reason, p.Remedy = "has a key that is not a plain word", "write one word before the colon"
	}
	return n.fault == anchored, report(p)
}
