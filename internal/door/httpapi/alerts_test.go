package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/hooks"
	"github.com/berth-gpu/berth/internal/lease"
)

// alarmed is a door with three alerts, of which two name somebody.
func alarmed(t *testing.T) *door {
	t.Helper()
	d := open(t, "1")
	file := filepath.Join(t.TempDir(), "alerts.json")
	now := time.Now().Format(time.RFC3339Nano)
	text := fmt.Sprintf(`{"version":1,"seen":%q,"alerts":[
		{"group":"f;g","rule":0,"labels":{"alertname":"Hot","gpu":"SIM-h200-0","severity":"critical"},"annotations":{"summary":"it is hot"},"firing":true,"value":81,"active_at":%q,"fired_at":%q},
		{"group":"f;g","rule":1,"labels":{"alertname":"Big","lease":"ada/train"},"firing":true,"value":"NaN","active_at":%q,"fired_at":%q},
		{"group":"f;g","rule":2,"labels":{"alertname":"Odd"},"annotations":{"user":"ada"},"firing":true,"value":1,"active_at":%q,"fired_at":%q}]}`, now, now, now, now, now, now, now)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Alerts = alert.New(alert.Options{File: file, Event: d.events.Publish})
	if damage := d.Alerts.Recall(); damage != nil {
		t.Fatal(damage)
	}
	d.Alerts.Configure([]alert.Group{{Name: "g", File: "f", Interval: time.Hour, Rules: []alert.Rule{{Alert: "Hot"}, {Alert: "Big"}, {Alert: "Odd"}}}})
	return d
}

// as asks as somebody with a role.
func (d *door) as(role access.Role, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r = r.WithContext(withIdentity(r.Context(), holding(lease.Holder{UID: 1000, User: "olga"}, role)))
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

func TestAlerts(t *testing.T) {
	d := alarmed(t)
	all := decode[api.Alerts](t, d.as(access.User, "GET", "/api/alerts", ""))
	if len(all.Alerts) != 3 || all.Alerts[0].Alert != "Hot" || all.Alerts[0].Severity != gpu.Serious || *all.Alerts[0].Value != 81 || all.Alerts[1].Value != nil {
		t.Errorf("a user sees %+v", all.Alerts)
	}
	few := d.as(access.Viewer, "GET", "/api/alerts", "")
	if strings.Contains(few.Body.String(), "ada") || len(decode[api.Alerts](t, few).Alerts) != 1 {
		t.Errorf("a viewer sees %s", few.Body)
	}
	path := "/api/alerts/" + all.Alerts[0].Fingerprint + "/acknowledge"
	if w := d.as(access.User, "POST", path, `{}`); w.Code != http.StatusForbidden {
		t.Errorf("a user acknowledges: %d %s", w.Code, w.Body)
	}
	if w := d.as(access.Operator, "DELETE", path, ""); decode[api.Problem](t, w).Code != "not_acknowledged" {
		t.Errorf("nothing to take back: %d %s", w.Code, w.Body)
	}
	for body, field := range map[string]string{`{"hours": 0}`: "hours", `{"hours": 721}`: "hours", `{"hours": "soon"}`: "hours", `{"comment": "` + strings.Repeat("x", 201) + `"}`: "comment", `{"until": 1}`: "until"} {
		if w := d.as(access.Operator, "POST", path, body); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), field) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := d.as(access.Operator, "POST", "/api/alerts/nothing/acknowledge", `{}`); w.Code != http.StatusNotFound || decode[api.Problem](t, w).Code != "unknown_alert" {
		t.Errorf("an alert that there is not: %d %s", w.Code, w.Body)
	}
	got := decode[api.Alert](t, d.as(access.Operator, "POST", path, `{"comment": "mine\u001b[2J"}`))
	if a := got.Acknowledged; a == nil || a.By != "olga" || a.Until.Sub(a.At).Round(time.Minute) != 4*time.Hour || a.Comment != "mine?[2J" {
		t.Errorf("acknowledged: %+v", got.Acknowledged)
	}
	hidden := decode[api.Alerts](t, d.as(access.Viewer, "GET", "/api/alerts", "")).Alerts[0]
	if a := hidden.Acknowledged; a == nil || a.By != anotherUser || a.Comment != "" {
		t.Errorf("a viewer sees %+v", a)
	}
	if got := decode[api.Alert](t, d.as(access.Operator, "DELETE", path, "")); got.Acknowledged != nil {
		t.Errorf("taken back: %+v", got.Acknowledged)
	}
}

