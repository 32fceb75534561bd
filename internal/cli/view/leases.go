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
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Leases shows the leases and the waiting requests.
type Leases struct {
	api.Leases
	GPUs     GPUs
	Filtered bool   // the user asked for only some of them
	Missed   string // what to do if none of them matches
}

// Lines writes the tables for a screen.
func (s *Leases) Lines(to term.Screen) []string {
	var lines []string
	if len(s.Leases.Leases) > 0 {
		lines = append(s.held(to).Lines(to.Width, to.Painter), "")
	}
	if len(s.Waiting) > 0 {
		lines = append(lines, "Waiting, next first:")
		lines = append(append(lines, s.queue(to).Lines(to.Width, to.Painter)...), "")
	}
	lines = append(lines, to.Hang(term.Plain, "", s.totals()))
	for _, l := range s.Leases.Leases {
		if l.Paced != nil {
			lines = append(lines, pacedLine(l.ID, l.Paced, to))
		}
		lines = append(lines, whereabouts(l, to)...)
	}
	if s.Note != "" {
		lines = append(lines, to.Hang(term.Plain, "", s.Note))
	}
	return lines
}

// held returns the richest table of the leases that fits. It folds ids, and never cuts
// them, because other commands take them; only where that does not do it leaves holders out.
func (s *Leases) held(to term.Screen) *term.Table {
	energy := when(slices.ContainsFunc(s.Leases.Leases, func(l api.Lease) bool { return l.Energy.Known() }), "ENERGY")
	table := func(short bool, layouts ...layout) *term.Table {
		parts := s.parts(short)
		return richest(to.Width, layouts, func(l layout) *term.Table {
			return tableIn(l, parts, chosen(LeaseColumns(to.Now), "ID", "HOLDER", "GPU", "MEMORY GiB", "SLOTS", "UNTIL", "AGE", "ENFORCED", energy))
		})
	}
	if t := table(false, layout{}); t.Fits(to.Width) {
		return t
	}
	holder, poor := map[string]int{"HOLDER": 25}, []string{"ENERGY", "ENFORCED", "AGE", "HOLDER"}
	if t := table(true, layout{least: holder}, layout{without: poor[:1], least: holder}, layout{without: poor[:2], least: holder}, layout{without: poor[:3], least: holder},
		layout{without: poor[:3], least: map[string]int{"ID": 16, "HOLDER": 25}}); t.Fits(to.Width) {
		return t
	}
	return table(false, layout{without: poor, least: map[string]int{"ID": 20}}, layout{without: poor, least: map[string]int{"ID": 8}})
}

// parts returns the parts of the leases on the devices. A lease on none has no row. If short
// is set, holders have no names that the ids begin with.
func (s *Leases) parts(short bool) []fleet.Part {
	node := NodeOf(s.Leases.Leases, s.GPUs)
	node.Leases = slices.DeleteFunc(node.Leases, func(l api.PodLease) bool { return len(l.Parts) == 0 })
	for i, l := range node.Leases {
		if short {
			node.Leases[i].Holder = unnamed(l.ID, l.Holder)
		}
	}
	return fleet.Parts([]api.Node{node})
}

// NodeOf returns a machine with leases and devices, as if it were one of several.
func NodeOf(leases []api.Lease, gpus GPUs) api.Node {
	node := api.Node{Status: new(api.StatusAll), Leases: make([]api.PodLease, len(leases))}
	for uuid, index := range gpus {
		node.Status.GPUs = append(node.Status.GPUs, api.Status{Device: gpu.Device{UUID: uuid, Index: index}})
	}
	for i, l := range leases {
		node.Leases[i].Lease = l
	}
	return node
}

