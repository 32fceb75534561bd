package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/text/words"
)

// VerifyAudit checks the audit log in the state folder of a daemon, and compares it with
// the entry that the journal names. The daemon may run.
func VerifyAudit(stateDir string) (api.AuditVerdict, error) {
	if _, err := os.Stat(stateDir); err != nil {
		return api.AuditVerdict{}, &Error{fmt.Errorf("look at the state folder: %w", err), "name the state folder of the daemon: --state-dir DIR"}
	}
	// Read the journal first: the entry that it names is in the log by then.
	var marked audit.Marked
	_, err := ReadJournal(journalDir(stateDir), func() func(journal.Entry) error {
		marked = audit.Marked{}
		return marked.Reading(func(journal.Entry) error { return nil })
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return api.AuditVerdict{}, fmt.Errorf("read which entry the journal names: %w", err)
	}
	return audit.Verify(file.Dir(filepath.Join(stateDir, "audit")), marked.Newest())
}

// auditLog examines the audit log while no daemon runs.
func auditLog(stateDir string) Finding {
	verdict, err := VerifyAudit(stateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Finding{Topic: "audit", Grade: Fine, Text: "no log yet"}
	case errors.Is(err, fs.ErrPermission):
		return Finding{"audit", Notice, "the audit log cannot be read: " + err.Error(), "ask as the user that runs the daemon"}
	case err != nil:
		return Finding{"audit", Broken, err.Error(), ""}
	case !verdict.Sound:
		return Finding{"audit", Broken, verdict.Problems[0].Text, "see all of it: berth audit verify"}
	case verdict.Entries == 0:
		return Finding{Topic: "audit", Grade: Fine, Text: "no log yet"}
	}
	return Finding{Topic: "audit", Grade: Fine, Text: "sound, " + words.Count(verdict.Entries, "entry")}
}
