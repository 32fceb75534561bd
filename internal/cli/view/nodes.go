package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// NodesStatus shows the devices of several machines in one table, with their holders.
type NodesStatus struct{ api.Nodes }

// Lines writes the table for a screen.
func (s *NodesStatus) Lines(to term.Screen) []string {
	lines := append(s.fit(to.Width).Lines(to.Width, to.Painter), "")
	lines = append(lines, notes(s.Nodes, to)...)
	for _, d := range fleet.GPUs(s.Nodes.Nodes) {
		lines = append(lines, complaints(d, to)...)
	}
	return append(lines, to.Hang(term.Plain, "", sumOf(s.Nodes)))
}

// fit returns the richest table that fits the width.
func (s *NodesStatus) fit(width int) *term.Table {
	rows := fleet.Rows(s.Nodes.Nodes)
	names, tight := map[string]int{"NODE": 12, "NAME": 24, "HELD BY": 16}, map[string]int{"NODE": 7, "HELD BY": 10}
	return richest(width, []layout{
		{bar: 8, least: names}, {bar: 5, least: names}, {least: names}, {least: names, without: []string{"NAME"}}, {least: names, without: []string{"NAME", "POWER"}},
		{least: names, without: []string{"NAME", "POWER", "SLOTS"}}, {least: names, without: []string{"NAME", "POWER", "SLOTS", "LOAD", "TEMP"}},
		{least: tight, without: []string{"NAME", "POWER", "SLOTS", "LOAD", "TEMP"}},
	}, func(l layout) *term.Table {
		columns := chosen(DeviceColumns(l.bar), "NODE", "GPU", "NAME", "STATE", "LOAD", "MEMORY GiB", "LEASED", "TEMP", "POWER", "SLOTS", "HELD BY")
		t := tableIn(l, rows, columns)
		if fleet.HasPods(s.Nodes.Nodes) {
			t.Columns[len(t.Columns)-1].Title = "POD"
		}
		return t
	})
}

// NodesLeases shows the leases of several machines in one table, with their pods.
type NodesLeases struct {
	api.Nodes
	Filtered bool // the user asked for only some of them
}

// Lines writes the table for a screen.
func (s *NodesLeases) Lines(to term.Screen) []string {
	var lines []string
	parts := fleet.Parts(s.Nodes.Nodes)
	if len(parts) > 0 {
		lines = append(s.fit(parts, to).Lines(to.Width, to.Painter), "")
	}
	lines = append(lines, notes(s.Nodes, to)...)
	text := sumOf(s.Nodes)
	switch {
	case len(parts) == 0 && s.Filtered:
		text = "No lease matches. " + words.Count(len(s.Nodes.Nodes), "node") + " asked."
	case len(parts) == 0:
		text = "Nobody holds a lease. " + text
	}
	return append(lines, to.Hang(term.Plain, "", text))
}

// fit returns the richest table that fits the width.
func (s *NodesLeases) fit(parts []fleet.Part, to term.Screen) *term.Table {
	pod := when(fleet.HasPods(s.Nodes.Nodes), "POD")
	names, tight := map[string]int{"NODE": 12, "POD": 24, "LEASE": 16}, map[string]int{"NODE": 7, "POD": 15, "LEASE": 10}
	return richest(to.Width, []layout{
		{least: names}, {least: names, without: []string{"ENFORCED"}}, {least: names, without: []string{"ENFORCED", "SLOTS"}},
		{least: names, without: []string{"ENFORCED", "SLOTS", "AGE"}}, {least: tight, without: []string{"ENFORCED", "SLOTS", "AGE"}},
	}, func(l layout) *term.Table {
		return tableIn(l, parts, chosen(LeaseColumns(to.Now), "NODE", "GPU", pod, "LEASE", "MEMORY GiB", "SLOTS", "AGE", "ENFORCED"))
	})
}

