package monitor_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// named is a card with an index and a UUID of its own.
type named struct {
	*card
	as string
}

func (n *named) Describe() gpu.Device {
	d := n.card.Describe()
	d.UUID = n.as
	return d
}

// vendor returns a backend with some devices, which answers a scan after a while.
func vendor(name string, after *time.Duration, count *int) device.Backend {
	var all []device.Device
	return &scripted{scan: func(context.Context) ([]device.Device, error) {
		time.Sleep(*after)
		for len(all) < *count {
			all = append(all, &named{&card{index: len(all)}, fmt.Sprint(name, len(all))})
		}
		return all[:*count], nil
	}}
}

func numbers(m *monitor.Monitor) map[string]int {
	all := map[string]int{}
	for _, r := range m.Readings() {
		all[r.Device.UUID] = r.Device.Index
	}
	return all
}

// Devices of several vendors have numbers of their own, in the order of the
// vendors, whoever answers first.
func TestNumbersOverVendors(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Second, 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var none time.Duration
			two, three, one := 2, 3, 1
			m := monitor.New([]device.Backend{vendor("nvidia", &slow, &two), vendor("amd", &none, &three), vendor("intel", &none, &one)},
				monitor.Settings{}, monitor.Keepers{})
			if err := m.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := map[string]int{"nvidia0": 0, "nvidia1": 1, "amd0": 2, "amd1": 3, "amd2": 4, "intel0": 5}
			if got := numbers(m); !maps.Equal(got, want) {
				t.Errorf("with a first one that takes %v: %v", slow, got)
			}
			if r := find(t, m, "4"); r.Device.UUID != "amd2" {
				t.Errorf("4 is %s", r.Device.UUID)
			}
		})
	}
}

// What is done with a device leaves its number alone.
func TestNumbersStayWhenSomethingIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none time.Duration
		two, one := 2, 1
		m := monitor.New([]device.Backend{vendor("nvidia", &none, &two), vendor("amd", &none, &one)}, monitor.Settings{}, monitor.Keepers{})
		for range 2 { // the second scan takes over what the first one and Do left
			if err := m.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := m.Do(t.Context(), "amd0", func(context.Context, device.Device) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if got, want := numbers(m), map[string]int{"nvidia0": 0, "nvidia1": 1, "amd0": 2}; !maps.Equal(got, want) {
				t.Errorf("the numbers are %v, want %v", got, want)
			}
		}
	})
}

// A driver that loads later does not take numbers away.
func TestNumbersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none time.Duration
		nvidia, amd := 0, 2
		m := monitor.New([]device.Backend{vendor("nvidia", &none, &nvidia), vendor("amd", &none, &amd)}, monitor.Settings{}, monitor.Keepers{})
		scan := func(want map[string]int) {
			t.Helper()
			if err := m.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := numbers(m); !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		scan(map[string]int{"amd0": 0, "amd1": 1})
		nvidia = 2
		scan(map[string]int{"amd0": 0, "amd1": 1, "nvidia0": 2, "nvidia1": 3})
		amd = 3
		scan(map[string]int{"amd0": 0, "amd1": 1, "nvidia0": 2, "nvidia1": 3, "amd2": 4})
		nvidia = 1
		scan(map[string]int{"amd0": 0, "amd1": 1, "nvidia0": 2, "nvidia1": 3, "amd2": 4})
	})
}
