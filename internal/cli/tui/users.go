package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// userRow is what a user has, uses and waits for, in all.
type userRow struct {
	name           string
	leases         int
	gpus           map[string]bool
	leased, used   gpu.MiB
	strays         gpu.MiB // used under no lease
	slots, waiting int
	running, queue int // jobs
	host           gpu.MiB
	cpu            gpu.Percent
}

// nobodyKnown stands for the users of processes whom the daemon does not know, or does not
// tell.
const nobodyKnown = "(not known)"

// allUsers returns the totals of each user, the largest first.
func (s *machine) allUsers() []userRow {
	byName := map[string]*userRow{}
	of := func(name string) *userRow {
		name = cmp.Or(name, nobodyKnown)
		if byName[name] == nil {
			byName[name] = &userRow{name: name, gpus: map[string]bool{}}
		}
		return byName[name]
	}
	if s.facts.Leases != nil {
		for i := range s.facts.Leases.Leases {
			l := &s.facts.Leases.Leases[i]
			u := of(l.Holder.User)
			u.leases++
			if l.State != "parked" { // a parked lease holds nothing
				u.slots += slots(l)
				for part, p := range l.Parts {
					u.gpus[p.GPU] = true
					u.leased = fleet.Amount(u.leased + l.Holds(part))
				}
			}
			for _, p := range l.Parts {
				u.used = fleet.Amount(u.used + p.Measured.Or(0))
			}
		}
		for _, w := range s.facts.Leases.Waiting {
			of(w.Holder.User).waiting++
		}
	}
	for _, j := range s.allJobs() {
		switch t := j.Tasks; {
		case t != nil:
			of(j.User).running += t.Running
			of(j.User).queue += t.Waiting + t.Held
		case j.State == "waiting" || j.State == "held":
			of(j.User).queue++
		case !j.Over():
			of(j.User).running++
		}
	}
	seen := map[int]bool{}
	for _, p := range s.allProcesses() {
		if p.stray != nil {
			of(p.user).strays += p.memory.Or(0)
			of(p.user).gpus[p.gpu] = true
		}
		if p.pid != 0 && !seen[p.pid] {
			seen[p.pid] = true
			of(p.user).host += p.Host.Or(0)
			of(p.user).cpu += p.CPU.Or(0)
		}
	}
	var list []userRow
	for _, u := range byName {
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b userRow) int {
		return cmp.Or(cmp.Compare(max(b.leased, b.used), max(a.leased, a.used)), cmp.Compare(b.waiting, a.waiting), cmp.Compare(a.name, b.name))
	})
	return list
}

// userRows returns the users that match the filter.
func (s *State) userRows() []userRow {
	return slices.DeleteFunc(s.allUsers(), func(u userRow) bool { return !s.matches(u.name) })
}

func (s *State) userColumns() []column[userRow] {
	number := func(n int) line {
		if n == 0 {
			return text("-", faint)
		}
		return text(strconv.Itoa(n), ordinary)
	}
	return columnsOf(s.users, nil, itself, []column[userRow]{
		{title: "USER", name: "USERS " + s.count(len(s.users), len(s.allUsers())), least: 10, first: true, cell: func(u userRow, _ int) line { return text(plain(u.name), strong) }},
		{title: "LEASES", least: 6, most: 6, right: true, cell: func(u userRow, _ int) line { return number(u.leases) }},
		{title: "GPUs", least: 4, most: 4, right: true, cell: func(u userRow, _ int) line { return number(len(u.gpus)) }},
		{title: "MEMORY GiB", least: 11, most: 12, cell: func(u userRow, _ int) line {
			t := ordinary
			if u.leased == 0 && u.used == 0 {
				return text("    -", faint)
			}
			if u.leased > 0 && u.used > u.leased {
				t = bad
			}
			return text(fmt.Sprintf("%5s/%s", view.GiB(u.used), view.GiB(u.leased)), t)
		}},
		{title: "USED", least: 6, most: 16, drop: 2, cell: func(u userRow, w int) line { return shareBar(u.used, u.leased, w) }},
		{title: "NO LEASE", least: 8, most: 8, right: true, drop: 4, cell: func(u userRow, _ int) line {
			if u.strays == 0 {
				return text("-", faint)
			}
			return text(view.GiB(u.strays), warning)
		}},
		{title: "WAIT", least: 4, most: 4, right: true, cell: func(u userRow, _ int) line { return number(u.waiting) }},
		{title: "JOBS", least: 7, most: 9, right: true, drop: 1, cell: func(u userRow, _ int) line {
			if u.running+u.queue == 0 {
				return text("-", faint)
			}
			return text(fmt.Sprintf("%d+%d", u.running, u.queue), ordinary)
		}},
		{title: "SLOTS", least: 5, most: 5, right: true, drop: 5, cell: func(u userRow, _ int) line { return number(u.slots) }},
		{title: "CPU", least: 6, most: 6, right: true, drop: 6, cell: func(u userRow, _ int) line { return text(fmt.Sprintf("%.0f%%", float64(u.cpu)), ordinary) }},
		{title: "RAM GiB", least: 8, most: 8, right: true, drop: 7, cell: func(u userRow, _ int) line { return text(view.GiB(u.host), ordinary) }},
	})
}

// userDetail lists what a user has and waits for.
func (s *State) userDetail(u *userRow, width int) []line {
	name := u.name
	list := []fact{
		{"holds", fmt.Sprintf("%s on %s, %s leased, %s used", words.Count(u.leases, "lease"), words.Count(len(u.gpus), "GPU"), u.leased.Beside(u.used), u.used.Beside(u.leased))},
		{"machine", fmt.Sprintf("%.0f %% of one processor and %s of memory, of the processes on GPUs that berth top sees", float64(u.cpu), u.host)},
	}
	for _, p := range s.parts {
		if p.Holder.User == name {
			list = append(list, fact{"lease", fmt.Sprintf("%s on GPU %s, %s GiB, %s", p.ID, s.where(&p.Lease), strings.TrimSpace(view.LeasedMemory(p).Text), p.State)})
		}
	}
	for _, w := range s.waiting() {
		if w.Holder.User == name {
			list = append(list, fact{"waits", w.ID + " for " + asksFor(w) + ", " + words.Age(s.Now.Sub(w.Since))})
		}
	}
	for _, j := range s.allJobs() {
		if j.User == name {
			list = append(list, fact{"job", view.Join(j.ID+" is "+strings.ReplaceAll(j.State, "_", " "), view.JobNote(j, s.Now))})
		}
	}
	return facts(" User "+plain(name), list, width)
}

// idCut returns an id that fits a column. Of one that is too long it leaves the middle out,
// because ids with the same beginning differ at their end.
func idCut(id string, width int) string {
	id = plain(id)
	runes := []rune(id)
	if term.Columns(id) <= width || term.Columns(id) != len(runes) || width < 8 {
		return id // fit cuts wide characters
	}
	tail := (width - 1) / 3
	return string(runes[:width-1-tail]) + "…" + string(runes[len(runes)-tail:])
}
