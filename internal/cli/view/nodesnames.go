package view

import (
	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// HeldBy names the pods that have a device, and the holders of leases without a pod,
// each once.
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

// podsOf names the pods of a lease, or its holder if it has none.
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

// mostNamed limits the pods named in a cell of a table.
const mostNamed = 4

// holder returns a holder in two words, each of them cut.
func holder(h api.Holder) string {
	return Holder(api.Holder{Service: Short(h.Service), Name: Short(h.Name), User: Short(h.User)})
}

// LeaseOf returns the name of a lease: its claim, whose UID is the id of the lease, or
// else its id and its user.
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

// DeviceName returns the name of a device without its maker.
func DeviceName(d fleet.GPU) string {
	const most = 24
	return term.Cut(shortName(Short(d.Device.Name)), most)
}

// DeviceState returns the state of a device, and whether it is from an old answer.
func DeviceState(d fleet.GPU) string {
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

// MeasuredOn returns the present values of a device. Values from before it or its
// machine went silent are omitted.
func MeasuredOn(d fleet.GPU) gpu.Sample {
	if d.Old {
		d.Sample = nil
	}
	return Measured(d.Status)
}

// Number writes a number, or a dash if it is absent. It cuts a number that no device
// can have.
func Number[T ~float64](v gpu.Opt[T], format string) string {
	const most = 7
	return term.Cut(optional(v, format), most)
}

// Short cleans a name that a machine gave, and cuts it.
func Short(name string) string { return term.Clean(words.Cut(name, words.MaxText)) }
