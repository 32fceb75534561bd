package cdi

import (
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

const claimUID = "3f8f6a3e-6d50-4f4d-8a57-1a40c5a0d001"

// leased returns the lease of a claim on some devices.
func leased(devices ...gpu.Device) Lease {
	return Lease{ClaimUID: claimUID, Isolation: Vendor, Lease: api.Lease{ID: claimUID, Fence: 7, Launch: &api.Launch{
		Devices: devices,
		Environment: []string{
			"BERTH_LEASE=" + claimUID, "BERTH_FENCE=7", "BERTH_GPUS=GPU-1", "BERTH_MEMORY_MB=8192", "BERTH_CONTEXT_MB=600",
			"CUDA_VISIBLE_DEVICES=GPU-1", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "XLA_PYTHON_CLIENT_PREALLOCATE=false", "BERTH_SOCKET=/run/berth/berth.sock",
		},
	}}}
}

var (
	h200      = gpu.Device{UUID: "GPU-1", Vendor: gpu.NVIDIA, Backend: "nvml", Path: "/dev/nvidia0"}
	simulator = gpu.Device{UUID: "SIM-h200-0", Vendor: gpu.Simulated, Backend: "sim"}
)

func TestEnvironment(t *testing.T) {
	always := []string{
		"BERTH_LEASE=" + claimUID, "BERTH_FENCE=7", "BERTH_GPUS=GPU-1", "BERTH_MEMORY_MB=8192", "BERTH_CONTEXT_MB=600",
		"CUDA_DEVICE_ORDER=PCI_BUS_ID", "XLA_PYTHON_CLIENT_PREALLOCATE=false",
	}
	for _, c := range []struct {
		name      string
		device    gpu.Device
		isolation string
		more      []string
	}{
		{"the vendor's files", h200, Vendor, []string{"NVIDIA_VISIBLE_DEVICES=void"}},
		{"variables", h200, Env, []string{"CUDA_VISIBLE_DEVICES=GPU-1", "NVIDIA_VISIBLE_DEVICES=GPU-1"}},
		{"a simulated device", simulator, Vendor, []string{"CUDA_VISIBLE_DEVICES=GPU-1", "NVIDIA_VISIBLE_DEVICES=void"}},
		{"a device of AMD", gpu.Device{UUID: "GPU-a", Vendor: gpu.AMD}, Env, []string{"CUDA_VISIBLE_DEVICES=GPU-1", "NVIDIA_VISIBLE_DEVICES=void"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := leased(c.device)
			l.Isolation = c.isolation
			spec, err := Spec(l)
			if err != nil {
				t.Fatal(err)
			}
			got, want := slices.Sorted(slices.Values(spec.Devices[0].ContainerEdits.Env)), slices.Sorted(slices.Values(append(slices.Clone(always), c.more...)))
			if !slices.Equal(got, want) {
				t.Errorf("environment\n%v, want\n%v", got, want)
			}
			if e := spec.Devices[0].ContainerEdits; len(e.Mounts)+len(e.DeviceNodes)+len(e.Hooks) > 0 || len(spec.Devices) != 1 {
				t.Errorf("more than variables: %+v", e)
			}
		})
	}
}

func TestSocket(t *testing.T) {
	l := leased(h200)
	l.Socket = "/run/berth/berth.sock"
	spec, err := Spec(l)
	if err != nil {
		t.Fatal(err)
	}
	e := spec.Devices[0].ContainerEdits
	if len(e.Mounts) != 1 || e.Mounts[0].HostPath != "/run/berth" || e.Mounts[0].ContainerPath != "/run/berth" || !slices.Contains(e.Mounts[0].Options, "ro") {
		t.Errorf("mounts %+v", e.Mounts)
	}
	if !slices.Contains(e.Env, "BERTH_SOCKET=/run/berth/berth.sock") {
		t.Errorf("environment %v", e.Env)
	}
	for _, socket := range []string{"berth.sock", "/berth.sock", "/run/berth.sock", "/run/../berth/berth.sock", "http://localhost:8000", "/run/x/\x00"} {
		l.Socket = socket
		if spec, err := Spec(l); err == nil {
			t.Errorf("%q is mounted: %+v", socket, spec.Devices[0].ContainerEdits.Mounts[0])
		}
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Lease){
		"no launch":         func(l *Lease) { l.Lease.Launch = nil },
		"no environment":    func(l *Lease) { l.Lease.Launch.Environment = nil },
		"not a variable":    func(l *Lease) { l.Lease.Launch.Environment = []string{"BERTH_LEASE"} },
		"no name":           func(l *Lease) { l.Lease.Launch.Environment = []string{"=x"} },
		"a zero":            func(l *Lease) { l.Lease.Launch.Environment = []string{"A=\x00"} },
		"a path as the UID": func(l *Lease) { l.ClaimUID = "../x" },
		"no UID":            func(l *Lease) { l.ClaimUID = "" },
	} {
		l := leased(h200)
		if change(&l); second(Spec(l)) == nil {
			t.Errorf("%s: it is written", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A container runtime reads the file with this library.
func TestRuntimeTakesTheFile(t *testing.T) {
	dir := t.TempDir()
	l := leased(h200)
	l.Socket = "/run/berth/berth.sock"
	spec, err := Spec(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := specs.ValidateVersion(spec); err != nil {
		t.Error(err)
	}
	if err := (Folder{Dirs: []string{dir}}).Write(spec, claimUID); err != nil {
		t.Fatal(err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	container := &oci.Spec{Process: &oci.Process{Env: []string{"BERTH_LEASE=forged", "PATH=/bin"}}}
	if unresolved, err := cache.InjectDevices(container, Name(claimUID)); err != nil || len(unresolved) > 0 {
		t.Fatalf("%v, unresolved %v, errors %v", err, unresolved, cache.GetErrors())
	}
	env := strings.Join(container.Process.Env, " ")
	if !strings.Contains(env, "BERTH_LEASE="+claimUID) || strings.Contains(env, "forged") || !strings.Contains(env, "PATH=/bin") {
		t.Errorf("environment of the container: %s", env)
	}
	if len(container.Mounts) != 1 || container.Mounts[0].Destination != "/run/berth" {
		t.Errorf("mounts of the container: %+v", container.Mounts)
	}
}
