package words

import (
	"unicode"
	"unicode/utf8"
)

// UpperFirst returns text with a capital at its beginning, to turn the text of an error
// into a sentence.
func UpperFirst(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if upper := unicode.ToUpper(first); upper != first {
		return string(upper) + text[size:]
	}
	return text
}

// Cut returns the first most characters of text, with an ellipsis if there are more.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for i := range text {
		if most == 0 {
			return text[:i] + "…"
		}
		most--
	}
	return text
}
