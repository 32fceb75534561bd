package pipeline

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// World describes the machine that Compile plans for, as it is now.
type World struct {
	Devices []Device `json:"devices"`

	// Libraries is what the interpreter can import, by the name that follows import. Nil
	// means that nobody asked; a library that is not in it was not asked for.
	Libraries   map[string]api.Library `json:"libraries,omitempty"`
	ProbeError  string                 `json:"probe_error,omitempty"` // why the interpreter could not be asked; empty if it could
	Interpreter string                 `json:"interpreter,omitempty"` // for messages

	Learned map[string]Peak `json:"learned,omitempty"` // by Pipeline.Signature

	// Context is kept free for the CUDA context of a process, in addition to what its
	// steps need. No pool or limit of a library counts it, so the lease has to. The
	// libraries of one process share it.
	Context gpu.MiB `json:"context_mb,omitempty"`

	CPUs int `json:"cpus,omitempty"` // CPUs of the machine; 0 if not known
}

// Device is a GPU and its load.
type Device struct {
	UUID              string     `json:"uuid"`
	Index             int        `json:"index"`
	Name              string     `json:"name"`
	Vendor            gpu.Vendor `json:"vendor"`
	PCI               string     `json:"pci_bus_id,omitempty"`
	ComputeCapability string     `json:"compute_capability,omitempty"`

	MemoryTotal gpu.MiB `json:"memory_total_mb"`
	Ceiling     gpu.MiB `json:"ceiling_mb,omitempty"` // what could be leased if nobody held anything; 0 means MemoryTotal
	Available   gpu.MiB `json:"available_mb"`         // what can be leased now

	Active       int `json:"active"`        // slots in use
	Usable       int `json:"usable"`        // slots that may be in use in the current state
	MaxPipelines int `json:"max_pipelines"` // slots in the best state

	State  gpu.State `json:"state"`
	Closed string    `json:"closed,omitempty"` // why nothing is granted here; empty if the device is open
	Recent int       `json:"recent,omitempty"` // smaller if the device worked less lately, or is cooler
}

// meets reports whether a pipeline accepts the device.
func (d *Device) meets(w *gpu.Where) bool {
	facts := gpu.Device{
		UUID: d.UUID, Index: d.Index, Name: d.Name, Vendor: d.Vendor, ComputeCapability: d.ComputeCapability, MemoryTotal: d.MemoryTotal,
	}
	return w.Meets(&facts)
}

// Peak holds the measurements of earlier runs of a step.
type Peak struct {
	Memory       gpu.MiB `json:"memory_mb" doc:"The highest of all runs: inputs, outputs and working memory of the step, without the CUDA context."`
	Seconds      float64 `json:"seconds,omitempty" doc:"How long it takes; 0: not known."`
	Observations int     `json:"observations" doc:"How many runs were measured; 0: nothing is known."`
}

// byIndex returns the devices in a fixed order, so that a plan does not depend on the
// order in which they were found.
func (w *World) byIndex() []Device {
	devices := slices.Clone(w.Devices)
	slices.SortStableFunc(devices, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.UUID, b.UUID))
	})
	return devices
}

// ceiling returns the most memory that berth could ever lease on the device.
func (d *Device) ceiling() gpu.MiB {
	if d.Ceiling > 0 {
		return d.Ceiling
	}
	return d.MemoryTotal
}

// shut returns why nothing is granted on the device, or "" if something is.
func (d *Device) shut() string {
	switch {
	case d.Closed != "":
		return d.Closed
	case d.State.Multiplier() == 0:
		return "it is " + string(d.State)
	}
	return ""
}

// label returns the name of the device for people.
func (d *Device) label() string { return "GPU " + strconv.Itoa(d.Index) }

// same reports whether a library and berth mean the same physical GPU.
func same(v api.VisibleGPU, d *Device) bool {
	if v.UUID != "" && d.UUID != "" {
		return bareUUID(v.UUID) == bareUUID(d.UUID)
	}
	a, okA := busAddress(v.PCI)
	b, okB := busAddress(d.PCI)
	return okA && okB && a == b
}

// bareUUID removes what only some write: the prefix and the case.
func bareUUID(uuid string) string {
	uuid = strings.ToLower(uuid)
	for _, prefix := range []string{"gpu-", "mig-"} {
		uuid = strings.TrimPrefix(uuid, prefix)
	}
	return uuid
}

// busAddress parses domain:bus:device.function. The driver writes the domain with eight
// digits and CUDA with four, so texts cannot be compared.
func busAddress(text string) (address [4]uint64, ok bool) {
	parts := strings.FieldsFunc(text, func(c rune) bool { return c == ':' || c == '.' })
	if len(parts) == 3 { // without a domain
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 4 {
		return address, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 16, 32)
		if err != nil {
			return address, false
		}
		address[i] = n
	}
	return address, true
}
