package upkeep

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/file/journal"
)

type journalShowOptions struct{ journalOptions }

func newJournalShow(con *console.Console) *cobra.Command {
	o := &journalShowOptions{journalOptions{Console: con}}
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the records of the journal",
		Long: `Print every record of the journal, oldest first, up to the damage if there is
any. The command changes nothing, and the daemon may run.`,
		Example: "  berth journal show\n  berth journal show --json | jq .record.kind",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
	o.flag(cmd)
	return cmd
}

func (o *journalShowOptions) run() error {
	j, err := o.open()
	if err != nil {
		return err
	}
	entries, rec, damage := j.Records()
	if err := o.show(entries); err != nil {
		return err
	}
	if rec.Torn != nil && !o.JSON {
		fmt.Fprintf(o.Err, "berth: %s ends in the middle of a record that the daemon never confirmed; the next start cuts it off\n", rec.Torn.File)
	}
	return damage
}

func (o *journalShowOptions) show(entries []journal.Entry) error {
	shown := make([]view.Entry, len(entries))
	for i, e := range entries {
		shown[i] = view.Entry(e)
	}
	if !o.JSON {
		return o.Print(view.Entries(shown, o.Uncut())...)
	}
	for _, e := range shown {
		if err := o.PrintJSONLine(e.Answer()); err != nil {
			return err
		}
	}
	return nil
}
