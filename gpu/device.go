// Package gpu holds the words of berth: devices, samples, states, events and
// the units they are measured in.
//
// Everything else speaks in these words, so the package depends on nothing and
// decides nothing.
//
// Pure: no clock, no I/O.
package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Device describes one GPU: the facts that do not change from one sample to the
// next.
type Device struct {
	UUID    string `json:"uuid" doc:"What the device is known by, everywhere and for ever."`
	Index   int    `json:"index" doc:"Its position on this machine today. For people only: it may change at the next boot."`
	Name    string `json:"name"`
	Vendor  Vendor `json:"vendor"`
	Backend string `json:"backend" doc:"The part of berth that talks to it: nvml, amd, intel or sim."`
	Driver  string `json:"driver,omitempty" doc:"Version of the driver."`

	Ordinal Opt[int] `json:"ordinal,omitzero" doc:"Its number as the vendor's runtime counts GPUs, for variables that take no UUID. AMD and Intel only."`

	PCI               string   `json:"pci_bus_id,omitempty"`
	Path              string   `json:"path,omitempty" doc:"Device file, for finding processes that hold it open."`
	ComputeCapability string   `json:"compute_capability,omitempty" example:"9.0"`
	MemoryTotal       MiB      `json:"memory_total_mb"`
	NUMANode          Opt[int] `json:"numa_node,omitzero"`

	Confidential Confidence `json:"confidential,omitempty" enum:"on,devtools,off" doc:"Whether the driver runs the GPU in confidential mode, in which nobody outside of its virtual machine reads its memory; devtools: on, with debugging and profiling open, which lets others in. Absent if the driver does not say."`

	PowerLimit   Opt[Watts]   `json:"power_limit_watts,omitzero" doc:"The power cap in force."`
	TempSlowdown Opt[Celsius] `json:"temp_slowdown_celsius,omitzero" doc:"Where the hardware slows itself down."`
	TempMax      Opt[Celsius] `json:"temp_max_celsius,omitzero" doc:"The vendor's highest operating temperature."`
	TempShutdown Opt[Celsius] `json:"temp_shutdown_celsius,omitzero" doc:"Where the hardware switches itself off."`

	Links []Link `json:"links,omitempty" doc:"How it reaches the other devices of this machine, best first."`

	Parent    string   `json:"parent,omitempty" doc:"For a MIG instance: the UUID of the device it is part of."`
	Instances []string `json:"instances,omitempty" doc:"For a device in MIG mode: the UUIDs of its instances. They are leased in its place."`
}

// Label returns what people call the device: "GPU 0". It is the only name for a
// device in the texts of events; their field GPU has the UUID.
func (d Device) Label() string { return "GPU " + strconv.Itoa(d.Index) }

// Cut returns why the device cannot be leased as a whole, because it is cut into
// instances. It returns "" if it can.
func (d *Device) Cut() string {
	switch n := len(d.Instances); n {
	case 0:
		return ""
	case 1:
		return "it is cut into 1 instance: lease that one"
	default:
		return "it is cut into " + strconv.Itoa(n) + " instances: lease one of them"
	}
}

// Vendor is the maker of a device.
type Vendor string

// The vendors berth knows.
const (
	NVIDIA    Vendor = "nvidia"
	AMD       Vendor = "amd"
	Intel     Vendor = "intel"
	Simulated Vendor = "sim"
)

// Confidence says whether a device is in confidential mode; it is empty if the driver does
// not say.
type Confidence string

// The values of Confidence. ConfidentialOpen is the mode for developers, which protects
// nothing.
const (
	Confidential     Confidence = "on"
	ConfidentialOpen Confidence = "devtools"
	NotConfidential  Confidence = "off"
)

// Link is the best connection from a device to one other.
type Link struct {
	To    string   `json:"to" doc:"UUID of the other device."`
	Kind  LinkKind `json:"kind"`
	Lanes int      `json:"lanes,omitempty" doc:"NVLink: how many links there are side by side."`
}

// LinkKind says what two devices have in common, from best to worst.
type LinkKind string

// The kinds of link. Closeness orders them.
const (
	LinkNVLink LinkKind = "nvlink"
	LinkSwitch LinkKind = "pcie_switch"
	LinkBridge LinkKind = "host_bridge"
	LinkNode   LinkKind = "numa_node"
	LinkSystem LinkKind = "system"
)

// Closeness returns a larger number for a better link; an unknown kind is the
// worst.
func (k LinkKind) Closeness() int {
	switch k {
	case LinkNVLink:
		return 4
	case LinkSwitch:
		return 3
	case LinkBridge:
		return 2
	case LinkNode:
		return 1
	}
	return 0
}

// Ref names a device by UUID or by index; empty names none. In JSON, an index
// may be a number: 0 means the same as "0".
type Ref string

// MaxLength returns how many characters a Ref may have.
func (Ref) MaxLength() int { return 128 }

// UnmarshalJSON reads text, or the number of an index.
func (r *Ref) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*r = Ref(text)
		return nil
	}
	index, err := strconv.ParseUint(string(b), 10, 31)
	if err != nil {
		return errors.New("a device is named by its index, such as 0, or by its UUID in quotes")
	}
	*r = Ref(strconv.FormatUint(index, 10))
	return nil
}

// Capability is a compute capability such as 9.0. It holds two whole numbers,
// because as a text 12.1 would come before 9.0, and as a fraction 8.10 before
// 8.9.
type Capability struct{ Major, Minor int }

// ParseCapability reads "9.0" or "9".
func ParseCapability(text string) (Capability, error) {
	major, minor, dotted := strings.Cut(text, ".")
	if !dotted {
		minor = "0"
	}
	a, errA := strconv.ParseUint(major, 10, 16)
	b, errB := strconv.ParseUint(minor, 10, 16)
	if errA != nil || errB != nil || a == 0 {
		return Capability{}, fmt.Errorf("%q is not a compute capability: write it like 8.0", text)
	}
	return Capability{int(a), int(b)}, nil
}

// Less reports whether c is below d.
func (c Capability) Less(d Capability) bool {
	if c.Major != d.Major {
		return c.Major < d.Major
	}
	return c.Minor < d.Minor
}

func (c Capability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }
