package quickjson

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// object is the table of the fields of a struct.
type object struct {
	fields   []field
	required uint64 // the set of the fields that Append never leaves out
}

// field is one field of a struct. It is small, because every call looks at all of them.
type field struct {
	name   string
	lead   string // what stands before its value, with the comma
	offset uint32
	probe  probe // tells whether it is left out
	form   form
	kind   kind
	*rest
}

// rest is what few calls need to know about a field.
type rest struct {
	typ  reflect.Type // of the value
	size uintptr      // of an item of a list

	maker *maker                 // of the table of a section, or of the items of a list
	item  reflect.Type           // what that table is of
	table atomic.Pointer[object] // nil until it is needed

	probes []probe // of the fields of a section, if allOfIt counts

	// What Read takes.
	shortest, longest int
	words             []string
	least, most       int64
}

// probe tells whether a value is zero or empty, by one word or byte of it.
type probe struct {
	at  uint32 // offset in the struct
	how how
}

// how says what a probe looks at.
type how uint8

const (
	nothing how = iota // the field is always there
	oneByte            // the byte of a bool, or of an optional value
	oneWord            // a whole number, a pointer, or the length of a text or a list
	aFloat             // a float64, which may be -0
	allOfIt            // all fields of a section
)

// form says where the value of a field is.
type form uint8

const (
	plain    form = iota
	pointed       // behind a pointer, which may be nil
	optional      // in a struct that says whether there is a value, such as gpu.Opt
)

// kind says how a value is kept in memory.
type kind uint8

const (
	other   kind = iota // for encoding/json
	boxed               // pointer, for encoding/json
	items               // slice, for encoding/json
	text                // string
	texts               // slice of strings
	boolean             // bool
	whole               // int
	long                // int64
	natural             // uint64
	number              // float64
	moment              // time.Time
	section             // struct
	list                // slice of structs
)

// kindsOf has the kind of each Go kind with one way to keep it.
var kindsOf = map[reflect.Kind]kind{
	reflect.Pointer: boxed, reflect.Slice: items, reflect.String: text, reflect.Bool: boolean, reflect.Int: whole, reflect.Int64: long, reflect.Uint64: natural, reflect.Float64: number,
}

// maker makes tables.
type maker struct {
	inline []reflect.Type
	after  map[string]string
	loose  bool
}

// object returns the table of a struct. It panics if it cannot, which is a mistake in the
// struct that the first use finds.
func (m *maker) object(t reflect.Type) *object {
	o := &object{fields: m.fields(nil, t, 0)}
	for moved, before := range m.after {
		from, to := o.find(moved), o.find(before)
		if from < 0 || to < 0 {
			continue
		}
		f := o.fields[from]
		o.fields = slices.Delete(o.fields, from, from+1)
		o.fields = slices.Insert(o.fields, o.find(before)+1, f)
	}
	if len(o.fields) > 64 {
		panic(fmt.Sprintf("quickjson: %v has more than 64 fields", t))
	}
	for i, f := range o.fields {
		if f.probe.how == nothing {
			o.required |= 1 << i
		}
	}
	return o
}

// of returns the table of a section, or of the items of a list, and makes it at the first
// call: few values have everything that they may have, and a command that runs for
// milliseconds makes no table in vain.
func (r *rest) of() *object {
	if o := r.table.Load(); o != nil {
		return o
	}
	o := r.maker.object(r.item)
	r.table.Store(o)
	return o
}

// fields appends the fields of a struct that begins at an offset. Those of a struct that
// it embeds stand in the same object.
func (m *maker) fields(all []field, t reflect.Type, at uint32) []field {
	all = slices.Grow(all, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Tag.Get("json") == "-" {
			continue
		}
		if _, named := sf.Tag.Lookup("json"); sf.Anonymous && !named && sf.Type.Kind() == reflect.Struct {
			all = m.fields(all, sf.Type, at+uint32(sf.Offset))
			continue
		}
		f := m.field(sf)
		f.offset += at
		f.probe.at += at
		all = append(all, f)
	}
	return all
}