// Silence says that a machine does not answer, or has not for a while. It returns "" if
// the machine answers. The result bad reports whether nothing is known about the
// machine.
func Silence(n api.Node, now time.Time) (text string, bad bool) {
	name, late := Short(n.Name), fleet.Late(n, now)
	switch {
	case n.Down != "" && n.Status == nil:
		return name + ": " + sentence(n.Down), true
	case n.Down != "":
		at := n.At.In(now.Location()).Format(time.TimeOnly)
		return fmt.Sprintf("%s: %s The rest is from %s, %s ago.", name, sentence(n.Down), at, words.Age(now.Sub(n.At))), false
	case late > 0:
		return fmt.Sprintf("%s: its driver last heard from the daemon %s ago.", name, words.Age(late)), false
	}
	return "", false
}

// notes lists the machines that do not answer.
func notes(all api.Nodes, to term.Screen) []string {
	var lines []string
	for _, n := range all.Nodes {
		if text, bad := Silence(n, to.Now); bad {
			lines = append(lines, to.Hang(term.Red, "✗ ", text))
		} else if text != "" {
			lines = append(lines, to.Hang(term.Yellow, "! ", text))
		}
	}
	return lines
}

// sentence cleans a reason, and ends it with a full stop.
func sentence(why string) string {
	why = strings.TrimSpace(term.Clean(strings.Join(strings.Fields(why), " ")))
	if !strings.HasSuffix(why, ".") {
		why += "."
	}
	return why
}

// sumOf describes the totals of several machines.
func sumOf(all api.Nodes) string {
	sum := fleet.Add(all.Nodes)
	nodes := words.Count(sum.Nodes, "node")
	if sum.Silent > 0 {
		nodes += fmt.Sprintf(" (%d %s)", sum.Silent, words.Form(sum.Silent, "does not answer", "do not answer"))
	}
	gpus := words.Count(sum.GPUs, "GPU")
	if states := counted(sum.States, gpu.States()...); len(states) > 0 {
		gpus += ": " + strings.Join(states, ", ")
	}
	return strings.Join([]string{nodes, gpus, words.Count(sum.Leases, "lease"), fmt.Sprintf("%s of %s GiB leased", GiB(sum.Leased), GiB(sum.Total))}, " · ")
}

// HeldBy names the pods that have a device, and the holders of leases without a pod,
// each once.
func HeldBy(d fleet.GPU) []string {
	var list []string
	seen := map[string]bool{}
	for _, l := range d.Leases {
		for _, name := range Pods(l) {
			if !seen[name] {
				seen[name], list = true, append(list, name)
			}
		}
	}
	return list
}

// Pods names the pods of a lease, or its holder if it has none.
func Pods(l *api.PodLease) []string {
	var list []string
	for _, p := range fleet.Pods(l) {
		list = append(list, Short(p))
	}
	if len(list) == 0 {
		return []string{holder(l.Holder)}
	}
	return list
}

// mostNamed limits the pods named in a cell of a table.
const mostNamed = 4

// holder returns a holder in two words, each of them cut.
func holder(h api.Holder) string {
	return Holder(api.Holder{Service: Short(h.Service), Name: Short(h.Name), User: Short(h.User)})
}

// LeaseOf returns the name of a lease: its claim, whose UID is the id of the lease, or
// else its id and its user.
func LeaseOf(l *api.PodLease) string {
	if l.Claim != "" {
		return Short(l.Claim)
	}
	name := Short(l.ID)
	if l.Holder.User != "" {
		name += " (" + Short(l.Holder.User) + ")"
	}
	return name
}

// MeasuredOn returns the present values of a device. Values from before it or its
// machine went silent are omitted.
func MeasuredOn(d fleet.GPU) gpu.Sample {
	if d.Old {
		d.Sample = nil
	}
	return Measured(d.Status)
}

// Number writes a number, or a dash if it is absent. It cuts a number that no device
// can have.
func Number[T ~float64](v gpu.Opt[T], format string) string {
	const most = 7
	return term.Cut(optional(v, format), most)
}

// Short cleans a name that a machine gave, and cuts it.
func Short(name string) string { return term.Clean(words.Cut(name, words.MaxText)) }
