package launch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/gpu/maker"
)

// The ways to keep a program from the devices of others.
const (
	ByEnv    = "env"    // its environment names the devices of the lease
	ByCgroup = "cgroup" // the kernel refuses to open the others
)

// isolationVariable tells a program that the kernel keeps it from the devices of
// others.
const isolationVariable = "BERTH_ISOLATION"

// InCgroup reports whether changes of an environment, see Changes, are for a program that
// must be in the control group of its lease before it begins.
func InCgroup(changes []string) bool {
	return slices.Contains(changes, isolationVariable+"="+ByCgroup)
}

// isolate shows the program the devices of the lease and no others, by the
// variables of each vendor's runtime.
func (e *editor) isolate(devices []gpu.Device, r *Receipt) {
	of := map[gpu.Vendor][]gpu.Device{}
	for _, d := range devices {
		vendor := d.Vendor
		if maker.Of(vendor) == nil {
			vendor = gpu.NVIDIA // as a simulated one
		}
		of[vendor] = append(of[vendor], d)
	}
	for i := range maker.All() {
		m := &maker.All()[i]
		switch {
		case len(of[m.Vendor]) > 0:
			e.show(m, of[m.Vendor], r)
		case m.Vendor == gpu.NVIDIA && len(of[gpu.AMD]) > 0:
			e.unset("CUDA_VISIBLE_DEVICES") // HIP reads it too, and does not understand a UUID
		case m.Vendor == gpu.NVIDIA:
			e.show(m, nil, r)
		}
	}
}

// show sets the variables of a vendor. They name devices by UUID, so the order in which
// the runtime counts does not matter, or by number if the place of a device identifies
// it.
func (e *editor) show(m *maker.Maker, devices []gpu.Device, r *Receipt) {
	var names, count []string
	instances := 0
	for i, d := range devices {
		name := d.UUID
		if strings.Contains(d.UUID, "-at-") {
			n, known := d.Ordinal.Get()
			if !known {
				r.miss("%s: %s has no name for it, so the program sees every %s GPU", d.Label(), m.Runtime, m.Label)
				for _, v := range m.Shows {
					e.unset(v.Name)
				}
				return
			}
			name = strconv.Itoa(n)
		}
		names, count = append(names, name), append(count, strconv.Itoa(i))
		if d.Parent != "" {
			instances++
		}
	}
	for _, v := range m.Shows {
		switch v.List {
		case maker.Nothing:
			e.set(v.Name, v.Text)
		case maker.Names:
			e.set(v.Name, v.Text+strings.Join(names, ","))
		case maker.Count:
			e.set(v.Name, v.Text+strings.Join(count, ","))
		}
	}
	if instances > 0 && len(devices) > 1 {
		r.miss("CUDA shows a process one MIG instance: of these devices it sees the first only, so start one process for each")
	}
}

// separate writes into the receipt what separates this program from others: what keeps it
// from their devices, and who clears the memory that they had.
func (e *editor) separate(ladder Ladder, r *Receipt) {
	r.IsolatedBy, r.ClearedBy = ByEnv, ladder.ClearedBy
	if ladder.Isolation == ByCgroup {
		r.IsolatedBy = ByCgroup
		e.set(isolationVariable, ByCgroup)
		r.hold("other NVIDIA GPUs: the kernel does not let it open them (control group with a device filter)")
		r.miss("root, and a user who owns a control group around the program, can move it out of its own")
	} else {
		r.miss("other GPUs: they are hidden by variables, which a program can change; --isolation cgroup makes the kernel refuse them")
	}
	switch {
	case strings.HasPrefix(ladder.ClearedBy, "driver"), ladder.ClearedBy == "berth":
		r.hold("memory of earlier programs: cleared_by: %s", ladder.ClearedBy)
	case ladder.ClearedBy != "":
		r.miss("memory of earlier programs: cleared_by: %s; test/bench/gpu/residue.sh looks whether any is left", ladder.ClearedBy)
	}
}
