package cli

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/record"
)

// A record that is whole and cannot be true is shown, is found by doctor, and
// does not keep repair from keeping what is before it.
func TestRepairOfAContradiction(t *testing.T) {
	state := t.TempDir()
	dir := filelog.Dir(journalDir(state))
	if err := os.Mkdir(journalDir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	log, _, err := filelog.Open(dir, filelog.Options{}, func(journal.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []record.Record{
		lease.RecordOfLease(&lease.Lease{ID: "kept", Fence: 1, Binding: lease.ByName, State: lease.Active, Granted: testNow, Parts: []lease.Part{{GPU: "G", Memory: 1}}}),
		{Version: 1, Kind: record.Release, ID: "nobody", Fence: 7, Time: testNow.UnixNano()},
	} {
		if err := log.Append([][]byte{r.Append(nil)}, journal.Care{Durable: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}

	var out, said bytes.Buffer
	a := &app{Env: Env{Out: &out, Err: &said, Getenv: func(string) string { return "" }, Terminal: func() (int, bool) { return 0, false },
		Now: func() time.Time { return testNow }}}
	options := journalOptions{app: a, stateDir: state}
	if err := (&journalShowOptions{options}).run(); err != nil || !strings.Contains(out.String(), "nobody") {
		t.Errorf("shown as %s, %v", out.String(), err)
	}
	f := (&doctorOptions{app: a}).leases(state)
	if f.Grade != Broken || !strings.Contains(f.Text, "at byte") || !strings.Contains(f.Text, "there is no such lease") || !strings.Contains(f.Next, "berth journal repair") {
		t.Errorf("doctor found %+v", f)
	}
	out.Reset()
	if err := (&journalRepairOptions{options}).run(); err != nil || !strings.Contains(out.String(), "1 record before it kept, 1 after it dropped") || !strings.Contains(out.String(), "1 lease: kept.") {
		t.Errorf("repaired as %s, %v", out.String(), err)
	}
	book, _, err := readBook(journalDir(state))
	if damage := (*journal.CorruptError)(nil); errors.As(err, &damage) || book.Lease("kept") == nil {
		t.Errorf("afterwards: %v", err)
	}
}
