// Package rawjson takes JSON apart without decoding it: records and outcomes
// travel through berth as the bytes they came as, so that no number is rounded
// and no key is reordered on the way.
//
// Everything here expects valid JSON, as Valid reports it, and does not
// check again.
//
// Pure: no clock, no I/O.
package rawjson

import (
	"bytes"
	"encoding/json"
	"iter"
)

// IsObject reports whether a value is an object.
func IsObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// Elements yields the elements of an array. A value that is not an array has
// none.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(array) == 0 || array[0] != '[' {
			return
		}
		for i := space(array, 1); array[i] != ']'; {
			end := valueEnd(array, i)
			if !yield(array[i:end:end]) {
				return
			}
			i = comma(array, end)
		}
	}
}

// Fields yields the fields of an object: the key as it is written, in quotes,
// and the value. A value that is not an object has none.
func Fields(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if !IsObject(object) {
			return
		}
		for i := space(object, 1); object[i] != '}'; {
			keyEnd := stringEnd(object, i)
			start := space(object, space(object, keyEnd)+1) // past the colon
			end := valueEnd(object, start)
			if !yield(object[i:keyEnd:keyEnd], object[start:end:end]) {
				return
			}
			i = comma(object, end)
		}
	}
}

// Field returns the value of a key, or nil if there is none. If a key occurs twice, the
// last one counts, as in most decoders.
func Field(object []byte, key string) []byte {
	var found []byte
	for k, v := range Fields(object) {
		if Is(k, key) {
			found = v
		}
	}
	return found
}

// Is reports whether written, a key in quotes, stands for key.
func Is(written []byte, key string) bool {
	if bytes.IndexByte(written, '\\') < 0 {
		return string(written[1:len(written)-1]) == key
	}
	return Text(written) == key
}

// Text returns the text of a JSON string. It returns any other value as it is written.
func Text(value []byte) string {
	var s string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return string(value)
	}
	return s
}

// Quote returns a string as JSON, without the escapes that only HTML needs.
func Quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return bytes.TrimRight(b.Bytes(), "\n")
}

// space skips white space from i on.
func space(data []byte, i int) int {
	for data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r' {
		i++
	}
	return i
}

// comma skips everything between a value and the next one, or the end of the container.
func comma(data []byte, i int) int {
	i = space(data, i)
	if data[i] == ',' {
		i = space(data, i+1)
	}
	return i
}

// valueEnd returns where the value that begins at i ends.
func valueEnd(data []byte, i int) int {
	switch data[i] {
	case '"':
		return stringEnd(data, i)
	case '{', '[':
		return containerEnd(data, i)
	}
	for i < len(data) {
		switch data[i] {
		case ',', ']', '}', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

func containerEnd(data []byte, i int) int {
	depth := 0
	for {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// stringEnd returns the index after the closing quote of the string that begins
// at i.
func stringEnd(data []byte, i int) int {
	i++
	for {
		i += bytes.IndexByte(data[i:], '"')
		escapes := 0
		for data[i-1-escapes] == '\\' {
			escapes++
		}
		i++
		if escapes%2 == 0 {
			return i
		}
	}
}

// AppendQuote appends a string as JSON. It only copies plain text, the common
// case.
func AppendQuote(to, s []byte) []byte {
	for _, c := range s {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			return append(to, Quote(string(s))...)
		}
	}
	to = append(to, '"')
	to = append(to, s...)
	return append(to, '"')
}
