package view

import (
	"cmp"
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

// Answer returns the answers of the machines.
func (s *NodesStatus) Answer() any { return s.Nodes }

// Lines writes the table for a screen.
func (s *NodesStatus) Lines(to term.Screen) []string {
	lines := append(s.fit(to.Width).Lines(to.Width, to.Painter), "")
	lines = append(lines, notes(s.Nodes, to)...)
	for _, d := range fleet.GPUs(s.Nodes.Nodes) {
		if d.Old {
			continue // the note about the machine says so
		}
		if text, bad := Complaint(d, to.Now); text != "" && bad {
			lines = append(lines, to.Hang(term.Red, "✗ ", text))
		} else if text != "" {
			lines = append(lines, to.Hang(term.Yellow, "! ", text))
		}
	}
	return append(lines, to.Hang(term.Plain, "", sumOf(s.Nodes)))
}

// fit returns the richest table that fits the width.
func (s *NodesStatus) fit(width int) *term.Table {
	var t *term.Table
	for _, l := range []struct {
		bar     int
		without []string
	}{
		{8, nil}, {5, nil}, {0, nil}, {0, []string{"NAME"}}, {0, []string{"NAME", "POWER"}}, {0, []string{"NAME", "POWER", "SLOTS"}},
		{0, []string{"NAME", "POWER", "SLOTS", "LOAD", "TEMP"}},
	} {
		if t = s.table(l.bar, l.without); t.Fits(width) {
			return t
		}
	}
	return narrowed(t)
}

// narrowed lets a table that does not fit cut its names further.
func narrowed(t *term.Table) *term.Table {
	for i := range t.Columns {
		t.Columns[i].Least = t.Columns[i].Least * 5 / 8
	}
	return t
}

// table returns one row for every device, and one for a machine without devices.
func (s *NodesStatus) table(bar int, without []string) *term.Table {
	holders := "POD"
	if !fleet.HasPods(s.Nodes.Nodes) {
		holders = "HELD BY"
	}
	var rows []nodeRow
	devices := fleet.GPUs(s.Nodes.Nodes)
	for i := range s.Nodes.Nodes {
		n := &s.Nodes.Nodes[i]
		if len(devices) == 0 || devices[0].Node != n.Name {
			rows = append(rows, nodeRow{node: n})
		}
		for ; len(devices) > 0 && devices[0].Node == n.Name; devices = devices[1:] {
			rows = append(rows, nodeRow{n, &devices[0]})
		}
	}
	var columns []column[nodeRow]
	for _, c := range []term.Column{
		{Title: "NODE", Least: 12, Fold: true}, {Title: "GPU", Right: true}, {Title: "NAME"}, {Title: "STATE"}, {Title: "LOAD"}, {Title: "MEMORY GiB"}, {Title: "LEASED", Right: true},
		{Title: "TEMP", Right: true}, {Title: "POWER", Right: true}, {Title: "SLOTS", Right: true}, {Title: holders, Least: 16, Fold: true},
	} {
		columns = append(columns, column[nodeRow]{c, func(r nodeRow) term.Cell { return r.cell(c.Title, bar) }})
	}
	return tableOf(rows, columns, without...)
}

// nodeRow is a device of one of several machines, or a machine without one.
type nodeRow struct {
	node *api.Node
	gpu  *fleet.GPU // nil if the machine does not answer or has none
}

func (r nodeRow) cell(title string, bar int) term.Cell {
	switch {
	case r.gpu == nil && title == "NODE":
		return term.Text(Short(r.node.Name))
	case r.gpu == nil && title == "GPU":
		return term.Text("-")
	case r.gpu == nil && title == "STATE" && r.node.Status == nil:
		return term.Painted("no answer", term.Red)
	case r.gpu == nil && title == "STATE":
		return term.Text("no GPU")
	case r.gpu == nil:
		return term.Cell{}
	case title == "LOAD":
		return term.Text(loadCell(MeasuredOn(*r.gpu), bar))
	case title == "MEMORY GiB":
		return term.Text(memory(MeasuredOn(*r.gpu), r.gpu.Leased, bar))
	case title == "LEASED" && r.gpu.Leased == 0:
		return term.Text("-")
	}
	c := DeviceCell(title, *r.gpu)
	c.Text = cmp.Or(c.Text, "-")
	return c
}

// memory draws the used memory, and lighter the memory leased beyond that, and writes
// how much of the whole is used.
func memory(m gpu.Sample, leased gpu.MiB, size int) string {
	used, total := "-", fleet.Amount(m.MemoryTotal.Or(0))
	bar := strings.Repeat(" ", size)
	if v, known := m.MemoryUsed.Get(); known && total > 0 {
		used = GiB(fleet.Amount(v))
		bar = MemoryBar(fleet.Amount(v), leased, total, size)
	}
	return beside(bar, fmt.Sprintf("%4s/%s", used, GiB(total)))
}

func deviceColour(d fleet.GPU) term.Colour {
	if d.Old || d.Drain != nil && d.Well() {
		return term.Yellow
	}
	return stateColour(d.State)
}

// NodesLeases shows the leases of several machines in one table, with their pods.
type NodesLeases struct {
	api.Nodes
	Filtered bool // the user asked for only some of them
}

// Answer returns the answers of the machines.
func (s *NodesLeases) Answer() any { return s.Nodes }

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
	var t *term.Table
	var never []string
	if !fleet.HasPods(s.Nodes.Nodes) {
		never = []string{"POD"}
	}
	for _, without := range [][]string{nil, {"ENFORCED"}, {"ENFORCED", "SLOTS"}, {"ENFORCED", "SLOTS", "AGE"}} {
		t = partTable(parts, to.Now, append(without, never...),
			term.Column{Title: "NODE", Least: 12, Fold: true}, term.Column{Title: "GPU", Right: true}, term.Column{Title: "POD", Least: 24, Fold: true}, term.Column{Title: "LEASE", Least: 16, Fold: true},
			term.Column{Title: "MEMORY GiB"}, term.Column{Title: "SLOTS", Right: true}, term.Column{Title: "AGE", Right: true}, term.Column{Title: "ENFORCED"})
		if t.Fits(to.Width) {
			return t
		}
	}
	return narrowed(t)
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

// Complaint says what is wrong with a device. It returns "" if nothing is, or if the
// answer is old.
func Complaint(d fleet.GPU, now time.Time) (text string, bad bool) {
	text = fmt.Sprintf("%s GPU %d ", Short(d.Node), d.Device.Index)
	switch {
	case d.Old || d.Well() && d.Drain == nil:
		return "", false
	case d.Well():
		text += "is drained"
		if d.Drain.By != "" {
			text += " by " + Short(d.Drain.By)
		}
		return text + because(d.Drain.Reason), false
	}
	text += DeviceState(d)
	if !d.Since.IsZero() {
		text += " for " + words.Age(now.Sub(d.Since))
	}
	if d.Health == gpu.Unhealthy && d.State != gpu.Unavailable {
		text += ", unhealthy"
	}
	why := d.Reason
	if d.Trust != nil && d.Trust.Phase != "" && d.State != gpu.Unavailable {
		why = "in " + d.Trust.Phase + ": " + d.Trust.Why
	}
	return text + because(why), d.State.Worse(gpu.Throttled) || d.Health == gpu.Unhealthy
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + term.Clean(why)
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
	var states []string
	for _, state := range gpu.States() {
		if n := sum.States[state]; n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(states) > 0 {
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

// DeviceName returns the name of a device without its maker.
func DeviceName(d fleet.GPU) string {
	const most = 24
	return term.Cut(shortName(Short(d.Device.Name)), most)
}

// DeviceState returns the state of a device, and whether it is from an old answer.
func DeviceState(d fleet.GPU) string {
	const most = 12
	text := term.Cut(term.Clean(string(d.State)), most)
	if d.Drain != nil && d.Well() {
		text = "drained"
	}
	if d.Old {
		text += " (old)"
	}
	return text
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
