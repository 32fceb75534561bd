package slice

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

func TestDeviceName(t *testing.T) {
	for uuid, want := range map[string]string{
		"GPU-8d1f0a3c-5b0e-4f0e-9a44-1f6d2f0b7c11": "gpu-8d1f0a3c-5b0e-4f0e-9a44-1f6d2f0b7c11",
		"MIG-8d1f0a3c-5b0e-4f0e-9a44-1f6d2f0b7c11": "mig-8d1f0a3c-5b0e-4f0e-9a44-1f6d2f0b7c11",
		"SIM-h200-0":                        "sim-h200-0",
		"GPU-8d1f0a3c5b0e4f0e":              "gpu-8d1f0a3c5b0e4f0e",
		"AMD-at-0000-c1-00-0":               "amd-at-0000-c1-00-0",
		"MIG-GPU-8d1f0a3c-5b0e-4f0e/1/0":    "mig-gpu-8d1f0a3c-5b0e-4f0e-1-0-h",
		"sim-h200-0":                        "sim-h200-0-h",
		"SIM-h200-s0":                       "sim-h200-s0-h",
		"SIM-h200-h0123456789abcdef":        "sim-h200-h0123456789abcdef-h",
		"":                                  "gpu-h",
		"…":                                 "gpu-h",
		"GPU-" + strings.Repeat("0123", 20): "gpu-" + strings.Repeat("0123", 8) + "0-h",
	} {
		got := DeviceName(uuid)
		if !strings.HasPrefix(got, want) || !strings.HasSuffix(want, "-h") && got != want || len(got) > maxPlain {
			t.Errorf("DeviceName(%q) = %q, want %q", uuid, got, want)
		}
	}
}

func uuids() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`(GPU|MIG|gpu|Gpu)-[0-9a-fA-F]{8}(-[0-9a-f]{4}){0,3}`),
		rapid.StringMatching(`SIM-[a-zA-Z0-9 ]{1,8}-(s|h)?[0-9]{1,3}`),
		rapid.StringMatching(`[A-Za-z0-9-]{0,6}(-s[0-9]|-h[0-9a-f]{16})?`),
		rapid.String(),
	)
}

// Two devices with one name would be one device for Kubernetes.
func TestNamesOfDifferentDevicesDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(uuids(), 2, 12, rapid.ID[string]).Draw(t, "uuids")
		seen := map[string]string{}
		for _, uuid := range list {
			for _, name := range []string{DeviceName(uuid), shareName(DeviceName(uuid), 0), shareName(DeviceName(uuid), maxShares-1)} {
				if other, twice := seen[name]; twice {
					t.Fatalf("%q and %q are both %q", uuid, other, name)
				}
				seen[name] = uuid
				if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
					t.Fatalf("%q is named %q: %v", uuid, name, problems)
				}
			}
			if base, n, ok := cutShare(shareName(DeviceName(uuid), 7)); !ok || n != 7 || base != DeviceName(uuid) {
				t.Fatalf("share 7 of %q is read as %q, %d", uuid, base, n)
			}
			if _, _, ok := cutShare(DeviceName(uuid)); ok {
				t.Fatalf("%q looks like a share: %q", uuid, DeviceName(uuid))
			}
		}
	})
}
