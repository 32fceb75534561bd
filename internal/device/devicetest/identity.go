package devicetest

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

func checkName(t *testing.T, b device.Backend) {
	name := b.Name()
	if name == "" || strings.ContainsAny(name, " \t\n,:") {
		t.Errorf("Name must be one word that can stand in configuration, got %q", name)
	}
	if again := b.Name(); again != name {
		t.Errorf("Name must not change, was %q and is %q", name, again)
	}
}

func checkScan(t *testing.T, b device.Backend) {
	seen := map[string]bool{}
	last := -1
	for _, dev := range Scan(t, b) {
		d := dev.Describe()
		if d.UUID == "" {
			t.Errorf("every device must have a UUID, but %+v has none", d)
		}
		if seen[d.UUID] {
			t.Errorf("UUIDs must be unique, but %s is there twice", d.UUID)
		}
		seen[d.UUID] = true
		if d.Index < 0 || d.Index < last || (d.Index == last && d.Parent == "") {
			t.Errorf("%s: Scan must list devices in index order, but %d comes after %d", d.UUID, d.Index, last)
		}
		last = d.Index
		if d.Backend != b.Name() {
			t.Errorf("%s: Backend must be the backend's name %q, got %q", d.UUID, b.Name(), d.Backend)
		}
		if d.Vendor == "" || d.Name == "" {
			t.Errorf("%s: a device must say what it is, got vendor %q and name %q", d.UUID, d.Vendor, d.Name)
		}
		checkDescription(t, d)
	}
}

func checkDescription(t *testing.T, d gpu.Device) {
	t.Helper()
	if d.MemoryTotal < 0 {
		t.Errorf("%s: MemoryTotal must not be negative, got %d", d.UUID, d.MemoryTotal)
	}
	if w, ok := d.PowerLimit.Get(); ok && !(w > 0) {
		t.Errorf("%s: PowerLimit must be positive where there is one, got %g", d.UUID, w)
	}
	if node, ok := d.NUMANode.Get(); ok && node < 0 {
		t.Errorf("%s: NUMANode must be absent where it is unknown, got %d", d.UUID, node)
	}
	inRange(t, d.UUID, "TempSlowdown", d.TempSlowdown, coldest, hottest)
	inRange(t, d.UUID, "TempMax", d.TempMax, coldest, hottest)
	inRange(t, d.UUID, "TempShutdown", d.TempShutdown, coldest, hottest)

	best := func(a, b gpu.Link) int { return b.Kind.Closeness() - a.Kind.Closeness() }
	if !slices.IsSortedFunc(d.Links, best) {
		t.Errorf("%s: Links must be listed best first, got %v", d.UUID, d.Links)
	}
	seen := map[string]bool{d.UUID: true, "": true}
	for _, link := range d.Links {
		if seen[link.To] {
			t.Errorf("%s: Links must name each other device once, got %q again or itself or nobody", d.UUID, link.To)
		}
		seen[link.To] = true
	}
}

func checkScanAgain(t *testing.T, b device.Backend) {
	first := Scan(t, b)
	second := Scan(t, b)
	if was, is := uuids(first), uuids(second); !slices.Equal(was, is) {
		t.Errorf("a device must keep its UUID over Scans, but they were %q and are %q", was, is)
	}
	for _, dev := range slices.Concat(first, second) {
		var s gpu.Sample
		if err := dev.Fast(t.Context(), &s); err != nil {
			t.Errorf("%s: what an earlier Scan returned must stay usable, but Fast: %v", dev.Describe().UUID, err)
		}
	}
}

func uuids(devices []device.Device) []string {
	var list []string
	for _, dev := range devices {
		list = append(list, dev.Describe().UUID)
	}
	return list
}

func checkDescribe(t *testing.T, b device.Backend) {
	for _, dev := range Scan(t, b) {
		before := dev.Describe()
		var s gpu.Sample
		if err := dev.Fast(t.Context(), &s); err != nil {
			t.Errorf("%s: Fast: %v", before.UUID, err)
		}
		if after := dev.Describe(); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: Describe must say the same before and after a reading, but said\n%+v\nand then\n%+v", before.UUID, before, after)
		}
	}
}

// checkDescribeDuringCall is for the race detector: Describe answers from memory, so it
// may be called while another goroutine is in the driver.
func checkDescribeDuringCall(t *testing.T, b device.Backend) {
	for _, dev := range Scan(t, b) {
		want := dev.Describe().UUID
		var wg sync.WaitGroup
		wg.Go(func() {
			for range rounds {
				var s gpu.Sample
				if err := dev.Fast(t.Context(), &s); err != nil {
					t.Errorf("%s: Fast: %v", want, err)
				}
			}
		})
		for range rounds {
			if got := dev.Describe().UUID; got != want {
				t.Errorf("Describe must answer from memory during a call, said %q and then %q", want, got)
			}
		}
		returns(t, "Fast on a device that is well must return", wg.Wait)
	}
}
