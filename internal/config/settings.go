package config

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
)

// Settings is a configuration, with the source of each setting. It is immutable: Change
// returns a new one.
type Settings struct {
	Config Config // read-only

	layers []Layer          // weakest first
	values map[string]value // the value of each setting from its strongest source
}

// Merge merges layers onto the defaults. A layer knows its rank, so their order does not
// matter: berth.yaml, what was saved at run time, environment, flags. The error is an
// *Error with everything that is wrong with the layers and with the whole. What a file of
// another version has may be wrong without what this one does not know of it: it is left
// out, too.
func Merge(layers ...Layer) (*Settings, error) {
	s, err := merge(layers)
	foreign := slices.IndexFunc(layers, func(l Layer) bool { return l.unknown != nil })
	for wrong := (*Error)(nil); foreign >= 0 && errors.As(err, &wrong) && layers[foreign].leaveOut(wrong.Complaints); {
		s, err = merge(layers)
	}
	return s, err
}

// Unknown says which settings a file of another version has that do not hold.
func (s *Settings) Unknown() (all []Complaint) {
	for _, layer := range s.layers {
		all = append(all, layer.unknown...)
	}
	return all
}

func merge(layers []Layer) (*Settings, error) {
	s := &Settings{
		Config: Default(),
		layers: slices.Clone(layers),
		values: map[string]value{},
	}
	slices.SortStableFunc(s.layers, func(a, b Layer) int { return cmp.Compare(a.rank, b.rank) })

	root := schema()
	var all complaints
	bad := map[string]bool{}
	for _, layer := range s.layers {
		all.add(layer.complaints...)
		maps.Copy(bad, layer.bad)
		for _, v := range layer.sorted() {
			put(root, reflect.ValueOf(&s.Config).Elem(), v.path, v.v)
			s.values[dotted(v.path)] = v
		}
	}
	all.add(s.check(root, bad)...)
	if err := all.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// Source says where a setting comes from: "default", "berth.yaml:12", "saved
// at run time", "environment BERTH_GPU_TEMP_OPTIMAL" or "flag --listen".
func (s *Settings) Source(field string) string { return s.values[field].source.String() }

// Setting is one setting with its present value.
type Setting struct {
	Name   string // dotted
	Value  string // as written in berth.yaml; never a secret
	Unit   string
	Source string
	Doc    string
}

// All lists the settings in order. For single devices and services, it lists only those
// that are set.
func (s *Settings) All() []Setting {
	var list []Setting
	walk(schema(), reflect.ValueOf(s.Config), nil, func(path []string, f *field, v any) {
		name := dotted(path)
		if _, set := s.values[name]; !set && len(path) > 2 {
			return
		}
		list = append(list, Setting{name, f.shown(v), f.kind.unit(), s.Source(name), f.doc})
	})
	return list
}

// Difference is a setting that differs between two configurations.
type Difference struct {
	Name    string // dotted
	Was, Is string // as people read them; "set" or "changed" for a secret
	Role    string // the least role that may change it at run time; empty means nobody
	Set     string // "socket": only on the Unix socket, and without a token; else empty
}

// Differences lists the settings that differ in next, by name. It includes a changed
// secret, but not its value.
func (s *Settings) Differences(next *Settings) []Difference {
	was, is := s.shownValues(), next.shownValues()
	var list []Difference
	for name := range maps.Keys(joined(was, is)) {
		before, after := was[name], is[name]
		if reflect.DeepEqual(before.v, after.v) {
			continue
		}
		d := Difference{Name: name, Was: before.shown, Is: after.shown, Role: cmp.Or(before.role, after.role), Set: cmp.Or(before.set, after.set)}
		if d.Was == d.Is {
			d.Is = "changed"
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Difference) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// shownValue is a value, its text for people, and the role that may change it.
type shownValue struct {
	v                any
	shown, role, set string
}

func (s *Settings) shownValues() map[string]shownValue {
	all := map[string]shownValue{}
	walk(schema(), reflect.ValueOf(s.Config), nil, func(path []string, f *field, v any) {
		all[dotted(path)] = shownValue{v, f.shown(v), f.role(path), f.set}
	})
	return all
}

func joined[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// Secrets lists the settings in a file that others must not read.
func (s *Settings) Secrets(file string) []string {
	var list []string
	walk(schema(), reflect.ValueOf(s.Config), nil, func(path []string, f *field, v any) {
		if name := dotted(path); f.closed && v != nil && v != "" && s.values[name].source.name == file {
			list = append(list, name)
		}
	})
	return list
}

// Override is a setting of berth.yaml that a stronger source overrides.
type Override struct {
	Setting          // the setting in force
	InFile    string // the value in the file
	File      string // its place: "berth.yaml:12"
	AtRunTime bool   // a change at run time decides, which can be reverted
}

// Overridden lists the settings of berth.yaml that a change at run time, the environment
// or a flag overrides.
func (s *Settings) Overridden() []Override {
	var list []Override
	for _, layer := range s.layers {
		if layer.rank != inFile {
			continue
		}
		walk(schema(), reflect.ValueOf(s.Config), nil, func(path []string, f *field, v any) {
			name := dotted(path)
			written, set := layer.values[name]
			if set && s.values[name].source.rank > inFile && !reflect.DeepEqual(written.v, v) {
				list = append(list, Override{
					Setting: Setting{name, f.shown(v), f.kind.unit(), s.Source(name), f.doc},
					InFile:  f.shown(written.v), File: written.source.String(), AtRunTime: s.values[name].source.rank == atRunTime,
				})
			}
		})
	}
	return list
}

// shown returns a value as text for people.
func (f *field) shown(v any) string {
	written := format(v)
	switch {
	case written == "":
		return f.absent
	case f.secret:
		return "set"
	}
	return written
}

// shownDefault returns the default of a setting as text for people.
func shownDefault(root []field, path []string, f *field) string {
	if f.hasDef {
		return f.def
	}
	shown := f.absent
	walk(root, reflect.ValueOf(Default()), nil, func(at []string, f *field, v any) {
		if slices.Equal(at, path) {
			shown = f.shown(v)
		}
	})
	return shown
}
