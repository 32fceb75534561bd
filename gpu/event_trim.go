package gpu

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"
)

// MaxEventJSON is the maximum size of a trimmed event as JSON, in bytes.
const MaxEventJSON = 4096

// The bounds of the parts of a trimmed event, in bytes as JSON. Any valid
// allocation id is within maxID.
const (
	maxText  = 1024 // Text, and Public
	maxID    = 768  // GPU, Lease and User each
	maxWord  = 64   // the code, the severity, and a key of Data
	maxValue = 256  // a string in Data
	maxItems = 64   // elements of a list or a map
	maxDepth = 3    // levels of maps and lists inside each other
	maxName  = 128  // the user in By
	maxAlso  = 8    // codes of what happened with it
	maxFrame = 300  // everything else: names of fields, punctuation, id, time and uid
)

const (
	maxNumber = 26 // bytes of any number
	maxTime   = 37 // bytes of a time with its quotation marks
)

// cutMark is the key in Data that says that Data is not complete.
const cutMark = "cut"

// Trimmed returns e within bounds: it takes at most [MaxEventJSON] bytes as JSON, its
// texts are safe to show, and Data holds plain values, so that e can always be encoded.
// Trimmed returns an event within bounds unchanged. If it leaves out part of Data, Data
// has the key cut.
func (e Event) Trimmed() Event {
	if e.fits() {
		return e
	}
	e.Time = trimTime(e.Time)
	e.Code = EventCode(Printable(string(e.Code), maxWord))
	e.Severity = Severity(Printable(string(e.Severity), maxWord))
	e.Also = slices.Clone(e.Also[:min(len(e.Also), maxAlso)])
	for i := range e.Also {
		e.Also[i] = EventCode(Printable(string(e.Also[i]), maxWord))
	}
	e.GPU, e.Lease, e.User = Printable(e.GPU, maxID), Printable(e.Lease, maxID), Printable(e.User, maxID)
	e.By.User, e.By.Token = Printable(e.By.User, maxName), Printable(e.By.Token, maxWord)
	e.By.Door, e.By.Agent = Printable(e.By.Door, maxWord), Printable(e.By.Agent, maxWord)
	e.Text, e.Public = Printable(e.Text, maxText), Printable(e.Public, maxText)
	size, _ := e.measure()
	if _, fits := measureValue(e.Data, 0, MaxEventJSON-size); !fits {
		e.Data = trimData(e.Data, MaxEventJSON-size)
	}
	return e
}

func (e *Event) fits() bool {
	size, fits := e.measure()
	if !fits {
		return false
	}
	_, fits = measureValue(e.Data, 0, MaxEventJSON-size)
	return fits
}

// measure returns the maximum size of e as JSON without Data, in bytes. It reports false
// if a part of e exceeds its bound.
func (e *Event) measure() (size int, fits bool) {
	size = maxFrame
	fits = encodable(e.Time)
	for _, part := range [...]struct {
		text string
		most int
	}{{string(e.Code), maxWord}, {string(e.Severity), maxWord}, {e.GPU, maxID}, {e.Lease, maxID}, {e.User, maxID}, {e.Text, maxText},
		{e.By.User, maxName}, {e.By.Token, maxWord}, {e.By.Door, maxWord}, {e.By.Agent, maxWord}} {
		n, within := measure(part.text, part.most)
		size += n
		fits = fits && within
	}
	for _, code := range e.Also {
		n, within := measure(string(code), maxWord)
		size += n + 3 // quotation marks, comma
		fits = fits && within
	}
	fits = fits && len(e.Also) <= maxAlso
	_, within := measure(e.Public, maxText)
	return size, fits && within
}

// measureValue returns the maximum size of v as JSON, in bytes. It reports false if the
// size exceeds room, or if v is not a plain value within bounds.
func measureValue(v any, depth, room int) (size int, fits bool) {
	switch v := v.(type) {
	case nil, bool:
		size = 5
	case string:
		n, within := measure(v, maxValue)
		return n + 2, within && n+2 <= room
	case int, int64, uint64:
		size = maxNumber
	case time.Time:
		return maxTime, encodable(v) && maxTime <= room
	case map[string]any:
		return measureMap(v, depth, room)
	case []string:
		return measureList(v, depth, room, func(element string) (int, bool) {
			n, within := measure(element, maxValue)
			return n + 2, within
		})
	case []any:
		return measureList(v, depth, room, func(element any) (int, bool) { return measureValue(element, depth+1, room) })
	default:
		return measureNamed(v, room)
	}
	return size, size <= room
}

func measureMap(m map[string]any, depth, room int) (size int, fits bool) {
	size = 4 // braces, or null
	if depth >= maxDepth || len(m) > maxItems {
		return 0, false
	}
	for key, value := range m {
		k, within := measure(key, maxWord)
		if !within {
			return 0, false
		}
		size += k + 4 // quotation marks, colon, comma
		v, within := measureValue(value, depth+1, room-size)
		if !within {
			return 0, false
		}
		size += v
	}
	return size, size <= room
}

