package idle

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// judge returns the events about leases on a device that have become idle, or are used
// again. The caller holds mu.
func (i *Idlers) judge(u *unit, now time.Time, after time.Duration) []gpu.Event {
	var events []gpu.Event
	for fence := range u.here {
		l := i.leases[fence]
		f, quiet := l.figures()
		idle := quiet && now.Sub(f.Since) >= after
		if idle == l.told {
			continue
		}
		if l.told = idle; idle {
			events = append(events, l.event(now, f))
		} else {
			events = append(events, l.event(now, Figures{Spell: Spell{Memory: l.memory()}}))
		}
	}
	slices.SortFunc(events, func(a, b gpu.Event) int { return cmp.Compare(a.Data["fence"].(uint64), b.Data["fence"].(uint64)) })
	return events
}

// event returns the event that a lease is idle since a moment, or uses its devices again.
func (l *held) event(now time.Time, f Figures) gpu.Event {
	e := gpu.Event{
		Time: now, Code: gpu.EventIdle, Severity: gpu.Note, Lease: l.ID, User: l.Holder.User,
		Text: l.ID + " uses its device again",
		Data: map[string]any{"fence": l.Fence, "idle": false, "memory_mb": f.Memory},
	}
	if len(l.Parts) == 1 {
		e.GPU = l.Parts[0].GPU
	}
	if !f.Since.IsZero() {
		e.Text = l.ID + " has not used its device for " + words.Duration(now.Sub(f.Since)) + ": it is idle"
		e.Data["idle"], e.Data["since"] = true, f.Since
	}
	return e
}

// memory returns what the processes of a lease have on its devices.
func (l *held) memory() (all gpu.MiB) {
	for _, m := range l.devices {
		all += m.memory
	}
	return all
}

func (i *Idlers) tell(events []gpu.Event) {
	for _, e := range events {
		i.Publish(e)
	}
}
