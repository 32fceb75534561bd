package spelling

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns text with U+FFFD in the place of every character that
// cannot be printed, such as a control character, and of broken UTF-8. Text
// that comes from outside is then fit to be kept, listed and logged.
func Printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return utf8.RuneError
	}, text)
}
