package httpapi

import "errors"

// One value of JSON may be two bytes in a body and hundreds in memory, so a body is counted
// before it is decoded: it has at most one value for each bytesOfValue, and one object for
// each bytesOfObject, of the largest body that its path takes.
const (
	bytesOfValue  = 8
	bytesOfObject = 64
)

// smallText is the size of a text that cannot expand into much, and is not counted.
const smallText = 4 << 10

var errManyValues = errors.New("has more values than a request can need: send what is needed alone, or in several requests")

// bounded refuses a JSON text with more values than a body of most bytes may have. It takes
// every comma, and every beginning of a list or an object, for a value. What is no JSON is
// for the decoder to refuse.
func bounded(text []byte, most int) error {
	if len(text) <= smallText {
		return nil
	}
	values, objects := most/bytesOfValue, most/bytesOfObject
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
			if c == '\\' {
				i++
			}
		case c == '{':
			objects--
			values--
		case c == ',', c == '[':
			values--
		}
		if values < 0 || objects < 0 {
			return errManyValues
		}
	}
	return nil
}
