package xid_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/nvml/xid"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		class    gpu.FaultClass
		severity gpu.Severity
		codes    []int
	}{
		{gpu.FaultProgram, gpu.Warning, []int{8, 13, 31, 43, 45, 68, 94, 109, 135}},
		{gpu.FaultDevice, gpu.Serious, []int{48, 62, 64, 79, 95, 119, 120, 140}},
		{gpu.FaultLink, gpu.Serious, []int{74, 136, 144}},
		{gpu.FaultDevice, gpu.Note, []int{63, 92}},
		{gpu.FaultLink, gpu.Note, []int{108, 121, 159}},
		{gpu.FaultDriver, gpu.Note, []int{154, 0, -1, 9999}},
	} {
		for _, code := range c.codes {
			if got := xid.Describe(code); got.Class != c.class || got.Severity != c.severity || got.Code != fmt.Sprintf("XID %d", code) {
				t.Errorf("XID %d is %+v, want %s, %s", code, got, c.class, c.severity)
			}
		}
	}
}

// Every code that can be reported reads as one sentence with a remedy.
func TestDescribeReads(t *testing.T) {
	for code := range 200 {
		x := xid.Describe(code)
		text := x.String()
		if x.Name == "" || !slices.Contains(gpu.FaultClasses(), x.Class) || strings.HasSuffix(x.Name, ".") || !strings.HasSuffix(text, ".") || strings.Count(text, ". ") > 0 {
			t.Errorf("XID %d does not read as one sentence: %q", code, text)
		}
	}
}

// A code listed twice would be described by chance of order.
func TestCatalogueHasEachCodeOnce(t *testing.T) {
	seen := map[int]bool{}
	for _, code := range xid.Codes() {
		if seen[code] {
			t.Errorf("XID %d is listed twice", code)
		}
		seen[code] = true
	}
	if len(seen) < 80 {
		t.Errorf("the catalogue holds %d codes; it has lost some", len(seen))
	}
}