// LeaseColumns returns the columns of leases, or of their parts: values of a lease as a whole
// stand at its first part.
func LeaseColumns(now time.Time) []Column[fleet.Part] {
	of := func(title string, text func(fleet.Part) string) Column[fleet.Part] {
		return Column[fleet.Part]{term.Column{Title: title}, func(p fleet.Part) term.Cell {
			if !p.First {
				return term.Cell{}
			}
			return term.Text(text(p))
		}}
	}
	right := func(c Column[fleet.Part]) Column[fleet.Part] { c.Right = true; return c }
	fold := func(c Column[fleet.Part]) Column[fleet.Part] { c.Fold = true; return c }
	return []Column[fleet.Part]{
		{term.Column{Title: "NODE", Fold: true}, func(p fleet.Part) term.Cell {
			if p.Old {
				return term.Painted(Short(p.Node)+" (old)", term.Yellow)
			}
			return term.Text(Short(p.Node))
		}},
		fold(of("ID", func(p fleet.Part) string { return term.Clean(p.ID) })),
		fold(of("LEASE", func(p fleet.Part) string { return LeaseOf(p.PodLease) })),
		fold(of("HOLDER", func(p fleet.Part) string { return Holder(p.Holder) })),
		of("USER", func(p fleet.Part) string { return Short(p.Holder.User) }),
		of("SERVICE", func(p fleet.Part) string { return Short(p.Holder.Service) }),
		{term.Column{Title: "GPU", Right: true}, leasedGPUs},
		fold(of("POD", func(p fleet.Part) string {
			if len(p.Pods) == 0 {
				return "-"
			}
			return words.Few(Pods(p.PodLease), mostNamed)
		})),
		{term.Column{Title: "MEMORY GiB"}, LeasedMemory},
		{term.Column{Title: "SLOTS", Right: true}, func(p fleet.Part) term.Cell {
			slots := 0
			for _, on := range p.On {
				slots += on.Slots
			}
			return term.Text(strconv.Itoa(slots))
		}},
		{term.Column{Title: "STATE"}, leaseState},
		of("UNTIL", func(p fleet.Part) string { return Until(p.Lease, now) }),
		right(of("AGE", func(p fleet.Part) string { return words.Age(now.Sub(p.Granted)) })),
		of("ENFORCED", func(p fleet.Part) string { return Short(p.EnforcedBy) }),
		right(of("ENERGY", func(p fleet.Part) string { return energyOf(p.Energy) })),
	}
}

// leasedGPUs names devices by their indexes.
func leasedGPUs(p fleet.Part) term.Cell {
	c := term.Text("-")
	for i, index := range p.Indexes {
		name := strconv.Itoa(index)
		if index < 0 {
			name, c.Colour = "gone", term.Red
		}
		if c.Text += "," + name; i == 0 {
			c.Text = name
		}
	}
	return c
}

// LeasedMemory writes the used and the leased memory. It marks a holder that uses more than
// it leased.
func LeasedMemory(p fleet.Part) term.Cell {
	var used, leased gpu.MiB
	use := "-"
	for _, on := range p.On {
		if v, seen := on.Measured.Get(); seen {
			used += fleet.Amount(v)
			use = GiB(used)
		}
		leased += fleet.Amount(on.Memory)
	}
	if p.State == "parked" {
		use = "parked"
	}
	c := term.Text(fmt.Sprintf("%4s/%s", use, amountOrDash(leased)))
	if leased > 0 && used > leased {
		c.Colour = term.Red
	}
	return c
}

// leaseState writes the state of a lease, or the share that it is held to.
func leaseState(p fleet.Part) term.Cell {
	switch {
	case p.State != "active":
		return term.Painted(Short(p.State), term.Yellow)
	case p.Paced != nil:
		return term.Painted(fmt.Sprintf("at %.0f %%", 100*p.Paced.Share), term.Yellow)
	case p.Idle != nil:
		return term.Painted("idle", term.Dim)
	}
	return term.Painted(p.State, term.Green)
}

// unchosenAhead is how long before its end a time limit is shown in lists that nobody chose.
const unchosenAhead = time.Hour

