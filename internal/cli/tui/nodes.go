package tui

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
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// nodes has the answers of several machines: their devices, and the parts of their
// leases.
type nodes struct {
	all   []api.Node
	gpus  []fleet.GPU
	parts []fleet.Part
	sum   string // the totals
}

// nodesOf returns the answers of several machines.
func nodesOf(all []api.Node) nodes {
	sum := fleet.Add(all)
	text := words.Count(sum.Nodes, "node")
	if sum.Silent > 0 {
		text += fmt.Sprintf(", %d silent", sum.Silent)
	}
	text = fmt.Sprintf("%s · %s · %s · %s/%s GiB leased", text, words.Count(sum.GPUs, "GPU"), words.Count(sum.Leases, "lease"), view.GiB(sum.Leased), view.GiB(sum.Total))
	return nodes{all, fleet.GPUs(all), fleet.Parts(all), text}
}

// gpuRow is a device or, of several machines, one without a device.
type gpuRow struct {
	node *api.Node  // nil if the screen shows one machine
	gpu  *fleet.GPU // nil if the machine does not answer or has none
}

func (r gpuRow) key() string {
	switch {
	case r.node == nil:
		return r.gpu.Device.UUID
	case r.gpu == nil:
		return r.node.Name
	}
	return r.node.Name + "/" + r.gpu.Device.UUID
}

func partKey(p fleet.Part) string {
	return p.Node + "/" + p.Holder.User + "/" + p.ID + "/" + strconv.FormatUint(p.Fence, 10) + "/" + p.On.GPU
}

// gpuOrders returns the orders for the devices of several machines, in the sequence in
// which a key goes through them.
func gpuOrders() []order[*fleet.GPU] {
	return []order[*fleet.GPU]{
		{"NODE", nil},
		{"LOAD", func(a, b *fleet.GPU) int { return cmp.Compare(loadNow(b), loadNow(a)) }},
		{"LEASED", func(a, b *fleet.GPU) int { return cmp.Compare(b.Leased, a.Leased) }},
		{"TEMP", func(a, b *fleet.GPU) int { return cmp.Compare(tempNow(b), tempNow(a)) }},
	}
}

func loadNow(d *fleet.GPU) gpu.Percent { return view.MeasuredOn(*d).Utilization.Or(-1) }
func tempNow(d *fleet.GPU) gpu.Celsius { return view.MeasuredOn(*d).Temperature.Or(-300) }

// partOrders returns the orders for the leases of several machines in the same way.
func partOrders() []order[row] {
	return []order[row]{
		{"NODE", nil},
		{"MEMORY GiB", func(a, b row) int { return cmp.Compare(b.part.On.Memory, a.part.On.Memory) }},
		{"AGE", func(a, b row) int { return a.part.Granted.Compare(b.part.Granted) }},
		{"POD", func(a, b row) int { return cmp.Compare(podText(a.part), podText(b.part)) }},
	}
}

// nodeRows returns the devices of several machines that match the filter, and the
// machines without a device, in order.
func (s *State) nodeRows() []gpuRow {
	var rows []gpuRow
	devices := s.nodes.gpus
	for i := range s.nodes.all {
		n := &s.nodes.all[i]
		if (len(devices) == 0 || devices[0].Node != n.Name) && s.matches(n.Name, n.Down) {
			rows = append(rows, gpuRow{node: n})
		}
		for ; len(devices) > 0 && devices[0].Node == n.Name; devices = devices[1:] {
			d := &devices[0]
			if s.filter == "" || s.matches(append(view.HeldBy(*d), n.Name, fmt.Sprintf("GPU %d", d.Device.Index), d.Device.Name, d.Device.UUID, string(d.State))...) {
				rows = append(rows, gpuRow{n, d})
			}
		}
	}
	by := gpuOrders()[s.order[Devices]]
	switch {
	case by.compare != nil:
		slices.SortStableFunc(rows, func(a, b gpuRow) int {
			if a.gpu == nil || b.gpu == nil {
				return cmp.Compare(bit(a.gpu == nil), bit(b.gpu == nil)) // machines that do not answer come last
			}
			return s.turnedBy(Devices, by.compare(a.gpu, b.gpu))
		})
	case s.turned[Devices]:
		slices.Reverse(rows)
	}
	return rows
}

// partRows returns the parts of the leases of several machines that match the filter, in
// order.
func (s *State) partRows() []row {
	var rows []row
	for i := range s.nodes.parts {
		p := &s.nodes.parts[i]
		if s.filter == "" || s.matches(p.Node, podText(p), p.ID, p.Claim, p.Holder.User, p.Holder.Service, "GPU "+strconv.Itoa(p.Index)) {
			rows = append(rows, row{key: partKey(*p), lease: &p.PodLease.Lease, part: p})
		}
	}
	by := partOrders()[s.order[Leases]]
	switch {
	case by.compare != nil:
		slices.SortStableFunc(rows, func(a, b row) int { return s.turnedBy(Leases, by.compare(a, b)) })
	case s.turned[Leases]:
		slices.Reverse(rows)
	}
	return rows
}

