package lease

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/lease/stored"
)

func TestComment(t *testing.T) {
	for comment, want := range map[string]string{
		"":                       "",
		" night run, ask Ada ":   "",
		"für später":             "",
		strings.Repeat("x", 256): "",
		strings.Repeat("x", 257): "has 257 bytes; it may have 256",
		strings.Repeat("ü", 129): "has 258 bytes",
		"two\nlines":             "contains U+000A, which cannot be printed",
		"red \x1b[31m":           "contains U+001B",
		"backwards \u202e":       "contains U+202E",
		"broken \xff":            "is not valid UTF-8",
	} {
		r := ask("a")
		r.Comment = comment
		err := r.Validate()
		if field := (FieldErrors)(nil); want == "" && err != nil || want != "" && (!errors.As(err, &field) || field[0].Field != "comment" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", comment, err, want)
		}
	}
}

// The journal keeps a comment, and an entry of an earlier berth has none.
func TestCommentInTheJournal(t *testing.T) {
	r := ask("a")
	r.Comment = "night run, ask Ada"
	e, err := full(0).Apply(Grant{Lease: r.Lease("GPU-3")}, noon)
	if err != nil {
		t.Fatal(err)
	}
	entry := EntryOf(&e)
	line := AppendEntry(nil, &entry)
	again := New()
	if _, err := again.Read(line); err != nil || again.Leases()[0].Comment != r.Comment {
		t.Errorf("%s is read as %+v, %v", line, again.Leases(), err)
	}
	older := strings.Replace(string(line), `,"comment":"night run, ask Ada"`, "", 1)
	if got, err := stored.Decode([]byte(older)); err != nil || len(older) == len(line) || got.Lease.Comment != "" || got.Version != 1 {
		t.Errorf("%s is read as %+v, %v", older, got.Lease, err)
	}
}
