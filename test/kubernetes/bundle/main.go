// Bundle does what the driver and a container runtime do for one pod, on a
// machine without Kubernetes: it leases what a claim was allocated, writes the
// CDI file of the lease, applies that file and the one of the vendor to an OCI
// spec whose root is the file system of the machine, and leaves a bundle for
// runc.
//
// Called again for the same claim, it gets the same lease.
//
//	bundle -claim claim.json -cdi /run/cdi -out /tmp/pod -root /tmp/root -uid 1000 -- python3 train.py
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	resourcev1 "k8s.io/api/resource/v1"
	container "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/claim"
	"github.com/berth-gpu/berth/kubernetes/slice"
)

func main() {
	var o options
	flag.StringVar(&o.claim, "claim", "", "the ResourceClaim, allocated, as JSON")
	flag.StringVar(&o.node, "node", "node-1", "the node that the claim is allocated on")
	flag.StringVar(&o.cdi, "cdi", "", "the folder for CDI files")
	flag.StringVar(&o.out, "out", "", "the folder for the bundle")
	flag.StringVar(&o.root, "root", "", "the root of the container: a bind mount of / (it cannot be / itself)")
	flag.UintVar(&o.uid, "uid", 0, "the user that the program runs as")
	flag.BoolVar(&o.bare, "bare", false, "lease nothing and leave the environment of the lease out: the vendor's devices alone")
	flag.Parse()
	o.args = flag.Args()
	if err := o.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

type options struct {
	claim, node, cdi, out, root string
	uid                         uint
	bare                        bool
	args                        []string
}

func (o options) run(ctx context.Context) error {
	if o.claim == "" || o.cdi == "" || o.out == "" || o.root == "" || len(o.args) == 0 {
		return errors.New("give -claim, -cdi, -out, -root and a command")
	}
	text, err := os.ReadFile(o.claim)
	if err != nil {
		return err
	}
	var object resourcev1.ResourceClaim
	if err := json.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("read %s: %w", o.claim, err)
	}
	asked, err := claim.Read(&object, o.node)
	if err != nil {
		return err
	}
	daemon, err := client.Find(client.Options{}, os.Getenv)
	if err != nil {
		return err
	}
	defer daemon.Close()
	status, err := daemon.StatusAll(ctx)
	if err != nil {
		return err
	}
	folder := cdi.Folder{Dirs: []string{o.cdi}}
	devices, err := o.vendor(folder, status.GPUs, asked)
	if err != nil {
		return err
	}
	if !o.bare {
		l, err := lease(ctx, daemon, asked, status.GPUs)
		if err != nil {
			return err
		}
		spec, err := cdi.Spec(cdi.Lease{ClaimUID: asked.UID, Lease: l, Isolation: "vendor"})
		if err != nil {
			return err
		}
		if err := folder.Write(spec, asked.UID); err != nil {
			return err
		}
		devices = append(devices, cdi.Name(asked.UID))
		fmt.Printf("lease %s fence %d stood %v enforced_by %s\n", l.ID, l.Fence, l.Stood, l.EnforcedBy)
	}
	return o.bundle(asked, devices)
}

// lease asks the daemon for what the claim was allocated, as the driver does.
func lease(ctx context.Context, daemon *client.Client, asked claim.Claim, all []api.Status) (api.Lease, error) {
	r, err := asked.Request(func(device string) (string, gpu.MiB, int, bool) {
		d, found := find(all, device)
		return d.UUID, 0, 0, found
	}, nil, true)
	if err != nil {
		return api.Lease{}, err
	}
	return daemon.Acquire(ctx, r)
}

func find(all []api.Status, device string) (gpu.Device, bool) {
	for _, s := range all {
		if slice.DeviceName(s.Device.UUID) == device {
			return s.Device, true
		}
	}
	return gpu.Device{}, false
}

// vendor returns the CDI names of the devices of a claim. NVIDIA's toolkit is not on
// every machine: vendor first writes what its file would say, without the libraries,
// which are in the file system of the machine. A simulated device has no file.
func (o options) vendor(folder cdi.Folder, all []api.Status, asked claim.Claim) ([]string, error) {
	var names []string
	stand := specs.Spec{Version: "0.6.0", Kind: "nvidia.com/gpu", ContainerEdits: specs.ContainerEdits{
		DeviceNodes: nodes("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"),
	}}
	for _, part := range asked.Parts {
		d, found := find(all, part.Device)
		switch {
		case !found:
			return nil, fmt.Errorf("the daemon has no device %s", part.Device)
		case d.Vendor != gpu.NVIDIA:
			continue
		}
		stand.Devices = append(stand.Devices, specs.Device{Name: d.UUID, ContainerEdits: specs.ContainerEdits{
			DeviceNodes: nodes(d.Path),
		}})
		names = append(names, "nvidia.com/gpu="+d.UUID)
	}
	if len(names) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(stand)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.cdi, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(o.cdi, "nvidia.json"), text, 0o644); err != nil {
		return nil, err
	}
	for _, part := range asked.Parts { // what the driver asks before it prepares a claim
		d, _ := find(all, part.Device)
		if _, err := folder.Vendor(d); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func nodes(paths ...string) []*specs.DeviceNode {
	var list []*specs.DeviceNode
	for _, path := range paths {
		list = append(list, &specs.DeviceNode{Path: path})
	}
	return list
}

// bundle writes the OCI spec of the first pod of a claim, with these CDI devices.
func (o options) bundle(asked claim.Claim, devices []string) error {
	if len(asked.Pods) == 0 {
		return fmt.Errorf("the claim %s is reserved for no pod", asked.Name)
	}
	spec := o.container("/kubepods/besteffort/pod" + asked.Pods[0].UID + "/" + filepath.Base(o.out))
	cache, err := container.NewCache(container.WithAutoRefresh(false), container.WithSpecDirs(o.cdi))
	if err != nil {
		return err
	}
	if missing, err := cache.InjectDevices(spec, devices...); err != nil {
		return fmt.Errorf("apply %s (missing: %s): %w", strings.Join(devices, ", "), strings.Join(missing, ", "), err)
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "config.json"), text, 0o644)
}

// container returns the spec of a container in a control group, with process, host name
// and mounts of its own, and the devices that every container has.
func (o options) container(cgroup string) *oci.Spec {
	allow := func(major, minor int64) oci.LinuxDeviceCgroup {
		return oci.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &major, Minor: &minor, Access: "rwm"}
	}
	private := []string{"nosuid", "noexec", "nodev"}
	return &oci.Spec{
		Version: oci.Version,
		Process: &oci.Process{
			Args: o.args, Cwd: "/", NoNewPrivileges: true,
			User: oci.User{UID: uint32(o.uid), GID: uint32(o.uid)},
			Env:  slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BERTH_") }),
		},
		Root:     &oci.Root{Path: o.root},
		Hostname: "pod",
		Mounts: []oci.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: private},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: append(private, "mode=1777")},
			{Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{"rbind", "ro"}},
		},
		Linux: &oci.Linux{
			CgroupsPath: cgroup,
			Namespaces:  []oci.LinuxNamespace{{Type: oci.PIDNamespace}, {Type: oci.MountNamespace}, {Type: oci.IPCNamespace}, {Type: oci.UTSNamespace}},
			Resources: &oci.LinuxResources{Devices: append([]oci.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
				allow(1, 3), allow(1, 5), allow(1, 7), allow(1, 8), allow(1, 9), allow(5, 0), allow(5, 2))},
			MaskedPaths: []string{"/proc/kcore"},
		},
	}
}
