package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/internal/text/document"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Layer holds the settings of one source and the complaints about it. The zero Layer sets
// nothing.
type Layer struct {
	rank       rank
	values     map[string]value // by dotted name
	complaints complaints
	bad        map[string]bool // names of refused settings
	refused    [][]string      // their paths

	// kept has what a file of another version has, and this one does not apply; unknown says
	// why.
	kept    []value
	unknown []Complaint
}

// rank orders sources from weak to strong.
type rank int

const (
	byDefault rank = iota
	inFile
	atRunTime
	inEnvironment
	byFlag
	inRequest // the body of a change to try, which is blamed first
)

// value is one setting from a source. A value of nil means only that an entry exists in a
// map.
type value struct {
	path   []string
	v      any
	source source
	shut   bool // no source says so: it closes an entry that is not understood whole
}

// source says where a value comes from.
type source struct {
	rank rank
	name string // "berth.yaml", "environment BERTH_LISTEN", "flag --listen"
	line int
}

// SavedAtRunTime is the source of settings that were changed at run time.
const SavedAtRunTime = "saved at run time"

func (s source) String() string {
	switch {
	case s.rank == byDefault:
		return "default"
	case s.rank == atRunTime:
		return SavedAtRunTime
	case s.rank == inRequest:
		return "in the same request"
	case s.line > 0:
		return fmt.Sprintf("%s:%d", s.name, s.line)
	}
	return s.name
}

func newLayer(r rank) Layer {
	return Layer{rank: r, values: map[string]value{}, bad: map[string]bool{}}
}

func (l *Layer) set(path []string, v any, from source) {
	from.rank = l.rank
	l.values[dotted(path)] = value{path: path, v: v, source: from}
}

func (l *Layer) complain(at source, path []string, reason string) {
	field := dotted(path)
	l.bad[field] = true
	l.refused = append(l.refused, slices.Clone(path))
	l.complaints.add(Complaint{Source: at.name, Line: at.line, Field: field, Reason: reason})
}

// take reads a setting written as plain text, as in environment and flags.
func (l *Layer) take(f *field, path []string, written string, from source) {
	v, err := f.read(scalar{written, bare})
	if err != nil {
		l.complain(from, path, err.Error())
		return
	}
	l.set(path, v, from)
}

// sorted returns the values by name.
func (l *Layer) sorted() []value {
	var list []value
	for _, name := range slices.Sorted(maps.Keys(l.values)) {
		list = append(list, l.values[name])
	}
	return list
}

// ParseYAML reads a configuration file. Complaints and Source call the file name. With an
// error, the layer holds the valid settings, and Merge repeats the complaints.
func ParseYAML(name string, text []byte) (Layer, error) {
	return parseFile(inFile, name, text, schema())
}

// ParseSaved reads the text that Change returned, stored in the file with this name.
func ParseSaved(name string, text []byte) (Layer, error) {
	return parseFile(atRunTime, name, text, slices.DeleteFunc(schema(), func(f field) bool { return f.key == "daemon" }))
}

// ParseKnown reads what ParseSaved reads, and leaves out what this version does not know or
// take, as after a downgrade: the layer keeps it, so that the next version finds it. Where
// that may have given less than what is left, nothing is given: see shut. The error says
// that the text is damaged as a whole.
func ParseKnown(name string, text []byte) (Layer, error) {
	known, err := ParseSaved(name, text)
	if err == nil {
		return known, nil
	}
	var tree map[string]any
	whole := slices.ContainsFunc(known.refused, func(path []string) bool { return len(path) == 0 })
	if whole || yaml.Unmarshal(text, &tree) != nil {
		return Layer{}, err
	}
	known.unknown, known.complaints = known.complaints, nil
	for _, path := range known.refused {
		if v, there := within(tree, path); there {
			known.kept = append(known.kept, value{path: path, v: v})
		}
		known.shut(path)
	}
	return known, nil
}

// leaveOut leaves out the settings that complaints are about, too. It returns false if the
// layer has none of them.
func (l *Layer) leaveOut(wrong []Complaint) (some bool) {
	before := l.values
	l.values = maps.Clone(before)
	for _, c := range wrong {
		for name, v := range before {
			if !v.shut && isBelow(name, c.Field) {
				some = true
				l.kept = append(slices.Clip(l.kept), v)
				delete(l.values, name)
				l.shut(v.path)
			}
		}
	}
	l.unknown = append(slices.Clip(l.unknown), wrong...)
	return some
}

// isBelow reports whether a setting is the one called section, or in that section.
func isBelow(name, section string) bool {
	return name == section || strings.HasPrefix(name, section+".")
}

// within returns what stands at a path of a tree.
func within(tree any, path []string) (v any, there bool) {
	for _, key := range path {
		section, _ := tree.(map[string]any)
		if tree, there = section[key]; !there {
			return nil, false
		}
	}
	return tree, true
}

// shut closes what a setting is about that is left out: an entry of users or groups gives the
// role viewer and no leases, and a service is for root if it is not known who may use it.
func (l *Layer) shut(path []string) {
	var closed map[string]any
	switch {
	case len(path) > 1 && (path[0] == "users" || path[0] == "groups"):
		closed = map[string]any{"role": "viewer", "leases": 0.0, "running_jobs": 0.0}
	case len(path) == 3 && path[0] == "services" && path[2] == "users":
		closed = map[string]any{"users": []string{"root"}}
	}
	for key, v := range closed {
		at := append(slices.Clone(path[:2]), key)
		if was, set := l.values[dotted(at)]; set && !was.shut {
			l.kept = append(l.kept, was)
		}
		l.values[dotted(at)] = value{path: at, v: v, source: source{rank: l.rank}, shut: true}
	}
}

func parseFile(r rank, name string, text []byte, fields []field) (Layer, error) {
	reader := reader{layer: newLayer(r), name: name, schema: fields}
	root, problem := document.Parse(text, document.Format{Noun: "the file", Bytes: maxDocument})
	if problem != nil {
		reader.report(*problem)
	} else {
		reader.section(fields, root)
	}
	return reader.layer, reader.layer.complaints.err()
}

// Flags reads command-line flags by dotted name, such as "daemon.listen".
func Flags(flags map[string]string) (Layer, error) {
	layer := newLayer(byFlag)
	known := map[string]*field{}
	each(schema(), nil, func(path []string, f *field) {
		if flagName(path, f) != "" {
			known[dotted(path)] = f
		}
	})
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		path := strings.Split(name, ".")
		f := known[name]
		if f == nil {
			layer.complain(source{name: "flag"}, path, "is not a setting: "+words.Suggest(name, slices.Sorted(maps.Keys(known)), allSettings))
			continue
		}
		layer.take(f, path, flags[name], source{name: "flag --" + flagName(path, f)})
	}
	return layer, layer.complaints.err()
}

// Paths returns the layer with the defaults from DefaultPaths. Merge refuses an empty
// path if nothing stronger sets it.
func Paths(stateDir, socket string) Layer {
	layer := newLayer(byDefault)
	layer.set([]string{"daemon", "state_dir"}, stateDir, source{})
	layer.set([]string{"daemon", "socket"}, socket, source{})
	return layer
}
