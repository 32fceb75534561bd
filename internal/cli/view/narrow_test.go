package view

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

// At 80 columns no view cuts what other commands take or what one looks for: ids, nodes,
// reasons and the names of alerts are folded. Columns that matter stay.
func TestNamesAreWholeAt80Columns(t *testing.T) {
	const id = "an-identifier-that-is-rather-long-00017"
	const node, other = "gpu-server-in-the-basement.example.com:8000", "gpu-server-in-the-basement.example.com:8001"
	gpus := GPUs{"GPU-0": 0}
	holder := api.Holder{Service: "my-embedding-service-of-last-year", User: "adalovelace", Name: "python3"}
	held := api.Lease{ID: id, Holder: holder, Binding: "process", Granted: now.Add(-time.Hour), EnforcedBy: "framework", Energy: gpu.Some(gpu.Joules(1e6)), Parts: []api.LeasePart{{GPU: "GPU-0", Memory: 81920, Slots: 1}}}
	past := api.PastLease{
		ID: id, Holder: holder, Granted: now.Add(-time.Hour), Ended: now, How: "revoked", Why: "its time limit of two hours was over, and it did not end by itself",
		Energy: gpu.Some(gpu.Joules(1e6)), Parts: []api.LeasePart{{GPU: "GPU-0", Memory: 81920, Slots: 1}},
	}
	fleet := api.Nodes{}
	for _, name := range []string{node, other} {
		status := someStatus()
		fleet.Nodes = append(fleet.Nodes, api.Node{Name: name, At: now, Status: &status, Leases: []api.PodLease{{Lease: held}}})
	}
	to := term.Screen{Width: 80, Now: now}
	for name, c := range map[string]struct {
		lines []string
		whole []string // must be there, perhaps folded
		title []string
	}{
		"leases --ended": {(&Past{PastLeases: api.PastLeases{Leases: []api.PastLease{past}}, GPUs: gpus}).Lines(to), []string{id, "revoked: its time limit of two hours was over, and it did not end by itself"}, []string{"ID", "HOW", "ENDED", "MEMORY GiB"}},
		"leases":         {(&Leases{Leases: api.Leases{Leases: []api.Lease{held}}, GPUs: gpus}).Lines(to), []string{id}, []string{"ID", "UNTIL", "MEMORY GiB"}},
		"status --urls":  {(&NodesStatus{Nodes: fleet}).Lines(to), []string{node, other}, []string{"NODE", "LOAD", "TEMP", "STATE", "MEMORY GiB"}},
		"check": {Check(api.Check{Kind: "quick", Verdict: "failed", Reason: "link failed", Steps: []api.CheckStep{
			{Name: "copy_from_device", Verdict: "could_not_be_asked"}, {Name: "link", Verdict: "failed", Detail: "PCIe generation 4 with 8 lanes; 5 with 16 are possible"},
		}}, to), []string{"PCIe generation 4 with 8 lanes; 5 with 16 are possible"}, nil},
		"leases --urls": {(&NodesLeases{Nodes: fleet}).Lines(to), []string{node, other, id}, []string{"NODE", "LEASE", "MEMORY GiB"}},
		"alerts": {Alerts(api.Alerts{Alerts: []api.Alert{{
			Fingerprint: "1baac5012083a3d6", Alert: "GPUMemoryTemperatureCriticalForTooLong", State: "firing", Severity: gpu.Serious, Since: now, Annotations: map[string]string{"summary": "GPU 0 is at 104 °C, and has been for ten minutes"},
		}}}, to), []string{"GPUMemoryTemperatureCriticalForTooLong", "1baac5012083a3d6"}, []string{"ALERT", "WHAT"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, title := range c.title {
				if !strings.Contains(c.lines[0], title) {
					t.Errorf("%s is not among the columns:\n%s", title, c.lines[0])
				}
			}
			lines := strings.Split(strings.Join(c.lines, "\n"), "\n")
			for _, line := range lines {
				if term.Columns(line) > 80 || strings.Contains(line, "…") && !strings.Contains(c.lines[0], "HOLDER") {
					t.Errorf("cut, or too wide: %s", line)
				}
			}
			for _, want := range c.whole {
				if !folded(lines, want) {
					t.Errorf("%q is not whole:\n%s", want, strings.Join(c.lines, "\n"))
				}
			}
		})
	}
}

// folded reports whether a text stands in one column of lines, perhaps in pieces below
// each other.
func folded(lines []string, want string) bool {
	for i := range lines {
		for at := range []rune(lines[i]) {
			rest := strings.ReplaceAll(want, " ", "")
			for below := i; below < len(lines) && rest != ""; below++ {
				runes := []rune(lines[below])
				if at >= len(runes) {
					break
				}
				piece := strings.ReplaceAll(strings.SplitN(string(runes[at:]), "  ", 2)[0], " ", "")
				switch {
				case piece != "" && strings.HasPrefix(rest, piece):
					rest = rest[len(piece):]
				case strings.HasPrefix(piece, rest):
					rest = ""
				default:
					below = len(lines)
				}
			}
			if rest == "" {
				return true
			}
		}
	}
	return false
}
