package words

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Split splits a command into words as a shell does: by spaces, with quotes, backslashes
// and comments. It expands nothing. It refuses what only a shell could run.
func Split(command string) ([]string, error) {
	var list []string
	var word strings.Builder
	begun, quote, after := false, rune(0), false // after a backslash
	end := func() {
		if begun {
			list = append(list, word.String())
		}
		word.Reset()
		begun = false
	}
	comment := false
	for _, c := range command {
		switch {
		case comment:
			comment = c != '\n'
		case after:
			after = false
			if c == '\n' { // the line goes on
				continue
			}
			if quote == '"' && !strings.ContainsRune("\"\\$`", c) {
				word.WriteRune('\\')
			}
			word.WriteRune(c)
			begun = true
		case c == '\\' && quote != '\'':
			after = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case unicode.IsSpace(c):
			end()
		case c == '#' && !begun:
			comment = true
		case strings.ContainsRune("|&;<>`", c):
			return nil, fmt.Errorf("has %c, which only a shell understands: quote it, or write [sh, -c, \"…\"]", c)
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("has a %c without the one that ends it", quote)
	}
	if after {
		return nil, errors.New("ends with a backslash")
	}
	end()
	if len(list) == 0 {
		return nil, errors.New("is empty: say what to run")
	}
	return list, nil
}
