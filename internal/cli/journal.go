package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/record"
)

// journalOptions is what the commands about the journal share. They work on the
// files themselves, without a daemon.
type journalOptions struct {
	*app
	stateDir string
}

func newJournal(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "journal",
		Short:   "Look at the journal of leases, and mend it",
		GroupID: groupDaemon,
		Long: `The journal, in the state folder of the daemon, is what leases survive a restart
by. A daemon that finds it damaged does not start, because going on would forget
leases that somebody holds.`,
		Example: "  berth journal show\n  berth journal repair",
	}
	cmd.AddCommand(newJournalShow(a), newJournalRepair(a))
	return cmd
}

func (o *journalOptions) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.stateDir, "state-dir", "", "state `FOLDER` of the daemon (default as configured)")
	_ = cmd.MarkFlagDirname("state-dir")
}

// folder is where the journal lies.
func (o *journalOptions) folder() (string, error) {
	state := o.stateDir
	if state == "" {
		settings, err := o.Settings("")
		if err != nil {
			return "", &hintedError{err, "or name the folder: --state-dir DIR"}
		}
		state = settings.Config.Daemon.StateDir
	}
	dir := journalDir(state)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", &hintedError{fmt.Errorf("there is no journal in %s", state), "name the state folder of the daemon: --state-dir DIR"}
	} else if err != nil {
		return "", err
	}
	return dir, nil
}

// journalDir is where a daemon with this state folder keeps its journal.
func journalDir(stateDir string) string { return filepath.Join(stateDir, "journal") }

// readJournal reads a journal that a daemon may be writing to: what looks
// damaged while it does is right at the next try, and damage stays. Begin is
// called for every try, and returns what takes the records.
func readJournal(dir string, begin func() func(journal.Record) error) (rec journal.Recovery, err error) {
	for range 3 {
		rec, err = filelog.Read(filelog.Dir(dir), begin())
		damage := (*journal.CorruptError)(nil)
		if !errors.As(err, &damage) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return rec, err
}

// readRecords is the records of a journal, whether they make sense or not, up to
// the damage if there is any.
func readRecords(dir string) (records []journal.Record, rec journal.Recovery, err error) {
	rec, err = readJournal(dir, func() func(journal.Record) error {
		records = nil
		return func(r journal.Record) error {
			r.Data = slices.Clone(r.Data) // it is lent for the call only
			records = append(records, r)
			return nil
		}
	})
	return records, rec, err
}

// readBook is the book that a journal describes.
func readBook(dir string) (book *lease.Book, rec journal.Recovery, err error) {
	rec, err = readJournal(dir, func() func(journal.Record) error {
		book = lease.New()
		return believe(book)
	})
	return book, rec, err
}

// believe takes records into a book, and says which cannot be true.
func believe(book *lease.Book) func(journal.Record) error {
	return func(r journal.Record) error {
		_, err := book.Read(r.Data)
		if newer := (*record.VersionError)(nil); err != nil && !errors.As(err, &newer) {
			return fmt.Errorf("%w: %w", journal.ErrContradiction, err)
		}
		return err
	}
}
