package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
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
	text := auditActor(e.Who) + ": " + e.What + given(" ", auditObject(e.Object)) + given(", ", auditChanges(e.Before, e.After))
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
	user := cmp.Or(a.User, "berth")
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
	return o.Kind + given(" ", o.ID) + given(" of ", o.Owner)
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

// Event writes one event, on several lines if it is too long. The sentence names the
// device itself.
func Event(e gpu.Event, to term.Screen) string {
	mark, c := "  ", term.Plain
	switch e.Severity {
	case gpu.Warning:
		mark, c = "! ", term.Yellow
	case gpu.Serious:
		mark, c = "✗ ", term.Red
	}
	text := string(e.Code) + ": " + term.Clean(e.Text)
	by := ""
	if e.By != (gpu.By{}) {
		by = "by " + term.Clean(e.By.String())
	}
	if about := Join(given("lease ", term.Clean(e.Lease)), by); about != "" {
		text += " (" + about + ")"
	}
	return to.Hang(c, e.Time.In(to.Now.Location()).Format("Jan _2 15:04:05 ")+mark, text)
}

// Entry is one entry of the journal, with its bytes as they are in the file.
type Entry struct {
	Seq      uint64
	Snapshot bool
	Data     []byte
}

// Answer returns the entry for programs. It returns data that is not JSON as text.
func (e Entry) Answer() any {
	answer := struct {
		Seq      uint64 `json:"seq"`
		Snapshot bool   `json:"snapshot,omitempty"`
		Record   any    `json:"record"`
	}{e.Seq, e.Snapshot, string(e.Data)}
	if json.Valid(e.Data) {
		answer.Record = json.RawMessage(e.Data)
	}
	return answer
}

// Entries shows the journal in a table, one line each.
func Entries(all []Entry, to term.Screen) []string {
	if len(all) == 0 {
		return []string{"The journal is empty."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "SEQ", Right: true}, {Title: "TIME"}, {Title: "KIND"}, {Title: "FENCE", Right: true},
		{Title: "ID", Least: 8}, {Title: "WHAT", Least: 10},
	}}
	for _, e := range all {
		seq := term.Text(strconv.FormatUint(e.Seq, 10))
		read, err := stored.Decode(e.Data)
		if err != nil {
			t.Add(seq, term.Cell{}, term.Painted("unreadable", term.Red), term.Cell{}, term.Cell{}, term.Text(term.Clean(err.Error())))
			continue
		}
		at := ""
		if read.Time != 0 {
			at = entryTime(read.Time, to)
		}
		t.Add(seq, term.Text(at), term.Text(term.Clean(string(read.Kind))), term.Text(strconv.FormatUint(read.Fence, 10)),
			term.Text(term.Clean(read.ID)), term.Text(Join(recorded(read, to), recordedBy(read.By))))
	}
	return t.Lines(to.Width, to.Painter)
}

// recorded returns the details of an entry beside its kind and the id of its lease.
func recorded(r stored.Entry, to term.Screen) string {
	switch {
	case r.Lease != nil:
		text := ""
		for _, p := range r.Lease.Parts {
			text = Join(text, Amount(gpu.MiB(p.Memory), p.Slots)+" on "+term.Clean(p.GPU))
		}
		binding := r.Lease.Binding
		if binding == string(lease.ByProcess) {
			binding += " " + strconv.Itoa(r.Lease.PID)
		}
		return Join(text, binding, term.Clean(r.Lease.Service), term.Clean(r.Lease.User))
	case r.Kind == stored.Audit:
		return "entry " + strconv.FormatUint(r.AuditLine.Seq, 10) + " of the audit log"
	case r.Expires != 0:
		return "until " + entryTime(r.Expires, to)
	}
	return term.Clean(r.Why)
}

// recordedBy returns the actor of an entry, or "" if the entry names nobody.
func recordedBy(b stored.By) string {
	switch by := (gpu.By{User: term.Clean(b.User), Token: term.Clean(b.Token)}); b.Door {
	case "":
		return ""
	case string(access.Itself):
		return "by berth"
	default:
		return "by " + by.String() + " over " + term.Clean(b.Door)
	}
}

// entryTime writes the time of an entry, which is in nanoseconds.
func entryTime(nanoseconds int64, to term.Screen) string {
	return time.Unix(0, nanoseconds).In(to.Now.Location()).Format("Jan _2 15:04:05")
}