// Ending returns the time that ends a lease; nil if none does. A limit that nobody chose is
// far away for most leases, and says nothing about them: it counts when it is near.
func Ending(l api.Lease, now time.Time) *time.Time {
	switch {
	case l.Ends == nil || l.Expires != nil && !l.Ends.Before(*l.Expires):
		return l.Expires
	case l.Unchosen && l.Ends.Sub(now) > unchosenAhead:
		return nil
	}
	return l.Ends
}

// Until says in a word or two what ends a lease.
func Until(l api.Lease, now time.Time) string {
	soonest := Ending(l, now)
	switch {
	case soonest != nil:
		return "in " + until(*soonest, now)
	case l.Binding == "process":
		if pid := cmp.Or(l.Heir, l.Holder.PID); pid != 0 {
			return "pid " + strconv.Itoa(pid)
		}
		return "process"
	}
	return "release"
}

// unnamed returns a holder without the name that the id beside it begins with.
func unnamed(id string, h api.Holder) api.Holder {
	if h.User != "" && strings.HasPrefix(id, cmp.Or(h.Service, h.Name)) {
		h.Service, h.Name = "", ""
	}
	return h
}

// queue returns the richest table of the waiting requests that fits. It has columns for
// priorities, limits and ends of waiting if there are any. It folds ids, and never cuts
// them, because other commands take them.
func (s *Leases) queue(to term.Screen) *term.Table {
	some := func(title string, has func(api.Waiting) bool) string {
		return when(slices.ContainsFunc(s.Waiting, has), title)
	}
	until, limit := some("UNTIL", func(w api.Waiting) bool { return w.Deadline != nil }), some("FOR", func(w api.Waiting) bool { return w.Limit != "" })
	priority := some("PRIORITY", func(w api.Waiting) bool { return w.Priority != 0 })
	table := func(rows []api.Waiting, layouts ...layout) *term.Table {
		return richest(to.Width, layouts, func(l layout) *term.Table {
			return tableIn(l, rows, chosen(QueueColumns(to.Now), "#", "ID", "HOLDER", "ASKS FOR", "WAITS", "STARTS", until, limit, priority))
		})
	}
	if t := table(s.Waiting, layout{}); t.Fits(to.Width) {
		return t
	}
	short := slices.Clone(s.Waiting)
	for i, w := range short {
		short[i].Holder = unnamed(w.ID, w.Holder)
	}
	return table(short, layout{}, layout{least: map[string]int{"ID": 20, "HOLDER": 23, "ASKS FOR": 14}},
		layout{without: []string{"WAITS"}, least: map[string]int{"ID": 18, "HOLDER": 23, "ASKS FOR": 14}},
		layout{without: []string{"WAITS"}, least: map[string]int{"ID": 8, "HOLDER": 6, "ASKS FOR": 10}})
}

// QueueColumns returns the columns of waiting requests.
func QueueColumns(now time.Time) []Column[api.Waiting] {
	return []Column[api.Waiting]{
		{term.Column{Title: "#", Right: true}, func(w api.Waiting) term.Cell { return term.Text(strconv.Itoa(w.Position)) }},
		{term.Column{Title: "ID", Fold: true}, func(w api.Waiting) term.Cell { return term.Text(term.Clean(w.ID)) }},
		{term.Column{Title: "HOLDER", Fold: true}, func(w api.Waiting) term.Cell { return term.Text(Holder(w.Holder)) }},
		{term.Column{Title: "USER"}, func(w api.Waiting) term.Cell { return term.Text(term.Clean(w.Holder.User)) }},
		{term.Column{Title: "ASKS FOR", Fold: true}, func(w api.Waiting) term.Cell { return term.Text(AsksFor(w)) }},
		{term.Column{Title: "WAITS", Right: true}, func(w api.Waiting) term.Cell { return term.Text(words.Age(now.Sub(w.Since))) }},
		{term.Column{Title: "STARTS"}, func(w api.Waiting) term.Cell { return term.Text(Starts(w.Estimate, now)) }},
		{term.Column{Title: "UNTIL"}, func(w api.Waiting) term.Cell {
			if w.Deadline == nil {
				return term.Text("-")
			}
			return term.Text("in " + until(*w.Deadline, now))
		}},
		{term.Column{Title: "FOR", Least: 8, Fold: true}, func(w api.Waiting) term.Cell { return term.Text(LimitWords(w.Limit)) }},
		{term.Column{Title: "PRIORITY", Right: true}, func(w api.Waiting) term.Cell { return term.Text(strconv.Itoa(w.Priority)) }},
	}
}

