package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// row is a lease, one of its processes, or a process under no lease. Exactly one of
// them is set, except that a process of a lease also has its lease.
type row struct {
	key     string
	lease   *api.Lease
	process *api.Belonging
	stray   *api.Stray
}

// leaseKey returns the key by which a row finds its lease again.
func leaseKey(l *api.Lease) string { return fmt.Sprintf("%s/%s/%d", l.Holder.User, l.ID, l.Fence) }

// Request identifies a waiting request by its user and id.
type Request struct{ User, ID string }

// Key returns the key by which a reason finds its request again.
func (r Request) Key() string { return r.User + "/" + r.ID }

func requestOf(w api.Waiting) Request { return Request{w.Holder.User, w.ID} }

// order is an order for leases.
type order struct {
	column  string // the column whose heading shows it
	compare func(a, b *api.Lease) int
}

// orders returns the orders for leases, in the sequence in which a key goes through
// them. The largest, the oldest and the first of the alphabet come first.
func orders() []order {
	return []order{
		{"MEMORY GiB", func(a, b *api.Lease) int { return cmp.Compare(max(used(b), asked(b)), max(used(a), asked(a))) }},
		{"USED", func(a, b *api.Lease) int { return cmp.Compare(used(b), used(a)) }},
		{"AGE", func(a, b *api.Lease) int { return a.Granted.Compare(b.Granted) }},
		{"ENERGY", func(a, b *api.Lease) int { return cmp.Compare(b.Energy.Or(-1), a.Energy.Or(-1)) }},
		{"USER", func(a, b *api.Lease) int { return cmp.Compare(a.Holder.User, b.Holder.User) }},
		{"LEASE", func(a, b *api.Lease) int { return cmp.Compare(a.ID, b.ID) }},
		{"GPU", func(a, b *api.Lease) int { return 0 }}, // the lease lacks the index; leaseRows sorts
	}
}

// asked returns the memory that a lease holds on all its devices: none while it is
// parked.
func asked(l *api.Lease) gpu.MiB {
	var sum gpu.MiB
	for _, p := range l.Parts {
		sum += p.Memory
	}
	return sum
}

// used returns the memory that the processes of a lease use.
func used(l *api.Lease) gpu.MiB {
	var sum gpu.MiB
	for _, p := range l.Parts {
		sum += p.Measured.Or(0)
	}
	return sum
}

// sift selects the rows of the lists.
func (s *State) sift() { s.leases, s.queue, s.news = s.leaseRows(), s.queueRows(), s.eventRows() }

// leaseRows returns the leases that match the filter, in order, and then the processes
// under no lease.
func (s *State) leaseRows() []row {
	var rows []row
	if s.facts.Leases != nil {
		for i := range s.facts.Leases.Leases {
			l := &s.facts.Leases.Leases[i]
			if s.matches(s.leaseWords(l)...) {
				rows = append(rows, row{key: leaseKey(l), lease: l})
			}
		}
	}
	by := orders()[s.order]
	slices.SortStableFunc(rows, func(a, b row) int {
		n := by.compare(a.lease, b.lease)
		if by.column == "GPU" {
			n = cmp.Compare(s.firstIndex(a.lease), s.firstIndex(b.lease))
		}
		if s.turned {
			n = -n
		}
		return cmp.Or(n, a.lease.Granted.Compare(b.lease.Granted), cmp.Compare(a.key, b.key))
	})
	if s.tree {
		rows = withProcesses(rows)
	}
	if s.facts.Strays != nil {
		for _, list := range [][]api.Stray{s.facts.Strays.Orphans, s.facts.Strays.Foreign} {
			for i := range list {
				p := &list[i]
				if s.matches(p.Name, p.User, p.Lease, "GPU "+s.index(p.GPU), "no lease") {
					rows = append(rows, row{key: fmt.Sprintf("stray %s %d %s", p.GPU, p.PID, p.Name), stray: p})
				}
			}
		}
	}
	return rows
}

// withProcesses puts the processes of each lease below it.
func withProcesses(leases []row) []row {
	var rows []row
	for _, r := range leases {
		rows = append(rows, r)
		for i := range r.lease.Processes {
			p := &r.lease.Processes[i]
			rows = append(rows, row{key: fmt.Sprintf("%s process %s %d %d", r.key, p.GPU, p.PID, i), lease: r.lease, process: p})
		}
	}
	return rows
}

// leaseWords returns the words of a lease that the filter searches.
func (s *machine) leaseWords(l *api.Lease) []string {
	list := []string{l.ID, l.Holder.User, l.Holder.Service, l.Holder.Name, l.State, l.EnforcedBy, l.Unit}
	for _, p := range l.Parts {
		list = append(list, "GPU "+s.index(p.GPU))
	}
	for _, p := range l.Processes {
		list = append(list, p.Name)
	}
	return list
}

