package monitor_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

const scenarios = "../../../examples/scenarios/"

// stories holds what the monitor tells of each device in the example scenarios,
// in order: states, and how far the device is trusted.
var stories = map[string]struct {
	lasts   time.Duration
	devices []string // empty: two things happen at one moment, so the order is open
}{
	"heat-wave":            {20 * time.Minute, []string{"OPTIMAL NORMAL THROTTLED NORMAL OPTIMAL", "OPTIMAL NORMAL OPTIMAL"}},
	"slow-creep":           {30 * time.Minute, []string{hotAndBack}},
	"flapping":             {15 * time.Minute, []string{"OPTIMAL NORMAL THROTTLED NORMAL OPTIMAL"}},
	"fan-fails":            {10 * time.Minute, []string{hotAndBack, "OPTIMAL"}},
	"two-faults":           {10 * time.Minute, []string{faultAndBack, "OPTIMAL device_quarantined UNAVAILABLE device_lost device_recovered device_probation OPTIMAL device_recovered", "OPTIMAL"}},
	"fault-while-draining": {10 * time.Minute, []string{"OPTIMAL", faultAndBack}},
	"failing-check":        {15 * time.Minute, []string{faultAndBack, "OPTIMAL"}},
	"hot-afternoon":        {5 * time.Minute, []string{hotAndBack, "OPTIMAL", "OPTIMAL", "OPTIMAL"}},
	"hang-and-lost":        {10 * time.Minute, nil},
	"demo":                 {10 * time.Second, []string{"OPTIMAL", "OPTIMAL", "OPTIMAL NORMAL THROTTLED CRITICAL overheat", "OPTIMAL UNAVAILABLE OPTIMAL"}},
}

const (
	hotAndBack   = "OPTIMAL NORMAL THROTTLED CRITICAL overheat THROTTLED NORMAL OPTIMAL"
	faultAndBack = "OPTIMAL device_quarantined UNAVAILABLE device_probation OPTIMAL device_recovered"
)

func TestExampleScenarios(t *testing.T) {
	files, err := filepath.Glob(scenarios + "*.yaml")
	if err != nil || len(files) != len(stories) {
		t.Fatalf("%d scenarios, %d stories: %v", len(files), len(stories), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			story, known := stories[name]
			if !known {
				t.Fatal("no test says what happens in it")
			}
			synctest.Test(t, func(t *testing.T) {
				n := play(t, file, story.lasts)
				for i, want := range story.devices {
					uuid := n.devices[i]
					if got := n.story(uuid); got != want {
						t.Errorf("GPU %d:\n  %s\nwant:\n  %s\nof %s", i, got, want, strings.Join(n.told(uuid), "\n  "))
					}
				}
				for _, uuid := range n.devices {
					n.steady(t, uuid)
				}
			})
		})
	}
}

// played is what was told of a scenario.
type played struct {
	notes
	devices []string // UUIDs, by index
}

// play runs a scenario under a monitor that checks devices before it trusts them
// again.
func play(t *testing.T, file string, lasts time.Duration) *played {
	t.Helper()
	b, err := sim.Open(file, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := new(played)
	rules := health.DefaultRules()
	rules.Check = true
	var m *monitor.Monitor
	running := map[string]bool{} // checks, by UUID; guarded by mu
	hooks := n.hooks()
	noted := hooks.Reading
	hooks.Reading = func(r monitor.Reading) {
		noted(r)
		n.mu.Lock()
		defer n.mu.Unlock()
		uuid := r.Device.UUID
		if !r.CheckDue || running[uuid] {
			return
		}
		running[uuid] = true
		go func() {
			check(t.Context(), m, uuid)
			n.mu.Lock()
			defer n.mu.Unlock()
			running[uuid] = false
		}()
	}
	m = told([]device.Backend{b}, monitor.Settings{Health: rules}, hooks)
	stop := start(t, m)
	time.Sleep(lasts)
	synctest.Wait()
	for _, r := range m.Readings() {
		n.devices = append(n.devices, r.Device.UUID)
	}
	stop()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	return n
}

// check checks a device and tells the monitor what came of it.
func check(ctx context.Context, m *monitor.Monitor, uuid string) {
	began, ask := time.Now(), proof.Ask{Verb: proof.Check, Kind: proof.Quick, GPU: uuid}
	var steps []proof.Step
	var unable string
	err := m.Do(ctx, uuid, func(ctx context.Context, d device.Device) (err error) {
		steps, unable, err = d.(device.Examinee).Examine(ctx, ask)
		return err
	})
	if err != nil {
		unable = err.Error()
	}
	for _, s := range steps {
		time.Sleep(time.Duration(s.Took * float64(time.Second)))
	}
	switch found := proof.Judge(ask, steps, time.Since(began)); {
	case unable != "":
		m.Checked(uuid, began, proof.Unasked, unable)
	case found.Verdict == proof.Failed:
		m.Checked(uuid, began, proof.Failed, found.Reason)
	default:
		m.Checked(uuid, began, proof.Passed, "")
	}
}

// story returns what was told of a device, without times.
func (n *played) story(uuid string) string {
	var list []string
	for _, e := range n.events {
		if e.GPU != uuid {
			continue
		}
		for _, code := range append([]gpu.EventCode{e.Code}, e.Also...) {
			switch code {
			case gpu.EventStateChange:
				list = append(list, e.Data["to"].(string))
			case gpu.EventDeviceQuarantined, gpu.EventDeviceProbation, gpu.EventDeviceRecovered, gpu.EventDeviceLost, gpu.EventOverheat:
				list = append(list, string(code))
			}
		}
	}
	return strings.Join(list, " ")
}

// steady checks that no state flaps: a device leaves a state for a better one
// only after the hold time of that state, unless it was away.
func (n *played) steady(t *testing.T, uuid string) {
	t.Helper()
	rules := thermal.DefaultRules()
	var since time.Time
	for _, e := range n.events {
		if e.GPU != uuid || !e.Is(gpu.EventStateChange) {
			continue
		}
		from, to := gpu.State(e.Data["from"].(string)), gpu.State(e.Data["to"].(string))
		hold := rules.Cooldown
		if from == gpu.Critical {
			hold = rules.CriticalPause
		}
		if from != gpu.Unavailable && to != gpu.Unavailable && from.Worse(to) && e.Time.Sub(since) < hold {
			t.Errorf("%s left %s for %s after %v", uuid, from, to, e.Time.Sub(since))
		}
		since = e.Time
	}
}
