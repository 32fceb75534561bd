package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// detail is one object that fills the whole screen. The pane panes stands for the list
// of needs.
type detail struct {
	pane Pane
	key  string
	top  int // lines that it is scrolled up
}

// fact is one line of a detail. Empty facts are left out.
type fact struct{ name, text string }

// detailLines writes everything about the chosen object.
func (s *State) detailLines(width int) []line {
	d := s.detail
	gone := "It is not there any more."
	switch d.pane {
	case Devices:
		gone = "This GPU is not there any more."
		if r := find(s.gpus, func(r *fleet.Row) bool { return deviceKey(*r) == d.key }); r != nil {
			return s.deviceDetail(*r, width)
		}
	case Leases:
		if p := s.partWith(d.key); p != nil {
			return s.leaseDetail(p, width)
		}
		if r := find(s.leases, func(r *row) bool { return r.key == d.key }); r != nil {
			return s.strayDetail(r.stray, width)
		}
	case Queue:
		gone = "It does not wait any more."
		if w := s.chosenRequest(); w != nil {
			return s.requestDetail(*w, width)
		}
	case Services:
		gone = "This service is not there any more."
		if one := s.chosenService(); one != nil {
			return s.serviceDetail(*one, width)
		}
	case Jobs:
		gone = "This job is not listed any more."
		if j := s.chosenJob(); j != nil {
			return s.jobDetail(*j, width)
		}
	case Processes:
		gone = "This process is not there any more."
		if p := s.chosenProcess(); p != nil {
			return s.processDetail(*p, width)
		}
	case Users:
		gone = "This user has nothing any more."
		if u := find(s.allUsers(), func(u *userRow) bool { return u.name == d.key }); u != nil {
			return s.userDetail(u, width)
		}
	case Events:
		gone = "This event is not kept any more."
		if e := find(s.events, func(e *gpu.Event) bool { return eventKey(*e) == d.key }); e != nil {
			return facts(" "+plain(string(e.Code)), []fact{
				{"what", e.Text}, {"also", strings.Join(codesOf(e.Also), ", ")}, {"when", e.Time.In(s.Now.Location()).Format(time.DateTime)}, {"severity", string(e.Severity)}, {"GPU", s.nameOr(e.GPU)},
				{"lease", e.Lease}, {"user", e.User}, {"by", e.By.String()},
			}, width)
		}
	default:
		return s.needsDetail(width)
	}
	return []line{{}, {{"  " + gone + " esc goes back.", warning}}}
}

// needsDetail lists what needs a person.
func (s *State) needsDetail(width int) []line {
	lines := []line{{{" What needs a person", chosen}}, {}}
	if len(s.needs) == 0 {
		return append(lines, line{{"  Nothing.", faint}})
	}
	for _, n := range s.needs {
		for i, l := range wrapped(n.text, width-5) {
			mark := "   "
			if i == 0 {
				mark = " " + n.mark() + " "
			}
			lines = append(lines, line{{mark, n.tone}, {l, ordinary}})
		}
	}
	return lines
}

func (s *machine) nameOr(uuid string) string {
	if uuid == "" {
		return ""
	}
	return s.name(uuid)
}

// facts writes a title and facts below it.
func facts(head string, list []fact, width int) []line {
	const names = 15
	lines := []line{{{head, chosen}}, {}}
	for _, f := range list {
		if f.text == "" {
			continue
		}
		for i, l := range wrapped(plain(f.text), width-names-4) {
			name := ""
			if i == 0 {
				name = f.name
			}
			lines = append(lines, line{{fmt.Sprintf("  %-*s ", names, name), faint}, {l, ordinary}})
		}
	}
	return lines
}

