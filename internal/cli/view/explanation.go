package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Explained says in a sentence whether a request fits, then in which order it would get
// the devices, and then, for each other device, what the obstacle is.
func (x GPUs) Explained(e api.Explanation, to term.Screen) []string {
	mark, c := "✗ ", term.Red
	switch {
	case e.Fits:
		mark, c = "✓ ", term.Green
	case e.Possible:
		mark, c = "! ", term.Yellow
	}
	lines := []string{to.Hang(c, mark, term.Clean(e.Text))}
	if len(e.Behind) > 0 {
		ids := make([]string, len(e.Behind))
		for i, id := range e.Behind {
			ids[i] = term.Clean(id)
		}
		lines = append(lines, to.Hang(term.Plain, "  ", "Served first: "+strings.Join(ids, ", ")))
	}
	if ranking := x.ranking(e, to); len(ranking) > 0 {
		lines = append(append(lines, ""), ranking...)
	}
	if len(e.Devices) > 0 {
		lines = append(lines, "")
	}
	for _, o := range grouped(e.Devices) {
		lines = append(lines, x.obstacle(o, to)...)
	}
	if !e.Fits && e.LargestEver > 0 {
		lines = append(lines, "", fmt.Sprintf("Granted now: %s. Ever: %s.", atMost(e.LargestNow), atMost(e.LargestEver)))
	}
	return lines
}

// Why says in a few words what a request waits for: the first device that could
// serve it one day, and how many more there are.
func (x GPUs) Why(e api.Explanation) string {
	hopeless := []string{"other_device", "constraint", "too_small"}
	var first api.Obstacle
	able := map[string]bool{}
	for _, o := range e.Devices {
		if slices.Contains(hopeless, o.Code) {
			continue
		}
		if len(able) == 0 {
			first = o
		}
		able[o.GPU] = true
	}
	if len(able) == 0 { // the caller has shown the place in the queue
		return term.Clean(strings.TrimSuffix(e.Text, fmt.Sprintf(" It is number %d in the queue.", e.Position)))
	}
	text := x.Name(first.GPU) + " " + term.Clean(first.Text)
	if others := len(able) - 1; others > 0 {
		text += "; no room on " + words.Count(others, "other GPU") + " either"
	}
	return text
}

func atMost(m gpu.MiB) string {
	if m == 0 {
		return "nothing"
	}
	return "at most " + m.Exact()
}

// together is an obstacle that several devices have in common.
type together struct {
	api.Obstacle
	uuids []string
}

// grouped groups devices that differ only in their name.
func grouped(all []api.Obstacle) []together {
	var groups []together
	for _, o := range all {
		if o.Code != "no_memory" && o.Code != "no_slot" {
			o.Holders = nil // they are not the obstacle
		}
		same := slices.IndexFunc(groups, func(g together) bool {
			return g.Text == o.Text && len(g.Holders) == 0 && len(o.Holders) == 0
		})
		if same >= 0 {
			groups[same].uuids = append(groups[same].uuids, o.GPU)
			continue
		}
		groups = append(groups, together{o, []string{o.GPU}})
	}
	return groups
}

func (x GPUs) obstacle(o together, to term.Screen) []string {
	shorts := make([]string, len(o.uuids))
	for i, uuid := range o.uuids {
		shorts[i] = x.short(uuid)
	}
	lead := fmt.Sprintf("  GPU %s  ", strings.Join(shorts, ", "))
	lines := []string{to.Hang(term.Bold, lead, term.Clean(o.Text))}
	for _, h := range o.Holders {
		text := fmt.Sprintf("%s of %s holds %s", term.Clean(h.Lease), Holder(h.Holder), Amount(h.Memory, h.Slots))
		if h.Until != nil {
			text += fmt.Sprintf(" until %s, in %s", h.Until.In(to.Now.Location()).Format(time.TimeOnly), words.Age(h.Until.Sub(to.Now)))
		}
		switch {
		case h.Kept != "":
			text += "; berth does not park it: " + term.Clean(h.Kept)
		case h.Parkable:
			text += "; berth may park it"
		}
		lines = append(lines, to.Hang(term.Dim, strings.Repeat(" ", term.Columns(lead))+"· ", text))
	}
	return lines
}
