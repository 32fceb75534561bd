package words

import (
	"strings"
	"unicode"
)

// Shell quotes a text so that a shell takes it for one word.
func Shell(text string) string {
	if strings.ContainsFunc(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.:/@,%+=", c)
	}) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}
