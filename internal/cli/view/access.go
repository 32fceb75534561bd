package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
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
	bound := slices.ContainsFunc(all.Tokens, func(k api.Token) bool { return k.As != "" })
	if bound {
		t.Columns = append(t.Columns, term.Column{Title: "AS", Least: 6})
	}
	for _, k := range all.Tokens {
		service, created, by := cmp.Or(term.Clean(k.Service), "any"), "as configured", cmp.Or(term.Clean(k.By), "-")
		if !k.Created.IsZero() {
			created = k.Created.In(to.Now.Location()).Format(time.DateOnly)
		}
		used := "never"
		if !k.Used.IsZero() {
			used = words.Age(to.Now.Sub(k.Used)) + " ago"
		}
		row := []term.Cell{term.Text(term.Clean(k.Name)), term.Text(term.Clean(k.Role)), term.Text(service), term.Text(created), term.Text(by), expiry(k, to.Now), term.Text(used)}
		if bound {
			row = append(row, term.Text(cmp.Or(term.Clean(k.As), "-")))
		}
		t.Add(row...)
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
	text := fmt.Sprintf("%s has the role %s", k.Name, k.Role) + given(" for the service ", k.Service) + given(", runs jobs as ", k.As)
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

// Quota shows the limits of a user in a table, and how much of each is used. Limits
// that are used up are red.
type Quota struct{ api.Quota }

// Lines writes the table for a screen.
func (q *Quota) Lines(to term.Screen) []string {
	head := term.Clean(q.User) + given(", ", term.Clean(q.Role))
	if len(q.Limits) == 0 {
		return []string{head + ": no limits."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "LIMIT ON", Least: 12}, {Title: "USED", Right: true}, {Title: "OF", Right: true}, {Title: "FROM", Least: 8},
	}}
	for _, l := range q.Limits {
		what := limited(l.Name) + given(" of group ", l.Group)
		used := term.Text("-")
		if l.Used.Known() {
			used.Text = amountOf(l.Name, l.Used)
		}
		if most, is := l.Limit.Get(); is && l.Used.Or(0) >= most && l.Used.Known() && most > 0 {
			used.Colour = term.Red
		}
		t.Add(term.Text(term.Clean(what)), used, term.Text(amountOf(l.Name, l.Limit)), term.Text(term.Clean(l.Source)))
	}
	lines := append([]string{head, ""}, t.Lines(to.Width, to.Painter)...)
	if q.Service != "" {
		lines = append(lines, "", to.Hang(term.Plain, "", term.Clean("Requests that name no service belong to "+q.Service+".")))
	}
	return lines
}

// limited says what a limit applies to. An unknown setting goes by its name.
func limited(setting string) string {
	name, known := map[string]string{
		"memory_mb": "memory", "gpus": "GPUs", "waiting": "waiting requests", "calls_per_second": "calls a second", "streams": "event streams",
		"longest_wait_seconds": "longest wait", "longest_ttl_seconds": "longest ttl", "longest_time_seconds": "longest time",
	}[setting]
	if known {
		return name
	}
	return strings.ReplaceAll(setting, "_", " ")
}

// amountOf writes an amount in the unit of a setting. An absent amount means no limit.
func amountOf(setting string, amount gpu.Opt[float64]) string {
	n, known := amount.Get()
	switch {
	case setting == "named_leases" && amount.Or(1) == 0:
		return "no"
	case setting == "named_leases":
		return "yes"
	case !known:
		return "unlimited"
	case strings.HasSuffix(setting, "_mb"):
		return gpu.MiB(n).InGiB()
	case strings.HasSuffix(setting, "_seconds") && n == 0:
		return "0 s"
	case strings.HasSuffix(setting, "_seconds"):
		return words.Duration(time.Duration(n * float64(time.Second)))
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}
