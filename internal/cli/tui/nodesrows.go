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
	"github.com/berth-gpu/berth/internal/text/words"
)

// nodeOrder is an order for devices, and partOrder one for leases. The first of each is
// the order of the machines, which needs no comparison.
type (
	nodeOrder struct {
		column  string
		compare func(a, b *fleet.GPU) int
	}
	partOrder struct {
		column  string
		compare func(a, b fleet.Part) int
	}
)

// nodeOrders returns the orders for devices, in the sequence in which a key goes
// through them.
func nodeOrders() []nodeOrder {
	return []nodeOrder{
		{"NODE", nil},
		{"LOAD", func(a, b *fleet.GPU) int { return cmp.Compare(loadNow(b), loadNow(a)) }},
		{"LEASED", func(a, b *fleet.GPU) int { return cmp.Compare(b.Leased, a.Leased) }},
		{"TEMP", func(a, b *fleet.GPU) int { return cmp.Compare(tempNow(b), tempNow(a)) }},
	}
}

func loadNow(d *fleet.GPU) gpu.Percent { return view.MeasuredOn(*d).Utilization.Or(-1) }
func tempNow(d *fleet.GPU) gpu.Celsius { return view.MeasuredOn(*d).Temperature.Or(-300) }

// partOrders returns the orders for leases in the same way.
func partOrders() []partOrder {
	return []partOrder{
		{"NODE", nil},
		{"MEMORY GiB", func(a, b fleet.Part) int { return cmp.Compare(b.On.Memory, a.On.Memory) }},
		{"AGE", func(a, b fleet.Part) int { return a.Granted.Compare(b.Granted) }},
		{"POD", func(a, b fleet.Part) int { return cmp.Compare(podText(a), podText(b)) }},
	}
}

// sift selects the rows of the lists.
func (s *Nodes) sift() {
	s.devices = nil
	devices, at := s.gpus, 0
	for i := range s.all.Nodes {
		n := &s.all.Nodes[i]
		from := at
		for at < len(devices) && devices[at].Node == n.Name {
			at++
		}
		if from == at && s.matches(n.Name, n.Down) {
			s.devices = append(s.devices, nodeRow{node: n})
		}
		for j := from; j < at; j++ {
			d := &devices[j]
			if s.filter == "" || s.matches(append(view.HeldBy(*d), n.Name, fmt.Sprintf("GPU %d", d.Device.Index), d.Device.Name, d.Device.UUID, string(d.State))...) {
				s.devices = append(s.devices, nodeRow{n, d})
			}
		}
	}
	if by := nodeOrders()[s.order[Devices]]; by.compare != nil {
		slices.SortStableFunc(s.devices, func(a, b nodeRow) int {
			if a.gpu == nil || b.gpu == nil {
				return cmp.Compare(bit(a.gpu == nil), bit(b.gpu == nil)) // machines that do not answer come last
			}
			return s.turn(Devices, by.compare(a.gpu, b.gpu))
		})
	} else if s.turned[Devices] {
		slices.Reverse(s.devices)
	}
	s.parts = slices.DeleteFunc(slices.Clone(s.leases), func(p fleet.Part) bool {
		return s.filter != "" && !s.matches(p.Node, podText(p), p.ID, p.Claim, p.Holder.User, p.Holder.Service, "GPU "+strconv.Itoa(p.Index))
	})
	if by := partOrders()[s.order[Leases]]; by.compare != nil {
		slices.SortStableFunc(s.parts, func(a, b fleet.Part) int { return s.turn(Leases, by.compare(a, b)) })
	} else if s.turned[Leases] {
		slices.Reverse(s.parts)
	}
	s.rowKeys = [2][]string{make([]string, len(s.devices)), make([]string, len(s.parts))}
	for i, r := range s.devices {
		s.rowKeys[Devices][i] = r.key()
	}
	for i, p := range s.parts {
		s.rowKeys[Leases][i] = partKey(p)
	}
}

func (s *Nodes) turn(p Pane, n int) int {
	if s.turned[p] {
		return -n
	}
	return n
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// matches reports whether one of the texts contains the filter.
func (s *Nodes) matches(texts ...string) bool {
	wanted := strings.ToLower(s.filter)
	return wanted == "" || slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), wanted) })
}

