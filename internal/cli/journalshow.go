package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/record"
	"github.com/berth-gpu/berth/internal/term"
	"github.com/berth-gpu/berth/internal/view"
)

func newJournalShow(a *app) *cobra.Command {
	o := &journalShowOptions{journalOptions{app: a}}
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

type journalShowOptions struct{ journalOptions }

func (o *journalShowOptions) run() error {
	j, err := o.open()
	if err != nil {
		return err
	}
	records, rec, damage := j.Records()
	if err := o.records(records); err != nil {
		return err
	}
	if rec.Torn != nil && !o.json {
		fmt.Fprintf(o.Err, "berth: %s ends in the middle of a record that the daemon never confirmed; the next start cuts it off\n", rec.Torn.File)
	}
	return damage
}

func (o *journalShowOptions) records(records []journal.Record) error {
	if o.json {
		for _, r := range records {
			if err := o.printJSONLine(recordLine{r.Seq, r.Snapshot, jsonOrText(r.Data)}); err != nil {
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
		to.Width = math.MaxInt // one line each, for whoever searches in them
	}
	return o.print(recordTable(records, to).Lines(to.Width, to.Painter)...)
}

// recordLine is a record for programs; one that is not JSON is shown as text.
type recordLine struct {
	Seq      uint64 `json:"seq"`
	Snapshot bool   `json:"snapshot,omitempty"`
	Record   any    `json:"record"`
}

// jsonOrText returns data as JSON where it is JSON, and else as a text.
func jsonOrText(data []byte) any {
	if json.Valid(data) {
		return json.RawMessage(data)
	}
	return string(data)
}

func recordTable(records []journal.Record, to term.Screen) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "SEQ", Right: true}, {Title: "TIME"}, {Title: "KIND"}, {Title: "FENCE", Right: true},
		{Title: "ID", Least: 8}, {Title: "WHAT", Least: 10},
	}}
	for _, r := range records {
		seq := strconv.FormatUint(r.Seq, 10)
		read, err := record.Decode(r.Data)
		if err != nil {
			t.Add(term.Text(seq), term.Cell{}, term.Painted("unreadable", term.Red), term.Cell{}, term.Cell{}, term.Text(term.Clean(err.Error())))
			continue
		}
		at := ""
		if read.Time != 0 {
			at = time.Unix(0, read.Time).In(to.Now.Location()).Format("Jan _2 15:04:05")
		}
		t.Add(term.Text(seq), term.Text(at), term.Text(term.Clean(string(read.Kind))),
			term.Text(strconv.FormatUint(read.Fence, 10)), term.Text(term.Clean(read.ID)), term.Text(view.Join(recorded(read, to), recordedBy(read.By))))
	}
	return t
}

// recordedBy says who did what a record reports; empty: the record does not say.
func recordedBy(b record.By) string {
	switch by := (gpu.By{User: term.Clean(b.User), Token: term.Clean(b.Token)}); b.Door {
	case "":
		return ""
	case string(access.Itself):
		return "by berth"
	default:
		return "by " + by.String() + " over " + term.Clean(b.Door)
	}
}

// recorded is what a record says beside its kind and its lease.
func recorded(r record.Record, to term.Screen) string {
	switch {
	case r.Lease != nil:
		text := ""
		for _, p := range r.Lease.Parts {
			text = view.Join(text, view.Amount(gpu.MiB(p.Memory), p.Slots)+" on "+term.Clean(p.GPU))
		}
		binding := r.Lease.Binding
		if binding == string(lease.ByProcess) {
			binding += " " + strconv.Itoa(r.Lease.PID)
		}
		return view.Join(text, binding, term.Clean(r.Lease.Service), term.Clean(r.Lease.User))
	case r.Expires != 0:
		return "until " + time.Unix(0, r.Expires).In(to.Now.Location()).Format("Jan _2 15:04:05")
	}
	return term.Clean(r.Why)
}
