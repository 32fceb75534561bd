package nodeview

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// HeldBy names the pods that have a device, and the holders of leases that are for no
// pod, each once.
func HeldBy(d fleet.GPU) []string {
	var list []string
	seen := map[string]bool{}
	for _, l := range d.Leases {
		for _, name := range podsOf(l) {
			if !seen[name] {
				seen[name], list = true, append(list, name)
			}
		}
	}
	return list
}

// podsOf names the pods of a lease, or its holder if it is for none.
func podsOf(l *api.PodLease) []string {
	var list []string
	for _, p := range fleet.Pods(l) {
		list = append(list, Short(p))
	}
	if len(list) == 0 {
		return []string{holder(l.Holder)}
	}
	return list
}

// mostNamed is how many pods a cell of a table names.
const mostNamed = 4

// holder returns a holder in two words: what it is, and whose.
func holder(h api.Holder) string {
	what, user := Short(cmp.Or(h.Service, h.Name)), Short(h.User)
	if what == "" || user == "" {
		return cmp.Or(what, user, "-")
	}
	return what + " (" + user + ")"
}

// LeaseOf returns what people call a lease by: the claim that it is for, whose UID is
// its id, or else its id and its user.
func LeaseOf(l *api.PodLease) string {
	if l.Claim != "" {
		return Short(l.Claim)
	}
	name := Short(l.ID)
	if l.Holder.User != "" {
		name += " (" + Short(l.Holder.User) + ")"
	}
	return name
}

// Name returns the name of a device without its maker.
func Name(d fleet.GPU) string {
	const most = 24
	return term.Cut(strings.TrimPrefix(Short(d.Device.Name), "NVIDIA "), most)
}

// State returns the state of a device, and that this is an old answer.
func State(d fleet.GPU) string {
	const most = 12
	text := term.Cut(term.Clean(string(d.State)), most)
	if d.Drain != nil && d.Well() {
		text = "drained"
	}
	if d.Old {
		text += " (old)"
	}
	return text
}

// Measured returns what is known about a device now. What was measured before it or
// its machine went silent is history.
func Measured(d fleet.GPU) gpu.Sample {
	answers := d.State != gpu.Unavailable || d.Health == gpu.Unhealthy // in quarantine, and still measured
	if d.Sample == nil || !answers || d.Old {
		return gpu.Sample{MemoryTotal: gpu.Some(d.Device.MemoryTotal)}
	}
	return *d.Sample
}

// MemoryBar draws what is used, and lighter what is leased beyond that.
func MemoryBar(used, leased, total gpu.MiB, size int) string {
	share := func(m gpu.MiB) string { return term.Bar(100*float64(m)/float64(total), size) }
	full := []rune(share(used))
	for i, r := range []rune(share(leased)) {
		if full[i] == '░' && r == '█' {
			full[i] = '▒'
		}
	}
	return string(full)
}

// GiB writes an amount in GiB with three digits, and never nothing for a little.
func GiB(m gpu.MiB) string {
	v := float64(m) / 1024
	switch {
	case v >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 0.05 && m > 0:
		return "<0.1"
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// Number writes a number, or a dash if there is none. It cuts one that no device has.
func Number[T ~float64](v gpu.Opt[T], format string) string {
	const most = 7
	if n, known := v.Get(); known {
		return term.Cut(fmt.Sprintf(format, float64(n)), most)
	}
	return "-"
}

// Short cleans a name that a machine gave, and cuts it.
func Short(name string) string { return term.Clean(words.Cut(name, words.MaxText)) }
