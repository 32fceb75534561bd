package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// A record that is whole and contradicts those before it can be read and is
// reported, and a repair keeps what is before it.
func TestRepairOfAContradiction(t *testing.T) {
	state := t.TempDir()
	dir := file.PrivateDir(journalDir(state))
	if err := os.Mkdir(journalDir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	log, _, err := filelog.Open(dir, filelog.Options{}, func(journal.Entry) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	kept := &lease.Lease{ID: "kept", Fence: 1, Binding: lease.ByName, State: lease.Active, Granted: now, Parts: []lease.Part{{GPU: "G", Memory: 1}}}
	records := slices.Collect(lease.EntriesOf([]*lease.Lease{kept}))
	for _, r := range append(records, stored.Entry{Version: 1, Kind: stored.Release, ID: "nobody", Fence: 7, Time: now.UnixNano()}) {
		if err := log.Append([][]byte{lease.AppendEntry(nil, &r)}, journal.Care{Durable: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}

	j, err := OpenJournal(state)
	if err != nil {
		t.Fatal(err)
	}
	if records, _, err := j.Records(); err != nil || len(records) != 2 || !strings.Contains(string(records[1].Data), "nobody") {
		t.Errorf("%d records, %v", len(records), err)
	}
	f := leases(state)
	if f.Grade != Broken || !strings.Contains(f.Text, "at byte") || !strings.Contains(f.Text, "there is no such lease") || !strings.Contains(f.Next, "berth journal repair") {
		t.Errorf("doctor found %+v", f)
	}
	did, err := j.Repair(func(journal.Entry) error { return nil })
	if err != nil || did.Kept != 1 || did.Dropped != 1 || did.Damage == "" || len(did.Aside) == 0 || !slices.Equal(did.Leases, []string{"kept"}) {
		t.Errorf("repaired as %+v, %v", did, err)
	}
	if again, err := j.Repair(func(journal.Entry) error { return nil }); err != nil || again.Damage != "" || len(again.Aside) != 0 {
		t.Errorf("repaired again as %+v, %v", again, err)
	}
	book, _, err := j.book()
	if damage := (*journal.CorruptError)(nil); errors.As(err, &damage) || book.Lease(kept.Key()) == nil {
		t.Errorf("afterwards: %v", err)
	}
}

// The journal of jobs is repaired beside that of leases.
func TestRepairOfJobs(t *testing.T) {
	state := t.TempDir()
	jobs := filepath.Join(state, "jobs", "journal")
	for _, dir := range []string{journalDir(state), jobs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		log, _, err := filelog.Open(file.PrivateDir(dir), filelog.Options{}, func(journal.Entry) error { return nil })
		if err == nil {
			err = log.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	found, err := filepath.Glob(filepath.Join(jobs, "log-*"))
	if err != nil || len(found) != 1 || os.WriteFile(found[0], make([]byte, 1<<10), 0o600) != nil {
		t.Fatalf("%q, %v", found, err)
	}
	d := Doctor{OfJobs: func() func(journal.Entry) error { return func(journal.Entry) error { return nil } }}
	if f := d.jobJournal(state); len(f) != 1 || f[0].Grade != Broken || !strings.Contains(f[0].Text, "is damaged at byte") || !strings.Contains(f[0].Next, "berth journal repair") {
		t.Errorf("doctor found %+v", f)
	}
	j, err := OpenJournal(state)
	if err != nil {
		t.Fatal(err)
	}
	did, err := j.Repair(func(journal.Entry) error { return nil })
	if err != nil || did.Damage != "" || did.Jobs == nil || did.Jobs.Folder != jobs || did.Jobs.Damage == "" || len(did.Jobs.Aside) != 1 {
		t.Errorf("repaired as %+v with jobs %+v, %v", did, did.Jobs, err)
	}
	if did, err := j.Repair(func(journal.Entry) error { return nil }); err != nil || did.Jobs.Damage != "" {
		t.Errorf("repaired again as %+v, %v", did.Jobs, err)
	}
}

func TestRepairLeavesAnOpenJournalAlone(t *testing.T) {
	state := t.TempDir()
	if err := os.Mkdir(journalDir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	log, _, err := filelog.Open(file.PrivateDir(journalDir(state)), filelog.Options{}, func(journal.Entry) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	j, err := OpenJournal(state)
	if err != nil {
		t.Fatal(err)
	}
	_, err = j.Repair(func(journal.Entry) error { return nil })
	if refused := (*Error)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "has this journal open") || !strings.Contains(refused.Hint(), "stop it first") {
		t.Errorf("repairing said %v", err)
	}
}

func TestNoJournal(t *testing.T) {
	_, err := OpenJournal(t.TempDir())
	if refused := (*Error)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "there is no journal in") || !strings.Contains(refused.Hint(), "--state-dir") {
		t.Errorf("opening said %v", err)
	}
}
