package view

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Drained says that a device is drained, and which leases continue there.
func Drained(d api.Drained, to term.Screen) []string {
	text := fmt.Sprintf("GPU %d is not drained any more.", d.Index)
	if d.Drain != nil {
		text = fmt.Sprintf("GPU %d is %s.", d.Index, drained(d.Drain, to))
	}
	if len(d.Leases) == 0 {
		return []string{to.Hang(term.Plain, "", text+" No lease is left there.")}
	}
	text += " " + words.Count(len(d.Leases), "lease") + " " + words.Form(len(d.Leases), "goes", "go") + " on:"
	return append([]string{to.Hang(term.Plain, "", text), ""}, leasesOn(d.Leases, to).Lines(to.Width, to.Painter)...)
}

// Undrained says that a device is in use again, or that nothing has changed.
func Undrained(d api.Drained, _ term.Screen) []string {
	if !d.Changed {
		return []string{fmt.Sprintf("GPU %d was not drained.", d.Index)}
	}
	return []string{fmt.Sprintf("GPU %d is not drained any more.", d.Index)}
}

// drained says who drains a device, until when and why.
func drained(d *api.Drain, to term.Screen) string {
	text := "drained"
	if d.By != "" {
		text += " by " + term.Clean(d.By)
	}
	if d.Until != nil {
		text += " until " + clock(*d.Until, to.Now)
	}
	if d.Reason != "" {
		text += ": " + term.Clean(d.Reason)
	}
	return text
}

// clock writes a future time: only the hour if it is within a day.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Sub(now) < 24*time.Hour {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}
