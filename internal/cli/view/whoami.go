package view

import (
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Whoami shows how the daemon identifies a caller.
func Whoami(w api.Whoami, to term.Screen) []string {
	user := w.User
	if uid, known := w.UID.Get(); known {
		user += " (uid " + strconv.Itoa(uid) + ")"
	}
	lines := []string{about("user", user, to), about("role", w.Role, to)}
	for i, why := range w.Why {
		name := "why"
		if i > 0 {
			name = ""
		}
		lines = append(lines, about(name, why, to))
	}
	lines = append(lines, about("door", w.Door, to))
	for _, more := range []struct{ name, text string }{
		{"token", w.Token}, {"service", w.Service}, {"groups", strings.Join(w.Groups, ", ")},
	} {
		if more.text != "" {
			lines = append(lines, about(more.name, more.text, to))
		}
	}
	return lines
}

// about writes a name with a text about it.
func about(name, text string, to term.Screen) string {
	const widest = 9
	return to.Hang(term.Plain, name+strings.Repeat(" ", widest-len(name)), term.Clean(text))
}
