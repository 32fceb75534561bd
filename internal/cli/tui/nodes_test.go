package tui

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// someNodes returns machines with devices and leases, of which the second does not
// answer any more and the third never did.
func someNodes(count int) api.Nodes {
	var all api.Nodes
	for i := range count {
		n := api.Node{Name: fmt.Sprintf("node-%d", i+1), Driver: "dev", At: now, Status: &api.StatusAll{Host: "h", Version: "1.2"}}
		for j := range 2 {
			uuid := fmt.Sprintf("GPU-%d", j)
			n.Status.GPUs = append(n.Status.GPUs, api.Status{
				Device: gpu.Device{UUID: uuid, Index: j, Name: "NVIDIA H200", MemoryTotal: 143771}, State: gpu.Optimal, Health: gpu.Healthy, Slots: api.Slots{Active: 1, Capacity: 4},
				Sample: &gpu.Sample{
					Time: now, Utilization: gpu.Some(gpu.Percent(10*(i%9) + j)), MemoryUsed: gpu.Some(gpu.MiB(60000)), MemoryTotal: gpu.Some(gpu.MiB(143771)),
					Temperature: gpu.Some(gpu.Celsius(60 - i)), Power: gpu.Some(gpu.Watts(400)),
				},
			})
			n.Leases = append(n.Leases, api.PodLease{
				Lease: api.Lease{
					ID: fmt.Sprintf("8d1f0a3c-%d", j), Fence: 7, State: "active", Granted: now.Add(-time.Duration(i+1) * time.Hour), EnforcedBy: "watchdog", Holder: api.Holder{User: "token:kubernetes"},
					Parts: []api.LeasePart{{GPU: uuid, Memory: gpu.MiB(20000 * (j + 1)), Slots: 1, Measured: gpu.Some(gpu.MiB(30000))}}, Scope: []string{"pod8d1f0a3c"},
				},
				Namespace: "shop", Claim: fmt.Sprintf("embedder-%d-gpu", j), Pods: []string{fmt.Sprintf("embedder-%d", j), fmt.Sprintf("reranker-%d", j)},
			})
		}
		switch i {
		case 0:
			n.Status.GPUs[0].State, n.Status.GPUs[0].Reason, n.Status.GPUs[0].Since = gpu.Throttled, "72 °C is above temp_throttle 70 °C", now.Add(-time.Minute)
			n.Leases = append(n.Leases, api.PodLease{Lease: api.Lease{ID: "train", State: "active", Granted: now, Holder: api.Holder{User: "ann"}, Parts: []api.LeasePart{{GPU: "GPU-1"}}}})
		case 1:
			n.Down, n.At = "The daemon does not answer: connection refused.", now.Add(-time.Minute)
		case 2:
			n = api.Node{Name: n.Name, Down: "Its driver does not run: pod berth-dra-x is Pending."}
		}
		all.Nodes = append(all.Nodes, n)
	}
	return all
}

// nodesScene returns a screen after some keys.
func nodesScene(width, height int, all api.Nodes, keys ...string) *State {
	s := New()
	s.Several = true
	s.Interval = 5 * time.Second
	s.Tick(now)
	s.Resize(width, height)
	s.TakeNodes(all, now)
	for _, k := range keys {
		s.Press(k)
	}
	return s
}