// LimitWords says what a request waits for, by the limit that keeps it.
func LimitWords(limit string) string {
	return cmp.Or(map[string]string{"": "a GPU", "user": "its user's limit", "group": "its group's limit"}[limit], "its service's quota")
}

// Starts says in a few words when a request will probably be granted.
func Starts(e *api.Estimate, now time.Time) string {
	switch {
	case e == nil || e.Likely == nil:
		return "?"
	case !e.Likely.After(now):
		return "now"
	}
	return "~" + until(*e.Likely, now)
}

// Foretold says in a sentence when a request will probably be granted; "" if nothing is
// known of that.
func Foretold(e *api.Estimate, now time.Time) string {
	switch {
	case e == nil:
		return ""
	case e.Likely == nil:
		text := "When it starts is not known, because " + term.Clean(e.Unknown) + "."
		if e.Latest != nil {
			text += " It starts at the latest in " + until(*e.Latest, now) + ", when time limits have ended what is in its way" + unpassed(e) + "."
		}
		return text
	case e.Late == nil:
		return "It will probably start in " + until(*e.Likely, now) + ", if nobody comes who goes first."
	case !e.Late.After(*e.Likely), until(*e.Late, now) == until(*e.Likely, now):
		return "It will probably start in " + until(*e.Likely, now) + "."
	}
	return "It will probably start in " + until(*e.Likely, now) + ", and nine times of ten within " + until(*e.Late, now) + "."
}

// unpassed says on what condition a request begins at the latest when that was said.
func unpassed(e *api.Estimate) string {
	if e.Passable {
		return ", if nobody passes it"
	}
	return ""
}

// AsksFor describes what a request waits for.
func AsksFor(w api.Waiting) string {
	text := Amount(w.Memory, w.Slots)
	switch {
	case w.For == "resume":
		text += ", to return"
	case w.For == "resize":
		text += " more"
	case w.GPUs > 1:
		text = fmt.Sprintf("%d × %s", w.GPUs, text)
	}
	return text
}

func (s *Leases) totals() string {
	if len(s.Leases.Leases) == 0 && len(s.Waiting) == 0 {
		if s.Filtered {
			return strings.TrimSpace("No lease and no request matches. " + s.Missed)
		}
		return "Nobody holds a lease, and nobody waits for one."
	}
	var memory gpu.MiB
	slots, parked := 0, 0
	for _, l := range s.Leases.Leases {
		if l.State == "parked" { // a parked lease holds nothing
			parked++
			continue
		}
		for i, p := range l.Parts {
			memory += l.Holds(i)
			slots += p.Slots
		}
	}
	parts := []string{words.Count(len(s.Leases.Leases), "lease")}
	if memory > 0 {
		parts = append(parts, gib(memory)+" GiB")
	}
	if slots > 0 {
		parts = append(parts, words.Count(slots, "slot"))
	}
	if parked > 0 {
		parts = append(parts, fmt.Sprintf("%d parked", parked))
	}
	if n := len(s.Waiting); n > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", n))
	}
	return strings.Join(parts, " · ")
}

// Past shows ended leases.
type Past struct {
	api.PastLeases
	GPUs     GPUs
	Filtered bool // the user asked for only some of them
}

