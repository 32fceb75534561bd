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

	// kept has what a file of another version has, and this one does not apply.
	kept []value
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
// that is in an entry of users or groups, which may have given less than what is left, the
// entry gives the role viewer and no leases. The error says that the text is damaged as a
// whole.
func ParseKnown(name string, text []byte) (known Layer, unknown []Complaint, err error) {
	known, err = ParseSaved(name, text)
	if err == nil {
		return known, nil, nil
	}
	var tree map[string]any
	whole := slices.ContainsFunc(known.complaints, func(c Complaint) bool { return c.Field == "" })
	if whole || yaml.Unmarshal(text, &tree) != nil {
		return Layer{}, nil, err
	}
	unknown, known.complaints = known.complaints, nil
	for _, path := range known.refused {
		if v, there := within(tree, path); there {
			known.kept = append(known.kept, value{path: path, v: v})
		}
		if len(path) > 1 && (path[0] == "users" || path[0] == "groups") {
			known.shut(path[:2])
		}
	}
	return known, unknown, nil
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

// shut closes an entry of users or groups.
func (l *Layer) shut(entry []string) {
	fields := find(schema(), entry[0]).fields
	for key, text := range map[string]string{"role": "viewer", "leases": "0", "running_jobs": "0"} {
		path := append(slices.Clone(entry), key)
		if was, set := l.values[dotted(path)]; set && !was.shut {
			l.kept = append(l.kept, was)
		}
		v, err := find(fields, key).read(scalar{text, bare})
		if err != nil {
			panic("config: " + key + ": " + err.Error()) // a test closes an entry
		}
		l.values[dotted(path)] = value{path: path, v: v, source: source{rank: l.rank}, shut: true}
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