// wrapped breaks a text into lines. It also breaks a word that is longer than a line.
func wrapped(s string, width int) []string {
	var lines []string
	for _, l := range term.Wrap(s, max(width, 10)) {
		for term.Columns(l) > width && width > 1 {
			cut := strings.TrimSuffix(term.Cut(l, width), "…")
			if cut == "" {
				break // there is no room even for one wide character
			}
			lines, l = append(lines, cut), strings.TrimPrefix(l, cut)
		}
		lines = append(lines, l)
	}
	return lines
}

// deviceDetail writes a device: its curves, and the text of berth status GPU. One of
// several machines has no curves, and its machine is described instead.
func (s *State) deviceDetail(r fleet.Row, width int) []line {
	var lines []line
	switch {
	case r.GPU == nil:
		return facts(" Node "+plain(view.Short(r.Node.Name)), s.nodeFacts(r.Node), width)
	case r.Node != nil:
		problem, _ := view.Complaint(*r.GPU, s.Now)
		list := append(s.nodeFacts(r.Node), fact{"problem", problem}, fact{"held by", strings.Join(view.HeldBy(*r.GPU), ", ")})
		lines = facts(fmt.Sprintf(" %s GPU %d", plain(view.Short(r.Node.Name)), r.GPU.Device.Index), list, width)
	default:
		lines = s.card(*r.GPU, width, cards{1, 7, 5})
	}
	d := r.GPU.Status
	d.Leases = s.leasesOn(r)
	if r.GPU.Old {
		d.Sample = nil
	}
	said := (&view.Device{Status: d, Leasable: s.leasable(d.Device.UUID)}).Lines(term.Screen{Width: width - 3, Now: s.Now})
	return append(append(lines, line{}), block(said[bit(r.Node == nil):])...)
}

// leasesOn returns the leases on a device.
func (s *State) leasesOn(r fleet.Row) []api.DeviceLease {
	var list []api.DeviceLease
	for _, l := range s.parts {
		for _, p := range l.On {
			if p.GPU == r.GPU.Device.UUID && l.Node == r.GPU.Node {
				list = append(list, api.DeviceLease{ID: l.ID, Holder: l.Holder, State: l.State, Memory: p.Memory, Measured: p.Measured.Or(0), Slots: p.Slots, Granted: l.Granted, Until: view.Ending(l.Lease, s.Now)})
			}
		}
	}
	return list
}

// leaseDetail writes everything that the daemon says about a lease.
func (s *machine) leaseDetail(of *fleet.Part, width int) []line {
	l := &of.Lease
	var parts []string
	for _, p := range l.Parts {
		use := "not measured"
		if v, known := p.Measured.Get(); known {
			use = v.String() + " used"
		}
		parts = append(parts, s.name(p.GPU)+": "+view.Amount(p.Memory, p.Slots)+", "+use)
	}
	ends := view.Until(*l, s.Now)
	if l.Binding == "named" && l.Expires == nil && l.Ends == nil {
		ends = "somebody releases it"
	}
	energy := ""
	if j, known := l.Energy.Get(); known {
		energy = j.String() + " above what the devices draw by themselves"
	}
	head, id, isolated := " Lease "+plain(l.ID), "", cmp.Or(l.IsolatedBy, "its environment alone")
	if s.Several {
		head, id, isolated = " "+plain(view.LeaseOf(of.PodLease))+" on "+plain(view.Short(of.Node)), l.ID, l.IsolatedBy
	}
	list := []fact{
		{"node", of.Node}, {"pods", podText(of)}, {"claim", of.Claim}, {"lease", id},
		{"state", l.State}, {"user", l.Holder.User}, {"service", l.Holder.Service}, {"name", l.Holder.Name}, {"holds", strings.Join(parts, "; ")},
		{"age", words.Age(s.Now.Sub(l.Granted)) + ", since " + l.Granted.In(s.Now.Location()).Format(time.DateTime)},
		{"until", ends}, {"enforced by", l.EnforcedBy}, {"isolated by", isolated}, {"energy", energy},
		{"idle", s.idle(l)}, {"paced", paced(l)}, {"parking", s.parking(l)}, {"priority", fmt.Sprint(l.Priority)}, {"fence", fmt.Sprint(l.Fence)},
		{"parent", l.Parent}, {"pool", view.PoolText(l.Pool)}, {"unit", l.Unit}, {"scope", strings.Join(l.Scope, ", ")}, {"note", l.Note},
	}
	if l.Asked > 0 {
		list = append(list, fact{"shrunk", "it had " + l.Asked.String() + " before an optimization"})
	}
	lines := facts(head, list, width)
	if s.Several {
		return lines // machines do not tell the processes of others
	}
	lines = append(lines, line{}, line{{fmt.Sprintf("  %s", words.Count(len(l.Processes), "process")), title}})
	for _, p := range l.Processes {
		lines = append(lines, line{{fmt.Sprintf("  %9s  ", pid(p.PID)), ordinary}, {fmt.Sprintf("%-7s %9s  ", s.name(p.GPU), p.Memory), ordinary},
			{plain(p.Name), strong}, {", belongs to it by " + plain(p.Evidence), faint}})
	}
	return lines
}

