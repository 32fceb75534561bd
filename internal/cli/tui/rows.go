package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
)

// row is a lease, one of its processes, or a process under no lease. Exactly one of
// them is set, except that a process of a lease also has its lease.
type row struct {
	key     string
	lease   *api.Lease
	process *api.Belonging
	stray   *api.Stray
	part    *fleet.Part // with several machines: the part of the lease on one device
}

// leaseKey returns the key by which a row finds its lease again.
func leaseKey(l *api.Lease) string { return fmt.Sprintf("%s/%s/%d", l.Holder.User, l.ID, l.Fence) }

// Request identifies a waiting request by its user and id.
type Request struct{ User, ID string }

// Key returns the key by which a reason finds its request again.
func (r Request) Key() string { return r.User + "/" + r.ID }

func requestOf(w api.Waiting) Request { return Request{w.Holder.User, w.ID} }

// order is an order for rows. Without a comparison, it is that in which they come.
type order[T any] struct {
	column  string // the column whose heading shows it
	compare func(a, b T) int
}

// leaseOrders returns the orders for leases, in the sequence in which a key goes through
// them. The largest, the oldest and the first of the alphabet come first.
func (s *machine) leaseOrders() []order[row] {
	by := func(compare func(a, b *api.Lease) int) func(a, b row) int {
		return func(a, b row) int { return compare(a.lease, b.lease) }
	}
	return []order[row]{
		{"MEMORY GiB", by(func(a, b *api.Lease) int { return cmp.Compare(max(used(b), asked(b)), max(used(a), asked(a))) })},
		{"USED", by(func(a, b *api.Lease) int { return cmp.Compare(used(b), used(a)) })},
		{"AGE", by(func(a, b *api.Lease) int { return a.Granted.Compare(b.Granted) })},
		{"ENERGY", by(func(a, b *api.Lease) int { return cmp.Compare(b.Energy.Or(-1), a.Energy.Or(-1)) })},
		{"USER", by(func(a, b *api.Lease) int { return cmp.Compare(a.Holder.User, b.Holder.User) })},
		{"LEASE", by(func(a, b *api.Lease) int { return cmp.Compare(a.ID, b.ID) })},
		{"GPU", by(func(a, b *api.Lease) int { return cmp.Compare(s.firstIndex(a), s.firstIndex(b)) })},
	}
}

// turnedBy returns a comparison, reversed if the user has turned the order of a pane round.
func (s *State) turnedBy(p Pane, n int) int {
	if s.turned[p] {
		return -n
	}
	return n
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

// sift selects the rows of the lists, and notes their keys.
func (s *State) sift() {
	if s.Several {
		s.gpus, s.leases = s.nodeRows(), s.partRows()
	} else {
		s.gpus, s.leases, s.queue, s.news, s.services = s.deviceRows(), s.leaseRows(), s.queueRows(), s.eventRows(), s.serviceRows()
		s.jobs, s.processes, s.users = s.jobRows(), s.processRows(), s.userRows()
	}
	s.keys = [panes][]string{
		keysOf(s.gpus, gpuRow.key), keysOf(s.leases, func(r row) string { return r.key }),
		keysOf(s.queue, func(w api.Waiting) string { return requestOf(w).Key() }), keysOf(s.news, eventKey),
		keysOf(s.services, func(one api.Service) string { return one.Name }), keysOf(s.jobs, func(j api.Job) string { return j.ID }),
		keysOf(s.processes, func(p processRow) string { return p.key }), keysOf(s.users, func(u userRow) string { return u.name }),
	}
}

func keysOf[T any](rows []T, key func(T) string) []string {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = key(r)
	}
	return list
}

// deviceRows returns the devices of one machine. The filter is not for them. If there is
// no room for all, those that are not well come first.
func (s *State) deviceRows() []gpuRow {
	rows := make([]gpuRow, len(s.devices()))
	for i, d := range s.devices() {
		rows[i] = gpuRow{gpu: &fleet.GPU{Status: d}}
	}
	if len(rows) > s.rows(Devices) {
		slices.SortStableFunc(rows, func(a, b gpuRow) int { return cmp.Compare(trouble(b.gpu.Status), trouble(a.gpu.Status)) })
	}
	return rows
}

// trouble returns how badly a device needs a person.
func trouble(d api.Status) int {
	switch stateTone(d) {
	case bad:
		return 2
	case warning:
		return 1
	}
	return 0
}

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
	by := s.leaseOrders()[s.order[Leases]]
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(s.turnedBy(Leases, by.compare(a, b)), a.lease.Granted.Compare(b.lease.Granted), cmp.Compare(a.key, b.key))
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
		if s.matches(strings.Join(append([]string{string(e.Code)}, codesOf(e.Also)...), " "), e.Text, e.Lease, e.User, string(e.Severity)) {
			list = append(list, e)
		}
	}
	return list
}

func codesOf(list []gpu.EventCode) []string {
	var texts []string
	for _, code := range list {
		texts = append(texts, string(code))
	}
	return texts
}

func eventKey(e gpu.Event) string { return fmt.Sprintf("%d %d", e.ID, e.Time.UnixNano()) }

// at returns the index of the chosen row of a pane, or of the row in its place if it is
// gone. It returns -1 if there is none.
func (s *State) at(p Pane) int {
	keys := s.keys[p]
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
	if d := s.detail; d != nil && d.pane != Processes {
		if d.pane != Leases {
			return nil
		}
		return s.leaseWith(d.key)
	}
	if p := s.chosenProcess(); p != nil {
		return p.lease
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
		return s.gpus[at].gpu.Status, true
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
