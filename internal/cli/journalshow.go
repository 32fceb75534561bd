package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/record"
)

func newJournalShow(a *app) *cobra.Command {
	o := &journalShowOptions{journalOptions{app: a}}
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the records of the journal",
		Long: `Print every record that the journal holds, oldest first, up to the damage if
there is any. Nothing is changed, and the daemon may run.`,
		Example: "  berth journal show\n  berth journal show --json | jq .record.kind",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.run() },
	}
	o.flag(cmd)
	return cmd
}

type journalShowOptions struct{ journalOptions }

func (o *journalShowOptions) run() error {
	dir, err := o.folder()
	if err != nil {
		return err
	}
	records, rec, damage := readRecords(dir)
	if err := o.records(records); err != nil {
		return err
	}
	if rec.Torn != nil && !o.json {
		fmt.Fprintf(o.Err, "berth: %s ends in the middle of a record, which the next start cuts off: nobody was told of it\n", rec.Torn.File)
	}
	return damage
}

func (o *journalShowOptions) records(records []journal.Record) error {
	if o.json {
		for _, r := range records {
			if err := o.printJSONLine(recordLine{r.Seq, r.Snapshot, jsonValue(string(r.Data))}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(records) == 0 {
		return o.print("The journal is empty.")
	}
	to := o.screen()
	if !o.isTerminal() {
		to.width = math.MaxInt // one line each, for whoever searches in them
	}
	return o.print(recordTable(records, to).lines(to.width, to.painter)...)
}

// recordLine is a record for programs; one that is not JSON is shown as text.
type recordLine struct {
	Seq      uint64 `json:"seq"`
	Snapshot bool   `json:"snapshot,omitempty"`
	Record   any    `json:"record"`
}

func recordTable(records []journal.Record, to screen) *table {
	t := &table{columns: []column{
		{title: "SEQ", right: true}, {title: "TIME"}, {title: "KIND"}, {title: "FENCE", right: true},
		{title: "ID", least: 8}, {title: "WHAT", least: 10},
	}}
	for _, r := range records {
		seq := strconv.FormatUint(r.Seq, 10)
		read, err := record.Decode(r.Data)
		if err != nil {
			t.add(cell{text: seq}, cell{}, cell{"unreadable", red}, cell{}, cell{}, cell{text: clean(err.Error())})
			continue
		}
		at := ""
		if read.Time != 0 {
			at = time.Unix(0, read.Time).In(to.now.Location()).Format("Jan _2 15:04:05")
		}
		t.add(cell{text: seq}, cell{text: at}, cell{text: clean(string(read.Kind))},
			cell{text: strconv.FormatUint(read.Fence, 10)}, cell{text: clean(read.ID)}, cell{text: recorded(read, to)})
	}
	return t
}

// recorded is what a record says beside its kind and its lease.
func recorded(r record.Record, to screen) string {
	switch {
	case r.Lease != nil:
		text := ""
		for _, p := range r.Lease.Parts {
			text = join(text, amount(gpu.MiB(p.Memory), p.Slots)+" on "+clean(p.GPU))
		}
		binding := r.Lease.Binding
		if binding == string(lease.ByProcess) {
			binding += " " + strconv.Itoa(r.Lease.PID)
		}
		return join(text, binding, clean(r.Lease.Service), clean(r.Lease.User))
	case r.Expires != 0:
		return "until " + time.Unix(0, r.Expires).In(to.now.Location()).Format("Jan _2 15:04:05")
	}
	return clean(r.Why)
}
