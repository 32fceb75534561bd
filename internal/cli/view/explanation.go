package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process/launch"
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
	if starts := Foretold(e.Estimate, to.Now); starts != "" {
		lines = append(lines, to.Hang(term.Plain, "  ", starts))
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
	if !e.Fits && slices.ContainsFunc(e.Devices, slotsOnly) {
		lines = append(lines, "", to.Hang(term.Plain, "", "A slot is missing, and not memory: an operator makes more with berth config set gpu.max_pipelines=NUMBER."))
	}
	if !e.Fits && e.LargestEver > 0 {
		lines = append(lines, "", fmt.Sprintf("Granted now: %s. Ever: %s.", atMost(e.LargestNow), atMost(e.LargestEver)))
	}
	return lines
}

// slotsOnly reports whether nothing but slots is missing on a device.
func slotsOnly(o api.Obstacle) bool { return o.Code == "no_slot" && len(o.Also) == 0 }

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
	if n := len(first.Holders); n > 0 {
		text += "; held by " + term.Clean(first.Holders[0].Lease)
		if user := first.Holders[0].Holder.User; user != "" {
			text += " of " + term.Clean(user)
		}
		if n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
	}
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

// grouped puts together what is in the way on each device, and then devices that differ
// only in their name.
func grouped(all []api.Obstacle) []together {
	var groups []together
	for _, o := range onEach(all) {
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

// onEach returns one obstacle for each device, with the leases that are in the way.
func onEach(all []api.Obstacle) []api.Obstacle {
	var each []api.Obstacle
	for _, o := range all {
		if o.Code != "no_memory" && o.Code != "no_slot" && o.Code != "exclusive" {
			o.Holders = nil // they are not the obstacle
		}
		if same := slices.IndexFunc(each, func(e api.Obstacle) bool { return e.GPU == o.GPU }); same >= 0 {
			each[same].Text += ", and " + o.Text
			continue
		}
		each = append(each, o)
	}
	return each
}

func (x GPUs) obstacle(o together, to term.Screen) []string {
	shorts := make([]string, len(o.uuids))
	for i, uuid := range o.uuids {
		shorts[i] = x.short(uuid)
	}
	lead := fmt.Sprintf("  GPU %s  ", words.Few(shorts, mostAlike))
	lines := []string{to.Hang(term.Bold, lead, term.Clean(o.Text))}
	shown := o.Holders
	if len(shown) > mostInTheWay+1 {
		shown = shown[:mostInTheWay]
	}
	for _, h := range shown {
		text := fmt.Sprintf("%s of %s holds %s", term.Clean(h.Lease), Holder(h.Holder), Amount(h.Memory, h.Slots))
		if h.Until != nil {
			text += fmt.Sprintf(" until %s, in %s", h.Until.In(to.Now.Location()).Format(time.TimeOnly), until(*h.Until, to.Now))
		}
		if h.Unused != "" {
			text += ", and " + term.Clean(h.Unused) + ": ask " + cmp.Or(term.Clean(h.Holder.User), "its user")
		}
		switch {
		case h.Kept != "":
			text += "; berth does not park it: " + term.Clean(h.Kept)
		case h.Parkable:
			text += "; berth may park it"
		}
		lines = append(lines, to.Hang(term.Dim, strings.Repeat(" ", term.Columns(lead))+"· ", text))
	}
	if others := o.Holders[len(shown):]; len(others) > 0 {
		var memory gpu.MiB
		slots := 0
		for _, h := range others {
			memory, slots = memory+h.Memory, slots+h.Slots
		}
		lines = append(lines, to.Hang(term.Dim, strings.Repeat(" ", term.Columns(lead))+"· ", fmt.Sprintf("and %d others, which hold %s", len(others), Amount(memory, slots))))
	}
	return lines
}

// mostInTheWay is how many leases in the way are named for each device, and mostAlike how
// many devices that have the same in the way.
const (
	mostInTheWay = 5
	mostAlike    = 8
)

// ranking returns the devices in the order in which a request would get them, with the
// numbers that decide. Devices that do not fit come last, with the reason, unless the
// explanation says more about them elsewhere. It returns nothing if no device fits.
func (x GPUs) ranking(e api.Explanation, to term.Screen) []string {
	if !slices.ContainsFunc(e.Ranking, func(r api.Ranked) bool { return r.Rank > 0 }) {
		return nil
	}
	t := x.rankingTable(e, true)
	if !t.Fits(to.Width) {
		t = x.rankingTable(e, false)
	}
	return t.Lines(to.Width, to.Painter)
}

// rankingTable returns the table with or without the free memory. It has a column for
// replicas if there are any.
func (x GPUs) rankingTable(e api.Explanation, free bool) *term.Table {
	replicas := slices.ContainsFunc(e.Ranking, func(r api.Ranked) bool { return r.Replicas > 0 })
	var rows []api.Ranked
	for _, r := range e.Ranking {
		if r.Rank > 0 || r.Code != "other_device" && !slices.ContainsFunc(e.Devices, func(o api.Obstacle) bool { return o.GPU == r.GPU }) {
			rows = append(rows, r)
		}
	}
	t := tableOf(rows, []Column[api.Ranked]{
		{term.Column{Title: "RANK", Right: true}, func(r api.Ranked) term.Cell { return rankCell(r.Rank) }},
		{term.Column{Title: "GPU", Right: true}, func(r api.Ranked) term.Cell { return x.cell(r.GPU) }},
		{term.Column{Title: "SLOTS", Right: true}, func(r api.Ranked) term.Cell { return term.Text(fmt.Sprintf("%d/%d", r.Active, r.Usable)) }},
		{term.Column{Title: "LOAD", Right: true}, func(r api.Ranked) term.Cell { return term.Text(optional(r.Utilization, "%.0f %%")) }},
		{term.Column{Title: "TEMP", Right: true}, func(r api.Ranked) term.Cell { return term.Text(optional(r.Temperature, "%.0f °C")) }},
		{term.Column{Title: "FREE GiB", Right: true}, func(r api.Ranked) term.Cell { return term.Text(GiB(r.Available)) }},
		{term.Column{Title: "REPLICAS", Right: true}, func(r api.Ranked) term.Cell { return term.Text(strconv.Itoa(r.Replicas)) }},
		{term.Column{Least: 16, Fold: true}, func(r api.Ranked) term.Cell { return remark(r, e.Grant) }},
	}, when(!free, "FREE GiB"), when(!replicas, "REPLICAS"))
	t.Indent = 2
	return t
}

func rankCell(rank int) term.Cell {
	if rank == 0 {
		return term.Text("-")
	}
	return term.Text(strconv.Itoa(rank))
}

// remark says what happens to a device: the request takes it, or cannot.
func remark(r api.Ranked, grant *api.Lease) term.Cell {
	switch {
	case grant != nil && slices.ContainsFunc(grant.Parts, func(p api.LeasePart) bool { return p.GPU == r.GPU }):
		return term.Painted(Join("taken", term.Clean(r.Why)), term.Green)
	case r.Rank > 0 && r.Preferred:
		return term.Text(Join("preferred", term.Clean(r.Why)))
	}
	return term.Text(term.Clean(r.Why))
}

// DryRun describes how a program would be started.
type DryRun struct {
	Program     string         `json:"program"`
	Grant       api.Lease      `json:"grant"`
	Environment []string       `json:"environment"` // variables to set and, without =, to remove
	Receipt     launch.Receipt `json:"receipt"`     // what keeps the program to its lease, and what does not
}

// Would says what a program would get, and writes its environment in the syntax of a
// shell.
func (x GPUs) Would(d DryRun, to term.Screen) []string {
	lines := []string{to.Hang(term.Green, "✓ ", term.Clean(d.Program)+" would get "+x.Had(d.Grant)+", enforced by "+d.Grant.EnforcedBy)}
	if d.Grant.Note != "" {
		lines = append(lines, to.Hang(term.Plain, "  ", term.Clean(d.Grant.Note)))
	}
	for _, text := range d.Receipt.Held {
		lines = append(lines, to.Hang(term.Green, "  ✓ ", term.Clean(text)))
	}
	for _, text := range d.Receipt.Gaps {
		lines = append(lines, to.Hang(term.Yellow, "  ! ", term.Clean(text)))
	}
	lines = append(lines, "")
	for _, change := range d.Environment {
		if strings.Contains(change, "=") {
			name, value, _ := strings.Cut(term.Clean(change), "=")
			lines = append(lines, "export "+name+"="+words.Shell(value))
		} else {
			lines = append(lines, "unset "+term.Clean(change))
		}
	}
	return lines
}
