package quickjson

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unsafe"
)

func (o *object) append(dst []byte, p unsafe.Pointer) []byte {
	begin := len(dst)
	for i := range o.fields {
		f := &o.fields[i]
		if f.probe.zero(p) || f.probe.how == allOfIt && f.empty(p) {
			continue
		}
		at := unsafe.Add(p, f.offset)
		if f.form == pointed {
			at = *(*unsafe.Pointer)(at)
		}
		dst = append(dst, f.lead...)
		switch f.kind {
		case text:
			dst = appendText(dst, *(*string)(at))
		case whole:
			dst = strconv.AppendInt(dst, int64(*(*int)(at)), 10)
		case long:
			dst = strconv.AppendInt(dst, *(*int64)(at), 10)
		case natural:
			dst = strconv.AppendUint(dst, *(*uint64)(at), 10)
		case boolean:
			dst = strconv.AppendBool(dst, *(*bool)(at))
		case number:
			dst = appendFloat(dst, *(*float64)(at))
		case moment:
			dst = append((*time.Time)(at).AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
		case section:
			dst = f.of().append(dst, at)
		case texts:
			dst = append(dst, '[')
			for i, each := range *(*[]string)(at) {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = appendText(dst, each)
			}
			dst = append(dst, ']')
		case list:
			dst = append(dst, '[')
			items, of := (*[]struct{})(at), f.of()
			for i := range *items {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = of.append(dst, unsafe.Add(unsafe.Pointer(unsafe.SliceData(*items)), uintptr(i)*f.size))
			}
			dst = append(dst, ']')
		default:
			written, _ := json.Marshal(reflect.NewAt(f.typ, at).Interface()) // cannot fail for the types of the API
			dst = append(dst, written...)
		}
	}
	if len(dst) == begin {
		return append(dst, '{', '}')
	}
	dst[begin] = '{' // in place of the first comma
	return append(dst, '}')
}

// zero reports whether what the probe looks at in the struct at p is zero. It returns
// false for a probe that looks at nothing, or at all.
func (q probe) zero(p unsafe.Pointer) bool {
	switch q.how {
	case oneByte:
		return *(*byte)(unsafe.Add(p, q.at)) == 0
	case oneWord:
		return *(*uint64)(unsafe.Add(p, q.at)) == 0
	case aFloat:
		return *(*float64)(unsafe.Add(p, q.at)) == 0
	}
	return false
}

// empty reports whether a time or a section is zero.
func (f *field) empty(p unsafe.Pointer) bool {
	at := unsafe.Add(p, f.offset)
	if f.kind == moment {
		return (*time.Time)(at).IsZero()
	}
	return !slices.ContainsFunc(f.probes, func(q probe) bool { return !q.zero(at) })
}

// appendFloat appends NaN and infinities as they are. No reader accepts them, and
// encoding/json does not write them.
func appendFloat(dst []byte, n float64) []byte {
	if n >= 1 && n < 1e6 && n == math.Trunc(n) { // the usual number of seconds
		return strconv.AppendInt(dst, int64(n), 10)
	}
	if size := math.Abs(n); size >= 1e-6 && size < 1e21 { // Read takes no exponents
		return strconv.AppendFloat(dst, n, 'f', -1, 64)
	}
	return strconv.AppendFloat(dst, n, 'g', -1, 64)
}

func appendText(dst []byte, text string) []byte {
	if isPlain(text) {
		return append(append(append(dst, '"'), text...), '"')
	}
	quoted, _ := json.Marshal(text) // cannot fail for a string
	return append(dst, quoted...)
}

// isPlain reports whether JSON writes a text without escapes.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
