// Package quickjson writes and reads structs as JSON in a fraction of the time that
// encoding/json takes.
//
// The struct is the list of its fields: a Codec takes their names, their order, what may
// be left out and which values are allowed from the tags that encoding/json and the API
// description use. Append writes JSON that decodes to the same value as the output of
// encoding/json. Read reads what Append wrote, and gives up on everything else, so that
// the caller asks encoding/json instead.
//
// Pure: no clock, no I/O.
package quickjson

import (
	"encoding/json"
	"reflect"
	"sync/atomic"
	"time"
	"unsafe"
)

// Codec writes and reads a T.
type Codec[T any] struct {
	// Inline has a value of each struct type below T that the codec writes and reads
	// itself. It leaves other structs to encoding/json, and does not read them.
	Inline []any
	// After moves fields, by name, behind another field of the same object. The others
	// have the order of the struct.
	After map[string]string
	// Loose makes Read take lists of texts, texts beyond ASCII and all values of a type,
	// and read with encoding/json what the codec leaves to that. It is for answers, in
	// which nothing is refused for its form.
	Loose bool

	table atomic.Pointer[object]
}

// object returns the table of T, and makes it at the first call.
func (c *Codec[T]) object() *object {
	if o := c.table.Load(); o != nil {
		return o
	}
	m := maker{after: c.After, loose: c.Loose}
	for _, each := range c.Inline {
		m.inline = append(m.inline, reflect.TypeOf(each))
	}
	o := m.object(reflect.TypeFor[T]())
	c.table.Store(o)
	return o
}

// Append appends v to dst as a JSON object without line breaks.
func (c *Codec[T]) Append(dst []byte, v *T) []byte {
	return c.object().append(dst, unsafe.Pointer(v))
}

// Read reads an object in the form that Append writes, with its fields in any order. It
// returns false for everything else, right or wrong, and for a value that the tags do not
// allow; v is zero then.
func (c *Codec[T]) Read(data []byte, v *T) bool {
	*v = *new(T)
	s := scanner{data: data, loose: c.Loose}
	c.object().read(&s, unsafe.Pointer(v))
	if !s.over() {
		*v = *new(T) // encoding/json would read into what is there
		return false
	}
	return true
}

// read reads an object into the struct at p.
func (o *object) read(s *scanner, p unsafe.Pointer) {
	var seen uint64
	next := 0 // the field that Append may have written next
	for key := range s.fields {
		i := o.index(key, next)
		if i < 0 || seen&(1<<i) != 0 {
			s.bad = true
			return
		}
		f := &o.fields[i]
		f.read(s, unsafe.Add(p, f.offset))
		seen |= 1 << i
		next = i + 1
	}
	s.bad = s.bad || o.required&^seen != 0
}

// index returns the index of the field with a name, or -1. It looks from next on first.
func (o *object) index(name []byte, next int) int {
	for i := next; i < len(o.fields); i++ {
		if o.fields[i].name == string(name) {
			return i
		}
	}
	for i := range min(next, len(o.fields)) {
		if o.fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

func (f *field) read(s *scanner, at unsafe.Pointer) {
	switch f.form {
	case pointed:
		value := reflect.New(f.typ).UnsafePointer()
		*(*unsafe.Pointer)(at) = value
		at = value
	case optional:
		*(*bool)(unsafe.Add(at, f.probe.at-f.offset)) = true
	}
	switch f.kind {
	case text:
		*(*string)(at) = s.text(f)
	case boolean:
		*(*bool)(at) = s.bool()
	case whole:
		*(*int)(at) = int(s.int(f.least, f.most))
	case long:
		*(*int64)(at) = s.int(f.least, f.most)
	case natural:
		*(*uint64)(at) = uint64(s.int(max(f.least, 0), f.most))
	case number:
		n := s.float()
		s.bad = s.bad || n < float64(f.least) || n > float64(f.most)
		*(*float64)(at) = n
	case moment:
		*(*time.Time)(at) = s.time()
	case section:
		f.of().read(s, at)
	case texts:
		s.bad = s.bad || !s.loose // nothing here checks how many there are, and how long
		items := []string{}
		for range s.items {
			items = append(items, string(s.quoted()))
		}
		*(*[]string)(at) = items
	case list:
		of := f.of()
		items := reflect.NewAt(f.typ, at).Elem()
		for n := range s.items {
			if n == items.Cap() {
				items.Grow(max(1, n)) // and not by a quarter, since items are large
			}
			items.SetLen(n + 1)
			of.read(s, unsafe.Add(items.UnsafePointer(), uintptr(n)*f.size))
		}
		if items.IsNil() {
			items.Set(reflect.MakeSlice(f.typ, 0, 0))
		}
	default:
		if value := s.raw(); !s.loose || json.Unmarshal(value, reflect.NewAt(f.typ, at).Interface()) != nil {
			s.bad = true
		}
	}
}
