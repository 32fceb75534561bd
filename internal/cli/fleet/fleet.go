// Package fleet puts what several machines say about themselves into one order:
// the devices of all of them, their leases with the pods that these are for,
// and what there is together.
//
// It asks nobody: it is given the answers.
//
// What a machine says is not trusted. Amounts that cannot be are taken for none, so
// that one machine cannot spoil the sum of all. Texts stay as they are: the package
// that writes them for a terminal cleans them.
//
// Pure: no clock, no I/O.
package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// GPU is one device of one machine, and who has it.
type GPU struct {
	api.Status // without its own list of leases
	Node       string
	Old        bool            // the machine's daemon does not answer: this is what it said last
	Leased     gpu.MiB         // by all leases there
	Leases     []*api.PodLease // that are there, the oldest first
}

// Part is what a lease holds on one device of one machine. Parts of one lease stand
// one after the other.
type Part struct {
	*api.PodLease
	Node  string
	Old   bool          // as of a GPU
	On    api.LeasePart // the zero value: the lease holds nothing
	Index int           // of the device; -1: the machine has no such device
	First bool          // of its lease
}

// Sum is what there is together. A device that is UNAVAILABLE adds no memory, nor do
// instances of a device.
type Sum struct {
	Nodes, Silent int // Silent: how many of them do not answer
	GPUs, Leases  int
	States        map[gpu.State]int
	Leased, Total gpu.MiB
	Power         gpu.Watts
}

// Sort puts machines in the order of their names, in which node-2 comes before
// node-10.
func Sort(nodes []api.Node) {
	slices.SortStableFunc(nodes, func(a, b api.Node) int { return compareNames(a.Name, b.Name) })
}

// GPUs returns the devices of all machines, by machine and index.
func GPUs(nodes []api.Node) []GPU {
	var list []GPU
	for _, n := range nodes {
		if n.Status == nil {
			continue
		}
		from := len(list)
		for _, d := range n.Status.GPUs {
			d.Leases = nil
			one := GPU{Status: d, Node: n.Name, Old: n.Down != ""}
			one.take(n.Leases)
			list = append(list, one)
		}
		slices.SortStableFunc(list[from:], func(a, b GPU) int { return cmp.Compare(a.Device.Index, b.Device.Index) })
	}
	return list
}

// take adds up who has the device.
func (g *GPU) take(leases []api.PodLease) {
	for i := range leases {
		l := &leases[i]
		for _, p := range l.Parts {
			if p.GPU != g.Device.UUID {
				continue
			}
			if l.State != "parked" { // it holds nothing
				g.Leased += Amount(p.Memory)
			}
			if n := len(g.Leases); n == 0 || g.Leases[n-1] != l {
				g.Leases = append(g.Leases, l)
			}
		}
	}
}

// Parts returns what leases hold on the devices of all machines: by machine, and the
// oldest lease first.
func Parts(nodes []api.Node) []Part {
	var list []Part
	for _, n := range nodes {
		index := map[string]int{}
		if n.Status != nil {
			for _, d := range n.Status.GPUs {
				index[d.Device.UUID] = d.Device.Index
			}
		}
		for i := range n.Leases {
			l := &n.Leases[i]
			one := Part{PodLease: l, Node: n.Name, Old: n.Down != "", Index: -1, First: true}
			if len(l.Parts) == 0 {
				list = append(list, one)
			}
			for _, p := range l.Parts {
				one.On, one.Index = p, -1
				if at, known := index[p.GPU]; known {
					one.Index = at
				}
				list = append(list, one)
				one.First = false
			}
		}
	}
	return list
}

// Pods returns the pods that a lease is for, as namespace/name.
func Pods(l *api.PodLease) []string {
	list := make([]string, 0, len(l.Pods))
	for _, p := range l.Pods {
		if l.Namespace != "" {
			p = l.Namespace + "/" + p
		}
		list = append(list, p)
	}
	return list
}

// HasPods reports whether there may be pods: a driver of Kubernetes has answered for a
// machine.
func HasPods(nodes []api.Node) bool {
	return slices.ContainsFunc(nodes, func(n api.Node) bool { return n.Driver != "" })
}

// Add adds up what there is.
func Add(nodes []api.Node) Sum {
	sum := Sum{Nodes: len(nodes), States: map[gpu.State]int{}}
	for _, n := range nodes {
		if n.Down != "" {
			sum.Silent++
		}
		sum.Leases += len(n.Leases)
	}
	for _, d := range GPUs(nodes) {
		sum.GPUs++
		sum.Leased += d.Leased
		if sum.States[d.State]++; d.State == gpu.Unavailable || d.Device.Parent != "" {
			continue
		}
		sum.Total += Amount(d.Device.MemoryTotal)
		if d.Sample != nil {
			if power := d.Sample.Power.Or(0); power > 0 && power < 100_000 { // what a device may take
				sum.Power += power
			}
		}
	}
	return sum
}

// Late returns how long ago a driver last heard from its daemon, if that is long
// enough for people to know it; 0 if it is not.
func Late(n api.Node, now time.Time) time.Duration {
	const usual = time.Minute // drivers ask several times a minute, and clocks differ
	if age := now.Sub(n.At); n.Down == "" && !n.At.IsZero() && age > usual {
		return age
	}
	return 0
}

// Amount returns an amount of memory that a machine may have; 0 for others.
func Amount(m gpu.MiB) gpu.MiB {
	const most = 1 << 30 // a PiB
	if m < 0 || m > most {
		return 0
	}
	return m
}

// compareNames compares names; numbers in them count as numbers.
func compareNames(a, b string) int {
	for x, y := a, b; ; {
		xText, xNumber, xRest := piece(x)
		yText, yNumber, yRest := piece(y)
		if c := cmp.Or(strings.Compare(xText, yText), cmp.Compare(len(xNumber), len(yNumber)), strings.Compare(xNumber, yNumber)); c != 0 {
			return c
		}
		if x, y = xRest, yRest; x == "" || y == "" {
			return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
		}
	}
}

// piece cuts off the text and the number, without zeros before it, that a name begins
// with.
func piece(name string) (text, number, rest string) {
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	at := strings.IndexFunc(name, digit)
	if at < 0 {
		return name, "", ""
	}
	text, rest = name[:at], name[at:]
	number = rest
	if end := strings.IndexFunc(rest, func(r rune) bool { return !digit(r) }); end >= 0 {
		number, rest = rest[:end], rest[end:]
	} else {
		rest = ""
	}
	return text, strings.TrimLeft(number, "0"), rest
}
