package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Freed says in a sentence how much memory an optimization freed, and how.
func Freed(o api.Optimization) string {
	var total, leasable gpu.MiB
	var ways []string
	done, left := 0, 0
	for _, r := range o.Rungs {
		left += len(r.Left)
		if r.Name != "move" { // a proposal
			done += len(r.Done)
		}
		switch {
		case r.Name == "shrink":
			leasable += r.Freed
		case r.Freed > 0:
			total += r.Freed
			ways = append(ways, r.Name+" "+r.Freed.String())
		}
	}
	took := words.Duration(time.Duration(o.Took * float64(time.Second)))
	more := ""
	if leasable > 0 {
		more = " " + leasable.String() + " more can be leased, because leases were made smaller."
	}
	switch {
	case o.DryRun && done == 0:
		return "There is nothing to do."
	case o.DryRun:
		return words.Count(done, "step") + " would be taken. Nothing was changed."
	case total > 0:
		return fmt.Sprintf("%s freed in %s: %s.%s", total, took, strings.Join(ways, ", "), more)
	case done+left == 0:
		return "There was nothing to do."
	case done == 0:
		return "Nothing was freed."
	}
	if leasable > 0 {
		return fmt.Sprintf("%s more can be leased, because leases were made smaller (%s). Programs use as much memory as before.", leasable, took)
	}
	return fmt.Sprintf("Nothing was freed: %s, %s.", words.Count(done, "step"), took)
}

// Optimized shows the result of an optimization for each way: what was freed, what was
// done, and what was left alone.
func (x GPUs) Optimized(o api.Optimization, to term.Screen) []string {
	var lines []string
	for _, r := range o.Rungs {
		if len(r.Done)+len(r.Left) == 0 && r.Freed == 0 {
			continue
		}
		head := rungName(r.Name)
		switch {
		case o.DryRun || r.Name == "move":
		case r.Freed == 0:
			head += ": nothing freed"
		case r.Name == "shrink":
			head += fmt.Sprintf(": %s more can be leased", r.Freed)
		default:
			head += fmt.Sprintf(": %s freed in %s", r.Freed, words.Duration(time.Duration(r.Took*float64(time.Second))))
		}
		mark := "  ✓ "
		if r.Name == "move" {
			mark = "  → " // a proposal
		}
		lines = append(lines, to.Hang(term.Bold, "", head))
		for _, s := range r.Done {
			lines = append(lines, to.Hang(term.Green, mark, stepText(s, o.DryRun)))
		}
		for _, s := range r.Left {
			lines = append(lines, to.Hang(term.Dim, "  · ", stepText(s, true)))
		}
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	if !o.DryRun {
		for _, d := range o.Devices {
			if d.AvailableBefore != d.AvailableAfter || d.UsedBefore != d.UsedAfter {
				lines = append(lines, to.Hang(term.Plain, "", fmt.Sprintf("%s: %s in use before, %s now; %s could be leased, %s now",
					x.Name(d.GPU), d.UsedBefore.Beside(d.UsedAfter, d.AvailableBefore, d.AvailableAfter), d.UsedAfter.Beside(d.UsedBefore, d.AvailableBefore, d.AvailableAfter), d.AvailableBefore.Beside(d.UsedBefore, d.UsedAfter, d.AvailableAfter), d.AvailableAfter.Beside(d.UsedBefore, d.UsedAfter, d.AvailableBefore))))
			}
		}
	}
	return append(lines, to.Hang(term.Plain, "", Freed(o)))
}

// rungName returns the heading for a way to free memory.
func rungName(name string) string {
	return cmp.Or(map[string]string{
		"dead": "Leases of the dead", "orphans": "Orphans", "trim": "Caches", "shrink": "Leases that are too large", "park": "Idle leases", "move": "Moves that would make room",
	}[name], term.Clean(name))
}

// stepText says what was done to a lease or a process, or why it was left alone.
func stepText(s api.RungStep, planned bool) string {
	text := term.Clean(s.Text)
	if s.Move != nil {
		return text + " (" + s.Move.Memory.String() + ")"
	}
	if !planned && s.Before != s.After {
		text += fmt.Sprintf(" (%s before, %s now)", s.Before.Beside(s.After), s.After.Beside(s.Before))
	}
	return text
}
