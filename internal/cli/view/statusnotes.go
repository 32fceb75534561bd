package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// complaint says what is wrong with a device.
func complaint(d api.Status, to term.Screen) string {
	mark := "! "
	if d.State.Worse(gpu.Throttled) || d.Health == gpu.Unhealthy {
		mark = "✗ "
	}
	text := fmt.Sprintf("GPU %d %s", d.Device.Index, d.State)
	if !d.Since.IsZero() {
		text += " for " + words.Age(to.Now.Sub(d.Since))
	}
	if d.Health == gpu.Unhealthy && d.State != gpu.Unavailable {
		text += ", unhealthy"
	}
	if d.Reason != "" {
		text += ": " + term.Clean(d.Reason)
	}
	if d.State != gpu.Unavailable {
		if not := distrust(d.Trust, to); not != "" {
			text += "; " + not
		}
	}
	if note := ahead(d); note != "" {
		text += "; " + term.Clean(note)
	}
	if d.State == gpu.Unavailable && d.Health == gpu.HealthUnknown && d.Sample != nil {
		text += fmt.Sprintf(" (last sample %s ago)", words.Age(to.Now.Sub(d.Sample.Time)))
	}
	return to.Hang(stateColour(d.State), mark, text)
}

// distrust says how far a device is not trusted, or returns "" if it is.
func distrust(t *api.Trust, to term.Screen) string {
	if t == nil {
		return ""
	}
	text := ""
	switch t.Phase {
	case "quarantine":
		text = "in quarantine until its check is done: " + term.Clean(t.Why)
		if left := t.Until.Sub(to.Now); left > 0 {
			text = "in quarantine for another " + words.Age(left) + " at least: " + term.Clean(t.Why)
		}
	case "probation":
		text = "on probation for another " + words.Age(t.Until.Sub(to.Now)) + ", with half its slots: " + term.Clean(t.Why)
	}
	if t.Withheld > 0 {
		text = Join(text, words.Count(t.Withheld, "slot")+" withheld, as its memory ran out")
	}
	return text
}

// totals sums up the table. UNAVAILABLE devices count as such, and add no memory and no
// power; nor do instances of a device.
func (s *Status) totals() string {
	var used, total gpu.MiB
	var power gpu.Watts
	states := map[gpu.State]int{}
	for _, d := range s.GPUs {
		states[d.State]++
		if d.State == gpu.Unavailable || d.Device.Parent != "" { // the whole device counts for its instances
			continue
		}
		total += d.Device.MemoryTotal
		m := Measured(d)
		used += m.MemoryUsed.Or(0)
		power += m.Power.Or(0)
	}
	var counts []string
	for _, state := range gpu.States() {
		if n := states[state]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, state))
		}
	}
	var leased gpu.MiB
	for _, d := range s.Leasable.GPUs {
		leased += d.Leased
	}
	u := s.Utilization
	memory := fmt.Sprintf("%s of %s GiB", gib(used), gib(total))
	if leased > 0 {
		memory += ", " + gib(leased) + " leased"
	}
	parts := []string{
		words.Count(len(s.GPUs), "GPU") + ": " + strings.Join(counts, ", "),
		memory,
		fmt.Sprintf("%.0f W", float64(power)),
		fmt.Sprintf("%d of %s in use", u.TotalActive, words.Count(u.TotalCapacity, "slot")),
	}
	if s.Host != "" {
		parts = append(parts, "on "+term.Clean(s.Host))
	}
	return strings.Join(parts, " · ")
}

// Need writes what needs a person, and for how long.
func Need(n api.Need, now time.Time) string {
	text := term.Clean(n.Text)
	if n.Since != nil {
		text += ", for " + words.Age(now.Sub(*n.Since))
	}
	return text
}

// needs lists what needs a person beside the devices, and what to do about it.
func (s *Status) needs(to term.Screen) (lines []string) {
	for _, n := range s.Needs {
		if n.GPU != "" || n.Kind == "monitoring" {
			continue // there is more about it in other lines
		}
		mark, c := "! ", term.Yellow
		if n.Severity == gpu.Serious {
			mark, c = "✗ ", term.Red
		}
		text := Need(n, to.Now)
		if n.Next != "" {
			text += ". Next: " + term.Clean(n.Next)
		}
		lines = append(lines, to.Hang(c, mark, text))
	}
	return lines
}
