package proof

import (
	"testing"

	"github.com/berth-gpu/berth/gpu"
)

const file = `{"version": 1, "proofs": [
	{"driver": "580.1", "device": "NVIDIA H200", "checked": "2026-11-15T19:00:00Z", "looked_bytes": 32212254720, "left_bytes": 0, "by": "test/bench/gpu/residue.sh"},
	{"driver": "580.1", "device": "NVIDIA H200", "checked": "2026-10-01T19:00:00Z", "looked_bytes": 1024, "left_bytes": 7},
	{"driver": "580.1", "device": "NVIDIA L4", "checked": "2026-11-02T23:30:00-05:00", "looked_bytes": 1024, "left_bytes": 0},
	{"driver": "470.9", "device": "NVIDIA L4", "checked": "2026-11-01T00:00:00Z", "looked_bytes": 1024, "left_bytes": 1}
]}`

func TestClearedBy(t *testing.T) {
	proofs, err := ParseProofs([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	device := func(driver, name string) gpu.Device { return gpu.Device{Driver: driver, Name: name} }
	h200, l4 := device("580.1", "NVIDIA H200"), device("580.1", "NVIDIA L4")
	for _, test := range []struct {
		name    string
		devices []gpu.Device
		want    string
	}{
		{"the last check counts", []gpu.Device{h200}, "driver, checked 2026-11-15"},
		{"the date is that of UTC", []gpu.Device{l4}, "driver, checked 2026-11-03"},
		{"the oldest of several", []gpu.Device{h200, l4, h200}, "driver, checked 2026-11-03"},
		{"something was left", []gpu.Device{device("470.9", "NVIDIA L4")}, "nobody, checked 2026-11-01"},
		{"something was left on one of them", []gpu.Device{h200, device("470.9", "NVIDIA L4")}, "nobody, checked 2026-11-01"},
		{"another driver", []gpu.Device{h200, device("590.2", "NVIDIA H200")}, NotChecked},
		{"another model", []gpu.Device{device("580.1", "NVIDIA A2")}, NotChecked},
		{"a device that is not known", []gpu.Device{{}}, NotChecked},
		{"no device", nil, NotChecked},
	} {
		if got := proofs.ClearedBy(test.devices); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	if got := (Proofs)(nil).ClearedBy([]gpu.Device{h200}); got != NotChecked {
		t.Errorf("without a file: %q", got)
	}
}

// A file that is not right proves nothing.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{}`, `{"version": 2, "proofs": []}`, `{"version": 1, "proofs": []} {}`, `{"version": 1, "proof": []}`, file[:len(file)-3],
		`{"version": 1, "proofs": [{"driver": "1", "device": "x", "looked_bytes": 1, "left_bytes": 0}]}`,
		`{"version": 1, "proofs": [{"driver": "", "device": "x", "checked": "2026-11-15T19:00:00Z", "looked_bytes": 1, "left_bytes": 0}]}`,
		`{"version": 1, "proofs": [{"driver": "1", "device": "x", "checked": "2026-11-15T19:00:00Z", "looked_bytes": 0, "left_bytes": 0}]}`,
		`{"version": 1, "proofs": [{"driver": "1", "device": "x", "checked": "2026-11-15T19:00:00Z", "looked_bytes": 1, "left_bytes": -1}]}`,
		`{"version": 1, "proofs": [{"driver": "1", "device": "x", "checked": "yesterday", "looked_bytes": 1, "left_bytes": 0}]}`,
		`{"version": 1, "proofs": [{"driver": "1", "device": "x", "checked": "2026-11-15T19:00:00Z", "looked_bytes": 1, "left_bytes": 0, "cleared": true}]}`,
	} {
		if got, err := ParseProofs([]byte(text)); err == nil || got != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, err := ParseProofs([]byte(`{"version": 1, "proofs": []}`)); err != nil || len(got) != 0 {
		t.Errorf("no proofs: %+v, %v", got, err)
	}
}
