package device_test

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/device"
)

func TestDescribeXIDClass(t *testing.T) {
	cases := map[device.FaultClass][]int{
		device.ClassApplication: {8, 13, 31, 43, 45, 68, 94, 109, 135},
		device.ClassDevice:      {48, 62, 64, 74, 79, 95, 119, 120, 140},
		device.ClassNote:        {63, 92, 154, 0, -1, 9999},
	}
	for class, codes := range cases {
		for _, code := range codes {
			if got := device.DescribeXID(code); got.Class != class || got.Code != code {
				t.Errorf("XID %d is %q with code %d, want %q", code, got.Class, got.Code, class)
			}
		}
	}
}

// Every code that can be reported reads as one sentence with a remedy.
func TestDescribeXIDText(t *testing.T) {
	for code := range 200 {
		x := device.DescribeXID(code)
		text := x.String()
		if x.Name == "" || strings.HasSuffix(x.Name, ".") || !strings.HasSuffix(text, ".") || strings.Count(text, ". ") > 0 {
			t.Errorf("XID %d does not read as one sentence: %q", code, text)
		}
	}
}

// A code listed twice would be described by chance of order.
func TestXIDCatalogueHasEachCodeOnce(t *testing.T) {
	seen := map[int]bool{}
	for _, code := range device.XIDCodes() {
		if seen[code] {
			t.Errorf("XID %d is listed twice", code)
		}
		seen[code] = true
	}
	if len(seen) < 80 {
		t.Errorf("the catalogue holds %d codes; it has lost some", len(seen))
	}
}
