package audit

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/file"
)

// Query says which entries to read.
type Query struct {
	After uint64    // only entries with a larger number
	Since time.Time // only entries that are not older
	Users []string  // only acts and refusals of these users, or on things of these users; none means of everybody
	Verbs []string  // only these verbs; none means all
	Limit int       // at most this many
	// Oldest makes Page return the first entries that match, and not the last.
	Oldest bool
}

func (q *Query) matches(e *api.AuditEntry) bool {
	return e.Seq > q.After && !e.Time.Before(q.Since) &&
		(len(q.Users) == 0 || slices.Contains(q.Users, e.Who.User) || slices.Contains(q.Users, e.Object.Owner)) &&
		(len(q.Verbs) == 0 || slices.Contains(q.Verbs, e.What))
}

// Page returns the entries that a query asks for, the oldest first.
func (l *Log) Page(q Query) (api.AuditLog, error) {
	page := api.AuditLog{Entries: []api.AuditEntry{}}
	names, err := file.Names(l.folder)
	if err != nil {
		return page, err
	}
	ordered := Order(names)
	for i, name := range ordered {
		if i+1 < len(ordered) {
			if next, rotated := Rotated.Of(ordered[i+1]); rotated && next <= q.After+1 {
				continue // all its entries are older
			}
		}
		text, err := l.folder.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just got another name, or is too old
		}
		if err != nil {
			return page, err
		}
		for line := range bytes.Lines(text) {
			e, is := Parse(line)
			if !is || !q.matches(&e) || len(page.Entries) > 0 && e.Seq <= page.Entries[len(page.Entries)-1].Seq {
				continue
			}
			page.Entries = append(page.Entries, e)
			if len(page.Entries) <= q.Limit {
				continue
			}
			if q.Oldest {
				page.Entries = page.Entries[:q.Limit]
				page.Next = page.Entries[q.Limit-1].Seq
				return page, nil
			}
			page.Entries = page.Entries[1:]
		}
	}
	return page, nil
}

// Verify checks the log in a folder, and looks for the entry that the journal
// names. The daemon may be writing to it.
func Verify(folder file.Folder, mark Mark) (api.AuditVerdict, error) {
	for try := 0; ; try++ {
		v, err := verify(folder, mark)
		// A file that was rotated meanwhile is missing, or looks so.
		if try == 2 || err == nil && v.Sound || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return v, err
		}
	}
}

func verify(folder file.Folder, mark Mark) (api.AuditVerdict, error) {
	c := NewChecker(mark)
	names, err := file.Names(folder)
	if err != nil {
		return c.Verdict(), err
	}
	for _, name := range Order(names) {
		text, err := folder.ReadFile(name)
		if err != nil {
			return c.Verdict(), err
		}
		c.Read(File{Name: name, Text: text})
	}
	return c.Verdict(), nil
}
