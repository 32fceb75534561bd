package words

import (
	"strings"
	"unicode"
)

// Shell returns a text as a shell takes it for one word.
func Shell(text string) string {
	if strings.ContainsFunc(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.:/@,%+=", c)
	}) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}
