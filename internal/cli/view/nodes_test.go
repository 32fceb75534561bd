package view

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
)

// nodeDevice returns a device as a driver shows it.
func nodeDevice(index int, state gpu.State) api.Status {
	uuid := "GPU-" + string(rune('a'+index))
	return api.Status{
		Device: gpu.Device{UUID: uuid, Index: index, Name: "NVIDIA H200", MemoryTotal: 143771}, State: state, Since: now.Add(-time.Hour), Health: gpu.Healthy,
		Slots: api.Slots{Active: 1, Capacity: 4},
		Sample: &gpu.Sample{
			Time: now, Utilization: gpu.Some(gpu.Percent(42)), MemoryUsed: gpu.Some(gpu.MiB(60000)), MemoryTotal: gpu.Some(gpu.MiB(143771)),
			Temperature: gpu.Some(gpu.Celsius(61)), Power: gpu.Some(gpu.Watts(400)),
		},
	}
}

func podLease(id string, memory gpu.MiB, device string, pods ...string) api.PodLease {
	l := api.PodLease{Lease: api.Lease{
		ID: id, Fence: 7, State: "active", Granted: now.Add(-90 * time.Minute), EnforcedBy: "watchdog", Holder: api.Holder{User: "ann", Service: "trainer"},
		Parts: []api.LeasePart{{GPU: device, Memory: memory, Slots: 1, Measured: gpu.Some(memory / 2)}},
	}}
	if len(pods) > 0 {
		l.Namespace, l.Claim, l.Pods = "shop", pods[0]+"-gpu", pods
	}
	return l
}

// someNodes is a cluster in which all kinds of things are the matter.
func someNodes() api.Nodes {
	hot, drained, over := nodeDevice(0, gpu.Throttled), nodeDevice(1, gpu.Optimal), podLease("over", 1024, "GPU-b", "batch-7")
	hot.Reason = "72 °C is above temp_throttle 70 °C"
	drained.Drain = &api.Drain{By: "ann", Reason: "a new fan"}
	over.Parts[0].Measured = gpu.Some(gpu.MiB(2048))
	over.Parts = append(over.Parts, api.LeasePart{GPU: "GPU-z", Memory: 1024})
	bad := nodeDevice(0, gpu.Unavailable)
	bad.Health, bad.Reason = gpu.Unhealthy, "in quarantine until 13:00: Xid 79"
	parked := podLease("parked", 4096, "GPU-a")
	parked.State = "parked"
	return api.Nodes{Nodes: []api.Node{
		{Name: "node-1", Driver: "dev", At: now, Status: &api.StatusAll{Host: "node-1", GPUs: []api.Status{hot, drained}}, Leases: []api.PodLease{
			podLease("u1", 60000, "GPU-a", "embedder-0", "embedder-1"), podLease("u2", 20000, "GPU-a", "reranker-6c8d9f5b7-x2x9p"), podLease("train", 4096, "GPU-b"), over, parked,
		}},
		{Name: "node-2", Driver: "dev", At: now.Add(-2 * time.Minute), Down: "The daemon does not answer: connection refused", Status: &api.StatusAll{GPUs: []api.Status{nodeDevice(0, gpu.Optimal)}}, Leases: []api.PodLease{
			podLease("u3", 60000, "GPU-a", "embedder-2"),
		}},
		{Name: "node-3", Down: "Its driver does not run: pod berth-dra-x is Pending (ImagePullBackOff).", Leases: []api.PodLease{}},
		{Name: "node-4", At: now.Add(-5 * time.Minute), Status: &api.StatusAll{GPUs: []api.Status{bad}}},
		{Name: "node-5", At: now, Status: &api.StatusAll{}},
	}}
}

// someDaemons are two machines without Kubernetes.
func someDaemons() api.Nodes {
	return api.Nodes{Nodes: []api.Node{
		{Name: "box-a", At: now, Status: &api.StatusAll{GPUs: []api.Status{nodeDevice(0, gpu.Optimal)}}, Leases: []api.PodLease{podLease("train", 4096, "GPU-a")}},
		{Name: "box-b", At: now, Status: &api.StatusAll{GPUs: []api.Status{nodeDevice(0, gpu.Normal)}}, Leases: []api.PodLease{}},
	}}
}