func TestNodesFrames(t *testing.T) {
	lost := func(s *State) {
		s.Lose("list the driver's pods: the server was refused", now)
		s.Tick(now.Add(time.Minute))
	}
	slow := func(s *State) {
		s.Tick(now.Add(time.Minute))
		s.Asking = "asking 40 nodes through kubectl, 3 done"
	}
	for name, c := range map[string]struct {
		width, height int
		count         int
		keys          []string
		then          func(*State)
	}{
		"nodes-80":     {80, 24, 4, nil, nil},
		"nodes-140":    {140, 24, 4, []string{"tab", "j"}, nil},
		"nodes-many":   {80, 24, 40, []string{"G", "tab", "pgdown"}, nil},
		"nodes-sorted": {100, 20, 4, []string{"s", "tab", "s", "S"}, nil},
		"nodes-filter": {80, 20, 4, []string{"/", "a", "n", "n"}, nil},
		"nodes-zoomed": {80, 20, 40, []string{"z", "end"}, nil},
		"nodes-gpu":    {80, 24, 4, []string{"enter"}, nil},
		"nodes-silent": {80, 24, 4, []string{"down", "down", "down", "down", "enter"}, nil},
		"nodes-lease":  {80, 24, 4, []string{"2", "enter"}, nil},
		"nodes-needs":  {80, 24, 4, []string{"!"}, nil},
		"nodes-help":   {80, 24, 4, []string{"?"}, nil},
		"nodes-act":    {80, 15, 4, []string{"tab", "r"}, nil},
		"nodes-lost":   {80, 15, 2, nil, lost},
		"nodes-slow":   {80, 15, 1, nil, slow},
		"nodes-none":   {80, 15, 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := nodesScene(c.width, c.height, someNodes(c.count), c.keys...)
			if c.then != nil {
				c.then(s)
			}
			var b strings.Builder
			check(t, s)
			for _, l := range s.Frame() {
				b.WriteString(strings.TrimRight(l, " ") + "\n")
			}
			compare(t, filepath.Join("testdata", name+".txt"), b.String())
		})
	}
}

// Nothing that is pressed acts on a machine.
func TestNodesOnlyLook(t *testing.T) {
	s := nodesScene(80, 24, someNodes(3))
	for _, key := range []string{"r", "p", "u", "d", "y", "enter", "r", "d", "y", "esc", "tab", "r", "y", "p", "u"} {
		if want := s.Press(key); want != (Want{}) {
			t.Errorf("%s wants %+v", key, want)
		}
	}
	for key, want := range map[string]Want{"q": {Quit: true}, "ctrl+c": {Quit: true}, "ctrl+z": {Suspend: true}} {
		if got := nodesScene(80, 24, someNodes(3)).Press(key); got != want {
			t.Errorf("%s wants %+v", key, got)
		}
	}
}

// The names of machines and of leases are whole in a usual terminal: other columns go first.
func TestNodesNamesAreWhole(t *testing.T) {
	all := someNodes(2)
	const name = "gpu-server.example.com"
	all.Nodes[0].Name, all.Nodes[0].Driver, all.Nodes[1].Driver, all.Nodes[0].Leases[0].Claim = name, "", "", "embedder-of-today"
	s := nodesScene(80, 24, all)
	leases := s.Frame()[slices.IndexFunc(s.Frame(), func(l string) bool { return strings.Contains(l, "LEASES") }):]
	if !slices.ContainsFunc(leases, func(l string) bool { return strings.Contains(l, name+" ") && strings.Contains(l, "embedder-of-today ") }) {
		t.Errorf("a name is cut:\n%s", strings.Join(leases, "\n"))
	}
}

// The choice stays on its row when others come and go.
func TestNodesChoice(t *testing.T) {
	s := nodesScene(80, 24, someNodes(4), "down", "down", "down", "down", "down") // node-4, GPU 0
	row := func() string {
		frame := s.Frame()
		return frame[slices.IndexFunc(frame, func(l string) bool { return strings.HasPrefix(l, "▸") })]
	}
	before := strings.Fields(row())[1:3]
	all := someNodes(4)
	s.TakeNodes(api.Nodes{Nodes: append([]api.Node{{Name: "a-new-one", Down: "x"}}, all.Nodes...)}, now)
	if got := strings.Fields(row())[1:3]; !slices.Equal(got, before) || before[0] != "node-4" {
		t.Errorf("the choice moved from %q to %q", before, got)
	}
	s.TakeNodes(api.Nodes{Nodes: all.Nodes[:3]}, now)
	if got := row(); !strings.HasPrefix(got, "▸ node-3") {
		t.Errorf("the choice is on %q", got)
	}
}