// firstIndex returns the index of the first device of a lease. Devices that are gone
// come last.
func (s *machine) firstIndex(l *api.Lease) int {
	if len(l.Parts) > 0 {
		if d, there := s.device(l.Parts[0].GPU); there {
			return d.Device.Index
		}
	}
	return 1 << 20
}

// matches reports whether one of the words contains the filter.
func (s *State) matches(words ...string) bool {
	looked := strings.ToLower(s.filter)
	return looked == "" || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(w), looked) })
}

// queueRows returns the waiting requests that match the filter.
func (s *State) queueRows() []api.Waiting {
	var list []api.Waiting
	if s.facts.Leases != nil {
		for _, w := range s.facts.Leases.Waiting {
			if s.matches(w.ID, w.Holder.User, w.Holder.Service, w.Holder.Name, s.shortReason(w)) {
				list = append(list, w)
			}
		}
	}
	return list
}

// eventRows returns the events that match the filter, newest first.
func (s *State) eventRows() []gpu.Event {
	var list []gpu.Event
	for _, e := range slices.Backward(s.events) {
		if s.matches(string(e.Code), e.Text, e.Lease, e.User, string(e.Severity)) {
			list = append(list, e)
		}
	}
	return list
}

func eventKey(e gpu.Event) string { return fmt.Sprintf("%d %d", e.ID, e.Time.UnixNano()) }

// keys returns the keys of the rows of a pane, from top to bottom.
func (s *State) keys(p Pane) []string {
	var list []string
	switch p {
	case Devices:
		for _, d := range s.devices() {
			list = append(list, d.Device.UUID)
		}
	case Leases:
		for _, r := range s.leases {
			list = append(list, r.key)
		}
	case Queue:
		for _, w := range s.queue {
			list = append(list, requestOf(w).Key())
		}
	case Events:
		for _, e := range s.news {
			list = append(list, eventKey(e))
		}
	}
	return list
}

// at returns the index of the chosen row of a pane, or of the row in its place if it is
// gone. It returns -1 if there is none.
func (s *State) at(p Pane) int {
	keys := s.keys(p)
	switch at := slices.Index(keys, s.cursor[p]); {
	case at >= 0 || len(keys) == 0:
		return at
	case s.cursor[p] == "":
		return 0
	}
	return min(s.place[p], len(keys)-1)
}

// chosenLease returns the chosen lease, or nil if none is chosen.
func (s *State) chosenLease() *api.Lease {
	if d := s.detail; d != nil {
		if d.pane != Leases {
			return nil
		}
		return s.leaseWith(d.key)
	}
	if s.pane != Leases {
		return nil
	}
	if at := s.at(Leases); at >= 0 {
		return s.leases[at].lease
	}
	return nil
}

// leaseWith returns the lease with a key, or nil if it is gone.
func (s *machine) leaseWith(key string) *api.Lease {
	if s.facts.Leases == nil {
		return nil
	}
	for i := range s.facts.Leases.Leases {
		if l := &s.facts.Leases.Leases[i]; leaseKey(l) == key {
			return l
		}
	}
	return nil
}

// chosenDevice returns the chosen device. It returns false if none is chosen.
func (s *State) chosenDevice() (d api.Status, ok bool) {
	if s.detail != nil {
		if s.detail.pane != Devices {
			return d, false
		}
		return s.device(s.detail.key)
	}
	if at := s.at(Devices); s.pane == Devices && at >= 0 {
		return s.devices()[at], true
	}
	return d, false
}

// chosenRequest returns the chosen request, or nil if none is chosen.
func (s *State) chosenRequest() *api.Waiting {
	rows := s.queue
	if d := s.detail; d != nil {
		for i := range rows {
			if d.pane == Queue && requestOf(rows[i]).Key() == d.key {
				return &rows[i]
			}
		}
		return nil
	}
	if at := s.at(Queue); s.pane == Queue && at >= 0 {
		return &rows[at]
	}
	return nil
}

// Explained returns the requests whose reasons the screen shows, the next one first.
func (s *State) Explained() []Request {
	const most = 12 // each costs a question
	var list []Request
	rows, from := s.queue, s.top[Queue]
	for i := from; i < len(rows) && len(list) < most; i++ {
		list = append(list, requestOf(rows[i]))
	}
	if w := s.chosenRequest(); w != nil && !slices.Contains(list, requestOf(*w)) {
		list = append(list, requestOf(*w))
	}
	return list
}