// find returns the index of a field, or -1.
func (o *object) find(name string) int {
	return slices.IndexFunc(o.fields, func(f field) bool { return f.name == name })
}

func (m *maker) field(sf reflect.StructField) field {
	name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	f := field{name: name, lead: `,"` + name + `":`, offset: uint32(sf.Offset), rest: &rest{
		typ: sf.Type, longest: math.MaxInt, least: math.MinInt64, most: math.MaxInt64,
	}}
	if options != "" {
		f.probe = probeOf(sf)
	}
	if options == "omitzero" && sf.Type.Kind() == reflect.Slice {
		f.probe.at = uint32(sf.Offset) // its pointer: a list that is empty is not nil
	}
	switch t := sf.Type; {
	case t.Kind() == reflect.Pointer && m.codes(t.Elem()):
		f.form, f.typ = pointed, t.Elem()
	case isOptional(t):
		f.form, f.typ = optional, t.Field(0).Type
	}
	if name == "" || f.form != plain && f.probe.how == nothing {
		panic(fmt.Sprintf("quickjson: cannot write the field %s", sf.Name))
	}
	switch t := f.typ; {
	case t == reflect.TypeFor[time.Time]():
		f.kind = moment
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		f.kind = texts
	case m.codes(t):
		f.kind, f.maker, f.item = section, m, t
		for i := range t.NumField() {
			f.probes = append(f.probes, probeOf(t.Field(i)))
		}
	case t.Kind() == reflect.Slice && m.codes(t.Elem()):
		f.kind, f.maker, f.item, f.size = list, m, t.Elem(), t.Elem().Size()
	default:
		f.kind = kindsOf[t.Kind()]
	}
	if !m.loose {
		f.limit(sf)
	}
	return f
}

// limit takes from the tags of a field, and from its type, what Read takes.
func (f *field) limit(sf reflect.StructField) {
	f.shortest, f.longest = limit(sf, "minLength", 0), limit(sf, "maxLength", math.MaxInt)
	f.least, f.most = int64(limit(sf, "minimum", math.MinInt)), int64(limit(sf, "maximum", math.MaxInt))
	if words := sf.Tag.Get("enum"); words != "" {
		f.words = strings.Split(words, ",")
	}
	if limited, is := reflect.Zero(f.typ).Interface().(interface{ MaxLength() int }); is {
		f.longest = limited.MaxLength()
	}
}

// isOptional reports whether a type is a struct of a value and a bool that says whether
// there is one.
func isOptional(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() == 2 && t.Implements(reflect.TypeFor[interface{ Known() bool }]())
}

// probeOf returns the probe of a field.
func probeOf(sf reflect.StructField) probe {
	at := uint32(sf.Offset)
	switch t := sf.Type; {
	case isOptional(t):
		return probe{at + uint32(t.Field(1).Offset), oneByte}
	case t.Kind() == reflect.Bool:
		return probe{at, oneByte}
	case t.Kind() == reflect.String || t.Kind() == reflect.Slice:
		return probe{at + uint32(reflect.TypeFor[uintptr]().Size()), oneWord} // the pointer comes first
	case t.Kind() == reflect.Float64:
		return probe{at, aFloat}
	case t.Kind() == reflect.Struct:
		return probe{at, allOfIt}
	}
	return probe{at, oneWord}
}

// codes reports whether a table can have values of a type behind pointers and in lists.
func (m *maker) codes(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || slices.Contains(m.inline, t)
}

// limit returns the whole number in a tag, or without if there is no such tag.
func limit(sf reflect.StructField, tag string, without int) int {
	written, given := sf.Tag.Lookup(tag)
	if !given {
		return without
	}
	n, err := strconv.Atoi(written)
	if err != nil {
		panic(fmt.Sprintf("quickjson: the tag %s of the field %s: %v", tag, sf.Name, err))
	}
	return n
}
