package cdi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
)

const (
	byUUID = `
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: GPU-1
  containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}
- name: MIG-1
  containerEdits: {deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia-caps/nvidia-cap1}]}
- name: all
  containerEdits: {deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]}
containerEdits: {env: [NVIDIA_VISIBLE_DEVICES=void]}
`
	byIndex = `{"cdiVersion":"0.5.0","kind":"amd.com/gpu","devices":[
		{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/dri/card0"},{"path":"/dev/dri/renderD128"}]}},
		{"name":"1","containerEdits":{"deviceNodes":[{"path":"/dev/dri/card1"},{"path":"/x","hostPath":"/dev/dri/renderD129"}]}},
		{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/dri/renderD128"},{"path":"/dev/dri/card0"},{"path":"/dev/dri/renderD129"},{"path":"/dev/dri/card1"}]}}]}`
)

func vendors(t *testing.T, files map[string]string) Folder {
	t.Helper()
	f := Folder{Dirs: []string{t.TempDir(), t.TempDir(), "/nonexistent/cdi"}}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(f.Dirs[1], name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestVendor(t *testing.T) {
	f := vendors(t, map[string]string{"nvidia.yaml": byUUID, "amd.json": byIndex, "readme.txt": "{", "nic.json": `{"cdiVersion":"0.5.0","kind":"example.com/nic","devices":[{"name":"GPU-7"}]}`})
	amd := func(path string) gpu.Device { return gpu.Device{UUID: "GPU-a", Vendor: gpu.AMD, Path: path} }
	for _, c := range []struct {
		name   string
		device gpu.Device
		want   string
	}{
		{"by UUID", h200, "nvidia.com/gpu=GPU-1"},
		{"an instance", gpu.Device{UUID: "MIG-1", Parent: "GPU-1", Vendor: gpu.NVIDIA, Path: "/dev/nvidia0"}, "nvidia.com/gpu=MIG-1"},
		{"by its file", amd("/dev/dri/renderD128"), "amd.com/gpu=0"},
		{"by its file on the host", amd("/dev/dri/renderD129"), "amd.com/gpu=1"},
		{"simulated", simulator, ""},
	} {
		if got, err := f.Vendor(c.device); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestVendorThatIsMissing(t *testing.T) {
	good := map[string]string{"nvidia.yaml": byUUID}
	twice := map[string]string{"a.json": byIndex, "b.json": strings.ReplaceAll(byIndex, `"name":"0"`, `"name":"zero"`)}
	for _, c := range []struct {
		name   string
		files  map[string]string
		device gpu.Device
		says   []string
	}{
		{"no file", nil, h200, []string{"GPU-1", "no file has it", "NVIDIA Container Toolkit 1.18", "nvidia-ctk cdi generate"}},
		{"another device", good, gpu.Device{UUID: "GPU-2", Index: 1, Vendor: gpu.NVIDIA}, []string{"GPU 1", "GPU-2", "nvidia.yaml"}},
		{"an instance that the file does not have", good, gpu.Device{UUID: "MIG-2", Parent: "GPU-1", Vendor: gpu.NVIDIA, Path: "/dev/nvidia0"}, []string{"MIG-2"}},
		{"a broken file", map[string]string{"nvidia.yaml": "devices: ["}, h200, []string{"nvidia.yaml"}},
		{"AMD", nil, gpu.Device{UUID: "GPU-a", Vendor: gpu.AMD}, []string{"amd-ctk"}},
		{"Intel", nil, gpu.Device{UUID: "GPU-i", Vendor: gpu.Intel}, []string{"intel"}},
		{"a vendor that nobody knows", nil, gpu.Device{UUID: "x", Vendor: "acme"}, []string{"acme", "--isolation env"}},
		{"two devices with its file", twice, gpu.Device{UUID: "GPU-a", Vendor: gpu.AMD, Path: "/dev/dri/renderD128"}, []string{"a.json", "b.json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := vendors(t, c.files)
			got, err := f.Vendor(c.device)
			if err == nil {
				t.Fatalf("found %q", got)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// A broken file of somebody else must not hide the devices of a vendor.
func TestVendorBesideABrokenFile(t *testing.T) {
	f := vendors(t, map[string]string{"a.yaml": "{", "b.json": "", "nvidia.yaml": byUUID})
	if err := os.Mkdir(filepath.Join(f.Dirs[1], "c.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Vendor(h200); err != nil || got != "nvidia.com/gpu=GPU-1" {
		t.Errorf("%q, %v", got, err)
	}
}
