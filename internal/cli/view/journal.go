package view

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
	"github.com/berth-gpu/berth/internal/text/term"
)

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
