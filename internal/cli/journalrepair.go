package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/doctor"
	"github.com/berth-gpu/berth/internal/term"
	"github.com/berth-gpu/berth/internal/words"
)

type journalRepairOptions struct{ journalOptions }

func newJournalRepair(a *app) *cobra.Command {
	o := &journalRepairOptions{journalOptions{app: a}}
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
	return o.show(did)
}

func (o *journalRepairOptions) show(did doctor.Repair) error {
	if o.json {
		return o.printJSON(did)
	}
	to := o.screen()
	stand := "No lease stands."
	if n := len(did.Leases); n > 0 {
		stand = fmt.Sprintf("%s: %s.", words.Count(n, "lease"), term.CleanLines(words.And(did.Leases)))
	}
	if did.Damage == "" {
		return o.print(to.Hang(term.Green, "✓ ", "The journal is sound, and nothing was changed: "+words.Count(did.Kept, "record")+". "+stand))
	}
	lines := []string{
		to.Hang(term.Yellow, "! ", "Damaged: "+term.CleanLines(did.Damage)),
		to.Hang(term.Plain, "  ", fmt.Sprintf("%s before it kept, %d after it dropped.", words.Count(did.Kept, "record"), did.Dropped)),
		to.Hang(term.Plain, "  ", "Put aside in "+did.Folder+": "+words.And(did.Aside)),
		to.Hang(term.Plain, "  ", stand+" Others are forgotten; their holders run on."),
		to.Hang(term.Plain, "→ ", "start the daemon: berth serve; then see who is there under no lease: berth status GPU, berth adopt --pid PID"),
	}
	return o.print(lines...)
}
