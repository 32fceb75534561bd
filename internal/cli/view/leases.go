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

// Answer returns the answer of the daemon.
func (s *Leases) Answer() any { return s.Leases }

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
	var t *term.Table
	for _, l := range []struct {
		id, holder int // columns they may be folded or cut to; 0 for never
		without    []string
	}{
		{0, 0, nil}, {0, 25, nil}, {0, 25, []string{"ENERGY"}}, {0, 25, []string{"ENERGY", "ENFORCED"}}, {0, 25, []string{"ENERGY", "ENFORCED", "AGE"}},
		{16, 25, []string{"ENERGY", "ENFORCED", "AGE"}}, {20, 0, []string{"ENERGY", "ENFORCED", "AGE", "HOLDER"}}, {8, 0, []string{"ENERGY", "ENFORCED", "AGE", "HOLDER"}},
	} {
		measured := slices.ContainsFunc(s.Leases.Leases, func(l api.Lease) bool { return l.Energy.Known() })
		t = partTable(s.parts(l.holder > 0), to.Now, append(l.without, unless(measured, "ENERGY")),
			term.Column{Title: "ID", Least: l.id, Fold: true}, term.Column{Title: "HOLDER", Least: l.holder, Fold: l.id > 0}, term.Column{Title: "GPU", Right: true}, term.Column{Title: "MEMORY GiB"},
			term.Column{Title: "SLOTS", Right: true}, term.Column{Title: "UNTIL"}, term.Column{Title: "AGE", Right: true}, term.Column{Title: "ENFORCED"}, term.Column{Title: "ENERGY", Right: true})
		if t.Fits(to.Width) {
			break
		}
	}
	return t
}

// parts returns the parts of the leases on the devices. A lease on none has no row. If short
// is set, holders have no names that the ids begin with.
func (s *Leases) parts(short bool) []fleet.Part {
	node := api.Node{Status: new(api.StatusAll)}
	for uuid, index := range s.GPUs {
		node.Status.GPUs = append(node.Status.GPUs, api.Status{Device: gpu.Device{UUID: uuid, Index: index}})
	}
	node.Leases = make([]api.PodLease, 0, len(s.Leases.Leases))
	for _, l := range s.Leases.Leases {
		if short {
			l.Holder = unnamed(l.ID, l.Holder)
		}
		if len(l.Parts) > 0 {
			node.Leases = append(node.Leases, api.PodLease{Lease: l})
		}
	}
	return fleet.Parts([]api.Node{node})
}

// leasedCell writes the used and the leased memory. It marks a holder that uses more
// than it leased.
func leasedCell(l api.Lease, p api.LeasePart) term.Cell {
	used, leased := "-", "-"
	measured, seen := p.Measured.Get()
	if seen {
		used = GiB(fleet.Amount(measured))
	}
	if l.State == "parked" {
		used = "parked"
	}
	if p.Memory > 0 {
		leased = GiB(fleet.Amount(p.Memory))
	}
	c := term.Text(fmt.Sprintf("%4s/%s", used, leased))
	if p.Memory > 0 && measured > p.Memory {
		c.Colour = term.Red
	}
	return c
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
	some := func(has func(api.Waiting) bool) bool { return slices.ContainsFunc(s.Waiting, has) }
	var t *term.Table
	for _, l := range []struct {
		id, holder, asks int // columns they may be folded to; 0 for never
		short            bool
		without          string
	}{{}, {short: true}, {20, 23, 14, true, ""}, {18, 23, 14, true, "WAITS"}, {8, 6, 10, true, "WAITS"}} {
		t = tableOf(s.Waiting, []column[api.Waiting]{
			{term.Column{Title: "#", Right: true}, func(w api.Waiting) term.Cell { return term.Text(strconv.Itoa(w.Position)) }},
			{term.Column{Title: "ID", Least: l.id, Fold: l.id > 0}, func(w api.Waiting) term.Cell { return term.Text(term.Clean(w.ID)) }},
			{term.Column{Title: "HOLDER", Least: l.holder, Fold: true}, func(w api.Waiting) term.Cell {
				if l.short {
					return term.Text(Holder(unnamed(w.ID, w.Holder)))
				}
				return term.Text(Holder(w.Holder))
			}},
			{term.Column{Title: "ASKS FOR", Least: l.asks, Fold: true}, func(w api.Waiting) term.Cell { return term.Text(AsksFor(w)) }},
			{term.Column{Title: "WAITS", Right: true}, func(w api.Waiting) term.Cell { return term.Text(words.Age(to.Now.Sub(w.Since))) }},
			{term.Column{Title: "STARTS"}, func(w api.Waiting) term.Cell { return term.Text(Starts(w.Estimate, to.Now)) }},
			{term.Column{Title: "UNTIL"}, func(w api.Waiting) term.Cell {
				if w.Deadline == nil {
					return term.Text("-")
				}
				return term.Text("in " + until(*w.Deadline, to.Now))
			}},
			{term.Column{Title: "FOR", Least: 8, Fold: true}, func(w api.Waiting) term.Cell { return term.Text(LimitWords(w.Limit)) }},
			{term.Column{Title: "PRIORITY", Right: true}, func(w api.Waiting) term.Cell { return term.Text(strconv.Itoa(w.Priority)) }},
		}, l.without, unless(some(func(w api.Waiting) bool { return w.Deadline != nil }), "UNTIL"),
			unless(some(func(w api.Waiting) bool { return w.Limit != "" }), "FOR"),
			unless(some(func(w api.Waiting) bool { return w.Priority != 0 }), "PRIORITY"))
		if t.Fits(to.Width) {
			break
		}
	}
	return t
}

