// Package cdi writes the files by which a container runtime learns of a lease, and finds
// the files of vendors that bring in their devices (Container Device Interface).
//
// Our files have environment variables and, where a class asks for it, the folder of the
// daemon's socket. Device nodes, libraries and hooks are the vendor's business.
package cdi

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/gpu/maker"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// What keeps a container from the devices of others.
const (
	Vendor = "vendor" // the vendor's files bring in only its own devices
	Env    = "env"    // variables hide the others
)

// Lease has the contents of a file.
type Lease struct {
	ClaimUID  string
	Lease     api.Lease // with Launch
	Isolation string    // Vendor or Env; simulated devices always have Env
	Socket    string    // path of the daemon's socket that the container can use; empty if it cannot
}

// version is the version of the specification that covers everything in our files.
const version = "0.6.0"

const kind = words.CDIVendor + "/" + words.CDIClass

// uid matches texts that may name a device and be part of a file name.
var uid = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?$`)

// Name returns the name of a lease for a container runtime.
func Name(claimUID string) string { return kind + "=" + claimUID }

// hides reports whether the runtime of a vendor hides devices by a variable. One that is
// only about the tiles of cards belongs to such a variable.
func hides(name string) bool {
	return name == "ZE_FLAT_DEVICE_HIERARCHY" || slices.ContainsFunc(maker.All(), func(m maker.Maker) bool {
		return slices.ContainsFunc(m.Shows, func(v maker.Variable) bool { return v.Name == name && v.List != maker.Nothing })
	})
}

// Spec returns the file for a lease.
func Spec(l Lease) (*specs.Spec, error) {
	if !uid.MatchString(l.ClaimUID) {
		return nil, fmt.Errorf("write the CDI file of a claim: %q is not the UID of a claim", l.ClaimUID)
	}
	if l.Lease.Launch == nil || len(l.Lease.Launch.Environment) == 0 {
		return nil, fmt.Errorf("write the CDI file of claim %s: the daemon did not say which environment its lease needs", l.ClaimUID)
	}
	edits := specs.ContainerEdits{}
	byEnv := l.Isolation == Env || simulated(l.Lease.Launch.Devices)
	for _, variable := range l.Lease.Launch.Environment {
		name, _, found := strings.Cut(variable, "=")
		if !found || name == "" || strings.ContainsRune(variable, 0) {
			return nil, fmt.Errorf("write the CDI file of claim %s: %q is not an environment variable", l.ClaimUID, variable)
		}
		if !byEnv && hides(name) || name == "BERTH_SOCKET" {
			continue // two claims of a pod would hide each other's devices
		}
		edits.Env = append(edits.Env, variable)
	}
	edits.Env = append(edits.Env, "NVIDIA_VISIBLE_DEVICES="+visible(l, byEnv))
	if l.Socket != "" {
		mount, err := folder(l.Socket)
		if err != nil {
			return nil, fmt.Errorf("write the CDI file of claim %s: %w", l.ClaimUID, err)
		}
		edits.Mounts = append(edits.Mounts, mount)
		edits.Env = append(edits.Env, "BERTH_SOCKET="+l.Socket)
	}
	return &specs.Spec{Version: version, Kind: kind, Devices: []specs.Device{{Name: l.ClaimUID, ContainerEdits: edits}}}, nil
}

// visible returns the value of NVIDIA_VISIBLE_DEVICES, which the hook of NVIDIA's old
// runtime reads. Where the vendor's file brings in the devices, the hook must not add
// others.
func visible(l Lease, byEnv bool) string {
	var uuids []string
	for _, d := range l.Lease.Launch.Devices {
		if d.Vendor == gpu.NVIDIA && d.Backend != "sim" {
			uuids = append(uuids, d.UUID)
		}
	}
	if !byEnv || len(uuids) == 0 {
		return "void"
	}
	return strings.Join(uuids, ",")
}

// simulated reports whether all devices are the simulator's: no vendor brings them in.
func simulated(devices []gpu.Device) bool {
	return len(devices) > 0 && !slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.Vendor != gpu.Simulated && d.Backend != "sim" })
}

// folder returns the mount of the folder of a socket. The daemon creates the socket again
// when it starts, so a mount of the socket itself would point to one that is gone.
func folder(socket string) (*specs.Mount, error) {
	dir := filepath.Dir(filepath.Clean(socket))
	if !filepath.IsAbs(socket) || strings.ContainsRune(socket, 0) || strings.Count(dir, "/") < 2 {
		return nil, fmt.Errorf("the socket %q is not in a folder of its own, so its folder cannot be mounted into a container", socket)
	}
	return &specs.Mount{HostPath: dir, ContainerPath: dir, Options: []string{"ro", "nosuid", "nodev", "noexec", "rbind"}}, nil
}
