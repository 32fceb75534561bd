package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/text/words"
)

// leases examines whether the next daemon could read the leases in the journal. A running
// daemon has read them.
func leases(stateDir string) Finding {
	book, rec, err := (&Journal{journalDir(stateDir)}).book()
	if err != nil {
		return unreadable("journal", stateDir, err)
	}
	return Finding{Topic: "journal", Grade: Fine, Text: fmt.Sprintf("sound, %s in %s",
		words.Count(len(book.Leases()), "lease"), words.Count(rec.SnapshotEntries+rec.LogEntries, "record"))}
}

// jobJournal examines whether the next daemon could read the jobs in the journal, if there
// is one.
func (d *Doctor) jobJournal(stateDir string) []Finding {
	folder := filepath.Join(stateDir, inventory.JobJournal)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	rec, err := ReadJournal(folder, d.OfJobs)
	if err != nil {
		return []Finding{unreadable("job journal", stateDir, err)}
	}
	return []Finding{{Topic: "job journal", Grade: Fine, Text: "sound, " + words.Count(rec.SnapshotEntries+rec.LogEntries, "record")}}
}

// unreadable returns what is wrong with a journal that was not read.
func unreadable(topic, stateDir string, err error) Finding {
	damage := (*journal.CorruptError)(nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Finding{Topic: topic, Grade: Fine, Text: "none yet"}
	case errors.Is(err, fs.ErrPermission):
		return Finding{topic, Notice, "it cannot be read: " + err.Error(), "ask as the user that runs the daemon"}
	case errors.As(err, &damage):
		text := fmt.Sprintf("%s is damaged at byte %d, record %d: %s", damage.File, damage.Offset, damage.Seq, damage.Reason)
		return Finding{topic, Broken, text, "bring the folder back from a copy, or: berth journal repair --state-dir " + stateDir}
	}
	return Finding{topic, Broken, err.Error(), ""}
}
