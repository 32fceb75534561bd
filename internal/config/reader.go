package config

import (
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/internal/words"
)

// reader takes a document apart along the fields that are known.
type reader struct {
	layer  Layer
	name   string // of the file
	schema []field

	// cleared is called for what is null; nil where null means "not set".
	cleared func(path []string)
}

func (r *reader) at(line int) source { return source{name: r.name, line: line} }

func (r *reader) complain(line int, path []string, reason string, args ...any) {
	r.layer.complain(r.at(line), path, fmt.Sprintf(reason, args...))
}

// usable reports whether n is an object, and complains if it is neither that
// nor null.
func (r *reader) usable(n node, path []string) bool {
	switch {
	case n.refused != "":
		r.complain(n.line, path, "%s", n.refused)
	case n.shape == null:
		if r.cleared != nil {
			r.cleared(path)
		}
	case n.shape != object:
		r.complain(n.line, path, "must be a section of settings (key: value), not %s", n.shape)
	default:
		return true
	}
	return false
}

// unique visits the entries of an object once each, and complains about the
// ones that come again.
func (r *reader) unique(n node, path []string, visit func(e entry, at []string)) {
	first := map[string]int{}
	for _, e := range n.entries {
		if r.layer.complaints.full() {
			return
		}
		at := append(slices.Clip(path), e.key)
		line, again := first[e.key]
		switch {
		case again && line > 0:
			r.complain(e.line, at, "is set twice; the first time in line %d", line)
		case again:
			r.complain(e.line, at, "is set twice")
		default:
			first[e.key] = e.line
			visit(e, at)
		}
	}
}

func (r *reader) section(fields []field, n node, path []string) {
	if !r.usable(n, path) {
		return
	}
	r.unique(n, path, func(e entry, at []string) {
		switch f := find(fields, e.key); {
		case e.value.refused != "":
			r.complain(e.line, at, "%s", e.value.refused)
		case f == nil:
			r.unknown(fields, e, at)
		case f.isSetting():
			r.setting(f, e, at)
		case f.names != "":
			r.named(f, e.value, at)
		default:
			r.section(f.fields, e.value, at)
		}
	})
}

// named reads a map of sections.
func (r *reader) named(f *field, n node, path []string) {
	if !r.usable(n, path) {
		return
	}
	r.unique(n, path, func(e entry, at []string) {
		if err := checkText(f.check, e.key); err != nil {
			r.complain(e.line, path, "%v", err)
			return
		}
		r.layer.set(at, nil, r.at(e.line))
		r.section(f.fields, e.value, at)
	})
}

func (r *reader) setting(f *field, e entry, path []string) {
	var v any
	var err error
	switch n := e.value; {
	case n.shape == null && r.cleared != nil:
		r.cleared(path)
		return
	case n.shape == null && f.optional:
		return
	case n.shape == null:
		err = fmt.Errorf("has no value: give it one, or remove the line")
	case n.shape == listed && f.kind == list:
		v, err = f.readList(n.items)
	case n.shape != single:
		err = fmt.Errorf("must be %s, not %s", f.kind.wanted(), n.shape)
	default:
		v, err = f.read(n.scalar)
	}
	if err != nil {
		r.complain(e.line, path, "%v", err)
		return
	}
	r.layer.set(path, v, r.at(e.line))
}

// unknown says where a key belongs that is in the wrong place, or which one it
// resembles.
func (r *reader) unknown(fields []field, e entry, path []string) {
	var elsewhere string
	each(r.schema, nil, func(known []string, _ *field) {
		if known[len(known)-1] == e.key && elsewhere == "" {
			elsewhere = dotted(known[:len(known)-1])
		}
	})
	if elsewhere != "" {
		r.complain(e.line, path, "is not a setting here: it belongs under %s", elsewhere)
		return
	}
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	r.complain(e.line, path, "is not a setting: %s", words.Suggest(e.key, keys, allSettings))
}