// LimitWords says what a request waits for, by the limit that keeps it.
func LimitWords(limit string) string {
	switch limit {
	case "":
		return "a GPU"
	case "user":
		return "its user's limit"
	case "group":
		return "its group's limit"
	}
	return "its service's quota"
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

// Answer returns the answer of the daemon.
func (s *Past) Answer() any { return s.PastLeases }

// Lines writes the table for a screen. A lease has one row for every device.
func (s *Past) Lines(to term.Screen) []string {
	if len(s.Leases) == 0 {
		if s.Filtered {
			return []string{"No lease that has ended matches."}
		}
		return []string{"No lease has ended yet."}
	}
	measured := slices.ContainsFunc(s.Leases, func(l api.PastLease) bool { return l.Energy.Known() })
	var t *term.Table
	for _, l := range []struct {
		id, holder int // columns they may be folded or cut to; 0 for never
		without    []string
	}{
		{0, 0, nil}, {0, 0, []string{"ENERGY"}}, {0, 8, []string{"ENERGY"}}, {0, 8, []string{"ENERGY", "SLOTS"}}, {0, 0, []string{"ENERGY", "SLOTS", "HOLDER"}},
		{20, 0, []string{"ENERGY", "SLOTS", "HOLDER"}}, {8, 0, []string{"ENERGY", "SLOTS", "HOLDER", "HELD"}},
	} {
		if t = s.table(to, l.id, l.holder, append(l.without, unless(measured, "ENERGY"))); t.Fits(to.Width) {
			break
		}
	}
	return t.Lines(to.Width, to.Painter)
}

// table returns the table without some of its columns. It folds ids and reasons, and never
// cuts them: other commands take the first, and the second are why one looks.
func (s *Past) table(to term.Screen, id, holder int, without []string) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "ID", Least: id, Fold: true}, {Title: "HOLDER", Least: holder}, {Title: "GPU", Right: true}, {Title: "MEMORY GiB"},
		{Title: "SLOTS", Right: true}, {Title: "HELD", Right: true}, {Title: "ENDED", Right: true}, {Title: "HOW", Least: 16, Fold: true}, {Title: "ENERGY", Right: true},
	}}
	all := t.Columns
	t.Columns = slices.DeleteFunc(slices.Clone(all), func(c term.Column) bool { return slices.Contains(without, c.Title) })
	for _, l := range s.Leases {
		for i, p := range l.Parts {
			row := []term.Cell{
				term.Text(term.Clean(l.ID)), term.Text(Holder(l.Holder)), s.GPUs.cell(p.GPU), usedCell(l.Peak, p.Memory), term.Text(strconv.Itoa(p.Slots)),
				term.Text(words.Age(l.Ended.Sub(l.Granted))), term.Text(words.Age(to.Now.Sub(l.Ended)) + " ago"), term.Text(how(l)), term.Text(energyOf(l.Energy)),
			}
			if i > 0 { // the first row has the values of the lease as a whole
				row[0], row[1], row[5], row[6], row[7], row[8] = term.Cell{}, term.Cell{}, term.Cell{}, term.Cell{}, term.Cell{}, term.Cell{}
			}
			var shown []term.Cell
			for at, c := range all {
				if !slices.Contains(without, c.Title) {
					shown = append(shown, row[at])
				}
			}
			t.Add(shown...)
		}
	}
	return t
}

// how says how a lease ended, and why if that is known.
func how(l api.PastLease) string {
	if l.Why == "" {
		return term.Clean(l.How)
	}
	return term.Clean(l.How + ": " + l.Why)
}

// Strays shows the processes that use devices under no lease.
type Strays struct {
	api.Strays
	GPUs GPUs
}

// Answer returns the answer of the daemon.
func (s *Strays) Answer() any { return s.Strays }

// Lines writes the table for a screen.
func (s *Strays) Lines(to term.Screen) []string {
	if len(s.Orphans)+len(s.Foreign) == 0 {
		return []string{"No process uses a GPU without a lease."}
	}
	all := slices.Concat(s.Orphans, s.Foreign)
	t := tableOf(all, []column[api.Stray]{
		{term.Column{Title: "GPU"}, func(p api.Stray) term.Cell { return s.GPUs.cell(p.GPU) }},
		{term.Column{Title: "PID", Right: true}, func(p api.Stray) term.Cell { return term.Text(pidText(p.PID)) }},
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
	}, unless(slices.ContainsFunc(all, fitsSeveral), "BELONGS TO NONE, BECAUSE IT"), unless(slices.ContainsFunc(all, inPod), "POD"))
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

// Answer returns the answer of the daemon.
func (s *Belonging) Answer() any { return s.Leases }

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
			t.Add(term.Text(term.Clean(lease.ID)), s.GPUs.cell(p.GPU), term.Text(pidText(p.PID)), term.Text(term.Clean(p.Name)),
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
