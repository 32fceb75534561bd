// Package slice turns what a daemon says about its devices into the devices of a
// ResourceSlice: their names, attributes, capacities, order and taints.
//
// A [Publisher] remembers what it published. It publishes less memory at once, more only
// after it has been there for a minute, and keeps listing a lost device. The package
// reads no clock: the time is an argument.
package slice

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// MaxDevices is the most devices of a ResourceSlice in which one has a taint.
const MaxDevices = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures

// Facts is the driver's knowledge of its node.
type Facts struct {
	Status    []api.Status          // of every device
	Available []api.DeviceAvailable // of every device; a device that is missing here is not published
	Leases    []api.Lease           // all leases of the daemon, with their measurements
	Context   gpu.MiB               // context_mb: the least that a claim holds; 0 means 1 MiB
	Held      []string              // published names of the devices that prepared claims have
	Roots     map[string]string     // PCIe root complex, by PCI address as [Address] writes it; nil if not known
	Silent    time.Duration         // how long the daemon has not answered; 0 if it does. Otherwise, the other fields are not read
}

// Shape says which fields of a device the API server keeps.
type Shape struct {
	Consumable bool                         // shares by amount; otherwise the publisher cuts devices into fixed shares
	Taints     bool                         // otherwise the publisher leaves out bad devices that nobody uses
	Quarantine resourcev1.DeviceTaintEffect // effect of a quarantine; empty means NoExecute
}

// Share is the part of a device that a published name stands for.
type Share struct {
	UUID   string
	Device gpu.Device // as the daemon last described it
	Memory gpu.MiB    // the most that a claim can have of it
	Slots  int
	Fixed  bool // whether one claim has all of it
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

// Split cuts devices into slices that the API server accepts. It keeps the order.
func Split(devices []resourcev1.Device) [][]resourcev1.Device {
	var slices [][]resourcev1.Device
	for len(devices) > MaxDevices {
		slices, devices = append(slices, devices[:MaxDevices:MaxDevices]), devices[MaxDevices:]
	}
	return append(slices, devices)
}

// maxPlain is the greatest length of a name without a hash. A DNS label has at most 63
// characters, and the number of a fixed share must fit behind the name.
const maxPlain = 55

var (
	label  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	hashed = regexp.MustCompile(`-h[0-9a-f]{16}$`)
	shared = regexp.MustCompile(`^(.+)-s(0|[1-9][0-9]{0,4})$`)
	odd    = regexp.MustCompile(`[^a-z0-9]+`)
)

// DeviceName returns the published name of a device: a DNS label that depends only on its
// UUID. Different UUIDs have different names: a UUID that its name does not determine
// gets a hash.
func DeviceName(uuid string) string {
	name := strings.ToLower(uuid)
	vendor, rest, _ := strings.Cut(uuid, "-")
	plain := vendor == strings.ToUpper(vendor) && rest == strings.ToLower(rest)
	if plain && len(name) <= maxPlain && label.MatchString(name) && !hashed.MatchString(name) && !shared.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(uuid))
	name = strings.Trim(odd.ReplaceAllString(name, "-"), "-")
	if len(name) > maxPlain-18 {
		name = strings.TrimRight(name[:maxPlain-18], "-")
	}
	if name == "" {
		name = "gpu"
	}
	return name + "-h" + hex.EncodeToString(sum[:8])
}

// shareName returns the name of a fixed share.
func shareName(device string, n int) string { return device + "-s" + strconv.Itoa(n) }

// cutShare returns the device and the number of a fixed share.
func cutShare(name string) (device string, n int, ok bool) {
	m := shared.FindStringSubmatch(name)
	if m == nil {
		return "", 0, false
	}
	n, err := strconv.Atoi(m[2])
	return m[1], n, err == nil
}

// isPod reports whether a name in the scope of a lease is the control group of a pod.
func isPod(name string) bool {
	return len(name) > 3 && strings.HasPrefix(name, "pod") && !strings.HasPrefix(name, "podman")
}
