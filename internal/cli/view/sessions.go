package view

import (
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Sessions shows who is signed in on the page, in a table.
func Sessions(all api.Sessions, to term.Screen) []string {
	if len(all.Sessions) == 0 {
		return []string{"Nobody is signed in on the page."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "ID"}, {Title: "USER", Least: 8}, {Title: "ROLE"}, {Title: "WITH", Least: 6}, {Title: "BEGUN"}, {Title: "USED"}, {Title: "ENDS"},
	}}
	for _, s := range all.Sessions {
		with := "a link"
		if s.Token != "" {
			with = "the token " + term.Clean(s.Token)
		}
		ago := func(t time.Time) term.Cell { return term.Text(words.Age(to.Now.Sub(t)) + " ago") }
		t.Add(term.Text(term.Clean(s.ID)), term.Text(term.Clean(s.User)), term.Text(term.Clean(s.Role)), term.Text(with),
			ago(s.Begun), ago(s.Used), term.Text("in "+words.Age(s.Expires.Sub(to.Now))))
	}
	return t.Lines(to.Width, to.Painter)
}

// SessionEnded says that a session has ended.
func SessionEnded(s api.Session, _ term.Screen) []string {
	return []string{"The session " + term.Clean(s.ID) + " of " + term.Clean(s.User) + " has ended."}
}
