package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
)

// Changeable returns the settings that Change takes, in the form of its JSON object: the
// settings of gpu, and beside them the other sections. Durations are in seconds and
// absent values are null. For single devices and services, it has only what is set. It
// leaves out secrets, hooks, because they hold some, and users and groups, because not
// everybody may see their names.
func (c Config) Changeable() ([]byte, error) {
	root := schema()
	var inner, beside bytes.Buffer
	if err := writeObject(&inner, find(root, "gpu").fields, reflect.ValueOf(c.GPU), false); err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(sectionsBeside(root), func(f field) bool {
		return f.key == "daemon" || f.key == "hooks" || f.key == "users" || f.key == "groups"
	})
	err := writeObject(&beside, others, reflect.ValueOf(c), false)
	return append(append(bytes.TrimSuffix(inner.Bytes(), []byte("}")), ','), beside.Bytes()[1:]...), err
}

// writeObject keeps the order of the fields, which a map would lose.
func writeObject(b *bytes.Buffer, fields []field, from reflect.Value, sparse bool) error {
	comma := byte('{')
	start := func(key string) {
		b.WriteByte(comma)
		comma = ','
		b.WriteString(`"` + key + `":`)
	}
	for _, f := range fields {
		at := from.FieldByIndex(f.index)
		if !f.isSetting() {
			start(f.key)
			write := writeEntries
			if f.names == "" {
				write = func(b *bytes.Buffer, fields []field, at reflect.Value) error {
					return writeObject(b, fields, at, sparse)
				}
			}
			if err := write(b, f.fields, at); err != nil {
				return err
			}
			continue
		}
		if f.secret {
			continue
		}
		v, ok := f.kind.load(at)
		if sparse && (!ok || v == "") {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		start(f.key)
		b.Write(text)
	}
	if comma == '{' {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return nil
}

func writeEntries(b *bytes.Buffer, fields []field, m reflect.Value) error {
	entries := map[string]json.RawMessage{}
	for _, name := range sortedNames(m) {
		var entry bytes.Buffer
		if err := writeObject(&entry, fields, m.MapIndex(reflect.ValueOf(name)), true); err != nil {
			return err
		}
		entries[name] = entry.Bytes()
	}
	text, err := json.Marshal(entries)
	b.Write(text)
	return err
}
