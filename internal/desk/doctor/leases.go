package doctor

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/text/words"
)

// leases examines whether the next daemon could read the leases in the journal. A running
// daemon has read them.
func leases(stateDir string) Finding {
	book, rec, err := (&Journal{journalDir(stateDir)}).book()
	damage := (*journal.CorruptError)(nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Finding{Topic: "journal", Grade: Fine, Text: "none yet"}
	case errors.Is(err, fs.ErrPermission):
		return Finding{"journal", Notice, "it cannot be read: " + err.Error(), "ask as the user that runs the daemon"}
	case errors.As(err, &damage):
		text := fmt.Sprintf("%s is damaged at byte %d, record %d: %s", damage.File, damage.Offset, damage.Seq, damage.Reason)
		return Finding{"journal", Broken, text, "bring the folder back from a copy, or: berth journal repair --state-dir " + stateDir}
	case err != nil:
		return Finding{"journal", Broken, err.Error(), ""}
	}
	return Finding{Topic: "journal", Grade: Fine, Text: fmt.Sprintf("sound, %s in %s",
		words.Count(len(book.Leases()), "lease"), words.Count(rec.SnapshotEntries+rec.LogEntries, "record"))}
}