func (s *machine) idle(l *api.Lease) string {
	if l.Idle == nil {
		return ""
	}
	return "for " + words.Age(s.Now.Sub(l.Idle.Since)) + ", with " + l.Idle.Memory.String()
}

func paced(l *api.Lease) string {
	if l.Paced == nil {
		return ""
	}
	said := fmt.Sprintf("held to %.0f %%", 100*l.Paced.Share)
	if got, known := l.Paced.Measured.Get(); known {
		said += fmt.Sprintf(", gets %.0f %%", 100*got)
	}
	return view.Join(said, l.Paced.Refused)
}

func (s *machine) parking(l *api.Lease) string {
	p := l.Parking
	if p == nil {
		return ""
	}
	said := words.Count(p.Times, "time") + " parked"
	if p.Host > 0 {
		said += ", takes " + p.Host.String() + " of the machine's memory"
	}
	return view.Join(said, p.Why, p.Failed)
}

// strayDetail writes a process under no lease.
func (s *machine) strayDetail(p *api.Stray, width int) []line {
	use := "only open"
	if v, known := p.Memory.Get(); known {
		use = v.String()
	}
	next := ""
	if p.PID != 0 {
		next = fmt.Sprintf("berth adopt --pid %d puts it under a lease", p.PID)
	}
	return facts(" Process "+pid(p.PID)+" under no lease", []fact{
		{"program", p.Name}, {"user", p.User}, {"GPU", s.name(p.GPU)}, {"memory", use}, {"lease", p.Lease}, {"fits", strings.Join(p.Fits, ", ")}, {"next", next},
	}, width)
}

// requestDetail writes a waiting request.
func (s *machine) requestDetail(w api.Waiting, width int) []line {
	until := "no limit"
	if w.Deadline != nil {
		until = "in " + words.Age(w.Deadline.Sub(s.Now))
	}
	lines := facts(" Request "+plain(w.ID), []fact{
		{"user", w.Holder.User}, {"service", w.Holder.Service}, {"name", w.Holder.Name}, {"asks for", asksFor(w)},
		{"position", fmt.Sprint(w.Position)}, {"waits", words.Age(s.Now.Sub(w.Since))}, {"gives up", until}, {"priority", fmt.Sprint(w.Priority)},
	}, width)
	if e, known := s.reasons[requestOf(w).Key()]; known && s.facts.Status != nil {
		lines = append(append(lines, line{}), block(view.GPUsOf(*s.facts.Status).Explained(e, term.Screen{Width: width - 3, Now: s.Now}))...)
	}
	return lines
}

// block returns lines for texts that were written without colours.
func block(texts []string) []line {
	var lines []line
	for _, t := range texts {
		for part := range strings.SplitSeq(t, "\n") {
			lines = append(lines, line{{"  " + plain(part), ordinary}})
		}
	}
	return lines
}
