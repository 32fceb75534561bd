package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
)

// row is a lease, one of its processes, or a process under no lease. Exactly one of
// them is set, except that a process of a lease also has its lease.
type row struct {
	key     string
	lease   *api.Lease
	process *api.Belonging
	stray   *api.Stray
	part    *fleet.Part // the lease as tables show it; nil if the row is about a process
}

// partKey returns the key by which a row finds its lease again.
func partKey(p *fleet.Part) string {
	if p.Node == "" {
		return leaseKey(&p.Lease)
	}
	return p.Node + "/" + leaseKey(&p.Lease)
}

// leaseKey returns the same for a lease of the only machine.
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
	orders := []order[row]{
		{"MEMORY GiB", by(func(a, b *api.Lease) int { return cmp.Compare(max(used(b), asked(b)), max(used(a), asked(a))) })},
		{"USED", by(func(a, b *api.Lease) int { return cmp.Compare(used(b), used(a)) })},
		{"AGE", by(func(a, b *api.Lease) int { return a.Granted.Compare(b.Granted) })},
		{"ENERGY", by(func(a, b *api.Lease) int { return cmp.Compare(b.Energy.Or(-1), a.Energy.Or(-1)) })},
		{"USER", by(func(a, b *api.Lease) int { return cmp.Compare(a.Holder.User, b.Holder.User) })},
		{"ID", by(func(a, b *api.Lease) int { return cmp.Compare(a.ID, b.ID) })},
		{"GPU", by(func(a, b *api.Lease) int { return cmp.Compare(s.firstIndex(a), s.firstIndex(b)) })},
	}
	if s.Several {
		orders = slices.Concat([]order[row]{{"NODE", nil}}, orders[:3], []order[row]{{"POD", func(a, b row) int { return cmp.Compare(podText(a.part), podText(b.part)) }}})
	}
	return orders
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
		sum += fleet.Amount(p.Memory)
	}
	return sum
}

// used returns the memory that the processes of a lease use.
func used(l *api.Lease) gpu.MiB {
	var sum gpu.MiB
	for _, p := range l.Parts {
		sum += fleet.Amount(p.Measured.Or(0))
	}
	return sum
}

// sift selects the rows of the lists, and notes their keys.
func (s *State) sift() {
	s.gpus, s.leases, s.queue, s.news, s.services = s.deviceRows(), s.leaseRows(), s.queueRows(), s.eventRows(), s.serviceRows()
	s.jobs, s.processes, s.users = s.jobRows(), s.processRows(), s.userRows()
	s.keys = [panes][]string{
		keysOf(s.gpus, deviceKey), keysOf(s.leases, func(r row) string { return r.key }),
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

// deviceKey returns the key by which a row finds its device or its machine again.
func deviceKey(r fleet.Row) string {
	switch {
	case r.Node == nil:
		return r.GPU.Device.UUID
	case r.GPU == nil:
		return r.Node.Name
	}
	return r.Node.Name + "/" + r.GPU.Device.UUID
}

// deviceRows returns the devices. On one machine, the filter is not for them; and if there
// is no room for all, those that are not well come first.
func (s *State) deviceRows() []fleet.Row {
	if s.Several {
		return s.nodeRows()
	}
	rows := make([]fleet.Row, len(s.devices()))
	for i, d := range s.devices() {
		rows[i].GPU = s.withLeased(d)
	}
	if len(rows) > s.rows(Devices) {
		trouble := func(r fleet.Row) tone { return max(toneOf(view.DeviceState(*r.GPU).Colour, good), good) }
		slices.SortStableFunc(rows, func(a, b fleet.Row) int { return cmp.Compare(trouble(b), trouble(a)) })
	}
	return rows
}

// withLeased returns a device with what is leased on it, or used under no lease.
func (s *machine) withLeased(d api.Status) *fleet.GPU {
	l := s.leasable(d.Device.UUID)
	return &fleet.GPU{Status: d, Leased: l.Leased + l.Foreign}
}

// leaseRows returns the leases that match the filter, in order, and then the processes
// under no lease.
func (s *State) leaseRows() []row {
	var rows []row
	for i := range s.parts {
		p := &s.parts[i]
		if s.filter == "" || s.matches(s.leaseWords(p)...) {
			rows = append(rows, row{key: partKey(p), lease: &p.Lease, part: p})
		}
	}
	switch by := s.leaseOrders()[s.order[Leases]]; {
	case by.compare != nil && s.Several:
		slices.SortStableFunc(rows, func(a, b row) int { return s.turnedBy(Leases, by.compare(a, b)) })
	case by.compare != nil:
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Or(s.turnedBy(Leases, by.compare(a, b)), a.lease.Granted.Compare(b.lease.Granted), cmp.Compare(a.key, b.key))
		})
	case s.turned[Leases]:
		slices.Reverse(rows)
	}
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
func (s *machine) leaseWords(p *fleet.Part) []string {
	list := []string{p.ID, p.Holder.User, p.Holder.Service, p.Holder.Name, p.State, p.EnforcedBy, p.Unit, p.Node, podText(p), p.Claim}
	for _, index := range p.Indexes {
		list = append(list, "GPU "+strconv.Itoa(index))
	}
	for _, process := range p.Processes {
		list = append(list, process.Name)
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
	for _, w := range s.waiting() {
		if s.matches(w.ID, w.Holder.User, w.Holder.Service, w.Holder.Name, s.shortReason(w)) {
			list = append(list, w)
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

// chosenKey returns the key of the row of a pane that is chosen, or "" if none is: because
// the pane has no rows, or does not have the keys.
func (s *State) chosenKey(p Pane) string {
	if s.detail != nil {
		if s.detail.pane == p {
			return s.detail.key
		}
		return ""
	}
	if at := s.at(p); s.pane == p && at >= 0 {
		return s.keys[p][at]
	}
	return ""
}

// chosenLease returns the chosen lease, or that of the chosen process, or nil.
func (s *State) chosenLease() *api.Lease {
	if p := s.chosenProcess(); p != nil {
		return p.lease
	}
	key := s.chosenKey(Leases)
	if r := find(s.leases, func(r *row) bool { return key != "" && r.key == key }); r != nil {
		return r.lease
	}
	if p := s.partWith(key); p != nil { // a filter may hide its row
		return &p.Lease
	}
	return nil
}

// partWith returns the lease with a key, or nil if it is gone.
func (s *machine) partWith(key string) *fleet.Part {
	return find(s.parts, func(p *fleet.Part) bool { return partKey(p) == key })
}

// chosenDevice returns the chosen device. It returns false if none is chosen.
func (s *State) chosenDevice() (d api.Status, ok bool) { return s.device(s.chosenKey(Devices)) }

// chosenRequest returns the chosen request, or nil if none is chosen.
func (s *State) chosenRequest() *api.Waiting {
	key := s.chosenKey(Queue)
	return find(s.queue, func(w *api.Waiting) bool { return key != "" && requestOf(*w).Key() == key })
}

// find returns the first item of a list that is meant, or nil.
func find[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
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
