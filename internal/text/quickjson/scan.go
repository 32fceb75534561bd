package quickjson

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"
)

// scanner reads JSON of a simple kind: no spaces but one after a colon or a comma, as many
// programs write it, no escapes, no characters beyond ASCII unless it is loose, no null. It
// reads nothing after the first violation.
type scanner struct {
	data  []byte
	at    int
	bad   bool
	loose bool
}

// over reports whether all input was read without a violation.
func (s *scanner) over() bool { return !s.bad && s.at == len(s.data) }

// take reads one byte if it is c.
func (s *scanner) take(c byte) bool {
	if s.bad || s.at >= len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// expect reads one byte that must be c.
func (s *scanner) expect(c byte) {
	if !s.take(c) {
		s.bad = true
	}
}

// fields iterates over the keys of an object. The body of the loop reads the values.
func (s *scanner) fields(yield func(key []byte) bool) {
	s.expect('{')
	if s.take('}') {
		return
	}
	for !s.bad {
		key := s.quoted()
		s.expect(':')
		s.take(' ')
		if s.bad || !yield(key) || s.take('}') {
			return
		}
		s.expect(',')
		s.take(' ')
	}
}

// items iterates over a list by number. The body of the loop reads the items.
func (s *scanner) items(yield func(n int) bool) {
	s.expect('[')
	if s.take(']') {
		return
	}
	for n := 0; !s.bad; n++ {
		if !yield(n) || s.take(']') {
			return
		}
		s.expect(',')
		s.take(' ')
	}
}

// quoted reads a string.
func (s *scanner) quoted() []byte {
	s.expect('"')
	if s.bad {
		return nil
	}
	rest := s.data[s.at:]
	ascii := true
	for i, c := range rest {
		if c == '"' {
			s.at += i + 1
			s.bad = !ascii && !utf8.Valid(rest[:i])
			return rest[:i]
		}
		if c < ' ' || c == 0x7f || c == '\\' || c > 0x7f && !s.loose {
			break
		}
		ascii = ascii && c < 0x7f
	}
	s.bad = true
	return nil
}

// raw reads an object or a list, and returns it as it is written. It finds the end, and
// checks nothing else.
func (s *scanner) raw() []byte {
	depth, quoted := 0, false
	for from := s.at; !s.bad && s.at < len(s.data); {
		c := s.data[s.at]
		s.at++
		switch {
		case quoted && c == '\\':
			s.at++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth == 0 {
			return s.data[from:s.at]
		}
	}
	s.bad = true
	return nil
}

// text reads a string that a field takes.
func (s *scanner) text(f *field) string {
	written := s.quoted()
	if f.words == nil {
		s.bad = s.bad || len(written) < f.shortest || len(written) > f.longest
		return string(written)
	}
	for _, word := range f.words {
		if string(written) == word {
			return word
		}
	}
	s.bad = true
	return ""
}

// bool reads true or false.
func (s *scanner) bool() bool {
	for _, word := range [...]string{"true", "false"} {
		if !s.bad && bytes.HasPrefix(s.data[s.at:], []byte(word)) {
			s.at += len(word)
			return word == "true"
		}
	}
	s.bad = true
	return false
}

// digits reads a whole number without a sign, and returns its value if that has up to 18
// digits, or is an int64.
func (s *scanner) digits() (value int64, count int) {
	if s.bad {
		return 0, 0
	}
	rest := s.data[s.at:]
	for count < len(rest) && rest[count] >= '0' && rest[count] <= '9' {
		value = 10*value + int64(rest[count]-'0')
		count++
	}
	s.at += count
	s.bad = count == 0 || count > 1 && rest[0] == '0'
	return value, count
}

// int reads a whole number between least and most.
func (s *scanner) int(least, most int64) int64 {
	negative := s.take('-')
	value, count := s.digits()
	s.bad = s.bad || count > 19 || value < 0 // 19 digits are negative if they are too large for an int64
	if negative {
		value = -value
	}
	s.bad = s.bad || value < least || value > most
	return value
}

// float reads a number without an exponent.
func (s *scanner) float() float64 {
	from := s.at
	s.take('-')
	value, count := s.digits()
	fraction := s.take('.')
	switch {
	case s.bad:
		return 0
	case !fraction && count < 16 && s.data[from] != '-':
		return float64(value)
	}
	for fraction && s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	n, err := strconv.ParseFloat(string(s.data[from:s.at]), 64)
	s.bad = err != nil || s.data[s.at-1] == '.'
	return n
}

func (s *scanner) time() time.Time {
	var t time.Time
	if err := t.UnmarshalText(s.quoted()); err != nil {
		s.bad = true
	}
	return t
}
