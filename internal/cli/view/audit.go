package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// AuditEntry writes one entry of the audit log, on several lines if it is too long:
// when, who, what, to what, the values before and after, and why.
func AuditEntry(e api.AuditEntry, to term.Screen) string {
	mark, c := "  ", term.Plain
	switch e.Outcome {
	case "refused":
		mark, c = "✗ ", term.Red
	case "failed":
		mark, c = "! ", term.Yellow
	}
	text := auditActor(e.Who) + ": " + e.What
	if object := auditObject(e.Object); object != "" {
		text += " " + object
	}
	if changes := auditChanges(e.Before, e.After); changes != "" {
		text += ", " + changes
	}
	if e.Outcome != "done" {
		text += ", " + e.Outcome
	}
	if e.Why != "" {
		text += " (" + e.Why + ")"
	}
	return to.Hang(c, e.Time.In(to.Now.Location()).Format("2006-01-02 15:04:05 ")+mark, term.Clean(text))
}

// auditActor names the actor and how they called.
func auditActor(a api.AuditActor) string {
	user := a.User
	if user == "" {
		user = "berth"
	}
	var how []string
	if a.Role != "" && a.User != "" {
		how = append(how, a.Role)
	}
	if a.Token != "" && user != "token:"+a.Token {
		how = append(how, "token "+a.Token)
	}
	if a.Address != "" {
		how = append(how, "from "+a.Address)
	}
	if len(how) == 0 {
		return user
	}
	return user + " (" + strings.Join(how, ", ") + ")"
}

// auditObject names the object of an entry.
func auditObject(o api.AuditObject) string {
	if o.Kind == "" {
		return ""
	}
	text := o.Kind
	if o.ID != "" {
		text += " " + o.ID
	}
	if o.Owner != "" {
		text += " of " + o.Owner
	}
	return text
}

// auditChanges lists values before and after, by name.
func auditChanges(before, after map[string]string) string {
	names := map[string]bool{}
	for _, values := range []map[string]string{before, after} {
		for name := range values {
			names[name] = true
		}
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := before[name]
		is, has := after[name]
		switch {
		case had && has:
			changes = append(changes, fmt.Sprintf("%s %s → %s", name, orNothing(was), orNothing(is)))
		case had:
			changes = append(changes, fmt.Sprintf("%s was %s", name, orNothing(was)))
		default:
			changes = append(changes, fmt.Sprintf("%s %s", name, orNothing(is)))
		}
	}
	return strings.Join(changes, ", ")
}

func orNothing(value string) string {
	if value == "" {
		return `""`
	}
	return value
}

// AuditVerdict says whether the audit log is intact, and what is wrong with it.
func AuditVerdict(v api.AuditVerdict, to term.Screen) []string {
	what := words.Count(v.Entries, "entry")
	if v.Entries > 1 {
		what += fmt.Sprintf(" (%d to %d)", v.First, v.Last)
	}
	what += " in " + words.Count(len(v.Files), "file")
	if v.Sound {
		lines := []string{to.Hang(term.Green, "✓ ", "The audit log is whole: "+what+".")}
		if v.Marked != 0 {
			lines = append(lines, to.Hang(term.Plain, "  ", fmt.Sprintf("The journal names entry %d, which is there.", v.Marked)))
		}
		return lines
	}
	var lines []string
	for _, p := range v.Problems {
		where := ""
		if p.File != "" {
			where = p.File
			if p.Line != 0 {
				where += fmt.Sprintf(", line %d", p.Line)
			}
			where += ": "
		}
		lines = append(lines, to.Hang(term.Red, "✗ ", term.Clean(where+p.Text)))
	}
	return append(lines, "", to.Hang(term.Plain, "", fmt.Sprintf("The audit log is not whole: %s, %s.", words.Count(len(v.Problems), "problem"), what)))
}
