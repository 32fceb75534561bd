package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

// nodes has the answers of several machines.
type nodes struct {
	all  []api.Node
	rows []fleet.Row
	sum  string // the totals
}

// nodesOf returns the answers of several machines.
func nodesOf(all []api.Node) nodes {
	sum := fleet.Add(all)
	text := words.Count(sum.Nodes, "node")
	if sum.Silent > 0 {
		text += fmt.Sprintf(", %d silent", sum.Silent)
	}
	text = fmt.Sprintf("%s · %s · %s · %s/%s GiB leased", text, words.Count(sum.GPUs, "GPU"), words.Count(sum.Leases, "lease"), view.GiB(sum.Leased), view.GiB(sum.Total))
	return nodes{all, fleet.Rows(all), text}
}

// hasPods reports whether there may be pods.
func (s *machine) hasPods() bool { return s.Several && fleet.HasPods(s.nodes.all) }

// nodeRows returns the devices of several machines that match the filter, and the
// machines without a device, in order.
func (s *State) nodeRows() []fleet.Row {
	var rows []fleet.Row
	for _, r := range s.nodes.rows {
		said := []string{r.Node.Name, r.Node.Down}
		if d := r.GPU; d != nil {
			said = append(view.HeldBy(*d), r.Node.Name, fmt.Sprintf("GPU %d", d.Device.Index), d.Device.Name, d.Device.UUID, string(d.State))
		}
		if s.matches(said...) {
			rows = append(rows, r)
		}
	}
	by := gpuOrders()[s.order[Devices]]
	switch {
	case by.compare != nil:
		slices.SortStableFunc(rows, func(a, b fleet.Row) int {
			if a.GPU == nil || b.GPU == nil {
				return cmp.Compare(bit(a.GPU == nil), bit(b.GPU == nil)) // machines that do not answer come last
			}
			return s.turnedBy(Devices, by.compare(a.GPU, b.GPU))
		})
	case s.turned[Devices]:
		slices.Reverse(rows)
	}
	return rows
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
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

// podText names the pods of a lease.
func podText(p *fleet.Part) string { return strings.Join(fleet.Pods(p.PodLease), ", ") }

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

// nodeFacts describes a machine.
func (s *machine) nodeFacts(n *api.Node) []fact {
	heard := ""
	if !n.At.IsZero() {
		heard = n.At.In(s.Now.Location()).Format(time.DateTime) + ", " + words.Age(s.Now.Sub(n.At)) + " ago"
	}
	list := []fact{{"node", n.Name}, {"down", n.Down}, {"driver", n.Driver}, {"heard", heard}}
	if n.Status != nil {
		list = append(list, fact{"daemon", n.Status.Version}, fact{"host", n.Status.Host}, fact{"note", n.Status.Note})
	}
	return list
}
