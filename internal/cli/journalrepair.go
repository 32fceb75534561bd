package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/record"
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
folder. Leases that were granted after that are forgotten: their holders run on,
and what they use counts as foreign until they end or are adopted. The daemon
must not run. A journal that is sound is left as it is.`,
		Example: "  berth journal repair\n  berth journal repair --state-dir /var/lib/berth",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
	o.flag(cmd)
	return cmd
}

// repaired is what repair did.
type repaired struct {
	Folder  string   `json:"folder"`
	Damage  string   `json:"damage,omitempty"` // empty: there was none
	Kept    int      `json:"kept_records"`
	Dropped int      `json:"dropped_records"`
	Aside   []string `json:"put_aside"`
	Leases  []string `json:"leases"` // that stand
}

func (o *journalRepairOptions) run() error {
	dir, err := o.folder()
	if err != nil {
		return err
	}
	salvaged, err := filelog.Salvage(filelog.Dir(dir), believe(lease.New()))
	if locked := (*journal.LockedError)(nil); errors.As(err, &locked) {
		who := "a daemon"
		if locked.PID != 0 {
			who = fmt.Sprintf("a daemon, process %d,", locked.PID)
		}
		return &hintedError{fmt.Errorf("%s has this journal open", who), "stop it first; nothing was changed"}
	}
	if err != nil {
		return err
	}
	did := repaired{Folder: dir, Kept: salvaged.Kept, Dropped: salvaged.Dropped, Aside: append([]string{}, salvaged.Aside...)}
	if d := salvaged.Damage; d != nil {
		did.Damage = fmt.Sprintf("%s at byte %d, record %d: %s", d.File, d.Offset, d.Seq, d.Reason)
		if err := skipFences(dir); err != nil {
			return err
		}
	}
	if did.Leases, err = ids(dir); err != nil {
		return err
	}
	return o.show(did)
}

// skipFences makes the next start give out fences that are higher than any that
// may have been lost: it does so wherever the last mark is not from its own
// boot.
func skipFences(dir string) error {
	var fence uint64
	log, _, err := filelog.Open(filelog.Dir(dir), filelog.Options{}, func(r journal.Record) error {
		read, err := record.Decode(r.Data)
		fence = max(fence, read.Fence)
		return err
	})
	if err != nil {
		return err
	}
	mark := record.NewFence(fence, "repaired")
	return errors.Join(log.Append([][]byte{mark.Append(nil)}, journal.Care{Durable: true, Reserve: true}), log.Close())
}

// ids are the leases that a journal leaves standing.
func ids(dir string) ([]string, error) {
	book, _, err := readBook(dir)
	if err != nil {
		return nil, err
	}
	found := []string{}
	for _, l := range book.Leases() {
		found = append(found, l.ID)
	}
	return found, nil
}

func (o *journalRepairOptions) show(did repaired) error {
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
