// Package fleet merges the reports of several machines: the devices of all of them,
// their leases with the pods that these are for, and the totals.
//
// It asks no machine: the caller passes the answers.
//
// It does not trust the reports. Impossible amounts count as none, so that one machine
// cannot spoil the totals. Texts stay as they are: the package that writes them for a
// terminal cleans them.
//
// Pure: no clock, no I/O.
package fleet

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// GPU is one device of one machine, with its leases.
type GPU struct {
	api.Status // without its own list of leases
	Node       string
	Old        bool            // the machine's daemon does not answer, and this is its last answer
	Leased     gpu.MiB         // by all leases on the device
	Leases     []*api.PodLease // the leases on the device, the oldest first
}

// Row is a device of one of several machines, or a machine without one.
type Row struct {
	Node *api.Node // nil if the devices are those of one machine
	GPU  *GPU      // nil if the machine does not answer, or has none
}

// Part is a lease on one machine, or its share on one device. Parts of one lease are
// adjacent.
type Part struct {
	*api.PodLease
	Node    string
	Old     bool            // as in GPU
	On      []api.LeasePart // empty if the lease holds nothing
	Indexes []int           // of the devices; -1 for one that the machine does not have
	First   bool            // the first part of its lease
}

// Sum has the totals of all machines. An UNAVAILABLE device adds no memory, nor do
// instances of a device.
type Sum struct {
	Nodes, Silent int // Silent counts the nodes that do not answer
	GPUs, Leases  int
	States        map[gpu.State]int
	Leased, Total gpu.MiB
}

// Sort sorts machines by name, with node-2 before node-10.
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

// take adds the leases on the device.
func (g *GPU) take(leases []api.PodLease) {
	for i := range leases {
		l := &leases[i]
		for part, p := range l.Parts {
			if p.GPU != g.Device.UUID {
				continue
			}
			g.Leased += Amount(l.Holds(part))
			if n := len(g.Leases); n == 0 || g.Leases[n-1] != l {
				g.Leases = append(g.Leases, l)
			}
		}
	}
}

// Rows returns the devices of all machines, by machine and index, and the machines without
// a device.
func Rows(nodes []api.Node) []Row {
	var rows []Row
	devices := GPUs(nodes)
	for i := range nodes {
		n := &nodes[i]
		if len(devices) == 0 || devices[0].Node != n.Name {
			rows = append(rows, Row{Node: n})
		}
		for ; len(devices) > 0 && devices[0].Node == n.Name; devices = devices[1:] {
			rows = append(rows, Row{n, &devices[0]})
		}
	}
	return rows
}

// Parts returns the parts of all leases on the devices of all machines, by machine and
// with the oldest lease first.
func Parts(nodes []api.Node) []Part {
	var list []Part
	for _, whole := range Leases(nodes) {
		if len(whole.On) == 0 {
			list = append(list, whole)
		}
		for i := range whole.On {
			one := whole
			one.On, one.Indexes, one.First = whole.On[i:i+1], whole.Indexes[i:i+1], i == 0
			list = append(list, one)
		}
	}
	return list
}

// Leases returns the leases of all machines in the same order.
func Leases(nodes []api.Node) []Part {
	var list []Part
	for _, n := range nodes {
		index := map[string]int{}
		if n.Status != nil {
			for _, d := range n.Status.GPUs {
				index[d.Device.UUID] = d.Device.Index
			}
		}
		list = slices.Grow(list, len(n.Leases))
		for i := range n.Leases {
			one := Part{PodLease: &n.Leases[i], Node: n.Name, Old: n.Down != "", On: n.Leases[i].Parts, First: true}
			for _, p := range one.On {
				at, known := index[p.GPU]
				if !known {
					at = -1
				}
				one.Indexes = append(one.Indexes, at)
			}
			list = append(list, one)
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

// HasPods reports whether there may be pods: whether a driver of Kubernetes has
// answered for a machine.
func HasPods(nodes []api.Node) bool {
	return slices.ContainsFunc(nodes, func(n api.Node) bool { return n.Driver != "" })
}

// Add returns the totals of all machines.
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
	}
	return sum
}

// Late returns how long ago a driver last heard from its daemon. It returns 0 if that
// is too short to matter to people.
func Late(n api.Node, now time.Time) time.Duration {
	const usual = time.Minute // drivers ask several times a minute, and clocks differ
	if age := now.Sub(n.At); n.Down == "" && !n.At.IsZero() && age > usual {
		return age
	}
	return 0
}

// Amount returns m if a machine can have this much memory, and otherwise 0.
func Amount(m gpu.MiB) gpu.MiB {
	const most = 1 << 30 // a PiB
	if m < 0 || m > most {
		return 0
	}
	return m
}

// compareNames compares names, with numbers in them by value.
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

// piece splits off the text and the number, without leading zeros, at the beginning of
// a name.
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

// Filter selects leases by their holder. An empty field selects all.
type Filter struct{ Services, Users []string }

// Any reports whether the filter selects only some leases.
func (f Filter) Any() bool { return len(f.Services)+len(f.Users) > 0 }

// Matches reports whether a holder is among those that the filter selects.
func (f Filter) Matches(h api.Holder) bool {
	same := func(service string) bool { return words.Service(service) == words.Service(h.Service) }
	return (len(f.Services) == 0 || slices.ContainsFunc(f.Services, same)) && (len(f.Users) == 0 || slices.Contains(f.Users, h.User))
}

// Apply returns the machines with the leases that match.
func (f Filter) Apply(all api.Nodes) api.Nodes {
	some := api.Nodes{Nodes: slices.Clone(all.Nodes)}
	for i, n := range some.Nodes {
		some.Nodes[i].Leases = []api.PodLease{}
		for _, l := range n.Leases {
			if f.Matches(l.Holder) {
				some.Nodes[i].Leases = append(some.Nodes[i].Leases, l)
			}
		}
	}
	return some
}

// longest limits the characters in a text of a machine. The longest texts of a daemon,
// which say why a device is not well, have some hundred.
const longest = 1000

// Shorten cuts every text in the report of a machine, so that none fills a screen.
func Shorten(n *api.Node) { shorten(reflect.ValueOf(n).Elem()) }

func shorten(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(words.Cut(v.String(), longest))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			shorten(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			shorten(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			shorten(v.Index(i))
		}
	}
}
