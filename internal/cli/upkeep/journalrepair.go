package upkeep

import (
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
)

type journalRepairOptions struct{ journalOptions }

func newJournalRepair(con *console.Console) *cobra.Command {
	o := &journalRepairOptions{journalOptions{Console: con}}
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Make a damaged journal usable again",
		Long: `Keep the records before the damage, and put the damaged files aside in the same
folder. The daemon then forgets leases that were granted after the damage: their
holders run on, and what they use counts as foreign until they end or you adopt
them. Stop the daemon first. A sound journal is not changed.`,
		Example: "  berth journal repair\n  berth journal repair --state-dir /var/lib/berth",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
	o.flag(cmd)
	return cmd
}

func (o *journalRepairOptions) run() error {
	j, err := o.open()
	if err != nil {
		return err
	}
	did, err := j.Repair()
	if err != nil {
		return err
	}
	return o.Answer(did, view.Repair(did).Lines(o.Screen())...)
}
