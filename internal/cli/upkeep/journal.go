package upkeep

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/desk/doctor"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

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

func newJournalShow(con *console.Console) *cobra.Command {
	return console.OnState(con, &cobra.Command{
		Use:   "show",
		Short: "Print the records of the journal",
		Long: `Print every record of the journal, oldest first, up to the damage if there is
any. The command changes nothing, and the daemon may run.`,
		Example: "  berth journal show\n  berth journal show --json | jq .record.kind",
	}, func(_ *cobra.Command, state string, _ []string) error {
		j, err := doctor.OpenJournal(state)
		if err != nil {
			return err
		}
		entries, rec, damage := j.Records()
		if err := showEntries(con, entries); err != nil {
			return err
		}
		if rec.Torn != nil && !con.JSON {
			fmt.Fprintf(con.Err, "berth: %s ends in the middle of a record that the daemon never confirmed; the next start cuts it off\n", rec.Torn.File)
		}
		return damage
	})
}

func showEntries(con *console.Console, entries []journal.Entry) error {
	shown := make([]view.Entry, len(entries))
	for i, e := range entries {
		shown[i] = view.Entry(e)
	}
	if !con.JSON {
		return con.Print(view.Entries(shown, con.Uncut())...)
	}
	for _, e := range shown {
		if err := con.PrintJSONLine(e.Answer()); err != nil {
			return err
		}
	}
	return nil
}

func newJournalRepair(con *console.Console) *cobra.Command {
	return console.OnState(con, &cobra.Command{
		Use:   "repair",
		Short: "Make a damaged journal usable again",
		Long: `Keep the records before the damage, and put the damaged files aside in the same
folder. The daemon then forgets leases that were granted after the damage: their
holders run on, and what they use counts as foreign until they end or you adopt
them. The journal of jobs is repaired in the same way: jobs that were submitted
after the damage are forgotten, and their commands run on. Stop the daemon
first. A sound journal is not changed.`,
		Example: "  berth journal repair\n  berth journal repair --state-dir /var/lib/berth",
	}, func(_ *cobra.Command, state string, _ []string) error {
		j, err := doctor.OpenJournal(state)
		if err != nil {
			return err
		}
		did, err := j.Repair(keeper.Check())
		if err != nil {
			return err
		}
		return con.Answer(did, repaired(did, con.Screen())...)
	})
}

// repaired says what was damaged in a journal, what was done about it, and what to do
// next.
func repaired(r doctor.Repair, to term.Screen) []string {
	stand := "No lease stands."
	if n := len(r.Leases); n > 0 {
		stand = fmt.Sprintf("%s: %s.", words.Count(n, "lease"), term.CleanLines(words.And(r.Leases)))
	}
	var lines []string
	switch {
	case r.Damage != "":
		lines = append(damaged("Damaged: ", &r.Repaired, to),
			to.Hang(term.Plain, "  ", stand+" Others are forgotten; their holders run on."),
			to.Hang(term.Plain, "→ ", "start the daemon: berth serve; then see who is there under no lease: berth status GPU, berth adopt --pid PID"))
	case r.Jobs != nil && r.Jobs.Damage != "":
		lines = []string{to.Hang(term.Green, "✓ ", "The journal of leases is sound: "+words.Count(r.Kept, "record")+". "+stand)}
	default:
		return []string{to.Hang(term.Green, "✓ ", "The journal is sound, and nothing was changed: "+words.Count(r.Kept, "record")+". "+stand)}
	}
	if r.Jobs != nil && r.Jobs.Damage != "" {
		lines = append(lines, damaged("The journal of jobs was damaged: ", r.Jobs, to)...)
		lines = append(lines, to.Hang(term.Plain, "→ ", "start the daemon: berth serve; then see which jobs it knows: berth jobs --all"))
	}
	return lines
}

// damaged says what was damaged in one journal, and what was kept of it.
func damaged(what string, r *doctor.Repaired, to term.Screen) []string {
	return []string{
		to.Hang(term.Yellow, "! ", what+term.CleanLines(r.Damage)),
		to.Hang(term.Plain, "  ", fmt.Sprintf("%s before it kept, %d after it dropped.", words.Count(r.Kept, "record"), r.Dropped)),
		to.Hang(term.Plain, "  ", "Put aside in "+r.Folder+": "+words.And(r.Aside)),
	}
}
