package config

import (
	"reflect"
	"slices"
)

// The functions here move values between a Config, or a part of one, and the
// paths of its fields.

// put stores a value that was read, and creates the map entry around it.
func put(fields []field, into reflect.Value, path []string, v any) {
	f := find(fields, path[0])
	at := into.FieldByIndex(f.index)
	switch {
	case f.isSetting():
		f.kind.store(v, at)
	case f.names == "":
		put(f.fields, at, path[1:], v)
	default:
		if at.IsNil() {
			at.Set(reflect.MakeMap(at.Type()))
		}
		name := reflect.ValueOf(path[1])
		entry := reflect.New(at.Type().Elem()).Elem()
		if old := at.MapIndex(name); old.IsValid() {
			entry.Set(old)
		} else {
			setDefaults(f.fields, entry)
		}
		if len(path) > 2 {
			put(f.fields, entry, path[2:], v)
		}
		at.SetMapIndex(name, entry)
	}
}

// setDefaults stores every default of a struct, except in maps.
func setDefaults(fields []field, into reflect.Value) {
	for _, f := range fields {
		switch at := into.FieldByIndex(f.index); {
		case f.names != "":
		case !f.isSetting():
			setDefaults(f.fields, at)
		case f.hasDef:
			v, err := f.read(scalar{f.def, bare})
			if err != nil {
				panic("config: default of " + f.key + ": " + err.Error())
			}
			f.kind.store(v, at)
		}
	}
}

// walk visits every setting in order, and map entries by name. v is nil for an absent
// setting.
func walk(fields []field, from reflect.Value, path []string, visit func(path []string, f *field, v any)) {
	for i := range fields {
		f := &fields[i]
		at := append(slices.Clip(path), f.key)
		value := from.FieldByIndex(f.index)
		switch {
		case f.isSetting():
			v, set := f.kind.load(value)
			if !set {
				v = nil
			}
			visit(at, f, v)
		case f.names == "":
			walk(f.fields, value, at, visit)
		default:
			for _, name := range sortedNames(value) {
				walk(f.fields, value.MapIndex(reflect.ValueOf(name)), append(at, name), visit)
			}
		}
	}
}

func sortedNames(m reflect.Value) []string {
	var names []string
	for _, key := range m.MapKeys() {
		names = append(names, key.String())
	}
	slices.Sort(names)
	return names
}