func measureList[T any](list []T, depth, room int, measure func(T) (int, bool)) (size int, fits bool) {
	size = 4
	if depth >= maxDepth || len(list) > maxItems {
		return 0, false
	}
	for i := range list {
		n, within := measure(list[i])
		if size += n + 1; !within || size > room {
			return 0, false
		}
	}
	return size, size <= room
}

// measureNamed measures a value of any other type. Only types that are encoded as
// numbers, strings or booleans are plain.
func measureNamed(v any, room int) (size int, fits bool) {
	if encodesItself(v) {
		return 0, false
	}
	value := reflect.ValueOf(v)
	switch kind := value.Kind(); {
	case kind == reflect.String:
		n, within := measure(value.String(), maxValue)
		return n + 2, within && n+2 <= room
	case value.CanFloat():
		f := value.Float()
		return maxNumber, !math.IsNaN(f) && !math.IsInf(f, 0) && maxNumber <= room
	default:
		return maxNumber, (value.CanInt() || value.CanUint() || kind == reflect.Bool) && maxNumber <= room
	}
}

// encodesItself reports whether the size of v as JSON cannot be known from its
// kind.
func encodesItself(v any) bool {
	switch v.(type) {
	case json.Marshaler, encoding.TextMarshaler, json.Number:
		return true
	}
	return false
}

// trimData returns the part of data that fits into room.
func trimData(data map[string]any, room int) map[string]any {
	const mark = len(cutMark) + 2 + 1 + 5 + 1
	t := trimmer{}
	kept, _ := t.object(data, 0, room-mark, maxItems-1)
	if t.cut {
		kept[cutMark] = true
	}
	return kept
}

// trimmer makes values fit, and remembers whether it left something out.
type trimmer struct{ cut bool }

// value returns v within bounds and its maximum size as JSON, in bytes. ok is false if
// there is no room for v at all.
func (t *trimmer) value(v any, depth, room int) (trimmed any, size int, ok bool) {
	size, plain := measureValue(v, depth, MaxEventJSON)
	if plain && size <= room {
		return v, size, true
	}
	value := reflect.ValueOf(v)
	switch kind := value.Kind(); {
	case encodesItself(v) && !plain:
	case kind == reflect.String:
		return t.text(value.String(), room)
	case kind == reflect.Map && value.Type().Key().Kind() == reflect.String && depth < maxDepth && room > 4:
		byName := make(map[string]any, value.Len())
		for key, element := range value.Seq2() {
			byName[key.String()] = element.Interface()
		}
		trimmed, size = t.object(byName, depth, room, maxItems)
		return trimmed, size, true
	case kind == reflect.Slice && depth < maxDepth && room > 4:
		trimmed, size = t.list(value, depth, room)
		return trimmed, size, true
	case plain || kind == reflect.Map || kind == reflect.Slice: // no room, or too deep
		t.cut = true
		return nil, 0, false
	}
	return t.text(fmt.Sprint(v), room)
}

// text returns s, cut to fit into room.
func (t *trimmer) text(s string, room int) (trimmed any, size int, ok bool) {
	const worthwhile = 16
	if room < worthwhile {
		t.cut = true
		return nil, 0, false
	}
	s = Printable(s, min(maxValue, room-2))
	n, _ := measure(s, maxValue)
	return s, n + 2, true
}

// object returns the part of m that fits into room, and its size in bytes. Lists and maps
// come last, so that a long one leaves room for the numbers beside it.
func (t *trimmer) object(m map[string]any, depth, room, most int) (map[string]any, int) {
	kept, size := map[string]any{}, 4
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(m[a]), rank(m[b])), cmp.Compare(a, b))
	})
	for _, key := range keys {
		word := Printable(key, maxWord)
		k, _ := measure(word, maxWord)
		if _, there := kept[word]; there || len(kept) >= most || size+k+4 > room {
			t.cut = true
			continue
		}
		if v, n, ok := t.value(m[key], depth+1, room-size-k-4); ok {
			kept[word] = v
			size += k + 4 + n
		}
	}
	return kept, size
}

func rank(v any) int {
	switch reflect.ValueOf(v).Kind() {
	case reflect.Map, reflect.Slice:
		return 1
	}
	return 0
}

// list returns as many of the first elements as fit into room, and their size in bytes.
func (t *trimmer) list(value reflect.Value, depth, room int) ([]any, int) {
	kept, size := []any{}, 4
	for i := range value.Len() {
		if len(kept) >= maxItems {
			t.cut = true
			break
		}
		v, n, ok := t.value(value.Index(i).Interface(), depth+1, room-size-1)
		if !ok {
			break
		}
		kept = append(kept, v)
		size += n + 1
	}
	return kept, size
}

// encodable reports whether t can be encoded as JSON.
func encodable(t time.Time) bool {
	_, offset := t.Zone()
	year := t.Year()
	return year >= 0 && year <= 9999 && offset > -24*3600 && offset < 24*3600
}

func trimTime(t time.Time) time.Time {
	switch {
	case encodable(t):
		return t
	case encodable(t.UTC()):
		return t.UTC()
	}
	return time.Time{}
}
