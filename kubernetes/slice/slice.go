// Package slice turns what a daemon says about its devices into the devices of a
// ResourceSlice: their names, attributes, capacities, order and taints.
//
// A [Publisher] remembers what it published. Less memory is published at once, more
// only after it has been there for a minute, and a device that is lost stays listed.
// The package reads no clock: the time is an argument.
package slice

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// MaxDevices is how many devices a ResourceSlice may have if one of them has a taint.
const MaxDevices = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures

// Facts is what the driver knows of its node.
type Facts struct {
	Node      string
	Status    []api.Status          // of every device
	Available []api.DeviceAvailable // of every device; one that is missing here is not published
	Leases    []api.Lease           // all leases of the daemon, with what was measured for them
	Context   gpu.MiB               // context_mb: the least that a claim holds; zero: 1 MiB
	Held      []string              // published names of the devices that prepared claims have
	Roots     map[string]string     // PCIe root complex, by PCI address as [Address] writes it; nil: not known
	Silent    time.Duration         // how long the daemon has not answered; zero: it does. The rest is then not read
}

// Shape says which fields of a device the API server keeps.
type Shape struct {
	Consumable bool                         // shares by amount; otherwise the publisher cuts devices into fixed shares
	Taints     bool                         // otherwise the publisher leaves out bad devices that nobody uses
	Quarantine resourcev1.DeviceTaintEffect // of a device in quarantine; empty: NoExecute
}

// Share is the part of a device that a published name stands for.
type Share struct {
	UUID   string
	Device gpu.Device // as the daemon described it last
	Memory gpu.MiB    // the most that a claim can have of it
	Slots  int
	Fixed  bool // one claim has all of it
}

// Own reports whether a lease is for a claim of Kubernetes: its scope names a pod.
func Own(l *api.Lease) bool {
	for _, name := range l.Scope {
		if isPod(name) {
			return true
		}
	}
	return false
}

// Split cuts devices into slices that the API server takes. The order stays.
func Split(devices []resourcev1.Device) [][]resourcev1.Device {
	var slices [][]resourcev1.Device
	for len(devices) > MaxDevices {
		slices, devices = append(slices, devices[:MaxDevices:MaxDevices]), devices[MaxDevices:]
	}
	return append(slices, devices)
}
