package view

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Tokens shows the tokens that the daemon accepts, in a table.
func Tokens(all api.Tokens, to term.Screen) []string {
	if len(all.Tokens) == 0 {
		return []string{"There are no tokens."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "NAME", Least: 8}, {Title: "ROLE"}, {Title: "SERVICE", Least: 8}, {Title: "CREATED"}, {Title: "BY", Least: 6}, {Title: "EXPIRES"}, {Title: "USED"},
	}}
	for _, k := range all.Tokens {
		service := "any"
		if k.Service != "" {
			service = term.Clean(k.Service)
		}
		created, by := "as configured", "-"
		if !k.Created.IsZero() {
			created = k.Created.In(to.Now.Location()).Format(time.DateOnly)
		}
		if k.By != "" {
			by = term.Clean(k.By)
		}
		used := "never"
		if !k.Used.IsZero() {
			used = words.Age(to.Now.Sub(k.Used)) + " ago"
		}
		t.Add(term.Text(term.Clean(k.Name)), term.Text(term.Clean(k.Role)), term.Text(service), term.Text(created), term.Text(by), expiry(k, to.Now), term.Text(used))
	}
	return t.Lines(to.Width, to.Painter)
}

// expiry says when a token expires, in red if it has expired.
func expiry(k api.Token, now time.Time) term.Cell {
	switch left := k.Expires.Sub(now); {
	case k.Expires.IsZero():
		return term.Text("never")
	case left <= 0:
		return term.Painted(words.Age(-left)+" ago", term.Red)
	default:
		return term.Text("in " + words.Age(left))
	}
}

// TokenCreated describes a new token, without its secret.
func TokenCreated(k api.Token, to term.Screen) string {
	text := fmt.Sprintf("%s has the role %s", k.Name, k.Role)
	if k.Service != "" {
		text += " for the service " + k.Service
	}
	if k.Expires.IsZero() {
		text += ", and does not expire"
	} else {
		text += ", and expires on " + k.Expires.In(to.Now.Location()).Format("2006-01-02 15:04")
	}
	return term.Clean(text)
}

// TokenRevoked says that a token has ended.
func TokenRevoked(k api.Token, _ term.Screen) []string {
	return []string{term.Clean(fmt.Sprintf("%s is revoked: the daemon refuses it from now on.", k.Name))}
}
