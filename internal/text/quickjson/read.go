package quickjson

import (
	"reflect"
	"time"
	"unsafe"
)

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
		f.of.read(s, at)
	case list:
		items := reflect.NewAt(f.typ, at).Elem()
		for n := range s.items {
			items.Grow(1)
			items.SetLen(n + 1)
			f.of.read(s, unsafe.Add(items.UnsafePointer(), uintptr(n)*f.size))
		}
		if items.IsNil() {
			items.Set(reflect.MakeSlice(f.typ, 0, 0))
		}
	default:
		s.bad = true
	}
}
