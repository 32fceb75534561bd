package gpu

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Whole is the bound with which Printable cuts nothing.
const Whole = math.MaxInt

// Printable returns text as one line that is safe to keep, list and show. A
// blank replaces every other kind of white space, line breaks included. U+FFFD
// replaces every other character that cannot be printed, such as one that
// changes the direction of what follows, and broken UTF-8. Printable cuts a text
// that takes more than most bytes as JSON, and ends it with an ellipsis.
func Printable(text string, most int) string {
	if _, fits := measure(text, most); fits {
		return text
	}
	var out strings.Builder
	size, whole := 0, 0 // whole is the length of out that leaves room for the ellipsis
	for _, r := range text {
		r = shown(r)
		if size += cost(r); size > most {
			if most < len(ellipsis) {
				return ""
			}
			return out.String()[:whole] + ellipsis
		}
		out.WriteRune(r)
		if size <= most-len(ellipsis) {
			whole = out.Len()
		}
	}
	return out.String()
}

const ellipsis = "…"

// measure returns the size of text as JSON without the quotation marks, in bytes. It
// reports false if the size exceeds most, or if Printable would replace something.
func measure(text string, most int) (size int, fits bool) {
	if len(text) > most {
		return 0, false
	}
	for i := range len(text) {
		size += int(byteCost[text[i]])
	}
	if size < special {
		return size, size <= most
	}
	return measureRunes(text, most)
}

// measureRunes does what measure does, for text that is not plain ASCII.
func measureRunes(text string, most int) (size int, fits bool) {
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) || shown(r) != r {
			return 0, false
		}
		size += cost(r)
	}
	return size, size <= most
}

// special is the cost of a byte that is part of a longer character. It exceeds the size
// of any measured text.
const special = 1 << 24

// byteCost holds the size of each byte in a JSON string.
var byteCost = func() (costs [256]uint32) {
	for c := range costs {
		costs[c] = special
	}
	for c := ' '; c < 0x7f; c++ {
		costs[c] = 1
	}
	costs['"'], costs['\\'] = 2, 2
	costs['<'], costs['>'], costs['&'] = 6, 6, 6
	return costs
}()

func cost(r rune) int {
	if r < utf8.RuneSelf {
		return int(byteCost[r])
	}
	return utf8.RuneLen(r)
}

// shown returns r, or its replacement if it is not safe to show.
func shown(r rune) rune {
	switch {
	case r >= ' ' && r < 0x7f:
		return r
	case r == '\u200c' || r == '\u200d': // joiners, which some scripts need
		return r
	case unicode.IsPrint(r):
		return r
	case unicode.IsSpace(r):
		return ' '
	}
	return utf8.RuneError
}
