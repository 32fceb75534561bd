package maker_test

import (
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/gpu/maker"
)

// Whoever starts programs, writes files for container runtimes or looks for what is
// missing finds everything about every vendor.
func TestEveryVendorIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range maker.All() {
		if got := maker.Of(m.Vendor); got == nil || got.Label != m.Label {
			t.Errorf("%s is found as %v", m.Vendor, got)
		}
		if m.Label == "" || m.Runtime == "" || m.PCI == "" || len(m.Modules) == 0 || len(m.Files) == 0 || m.Install == "" || m.Absent == "" ||
			len(m.CDI) == 0 || m.WriteCDI == "" || len(m.Resources) == 0 {
			t.Errorf("%s lacks something: %+v", m.Vendor, m)
		}
		if !slices.ContainsFunc(m.Shows, func(v maker.Variable) bool { return v.List == maker.Names }) {
			t.Errorf("no variable names the devices of %s", m.Vendor)
		}
		for _, v := range m.Shows {
			if seen[v.Name] || v.List == maker.Nothing && v.Text == "" {
				t.Errorf("the variable %s of %s is another's, or says nothing", v.Name, m.Vendor)
			}
			seen[v.Name] = true
		}
	}
	if maker.Of(gpu.Simulated) != nil {
		t.Error("somebody makes simulated devices")
	}
}