// Lines writes the table for a screen. A lease has one row for every device.
func (s *Past) Lines(to term.Screen) []string {
	if len(s.Leases) == 0 {
		if s.Filtered {
			return []string{"No lease that has ended matches."}
		}
		return []string{"No lease has ended yet."}
	}
	energy := when(!slices.ContainsFunc(s.Leases, func(l api.PastLease) bool { return l.Energy.Known() }), "ENERGY")
	holder, poor := map[string]int{"HOLDER": 8}, []string{energy, "ENERGY", "SLOTS", "HOLDER", "HELD"}
	return richest(to.Width, []layout{
		{without: poor[:1]}, {without: poor[:2]}, {without: poor[:2], least: holder}, {without: poor[:3], least: holder}, {without: poor[:4]},
		{without: poor[:4], least: map[string]int{"ID": 20}}, {without: poor, least: map[string]int{"ID": 8}},
	}, func(l layout) *term.Table { return tableIn(l, s.parts(), s.columns(to.Now)) }).Lines(to.Width, to.Painter)
}

// pastPart is the part of an ended lease on a device.
type pastPart struct {
	api.PastLease
	on    api.LeasePart
	first bool
}

func (s *Past) parts() (list []pastPart) {
	for _, l := range s.Leases {
		for i, p := range l.Parts {
			list = append(list, pastPart{l, p, i == 0})
		}
	}
	return list
}

// columns returns the columns of ended leases. Ids and reasons are folded, and never cut:
// other commands take the first, and the second are why one looks.
func (s *Past) columns(now time.Time) []Column[pastPart] {
	whole := func(c term.Column, text func(pastPart) string) Column[pastPart] { // it stands at the first part
		return Column[pastPart]{c, func(p pastPart) term.Cell {
			if !p.first {
				return term.Cell{}
			}
			return term.Text(text(p))
		}}
	}
	return []Column[pastPart]{
		whole(term.Column{Title: "ID", Fold: true}, func(p pastPart) string { return term.Clean(p.ID) }),
		whole(term.Column{Title: "HOLDER"}, func(p pastPart) string { return Holder(p.Holder) }),
		{term.Column{Title: "GPU", Right: true}, func(p pastPart) term.Cell { return s.GPUs.cell(p.on.GPU) }},
		{term.Column{Title: "MEMORY GiB"}, func(p pastPart) term.Cell { return usedCell(p.Peak, p.on.Memory) }},
		{term.Column{Title: "SLOTS", Right: true}, func(p pastPart) term.Cell { return term.Text(strconv.Itoa(p.on.Slots)) }},
		whole(term.Column{Title: "HELD", Right: true}, func(p pastPart) string { return words.Age(p.Ended.Sub(p.Granted)) }),
		whole(term.Column{Title: "ENDED", Right: true}, func(p pastPart) string { return words.Age(now.Sub(p.Ended)) + " ago" }),
		whole(term.Column{Title: "HOW", Least: 16, Fold: true}, func(p pastPart) string { return how(p.PastLease) }),
		whole(term.Column{Title: "ENERGY", Right: true}, func(p pastPart) string { return energyOf(p.Energy) }),
	}
}

// how says how a lease ended, and why if that is known.
func how(l api.PastLease) string {
	return term.Clean(l.How + given(": ", l.Why))
}

// Strays shows the processes that use devices under no lease.
type Strays struct {
	api.Strays
	GPUs GPUs
}

