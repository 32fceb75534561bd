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
	"reflect"
	"sync/atomic"
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

	table atomic.Pointer[object]
}

// object returns the table of T, and makes it at the first call.
func (c *Codec[T]) object() *object {
	if o := c.table.Load(); o != nil {
		return o
	}
	m := maker{after: c.After}
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
// allow. It may then have set some fields of v.
func (c *Codec[T]) Read(data []byte, v *T) bool {
	*v = *new(T)
	s := scanner{data: data}
	c.object().read(&s, unsafe.Pointer(v))
	return s.over()
}
