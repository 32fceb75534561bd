package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/internal/text/document"
	"github.com/berth-gpu/berth/internal/text/words"
)

// maxDocument is far more than the settings for every device of a large machine need.
const maxDocument = 1 << 20

// reader reads a document along the known fields.
type reader struct {
	layer  Layer
	name   string // of the file; empty for a body
	home   string // the section of the settings at the top of a body; empty for a file
	schema []field

	// cleared is called for each null, which returns a setting to what weaker sources
	// say. It is nil for a file, where null means "not set".
	cleared func(path []string)
}

// at returns the source of a line. The lines of a body mean nothing to people.
func (r *reader) at(line int) source {
	if r.name == "" {
		return source{}
	}
	return source{name: r.name, line: line}
}

// path returns the path of a setting. All spellings of a service have the same path.
func (r *reader) path(n *document.Node) []string {
	path := n.Path()
	if r.home != "" && (len(path) == 0 || find(r.schema, path[0]) == nil) {
		path = append([]string{r.home}, path...)
	}
	if len(path) > 1 && path[0] == "services" {
		path[1] = words.Service(path[1])
	}
	return path
}

// inLine says in which line of a file a node is.
func (r *reader) inLine(n *document.Node) string {
	if r.name == "" {
		return ""
	}
	return fmt.Sprintf(" in line %d", n.KeyLine)
}

// report turns a problem of the document into a complaint.
func (r *reader) report(p document.Problem) (more bool) {
	reason := p.Reason
	if p.Remedy != "" {
		reason += ": " + p.Remedy
	}
	var path []string
	if p.Node != nil {
		path = r.path(p.Node)
	}
	r.layer.complain(r.at(p.Line), path, reason)
	return r.layer.rank == atRunTime || !r.layer.complaints.full() // see ParseKnown
}

// null reports whether n is null. If so, it clears the setting or section.
func (r *reader) null(n *document.Node) bool {
	if n.Shape == document.Nothing && r.cleared != nil {
		r.cleared(r.path(n))
	}
	return n.Shape == document.Nothing
}

func (r *reader) section(fields []field, n *document.Node) {
	if r.null(n) {
		return
	}
	for e := range n.Entries(r.keys(fields), r.report) {
		switch f := find(fields, e.Key); {
		case f.isSetting():
			r.setting(f, e, r.path(e))
		case f.names != "":
			r.named(f, e)
		case f.short != "" && e.Shape == document.Single:
			r.setting(find(f.fields, f.short), e, append(r.path(e), f.short))
		default:
			r.section(f.fields, e)
		}
	}
}

func (r *reader) keys(fields []field) document.Keys {
	known := []string{}
	for _, f := range fields {
		known = append(known, f.key)
	}
	return document.Keys{What: "a setting", Known: known, Otherwise: allSettings, Elsewhere: r.elsewhere}
}

// elsewhere says where a setting with this key belongs; empty if nowhere.
func (r *reader) elsewhere(key string) string {
	var where string
	each(r.schema, nil, func(known []string, _ *field) {
		switch {
		case known[len(known)-1] != key || where != "":
		case len(known) == 1:
			where = "it belongs at the top, outside of every section"
		default:
			where = "it belongs under " + dotted(known[:len(known)-1])
		}
	})
	return where
}

// named reads a map of sections.
func (r *reader) named(f *field, n *document.Node) {
	if r.null(n) {
		return
	}
	spelled := map[string]*document.Node{} // by path
	for e := range n.Entries(document.Keys{}, r.report) {
		if err := checkText(f.check, e.Key); err != nil {
			r.layer.complain(r.at(e.KeyLine), r.path(n), err.Error())
			r.layer.refused[len(r.layer.refused)-1] = r.path(e) // and not the other entries
			continue
		}
		name := dotted(r.path(e))
		if first := spelled[name]; first != nil {
			r.layer.complain(r.at(e.KeyLine), r.path(n), fmt.Sprintf("%s%s and %s are the same service: put them together under one of the names", first.Key, r.inLine(first), e.Key))
			continue
		}
		spelled[name] = e
		r.layer.set(r.path(e), nil, r.at(e.KeyLine))
		r.section(f.fields, e)
	}
}

// setting reads the value of the setting at a path.
func (r *reader) setting(f *field, e *document.Node, path []string) {
	var v any
	var err error
	switch {
	case r.null(e):
		return
	case e.Shape == document.List && f.kind == list:
		v, err = f.readList(slices.Collect(e.All("", r.report)))
	case e.Shape == document.Section && f.kind == variables:
		v, err = f.readVariables(slices.Collect(e.Entries(document.Keys{}, r.report)))
	case e.Shape == document.List && f.kind == calls:
		v, err = r.calls(e)
	case e.Shape == document.Single && f.split:
		v, err = f.readCommand(e.Text)
	case e.Shape != document.Single:
		err = fmt.Errorf("must be %s, not %s", f.kind.wanted(), e.Shape)
	default:
		v, err = f.read(written(e))
	}
	if err != nil {
		r.layer.complain(r.at(e.KeyLine), path, err.Error())
		return
	}
	r.layer.set(path, v, r.at(e.KeyLine))
}

// calls reads a list of requests to a server. It reports what is wrong with their keys.
func (r *reader) calls(n *document.Node) (any, error) {
	list := []Call{}
	keys := document.Keys{What: "a part of a request", Known: []string{"method", "path", "body"}}
	for item := range n.All("", r.report) {
		if item.Shape != document.Section {
			return nil, errors.New("must be " + calls.wanted())
		}
		c := Call{Method: "POST"}
		for e := range item.Entries(keys, r.report) {
			if e.Shape != document.Single {
				return nil, fmt.Errorf("the %s of a request must be text, not %s", e.Key, e.Shape)
			}
			switch e.Key {
			case "method":
				c.Method = e.Text
			case "path":
				c.Path = e.Text
			case "body":
				c.Body = e.Text
			}
		}
		if err := c.check(); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// written returns a single value as written.
func written(n *document.Node) scalar {
	return scalar{n.Text, map[document.Type]tag{document.Text: quoted, document.Number: digits, document.Other: other}[n.Type]}
}