// Lines writes the table for a screen.
func (s *Strays) Lines(to term.Screen) []string {
	if len(s.Orphans)+len(s.Foreign) == 0 {
		return []string{"No process uses a GPU without a lease."}
	}
	all := slices.Concat(s.Orphans, s.Foreign)
	t := tableOf(all, []Column[api.Stray]{
		{term.Column{Title: "GPU"}, func(p api.Stray) term.Cell { return s.GPUs.cell(p.GPU) }},
		{term.Column{Title: "PID", Right: true}, func(p api.Stray) term.Cell { return term.Text(PID(p.PID)) }},
		{term.Column{Title: "PROCESS", Least: 8}, func(p api.Stray) term.Cell { return term.Text(term.Clean(p.Name)) }},
		{term.Column{Title: "USER", Least: 6}, func(p api.Stray) term.Cell { return term.Text(term.Clean(p.User)) }},
		{term.Column{Title: "MEMORY", Right: true}, func(p api.Stray) term.Cell {
			if m, known := p.Memory.Get(); known {
				return term.Text(m.InGiB())
			}
			return term.Text("open only")
		}},
		{term.Column{Title: "LEASE THAT HAS ENDED", Least: 8}, func(p api.Stray) term.Cell { return term.Text(term.Clean(p.Lease)) }},
		{term.Column{Title: "BELONGS TO NONE, BECAUSE IT", Least: 12}, func(p api.Stray) term.Cell { return term.Text(fits(p)) }},
		{term.Column{Title: "POD", Least: 12}, func(p api.Stray) term.Cell { return term.Text(term.Clean(p.Pod)) }},
	}, when(!slices.ContainsFunc(all, fitsSeveral), "BELONGS TO NONE, BECAUSE IT"), when(!slices.ContainsFunc(all, inPod), "POD"))
	summary := words.Count(len(s.Orphans), "orphan") + ", " + words.Count(len(s.Foreign), "other") + " that never had a lease"
	return append(t.Lines(to.Width, to.Painter), "", to.Hang(term.Plain, "", summary+". berth adopt puts one under a lease."))
}

// inPod reports whether a process runs in a pod of Kubernetes.
func inPod(p api.Stray) bool { return p.Pod != "" }

// fitsSeveral reports whether a process fits several leases equally.
func fitsSeveral(p api.Stray) bool { return len(p.Fits) > 0 }

// fits names the leases that a process fits equally.
func fits(p api.Stray) string {
	if !fitsSeveral(p) {
		return ""
	}
	return term.Clean("fits " + words.And(p.Fits) + " by " + p.Evidence)
}

// Belonging shows the processes of leases, and why they belong to them.
type Belonging struct {
	api.Leases
	GPUs GPUs
}

// reasons explains why a process belongs to a lease, by the word of the API.
var reasons = map[string]string{
	"scope":       "is in its scope",
	"descent":     "holds it or descends from its holder",
	"environment": "has its id and fence in the environment",
	"unit":        "runs in its unit",
	"service":     "matches its service",
	"program":     "has its user and its name",
}

// Lines writes the table for a screen.
func (s *Belonging) Lines(to term.Screen) []string {
	t := &term.Table{Columns: []term.Column{
		{Title: "LEASE", Least: 8}, {Title: "GPU", Right: true}, {Title: "PID", Right: true}, {Title: "PROCESS", Least: 8},
		{Title: "MEMORY", Right: true}, {Title: "BELONGS, BECAUSE IT", Least: 12},
	}}
	shown := 0
	for _, lease := range s.Leases.Leases {
		for _, p := range lease.Processes {
			shown++
			t.Add(term.Text(term.Clean(lease.ID)), s.GPUs.cell(p.GPU), term.Text(PID(p.PID)), term.Text(term.Clean(p.Name)),
				term.Text(p.Memory.InGiB()), term.Text(cmp.Or(reasons[p.Evidence], term.Clean(p.Evidence))))
		}
	}
	if shown == 0 {
		return []string{to.Hang(term.Plain, "", "No process of a lease that you can see uses a GPU. berth leases --orphans shows those without a lease.")}
	}
	lines := append(t.Lines(to.Width, to.Painter), "", to.Hang(term.Plain, "", words.Count(shown, "process")+"."))
	if s.Note != "" {
		lines = append(lines, to.Hang(term.Plain, "", s.Note))
	}
	return lines
}
