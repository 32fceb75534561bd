package config

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// MarshalJSON writes the section as it travels: flat, durations in seconds,
// null for what is absent, and of single devices only what is set for them.
func (g GPU) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := writeObject(&b, find(schema(), "gpu").fields, reflect.ValueOf(g), false)
	return b.Bytes(), err
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
			if err := writeEntries(b, f.fields, at); err != nil {
				return err
			}
			continue
		}
		v, ok := f.kind.load(at)
		if !ok && sparse {
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
