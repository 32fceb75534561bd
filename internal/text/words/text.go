// Package words writes for people: numbers with their nouns, lists, lengths of time, and
// suggestions for mistyped names.
//
// Every message of berth takes its wording from here, so that the same thing
// reads the same everywhere. The package imports nothing of berth. Amounts of
// memory are gpu.MiB, which writes itself.
//
// Pure: no clock, no I/O.
package words

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is the maximum number of characters in a name.
const MaxText = 128

// TextProblem returns what is wrong with a name that people give to a thing, or "" if it
// is right. A name has 1 to MaxText printable characters of any script, with no space at
// either end. It has no control characters, no invisible characters and no broken UTF-8,
// because everybody who sees a name must see the same thing.
func TextProblem(text string) string {
	if text == "" {
		return "is empty; give it a name"
	}
	if Plain(text) {
		return ""
	}
	switch {
	case len(text) > MaxText*utf8.UTFMax || utf8.RuneCountInString(text) > MaxText:
		return fmt.Sprintf("is longer than %d characters", MaxText)
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	case strings.HasPrefix(text, " ") || strings.HasSuffix(text, " "):
		return "begins or ends with a space"
	}
	for _, c := range text {
		if c == utf8.RuneError { // JSON decoding replaces broken UTF-8 by it
			return "contains U+FFFD, which stands for broken text"
		}
		if !unicode.IsPrint(c) {
			return fmt.Sprintf("contains %U, which cannot be printed", c)
		}
	}
	return ""
}

// Plain reports whether a text is short and has only visible ASCII characters. It is the
// fast path for nearly all names.
func Plain(text string) bool {
	if len(text) > MaxText {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// UpperFirst returns text with a capital at its beginning, to turn the text of an error
// into a sentence.
func UpperFirst(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if upper := unicode.ToUpper(first); upper != first {
		return string(upper) + text[size:]
	}
	return text
}

// LowerFirst returns text without a capital at its beginning, to turn a sentence into the
// rest of one.
func LowerFirst(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	if lower := unicode.ToLower(first); lower != first {
		return string(lower) + text[size:]
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

// Shell quotes a text so that a shell takes it for one word.
func Shell(text string) string {
	if strings.ContainsFunc(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.:/@,%+=", c)
	}) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// Service returns the canonical name of a service. Dashes and underscores mean the same,
// so embedding_service is embedding-service: in berth.yaml, in requests, on the command
// line and in the journal.
func Service(name string) string { return strings.ReplaceAll(name, "_", "-") }

// End returns text, or for a text that is longer than most its last characters with …
// before them.
func End(text string, most int) string {
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return "…" + string(letters[len(letters)-most+1:])
}