// podText names the pods of a lease.
func podText(p fleet.Part) string { return strings.Join(fleet.Pods(p.PodLease), ", ") }

// widest returns the width that a column needs for all rows, between least and most.
func widest[T any](rows []T, least, most int, cell func(T, int) line) int {
	width := least
	for _, r := range rows {
		if width = max(width, cell(r, most).columns()); width >= most {
			return most
		}
	}
	return width
}

// fitted returns a column that grows no wider than its rows need, except for its bar.
func fitted[T any](rows []T, c column[T]) column[T] {
	c.most = widest(rows, c.least, c.most, c.cell)
	return c
}

// nodeColumns returns the columns for devices.
func (s *Nodes) nodeColumns() []column[nodeRow] {
	of := func(cell func(d fleet.GPU, width int) line) func(nodeRow, int) line {
		return func(r nodeRow, width int) line {
			if r.gpu == nil {
				return nil
			}
			return cell(*r.gpu, width)
		}
	}
	holders := "HELD BY"
	if fleet.HasPods(s.all.Nodes) {
		holders = "POD"
	}
	state := widest(s.devices, 9, 17, nodeState)
	name := func(r nodeRow, _ int) line { return text(plain(view.Short(r.node.Name)), strong) }
	fit := func(c column[nodeRow]) column[nodeRow] { return fitted(s.devices, c) }
	return []column[nodeRow]{
		fit(column[nodeRow]{heading: "NODE", least: widest(s.devices, 8, 16, name), most: 40, cell: name}),
		{heading: "GPU", least: 3, most: 3, right: true, cell: of(func(d fleet.GPU, _ int) line { return text(strconv.Itoa(d.Device.Index), strong) })},
		fit(column[nodeRow]{heading: "NAME", least: 6, most: 20, drop: 4, cell: of(func(d fleet.GPU, _ int) line { return text(plain(view.DeviceName(d)), ordinary) })}),
		{heading: "STATE", least: state, most: state, cell: nodeState},
		{heading: "LOAD", least: 5, most: 5, right: true, cell: of(func(d fleet.GPU, _ int) line {
			return text(view.Number(view.MeasuredOn(d).Utilization, "%.0f%%"), load)
		})},
		{heading: "MEMORY GiB", least: 10, most: 30, cell: of(func(d fleet.GPU, width int) line { return nodeMemory(d, width) })},
		{heading: "LEASED", least: 7, most: 7, right: true, cell: of(func(d fleet.GPU, _ int) line { return text(view.GiB(d.Leased), ordinary) })},
		{heading: "TEMP", least: 5, most: 5, right: true, drop: 1, cell: of(func(d fleet.GPU, _ int) line {
			d.Status.Sample = ptr(view.MeasuredOn(d))
			return text(view.Number(d.Sample.Temperature, "%.0f°C"), temperatureTone(d.Status))
		})},
		{heading: "POWER", least: 6, most: 6, right: true, drop: 3, cell: of(func(d fleet.GPU, _ int) line {
			return text(view.Number(view.MeasuredOn(d).Power, "%.0f W"), ordinary)
		})},
		{heading: "SLOTS", least: 5, most: 5, right: true, drop: 2, cell: of(func(d fleet.GPU, _ int) line {
			return text(fmt.Sprintf("%d/%d", d.Slots.Active, d.Slots.Capacity), ordinary)
		})},
		fit(column[nodeRow]{heading: holders, least: 20, most: 80, cell: of(func(d fleet.GPU, width int) line { return text(fewIn(view.HeldBy(d), width), ordinary) })}),
	}
}

func ptr[T any](v T) *T { return &v }

// nodeState writes the state of a device, or that its machine does not answer.
func nodeState(r nodeRow, _ int) line {
	switch {
	case r.gpu == nil && r.node.Status == nil:
		return text("no answer", bad)
	case r.gpu == nil:
		return text("no GPU", faint)
	case r.gpu.Old:
		return text(plain(view.DeviceState(*r.gpu)), warning)
	}
	return text(plain(view.DeviceState(*r.gpu)), stateTone(r.gpu.Status))
}

