package daemon

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm/drmtest"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// A machine with GPUs of three vendors has one row of numbers, and leases, shows
// and isolates each.
func TestVendorsTogether(t *testing.T) {
	amd := drmtest.Lay(t, "../device/amd/testdata/server.txtar")
	intel := drmtest.Lay(t, "../device/intel/testdata/arc.txtar")
	p := newPlace(t, "sim:2,amd:"+string(amd.Root())+",intel:"+string(intel.Root()))
	for range 2 { // and has the same after a restart
		c, stop := p.start(t)
		all, err := c.StatusAll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, d := range all.GPUs {
			got = append(got, string(d.Device.Vendor)+" "+d.Device.PCI)
			if d.Device.Index != i || d.State == gpu.Unavailable {
				t.Errorf("device %d is %s with number %d", i, d.State, d.Device.Index)
			}
		}
		want := []string{"amd 0000:83:00.0", "amd 0000:c3:00.0", "intel 0000:00:02.0", "intel 0000:03:00.0", "intel 0000:07:00.0"}
		if len(got) != 7 || !slices.Equal(got[2:], want) {
			t.Errorf("the devices are %q, want two simulated ones and %q", got, want)
		}

		for _, ask := range []struct {
			name, where, variable string
			memory                gpu.MiB
		}{
			{"amd", "vendor=amd", "ROCR_VISIBLE_DEVICES=GPU-", 1024},
			{"xe", "vendor=intel,memory>=8GiB", "ZE_AFFINITY_MASK=2", 1024},
			{"i915", "name~A770", "ZE_AFFINITY_MASK=1", 0}, // it does not tell how much memory it has
		} {
			l, err := c.Acquire(t.Context(), api.LeaseRequest{ID: ask.name, Binding: "named", Memory: ask.memory, Where: ask.where, Enforce: "auto"})
			if err != nil {
				t.Fatalf("%s: %v", ask.name, err)
			}
			env, _ := launch.Environment(l, l.Launch.Devices, launch.Ladder{}, nil)
			if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, ask.variable) }) {
				t.Errorf("%s: %q has no %s", ask.name, env, ask.variable)
			}
			if _, err := c.Release(t.Context(), ask.name, l.Fence); err != nil {
				t.Error(err)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestVendorsThatAreNotThere(t *testing.T) {
	for _, spec := range []string{"amd", "intel"} {
		if _, err := openDevices(spec + ":" + t.TempDir()); err == nil || !strings.Contains(err.Error(), "modprobe") {
			t.Errorf("%s in an empty folder: %v", spec, err)
		}
	}
}
