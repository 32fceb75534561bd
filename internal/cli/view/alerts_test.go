package view

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

func TestAlertViews(t *testing.T) {
	cared := api.Acknowledgement{By: "ann\x1b[2J", At: now, Until: now.Add(2 * time.Hour), Comment: "a new fan comes"}
	late := cared
	late.Until = now.Add(48 * time.Hour)
	hot := api.Alert{
		Fingerprint: "1baac5012083a3d6", Alert: "GPUTemperatureHigh", Severity: gpu.Serious, State: "firing", Since: now.Add(-7 * time.Minute),
		Annotations: map[string]string{"summary": "GPU 0 of node7 is at 86 °C", "description": "long"},
	}
	owned := hot
	owned.Acknowledged = &cared
	alerts := func(all api.Alerts) func(term.Screen) []string {
		return func(to term.Screen) []string { return Alerts(all, to) }
	}
	compareViews(t, map[string]func(to term.Screen) []string{
		"alerts": alerts(api.Alerts{Alerts: []api.Alert{
			hot,
			{Fingerprint: "2baac5012083a3d6", Alert: "GPUQueueWaiting", Severity: gpu.Warning, State: "firing", Since: now.Add(-3 * time.Hour), Annotations: map[string]string{"description": "eve\x1b[31m waits"}, Acknowledged: &cared},
			{Fingerprint: "3baac5012083a3d6", Alert: "Mine", Severity: gpu.Warning, State: "pending", Since: now.Add(-time.Second)},
		}}),
		"alerts-none": alerts(api.Alerts{}),
		"alerts-off":  alerts(api.Alerts{Note: "alerts.evaluate is off: berth evaluates no rules."}),
		"alerts-acknowledged": func(to term.Screen) []string {
			other := owned
			other.Acknowledged = &late
			return Acknowledged(api.Alerts{Alerts: []api.Alert{owned, other, hot}}, to)
		},
		"hooks": func(to term.Screen) []string {
			return Hooks(api.Hooks{Hooks: []api.Hook{
				{Name: "mail", Kind: "command", Severity: gpu.Warning, Codes: []string{"device_lost", "device_quarantined", "lease_revoked"}},
				{Name: "pager\x1b[2J", Kind: "url", Severity: gpu.Serious, Waiting: 3, Last: &api.HookDelivery{Time: now.Add(-time.Minute), Code: gpu.EventCritical, Status: "retried", Error: "the answer was 503"}},
				{Name: "chat", Kind: "url", Severity: gpu.Note, Last: &api.HookDelivery{Time: now.Add(-time.Hour), Code: gpu.EventAlert, Status: "delivered"}},
			}}, to)
		},
		"hooks-none": func(to term.Screen) []string { return Hooks(api.Hooks{}, to) },
		"hooks-test": func(to term.Screen) []string {
			well := api.HookTest{Hook: "chat", Kind: "url", HookDelivery: api.HookDelivery{Status: "delivered", TookSeconds: 0.0123}}
			bad := api.HookTest{Hook: "pager", Kind: "url", HookDelivery: api.HookDelivery{Status: "failed", TookSeconds: 2, Error: "dial tcp: lookup example.com: no such host"}}
			return []string{HookTest(well, to), HookTest(bad, to)}
		},
	})
}