// An event about an alert shows no names to viewers.
func TestAlertsInEvents(t *testing.T) {
	e := gpu.Event{
		Code: gpu.EventAlert, User: "ada", Lease: "train", Text: "Big: ada has much", Data: map[string]any{
			"alert": "Big", "labels": map[string]string{"user": "ada"}, "annotations": map[string]string{"summary": "ada has much"}, "value": 1.0,
		},
	}
	if got := shown(e, othersView); got.Text != e.Text || got.Data["labels"] == nil {
		t.Errorf("another user sees %+v", got)
	}
	if got := shown(e, viewerView); strings.Contains(fmt.Sprint(got), "ada") || got.Data["alert"] != "Big" {
		t.Errorf("a viewer sees %+v", got)
	}
	e.User, e.Lease, e.Public = "", "", "Big fires"
	if got := shown(e, viewerView); strings.Contains(fmt.Sprint(got), "ada") || got.Text != "Big fires" {
		t.Errorf("a viewer sees %+v of one that names a service", got)
	}
}

func TestHooks(t *testing.T) {
	d := open(t, "1")
	if w := d.as(access.Operator, "GET", "/api/hooks", ""); strings.TrimSpace(w.Body.String()) != `{"hooks":[]}` {
		t.Errorf("without hooks: %s", w.Body)
	}
	d.Hooks = hooks.New(hooks.Options{
		Hooks: []hooks.Hook{
			{Name: "chat", URL: "https://example.com/zqaddress", Secret: "zqsecret", Severity: gpu.Warning, Timeout: time.Minute},
			{Name: "mail", Command: []string{"/bin/zqcommand"}, Codes: []gpu.EventCode{gpu.EventCritical}, Severity: gpu.Note, Timeout: time.Minute},
		},
		Call: func(h hooks.Hook) hooks.Call {
			return func(_ context.Context, e gpu.Event, _ []byte) error {
				if h.Name == "mail" {
					return errors.New("the command failed")
				}
				return nil
			}
		},
		Count: func(string, hooks.Status) {},
	})
	for _, role := range []access.Role{access.Viewer, access.User} {
		if w := d.as(role, "GET", "/api/hooks", ""); w.Code != http.StatusForbidden {
			t.Errorf("%v sees hooks: %d", role, w.Code)
		}
	}
	if w := d.as(access.Operator, "POST", "/api/hooks/chat/test", ""); w.Code != http.StatusForbidden {
		t.Errorf("an operator tests a hook: %d", w.Code)
	}
	if w := d.as(access.Admin, "POST", "/api/hooks/nobody/test", ""); w.Code != http.StatusNotFound || decode[api.Problem](t, w).Code != "unknown_hook" {
		t.Errorf("a hook that there is not: %d %s", w.Code, w.Body)
	}
	if got := decode[api.HookTest](t, d.as(access.Admin, "POST", "/api/hooks/chat/test", "")); got.Status != "delivered" || got.Kind != "url" || got.Hook != "chat" || got.Error != "" {
		t.Errorf("chat: %+v", got)
	}
	if got := decode[api.HookTest](t, d.as(access.Admin, "POST", "/api/hooks/mail/test", "")); got.Status != "failed" || got.Kind != "command" || got.Error != "the command failed" {
		t.Errorf("mail: %+v", got)
	}
	w := d.as(access.Operator, "GET", "/api/hooks", "")
	list := decode[api.Hooks](t, w).Hooks
	if len(list) != 2 || list[0].Last == nil || list[0].Last.Status != "delivered" || list[1].Last.Error == "" || list[1].Codes[0] != "critical" || strings.Contains(w.Body.String(), "zq") {
		t.Errorf("hooks: %s", w.Body)
	}
}