// nodeMemory draws the used memory and the memory leased beyond that, if there is room,
// and writes the numbers.
func nodeMemory(d fleet.GPU, width int) line {
	m := view.MeasuredOn(d)
	used, known := m.MemoryUsed.Get()
	total := fleet.Amount(m.MemoryTotal.Or(0))
	if !known {
		return text(fmt.Sprintf("%4s/%s", "-", view.GiB(total)), ordinary)
	}
	now := fmt.Sprintf("%4s/%s", view.GiB(fleet.Amount(used)), view.GiB(total))
	room := width - len(now) - 1
	if room < 4 || total == 0 {
		return text(now, ordinary)
	}
	return line{{view.MemoryBar(fleet.Amount(used), d.Leased, total, room), memory}, {" " + now, ordinary}}
}

// fewIn names as many items as fit, and counts the others. If none fits, it counts all
// in front of the first.
func fewIn(list []string, width int) string {
	for n := min(len(list), width/2); n > 0; n-- {
		if said := plain(words.Few(list, n)); (line{{said, ordinary}}).columns() <= width {
			return said
		}
	}
	if len(list) > 1 {
		return fmt.Sprintf("%d: %s", len(list), plain(list[0]))
	}
	return plain(strings.Join(list, ""))
}

// partColumns returns the columns for leases.
func (s *Nodes) partColumns() []column[fleet.Part] {
	columns := []column[fleet.Part]{
		{heading: "NODE", least: 12, most: 40, cell: func(p fleet.Part, _ int) line {
			name := plain(view.Short(p.Node))
			if p.Old {
				return text(name+" (old)", warning)
			}
			return text(name, strong)
		}},
		{heading: "GPU", least: 4, most: 4, right: true, cell: func(p fleet.Part, _ int) line {
			switch {
			case p.Index >= 0:
				return text(strconv.Itoa(p.Index), strong)
			case p.On.GPU == "":
				return text("-", faint)
			}
			return text("gone", bad)
		}},
		{heading: "POD", least: 16, most: 50, cell: func(p fleet.Part, width int) line {
			list := fleet.Pods(p.PodLease)
			if len(list) == 0 {
				return text("-", faint)
			}
			for i := range list {
				list[i] = view.Short(list[i])
			}
			return text(fewIn(list, width), ordinary)
		}},
		{heading: "LEASE", least: 14, most: 40, drop: 4, cell: func(p fleet.Part, _ int) line { return text(plain(view.LeaseOf(p.PodLease)), ordinary) }},
		{heading: "MEMORY GiB", least: 11, most: 11, cell: partMemory},
		{heading: "SLOTS", least: 5, most: 5, right: true, drop: 2, cell: func(p fleet.Part, _ int) line { return text(strconv.Itoa(p.On.Slots), ordinary) }},
		{heading: "AGE", least: 7, most: 7, right: true, drop: 1, cell: func(p fleet.Part, _ int) line { return text(words.Age(s.Now.Sub(p.Granted)), ordinary) }},
		{heading: "ENFORCED", least: 9, most: 9, drop: 3, cell: func(p fleet.Part, _ int) line { return text(plain(view.Short(p.EnforcedBy)), ordinary) }},
	}
	for _, i := range []int{0, 2, 3} {
		columns[i] = fitted(s.parts, columns[i])
	}
	if !fleet.HasPods(s.all.Nodes) {
		columns = slices.Delete(columns, 2, 3)
	}
	return columns
}

// partMemory writes how much of the leased memory is used, and marks a lease that uses
// more.
func partMemory(p fleet.Part, _ int) line {
	inUse, of, t := "-", "-", ordinary
	measured, seen := p.On.Measured.Get()
	if seen {
		inUse = view.GiB(fleet.Amount(measured))
	}
	if p.On.Memory > 0 {
		of = view.GiB(fleet.Amount(p.On.Memory))
	}
	if p.On.Memory > 0 && measured > p.On.Memory {
		t = bad
	}
	return text(fmt.Sprintf("%5s/%s", inUse, of), t)
}