// Every view of several machines looks as testdata says, on screens of all widths.
func TestNodeViews(t *testing.T) {
	for name, view := range map[string]interface{ Lines(term.Screen) []string }{
		"status":         &NodesStatus{someNodes()},
		"status-daemons": &NodesStatus{someDaemons()},
		"leases":         &NodesLeases{Nodes: someNodes()},
		"leases-daemons": &NodesLeases{Nodes: someDaemons()},
		"leases-none":    &NodesLeases{Nodes: fleet.Filter{Users: []string{"bob"}}.Apply(someNodes()), Filtered: true},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, to := range []term.Screen{{Width: 140, Now: now}, {Width: 80, Now: now}, {Width: 50, Now: now, Painter: true}} {
				lines := strings.Join(view.Lines(to), "\n")
				for line := range strings.SplitSeq(lines, "\n") {
					if !to.Painter && term.Columns(line) > to.Width {
						t.Errorf("more than %d columns: %s", to.Width, line)
					}
				}
				b.WriteString(strings.ReplaceAll(lines, "\x1b", "␛") + "\n\n")
			}
			compare(t, filepath.Join("testdata", "nodes-"+name+".txt"), b.String())
		})
	}
}

// Whatever a machine says, nothing of it is an order to the terminal, and nothing
// breaks.
func TestHostileNodes(t *testing.T) {
	texts := rapid.OneOf(rapid.StringN(0, 40, -1), rapid.SampledFrom([]string{"\x1b[2J\x1b]0;owned\x07", "\u202egpj.exe", "a\r\nb", "e\u0301", strings.Repeat("x", 3000), "\u200b", "模擬カード"}))
	numbers := rapid.SampledFrom([]gpu.MiB{-1 << 62, -1, 0, 1, 1 << 20, 1 << 62})
	reals := rapid.SampledFrom([]float64{-1e308, -1, 0, 50, 1e308})
	rapid.Check(t, func(t *rapid.T) {
		all := someNodes()
		for i := range all.Nodes {
			n := &all.Nodes[i]
			n.Name, n.Down = texts.Draw(t, "name"), rapid.SampledFrom([]string{"", texts.Draw(t, "down")}).Draw(t, "which")
			if n.Status != nil {
				for j := range n.Status.GPUs {
					d := &n.Status.GPUs[j]
					d.State, d.Reason, d.Device.Name, d.Device.MemoryTotal = gpu.State(texts.Draw(t, "state")), texts.Draw(t, "reason"), texts.Draw(t, "device"), numbers.Draw(t, "total")
					d.Trust, d.Drain = &api.Trust{Phase: texts.Draw(t, "phase"), Why: texts.Draw(t, "why")}, &api.Drain{By: texts.Draw(t, "by"), Reason: texts.Draw(t, "drained")}
					d.Sample.MemoryUsed, d.Sample.MemoryTotal = gpu.Some(numbers.Draw(t, "used")), gpu.Some(numbers.Draw(t, "of"))
					d.Sample.Utilization, d.Sample.Temperature, d.Sample.Power = gpu.Some(gpu.Percent(reals.Draw(t, "load"))), gpu.Some(gpu.Celsius(reals.Draw(t, "heat"))), gpu.Some(gpu.Watts(reals.Draw(t, "power")))
				}
			}
			for j := range n.Leases {
				l := &n.Leases[j]
				l.ID, l.Claim, l.Namespace, l.EnforcedBy, l.State, l.Granted = texts.Draw(t, "id"), texts.Draw(t, "claim"), texts.Draw(t, "namespace"), texts.Draw(t, "by"), texts.Draw(t, "state"), time.Time{}
				l.Pods, l.Parts[0].Memory, l.Parts[0].Measured = []string{texts.Draw(t, "pod"), texts.Draw(t, "pod")}, numbers.Draw(t, "leased"), gpu.Some(numbers.Draw(t, "measured"))
				l.Holder = api.Holder{User: texts.Draw(t, "user"), Service: texts.Draw(t, "service")}
			}
		}
		raw, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		var read api.Nodes // as it comes over the wire
		if err := json.Unmarshal(raw, &read); err != nil {
			t.Fatal(err)
		}
		to := term.Screen{Width: rapid.SampledFrom([]int{20, 80, 200}).Draw(t, "width"), Now: now}
		for _, view := range []interface{ Lines(term.Screen) []string }{&NodesStatus{read}, &NodesLeases{Nodes: read}} {
			for _, lines := range view.Lines(to) {
				for line := range strings.SplitSeq(lines, "\n") {
					if at := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); at >= 0 {
						t.Fatalf("%q has something that cannot be printed", line)
					}
				}
			}
		}
	})
}
