package upkeep

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/desk/doctor"
)

// journalOptions are the flags that the commands about the journal share. The commands
// work on the files themselves, without a daemon.
type journalOptions struct {
	*console.Console
	stateDir string
}

func newJournal(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Show the journal of leases, or repair it",
		Long: `Show the journal of leases, or repair it. The daemon keeps the journal in its
state folder, so that leases survive a restart. It does not start with a damaged
journal, because it would forget leases that somebody holds.`,
		Example: "  berth journal show\n  berth journal repair",
	}
	cmd.AddCommand(newJournalShow(con), newJournalRepair(con))
	return cmd
}

func (o *journalOptions) flag(cmd *cobra.Command) { console.StateFlag(cmd, &o.stateDir) }

// open finds the journal.
func (o *journalOptions) open() (*doctor.Journal, error) {
	state, err := o.StateDir(o.stateDir)
	if err != nil {
		return nil, err
	}
	return doctor.OpenJournal(state)
}