// nothing says why a list of several machines is empty.
func (s *State) nothing(p Pane) string {
	switch {
	case s.facts.At.IsZero():
		return "…"
	case p == Devices && len(s.nodes.all) > 0 || p == Leases && len(s.nodes.parts) > 0:
		return "Nothing matches the filter; esc clears it."
	case p == Devices:
		return "No node."
	}
	return "Nobody holds a lease."
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// podText names the pods of a lease.
func podText(p *fleet.Part) string { return strings.Join(fleet.Pods(p.PodLease), ", ") }

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

// ofGPU returns a cell that is empty for a machine without a device.
func ofGPU(cell func(d fleet.GPU, width int) line) func(gpuRow, int) line {
	return func(r gpuRow, width int) line {
		if r.gpu == nil {
			return nil
		}
		return cell(*r.gpu, width)
	}
}

// deviceCell returns a cell with what berth status says in the column with a title.
func deviceCell(title string, t tone) func(gpuRow, int) line {
	return ofGPU(func(d fleet.GPU, _ int) line { return text(plain(view.DeviceCell(title, d).Text), t) })
}

// nodeColumns returns the columns for the devices of several machines.
func (s *State) nodeColumns() []column[gpuRow] {
	holders := "HELD BY"
	if fleet.HasPods(s.nodes.all) {
		holders = "POD"
	}
	state := widest(s.gpus, 9, 17, nodeState)
	name := func(r gpuRow, _ int) line { return text(plain(view.Short(r.node.Name)), strong) }
	fit := func(c column[gpuRow]) column[gpuRow] { return fitted(s.gpus, c) }
	return []column[gpuRow]{
		fit(column[gpuRow]{heading: "NODE", least: widest(s.gpus, 8, 16, name), most: 40, cell: name}),
		{heading: "GPU", least: 3, most: 3, right: true, cell: deviceCell("GPU", strong)},
		fit(column[gpuRow]{heading: "NAME", least: 6, most: 20, drop: 4, cell: deviceCell("NAME", ordinary)}),
		{heading: "STATE", least: state, most: state, cell: nodeState},
		{heading: "LOAD", least: 5, most: 5, right: true, cell: deviceCell("LOAD", load)},
		{heading: "MEMORY GiB", least: 10, most: 30, cell: ofGPU(nodeMemory)},
		{heading: "LEASED", least: 7, most: 7, right: true, cell: deviceCell("LEASED", ordinary)},
		{heading: "TEMP", least: 5, most: 5, right: true, drop: 1, cell: ofGPU(func(d fleet.GPU, _ int) line {
			m := view.MeasuredOn(d)
			d.Sample = &m
			return text(degrees(m.Temperature), temperatureTone(d.Status))
		})},
		{heading: "POWER", least: 6, most: 6, right: true, drop: 3, cell: deviceCell("POWER", ordinary)},
		{heading: "SLOTS", least: 5, most: 5, right: true, drop: 2, cell: deviceCell("SLOTS", ordinary)},
		fit(column[gpuRow]{heading: holders, least: 20, most: 80, cell: ofGPU(func(d fleet.GPU, width int) line { return text(fewIn(view.HeldBy(d), width), ordinary) })}),
	}
}

// nodeState writes the state of a device, or that its machine does not answer.
func nodeState(r gpuRow, _ int) line {
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

// partColumns returns the columns for the leases of several machines.
func (s *State) partColumns() []column[row] {
	cell := func(title string, t tone) func(row, int) line {
		return func(r row, _ int) line {
			whole := *r.part
			whole.First = true // every row says all about its lease: they can be sorted
			c := view.PartCell(title, whole, s.Now)
			return text(plain(c.Text), tones(c.Colour, t))
		}
	}
	columns := []column[row]{
		{heading: "NODE", name: s.leaseCount(), least: 12, most: 40, cell: cell("NODE", strong)},
		{heading: "GPU", least: 4, most: 4, right: true, cell: cell("GPU", strong)},
		{heading: "POD", least: 16, most: 50, cell: func(r row, width int) line {
			if len(r.part.Pods) == 0 {
				return text("-", faint)
			}
			return text(fewIn(view.Pods(r.part.PodLease), width), ordinary)
		}},
		{heading: "LEASE", least: 14, most: 40, drop: 4, cell: cell("LEASE", ordinary)},
		{heading: "MEMORY GiB", least: 11, most: 11, cell: func(r row, _ int) line { return memoryOfParts([]api.LeasePart{r.part.On}) }},
		{heading: "SLOTS", least: 5, most: 5, right: true, drop: 2, cell: cell("SLOTS", ordinary)},
		{heading: "AGE", least: 7, most: 7, right: true, drop: 1, cell: cell("AGE", ordinary)},
		{heading: "ENFORCED", least: 9, most: 9, drop: 3, cell: cell("ENFORCED", ordinary)},
	}
	for _, i := range []int{0, 2, 3} {
		columns[i] = fitted(s.leases, columns[i])
	}
	if !fleet.HasPods(s.nodes.all) {
		columns = slices.Delete(columns, 2, 3)
	}
	return columns
}

// tones returns the tone of a colour of a table, and t for none.
func tones(c term.Colour, t tone) tone {
	switch c {
	case term.Red:
		return bad
	case term.Yellow:
		return warning
	}
	return t
}

// nodeDetail writes a device and its machine.
func (s *State) nodeDetail(r gpuRow, width int) []line {
	n := r.node
	heard := ""
	if !n.At.IsZero() {
		heard = n.At.In(s.Now.Location()).Format(time.DateTime) + ", " + words.Age(s.Now.Sub(n.At)) + " ago"
	}
	list := []fact{{"node", n.Name}, {"down", n.Down}, {"driver", n.Driver}, {"heard", heard}}
	if n.Status != nil {
		list = append(list, fact{"daemon", n.Status.Version}, fact{"host", n.Status.Host}, fact{"note", n.Status.Note})
	}
	if r.gpu == nil {
		return facts(" Node "+plain(view.Short(n.Name)), list, width)
	}
	d := *r.gpu
	m := view.MeasuredOn(d)
	used := "-"
	if v, known := m.MemoryUsed.Get(); known {
		used = view.GiB(fleet.Amount(v))
	}
	problem, _ := view.Complaint(d, s.Now)
	list = append(list, fact{"", " "}, fact{"GPU", d.Device.Name}, fact{"UUID", d.Device.UUID}, fact{"state", view.DeviceState(d)}, fact{"problem", problem},
		fact{"load", view.Number(m.Utilization, "%.0f%%")}, fact{"memory", fmt.Sprintf("%s of %s GiB used, %s GiB leased", used, view.GiB(fleet.Amount(m.MemoryTotal.Or(0))), view.GiB(d.Leased))},
		fact{"temperature", view.Number(m.Temperature, "%.0f°C")}, fact{"power", view.Number(m.Power, "%.0f W")},
		fact{"slots", fmt.Sprintf("%d of %d in use", d.Slots.Active, d.Slots.Capacity)}, fact{"", " "})
	for _, l := range d.Leases {
		list = append(list, fact{"held by", strings.Join(view.HeldBy(fleet.GPU{Leases: []*api.PodLease{l}}), ", ") + ", " + view.LeaseOf(l)})
	}
	return facts(fmt.Sprintf(" %s GPU %d", plain(view.Short(n.Name)), d.Device.Index), list, width)
}

// partDetail writes a lease.
func (s *State) partDetail(p fleet.Part, width int) []line {
	var holds []string
	for _, each := range p.Parts {
		used := "not measured"
		if v, known := each.Measured.Get(); known {
			used = view.GiB(fleet.Amount(v)) + " GiB used"
		}
		holds = append(holds, fmt.Sprintf("%s GiB and %s on %s, %s", view.GiB(fleet.Amount(each.Memory)), words.Count(each.Slots, "slot"), each.GPU, used))
	}
	return facts(" "+plain(view.LeaseOf(p.PodLease))+" on "+plain(view.Short(p.Node)), []fact{
		{"node", p.Node}, {"pods", strings.Join(fleet.Pods(p.PodLease), ", ")}, {"claim", p.Claim}, {"lease", p.ID}, {"fence", fmt.Sprint(p.Fence)}, {"state", p.State},
		{"user", p.Holder.User}, {"service", p.Holder.Service}, {"name", p.Holder.Name}, {"holds", strings.Join(holds, "; ")},
		{"age", words.Age(s.Now.Sub(p.Granted)) + ", since " + p.Granted.In(s.Now.Location()).Format(time.DateTime)},
		{"enforced by", p.EnforcedBy}, {"scope", strings.Join(p.Scope, ", ")}, {"note", p.Note},
	}, width)
}

// nodesHelp explains the keys and the columns.
func nodesHelp(width int) []line {
	return facts(" Keys and columns; on several machines berth top only looks", []fact{
		{"tab, 1, 2", "go to the other pane, to the GPUs, or to the leases"},
		{"↑ ↓ j k", "move; pgup, pgdown, g and G move far"},
		{"enter", "show everything about what is chosen; esc goes back"},
		{"/", "show only GPUs and leases with this text in them: a node, a pod, gpu 2; esc clears it"},
		{"s, S", "sort the pane by another column; turn the order round"},
		{"z", "give the pane the whole screen, and back"},
		{"!", "list all that needs a person"},
		{"q, ctrl+c", "quit"},
		{"", " "},
		{"MEMORY bar", "█ used, ▒ leased beyond that, ░ free"},
		{"LEASED", "GiB that leases hold there"},
		{"(old)", "the daemon there does not answer: this is what it said last"},
		{"MEMORY GiB", "of a lease: used/leased; red: it uses more than it leased"},
	}, width)
}
