package view

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Repair describes the repair of a journal.
type Repair struct {
	Folder  string
	Damage  string // empty if there was none
	Kept    int    // records
	Dropped int    // records
	Aside   []string
	Leases  []string // that still exist
}

// Lines says what was damaged, what was done about it, and what to do next.
func (r Repair) Lines(to term.Screen) []string {
	stand := "No lease stands."
	if n := len(r.Leases); n > 0 {
		stand = fmt.Sprintf("%s: %s.", words.Count(n, "lease"), term.CleanLines(words.And(r.Leases)))
	}
	if r.Damage == "" {
		return []string{to.Hang(term.Green, "✓ ", "The journal is sound, and nothing was changed: "+words.Count(r.Kept, "record")+". "+stand)}
	}
	return []string{
		to.Hang(term.Yellow, "! ", "Damaged: "+term.CleanLines(r.Damage)),
		to.Hang(term.Plain, "  ", fmt.Sprintf("%s before it kept, %d after it dropped.", words.Count(r.Kept, "record"), r.Dropped)),
		to.Hang(term.Plain, "  ", "Put aside in "+r.Folder+": "+words.And(r.Aside)),
		to.Hang(term.Plain, "  ", stand+" Others are forgotten; their holders run on."),
		to.Hang(term.Plain, "→ ", "start the daemon: berth serve; then see who is there under no lease: berth status GPU, berth adopt --pid PID"),
	}
}
