package monitor_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// part is an instance that a card is cut into.
type part struct {
	*card
	of string
}

func (p *part) Describe() gpu.Device {
	d := p.card.Describe()
	d.Parent = p.of
	return d
}

// A fault of a device closes its instances at once, and they open when it is out
// of quarantine. A fault of an instance is its own.
func TestInstancesShareTheFateOfTheirDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := make(chan device.Fault)
		b := &scripted{
			scan: func(context.Context) ([]device.Device, error) {
				return []device.Device{&card{index: 0}, &card{index: 1}, &part{&card{index: 2}, "GPU-0"}, &part{&card{index: 3}, "GPU-0"}}, nil
			},
			watch: func(ctx context.Context, found func(device.Fault)) error {
				for {
					select {
					case f := <-faults:
						found(f)
					case <-ctx.Done():
						return nil
					}
				}
			},
		}
		var mu sync.Mutex
		last := map[string]monitor.Reading{}
		m := told([]device.Backend{b}, monitor.Settings{}, monitor.Hooks{Reading: func(r monitor.Reading) {
			mu.Lock()
			defer mu.Unlock()
			last[r.Device.UUID] = r
		}})
		stop := start(t, m)
		settle(1.5)
		broken := gpu.Fault{Name: "bad luck", Class: gpu.FaultDevice, Severity: gpu.Serious}
		states := func() (text string) {
			mu.Lock()
			defer mu.Unlock()
			for _, uuid := range []string{"GPU-0", "GPU-1", "GPU-2", "GPU-3"} {
				r := last[uuid]
				text += string(r.State[:1])
				if (r.StateCause == gpu.CauseFault) != r.Stop || r.Stop != (r.State == gpu.Unavailable) || (r.Multiplier == 0) != r.Stop || find(t, m, uuid).State != r.State {
					t.Errorf("%s: %+v", uuid, r)
				}
			}
			return text
		}
		faults <- device.Fault{GPU: "GPU-3", Time: time.Now(), Fault: broken}
		synctest.Wait()
		if got := states(); got != "OOOU" {
			t.Errorf("after a fault of an instance: %s", got)
		}
		faults <- device.Fault{GPU: "GPU-0", Time: time.Now(), Fault: broken}
		synctest.Wait() // no sample is due
		if got := states(); got != "UOUU" {
			t.Errorf("after a fault of the device: %s", got)
		}
		r := find(t, m, "GPU-2")
		if r.Health != gpu.Unhealthy || !strings.Contains(r.Reason, "GPU 0, which it is part of, is ") || !strings.Contains(r.Reason, "bad luck") {
			t.Errorf("the instance is %s: %s", r.Health, r.Reason)
		}
		settle(3600)
		if got := states(); got != "OOOO" {
			t.Errorf("an hour later: %s", got)
		}
		stop()
	})
}

// An instance that its device does not have any more is gone without a fault. One that is
// not found together with its device is lost with it.
func TestInstancesThatAreRemoved(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var failing [2]atomic.Bool
			var hangs atomic.Bool // the device
			answer := func(i int) func(*gpu.Sample) error {
				return func(into *gpu.Sample) error {
					switch {
					case i == 0 && hangs.Load():
						return device.ErrHung
					case failing[i].Load():
						return device.ErrLost
					}
					into.Temperature = gpu.Some(gpu.Celsius(50))
					return nil
				}
			}
			gpu0, gone := &card{index: 0, fast: answer(0)}, &part{&card{index: 1, fast: answer(1)}, "GPU-0"}
			b := &scripted{scan: func(context.Context) ([]device.Device, error) { return []device.Device{gpu0, gone}, nil }}
			var mu sync.Mutex
			var serious []string
			m := told([]device.Backend{b}, monitor.Settings{}, monitor.Hooks{Event: func(e gpu.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Severity.AtLeast(gpu.Serious) {
					serious = append(serious, e.GPU)
				}
			}})
			stop := start(t, m)
			settle(1.5)
			failing[1].Store(true)
			failing[0].Store(whole)
			settle(10)
			r := find(t, m, "GPU-1")
			if listed := len(m.Readings()); (listed == 2) != whole || (len(serious) > 0) != whole || r.State != gpu.Unavailable || (r.Standing.Phase != "") != whole || r.Removed == whole {
				t.Errorf("with its device %v: %d listed, critical for %v, %+v", whole, listed, serious, r)
			}
			if !whole { // the device hangs, which says nothing about the instance
				hangs.Store(true)
				settle(10)
				if listed := len(m.Readings()); listed != 1 || slices.Contains(serious, "GPU-1") {
					t.Errorf("while its device hangs: %d listed, critical for %v", listed, serious)
				}
				hangs.Store(false)
			}
			failing[0].Store(false)
			failing[1].Store(false)
			settle(3)
			if listed := len(m.Readings()); listed != 2 {
				t.Errorf("and is back: %d listed", listed)
			}
			stop()
		})
	}
}