// Whatever machines say, whatever is pressed and however large the terminal is, a
// frame fits it.
func TestNodesFramesFit(t *testing.T) {
	keys := []string{"tab", "up", "down", "pgdown", "end", "home", "enter", "esc", "/", "s", "S", "z", "!", "?", "r", "a", "backspace", "1", "2"}
	texts := rapid.OneOf(rapid.StringMatching(`[a-z0-9.-]{0,60}`), rapid.StringN(0, 40, -1), rapid.SampledFrom([]string{"模擬カード模擬カード", "e\u0301clair", "\x1b[2J", "👩‍👩‍👧 🇩🇪 👍🏽", "a\nb", "\u200b", strings.Repeat("x", 2000)}))
	amounts := rapid.SampledFrom([]gpu.MiB{-1 << 62, -1, 0, 5, 1 << 62})
	rapid.Check(t, func(t *rapid.T) {
		all := someNodes(rapid.IntRange(0, 6).Draw(t, "nodes"))
		for i := range all.Nodes {
			n := &all.Nodes[i]
			n.Name, n.Down = texts.Draw(t, "name"), rapid.SampledFrom([]string{"", texts.Draw(t, "why")}).Draw(t, "down")
			for j := range n.Leases {
				l := &n.Leases[j]
				l.ID, l.Claim, l.Pods, l.EnforcedBy, l.Parts[0].Memory = texts.Draw(t, "id"), texts.Draw(t, "claim"), []string{texts.Draw(t, "pod"), texts.Draw(t, "pod")}, texts.Draw(t, "by"), amounts.Draw(t, "memory")
				l.Parts[0].Measured, l.Parts[0].GPU = gpu.Some(amounts.Draw(t, "measured")), rapid.SampledFrom([]string{"GPU-0", texts.Draw(t, "gpu")}).Draw(t, "on")
			}
			if n.Status == nil {
				continue
			}
			for j := range n.Status.GPUs {
				d := &n.Status.GPUs[j]
				d.State, d.Reason, d.Device.Name, d.Device.Index = gpu.State(texts.Draw(t, "state")), texts.Draw(t, "reason"), texts.Draw(t, "device"), int(amounts.Draw(t, "index"))
				d.Sample.MemoryUsed, d.Sample.Temperature = gpu.Some(amounts.Draw(t, "used")), gpu.Some(gpu.Celsius(rapid.SampledFrom([]float64{-1e308, 50, 1e308}).Draw(t, "heat")))
				// The page about a device shows what is said of it beside its numbers, which may lack what a daemon always has.
				d.Trust = rapid.SampledFrom([]*api.Trust{nil, {Phase: "quarantine"}, {Phase: "probation", Withheld: -1}, {Phase: texts.Draw(t, "phase"), Why: texts.Draw(t, "distrust")}}).Draw(t, "trust")
				d.Outlook = rapid.SampledFrom([]*api.Outlook{nil, {Settles: 1e308, Thresholds: []api.ThresholdForecast{{Threshold: texts.Draw(t, "threshold"), Seconds: gpu.Some(1e308)}}}}).Draw(t, "outlook")
				d.Throttling = rapid.SampledFrom([]*api.Throttling{nil, {Denied: texts.Draw(t, "denied"), PacedLeases: -5, Share: gpu.Some(1e308)}}).Draw(t, "throttling")
				d.Sample.Processes = []gpu.Process{{PID: -1, Name: texts.Draw(t, "process"), Memory: gpu.Some(amounts.Draw(t, "of process"))}}
			}
		}
		s := nodesScene(rapid.IntRange(1, 220).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height"), all)
		for range rapid.IntRange(0, 12).Draw(t, "presses") {
			s.Press(rapid.SampledFrom(keys).Draw(t, "key"))
		}
		check(t, s)
	})
}

// A terminal that has no room for one wide character ends in no endless loop.
func TestWrappedEnds(t *testing.T) {
	for width := range 6 {
		if lines := wrapped("模擬カード … a", width); len(lines) == 0 {
			t.Errorf("nothing at width %d", width)
		}
	}
}
