package view

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

func TestAccessViews(t *testing.T) {
	compareViews(t, map[string]func(to term.Screen) []string{
		"whoami": func(to term.Screen) []string {
			return Whoami(api.Whoami{
				User: "ann\x1b[2J", UID: gpu.Some(1000), Role: "operator", Door: "socket", Groups: []string{"gpu-ops", "lab"},
				Why: []string{"the configuration gives it to the group gpu-ops", "the group lab would give viewer, which is less than the role of the group gpu-ops"},
			}, to)
		},
		"whoami-token": func(to term.Screen) []string {
			return Whoami(api.Whoami{User: "token:ci", Role: "user", Door: "tcp", Token: "ci", Service: "ci", Why: []string{"the token gives it"}}, to)
		},
		"quota": (&Quota{api.Quota{User: "ann", Role: "user", Service: "default", Limits: []api.QuotaLimit{
			{Name: "memory_mb", Limit: gpu.Some(81920.0), Used: gpu.Some(40960.0), Source: "users.ann"},
			{Name: "memory_mb", Limit: gpu.Some(163840.0), Used: gpu.Some(163840.0), Group: "lab", Source: "groups.lab.together"},
			{Name: "slots", Used: gpu.Some(2.0), Source: "default"},
			{Name: "leases", Limit: gpu.Some(2.0), Used: gpu.Some(3.0), Source: "users.default"},
			{Name: "waiting", Limit: gpu.Some(0.0), Used: gpu.Some(0.0), Source: "users.default"},
			{Name: "longest_wait_seconds", Limit: gpu.Some(0.0), Source: "users.default"},
			{Name: "longest_time_seconds", Limit: gpu.Some(7200.0), Source: "groups.lab"},
			{Name: "calls_per_second", Limit: gpu.Some(2.5), Source: "groups.lab"},
			{Name: "named_leases", Limit: gpu.Some(0.0), Source: "groups.lab"},
			{Name: "named_leases", Source: "default"},
			{Name: "of_tomorrow", Limit: gpu.Some(1.0), Source: "default"},
		}}}).Lines,
		"quota-none": (&Quota{api.Quota{User: "root", Role: "admin"}}).Lines,
		"tokens": func(to term.Screen) []string {
			return Tokens(api.Tokens{Tokens: []api.Token{
				{Name: "daemon", Role: "admin", Used: now.Add(-time.Minute)},
				{Name: "grafana\x1b[31m", Role: "scraper", Created: now.Add(-80 * 24 * time.Hour), By: "root", Expires: now.Add(10 * 24 * time.Hour)},
				{Name: "ci", Role: "user", Service: "embedder", Created: now.Add(-91 * 24 * time.Hour), By: "ann", Expires: now.Add(-24 * time.Hour), Used: now.Add(-25 * time.Hour)},
			}}, to)
		},
		"tokens-bound": func(to term.Screen) []string {
			return Tokens(api.Tokens{Tokens: []api.Token{
				{Name: "kubernetes", Role: "operator", Created: now.Add(-80 * 24 * time.Hour), By: "root", Expires: now.Add(10 * 24 * time.Hour), Used: now.Add(-25 * time.Hour)},
				{Name: "nightly-trainer", Role: "operator", As: "ada-lovelace\x1b[31m", Created: now.Add(-91 * 24 * time.Hour), By: "administrator", Expires: now.Add(100 * 24 * time.Hour), Used: now.Add(-25 * time.Hour)},
			}}, to)
		},
		"audit": func(to term.Screen) []string {
			ann := api.AuditActor{User: "ann", UID: gpu.Some(1000), Role: "operator", Door: "socket"}
			var lines []string
			for _, e := range []api.AuditEntry{
				{Who: ann, What: "release", Object: api.AuditObject{Kind: "lease", ID: "train\x1b[2J", Owner: "bob"}, Outcome: "done", Why: "released by an operator"},
				{Who: api.AuditActor{User: "token:ci", Token: "ci", Role: "user", Door: "tcp", Address: "10.0.0.7"}, What: "configure", Object: api.AuditObject{Kind: "route", ID: "PUT /api/gpu/config"}, Outcome: "refused", Why: "forbidden: that needs the role operator"},
				{Who: api.AuditActor{User: "token", Token: "daemon", Role: "admin", Door: "tcp"}, What: "configure", Object: api.AuditObject{Kind: "settings"}, Outcome: "failed",
					Before: map[string]string{"gpu.temp_optimal": "65", "services.x.priority": "3"}, After: map[string]string{"gpu.temp_optimal": "60", "hooks.h.url": ""}},
				{Who: api.AuditActor{Door: "daemon"}, What: "kill", Object: api.AuditObject{Kind: "process", ID: "4711", Owner: "eve"}, Outcome: "done", Why: "it used GPU 0 without a lease"},
			} {
				e.Time = now
				lines = append(lines, AuditEntry(e, to))
			}
			return lines
		},
		"audit-verdict": func(to term.Screen) []string {
			whole := api.AuditVerdict{Sound: true, Entries: 12, First: 1, Last: 12, Files: []string{"audit.log"}, Marked: 12}
			broken := api.AuditVerdict{Entries: 1, First: 3, Last: 3, Files: []string{"a", "audit.log"}, Problems: []api.AuditProblem{
				{File: "audit.log", Line: 3, Seq: 3, Text: "the line before was changed or removed"},
				{Text: "the journal names entry 9, which is not there: the log was cut"},
			}}
			return append(AuditVerdict(whole, to), AuditVerdict(broken, to)...)
		},
		"sessions": func(to term.Screen) []string {
			return append(Sessions(api.Sessions{Sessions: []api.Session{
				{ID: "34c9da2fcf7dd83d", User: "ann", UID: gpu.Some(1000), Role: "operator", Begun: now.Add(-26 * time.Hour), Used: now.Add(-time.Minute), Expires: now.Add(12 * time.Hour)},
				{ID: "00ff", User: "token:ops\x1b[2J", Token: "ops\x1b[2J", Role: "admin", Begun: now.Add(-time.Hour), Used: now.Add(-time.Hour), Expires: now.Add(11 * time.Hour)},
			}}, to), SessionEnded(api.Session{ID: "00ff\x1b[2J", User: "ann"}, to)...)
		},
		"sessions-none": func(to term.Screen) []string { return Sessions(api.Sessions{}, to) },
		"tokens-none":   func(to term.Screen) []string { return Tokens(api.Tokens{}, to) },
		"token": func(to term.Screen) []string {
			k := api.Token{Name: "ci", Role: "user", Service: "embedder", Expires: now.Add(time.Hour)}
			return append([]string{TokenCreated(k, to), TokenCreated(api.Token{Name: "g", Role: "scraper"}, to)}, TokenRevoked(k, to)...)
		},
	})
}
