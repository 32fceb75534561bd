package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/query"
	"github.com/berth-gpu/berth/internal/history/series"
)

// rules has one alert for each device, which fires at once.
const alwaysHot = `groups:
- name: mine
  interval: 1s
  rules:
  - alert: AlwaysHot
    expr: gpu_temperature_celsius > 0
    labels: {severity: critical}
    annotations: {summary: "GPU {{ $labels.index }} is warm"}
`

// waitFor returns the first event that fits.
func waitFor(t *testing.T, c *client.Client, fits func(gpu.Event) bool) gpu.Event {
	t.Helper()
	for e, err := range c.Events(t.Context(), 0, true) {
		if err != nil {
			t.Fatal(err)
		}
		if fits(e) {
			return e
		}
	}
	t.Fatal("the stream has ended")
	return gpu.Event{}
}

// A rule of the user's own fires on what the daemon measures, is acknowledged,
// and goes on after a restart without another event.
func TestAlertsFromTheRuleToTheEvent(t *testing.T) {
	p := newPlace(t, "sim:1")
	rules := filepath.Join(p.dir, "rules.yml")
	p.file = filepath.Join(p.dir, "berth.yaml")
	for path, text := range map[string]string{rules: alwaysHot, p.file: fmt.Sprintf("alerts:\n  rules: [%s]\n", rules)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, stop := p.start(t)
	fired := waitFor(t, c, func(e gpu.Event) bool { return e.Code == gpu.EventAlert })
	if fired.GPU != "SIM-h200-0" || fired.Severity != gpu.Serious || fired.Text != "AlwaysHot: GPU 0 is warm" {
		t.Errorf("it fires as %+v", fired)
	}
	list, err := c.Alerts(t.Context())
	if err != nil || len(list.Alerts) != 1 || list.Alerts[0].State != "firing" || list.Note != "" {
		t.Fatalf("%+v, %v", list, err)
	}
	mark := list.Alerts[0].Fingerprint
	if _, err := c.Acknowledge(t.Context(), "0123456789abcdef", api.AcknowledgeRequest{Hours: 1}); problemCode(err) != "unknown_alert" {
		t.Errorf("an alert that there is not: %v", err)
	}
	done, err := c.Acknowledge(t.Context(), mark, api.AcknowledgeRequest{Hours: 2, Comment: "a new fan comes"})
	if err != nil || done.Acknowledged == nil || done.Acknowledged.Comment != "a new fan comes" {
		t.Fatalf("%+v, %v", done, err)
	}
	log, err := c.Audit(t.Context(), client.AuditQuery{What: "acknowledge"})
	if err != nil || len(log.Entries) != 1 || log.Entries[0].Object.ID != mark || log.Entries[0].Why != "a new fan comes" {
		t.Errorf("the audit log has %+v, %v", log.Entries, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}

	c, _ = p.start(t)
	list, err = c.Alerts(t.Context())
	if err != nil || len(list.Alerts) != 1 || list.Alerts[0].Acknowledged == nil || list.Alerts[0].State != "firing" {
		t.Errorf("after the restart: %+v, %v", list, err)
	}

	if err := os.WriteFile(rules, []byte(alwaysHot+"  - alert: Broken\n    expr: (\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReloadConfig(t.Context()); err == nil || !strings.Contains(err.Error(), rules+":10: ") {
		t.Errorf("a mistake in a file: %v", err)
	}
	told := waitFor(t, c, func(e gpu.Event) bool { return e.Code == gpu.EventRules })
	if told.Severity != gpu.Warning || told.Data["file"] != rules || told.Data["line"] != 10.0 || !strings.Contains(told.Text, "The rules before it stay.") {
		t.Errorf("it is told as %+v", told)
	}
	if list, err := c.Alerts(t.Context()); err != nil || len(list.Alerts) != 1 {
		t.Errorf("after the mistake: %+v, %v", list, err)
	}
	if _, err := c.SetConfig(t.Context(), []byte(`{"alerts": {"rules": ["`+rules+`"], "interval": 5}}`)); err == nil || !strings.Contains(err.Error(), rules+":10: ") {
		t.Errorf("a change with a mistake: %v", err)
	}
	if _, err := c.SetConfig(t.Context(), []byte(`{"alerts": {"evaluate": "off"}}`)); err != nil {
		t.Fatal(err)
	}
	list, err = c.Alerts(t.Context())
	if err != nil || len(list.Alerts) != 0 || !strings.Contains(list.Note, "alerts.evaluate is off") {
		t.Errorf("switched off: %+v, %v", list, err)
	}
	waitFor(t, c, func(e gpu.Event) bool { return e.Code == gpu.EventAlertResolved })
}

// Rules that cannot be read at the start are put into force when they can be.
func TestRulesThatCannotBeReadAtTheStart(t *testing.T) {
	p := newPlace(t, "sim:1")
	rules := filepath.Join(p.dir, "rules.yml")
	p.file = filepath.Join(p.dir, "berth.yaml")
	if err := os.WriteFile(p.file, fmt.Appendf(nil, "alerts:\n  rules: [%s]\n", rules), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := p.open(t, ctx)
		done := make(chan struct{})
		go func() { defer close(done); d.awaitRules(ctx) }()
		time.Sleep(time.Hour + time.Second) // not when it looks: it would find a file that is half written
		if err := os.WriteFile(rules, []byte(alwaysHot), 0o600); err != nil {
			t.Fatal(err)
		}
		d.settings.changing.Lock() // does not keep it from reading, and reading keeps nobody from that
		time.Sleep(2 * time.Minute)
		if err := os.Remove(rules); err != nil {
			t.Fatal(err)
		}
		d.settings.changing.Unlock()
		synctest.Wait()
		if list := d.alerts.Groups(); !slices.ContainsFunc(list, func(g alert.GroupState) bool { return g.Name == "mine" }) {
			t.Errorf("%d groups are evaluated, and the one of the file is not", len(list))
		}
		cancel()
		<-done
	})
}

// While the past pauses, and until it has everything again, rules get no answer: an empty
// one would end every alert.
func TestRulesGetNoAnswerFromAPastThatPauses(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		free.Store(1 << 40)
		d := &Daemon{}
		d.past = past.New(dir, past.Options{
			Settings: past.Settings{Recent: time.Hour, Long: time.Hour, Size: 100}, Free: func(string) (int64, error) { return free.Load(), nil },
		})
		defer d.past.Close()
		d.engine = query.New(d.past.Queryable(), query.Limits{})
		up := func() {
			if err := d.past.Write(time.Now(), []series.Sample{{Labels: labels.FromStrings(labels.MetricName, "up"), Value: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(when string, fault series.Fault) {
			t.Helper()
			_, err := d.askNow(t.Context(), "up", time.Now())
			known := &series.Error{}
			if errors.As(err, &known); known.Fault != fault {
				t.Errorf("%s: %v", when, err)
			}
		}
		up()
		expect("while it stores", "")
		free.Store(0)
		d.past.Tidy(time.Now())
		expect("while it pauses", series.Down)
		free.Store(1 << 40)
		time.Sleep(time.Minute)
		up()
		expect("just after the pause", series.Down)
		time.Sleep(settleAlerts)
		expect("after the pause", "")
	})
}

// problemCode returns the code of the problem that an error is.
func problemCode(err error) string {
	if p := (*api.Problem)(nil); errors.As(err, &p) {
		return p.Code
	}
	return ""
}

func TestRulesOf(t *testing.T) {
	c := config.Default()
	groups, err := rulesOf(c, nil)
	if err != nil || len(groups) != 4 || groups[0].Interval != c.Alerts.Interval {
		t.Errorf("shipped: %v, %v", groups, err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert == "BerthDown" {
				t.Error("the daemon asks itself whether it is there")
			}
		}
	}
	c.Alerts.Shipped = "off"
	if groups, err := rulesOf(c, nil); err != nil || len(groups) != 0 {
		t.Errorf("without the shipped ones: %v, %v", groups, err)
	}
	c.Alerts.Rules = []string{"/nonexistent/rules.yml"}
	if _, err := rulesOf(c, nil); err == nil || !strings.Contains(err.Error(), "/nonexistent/rules.yml: cannot read the file") {
		t.Error(err)
	}
	c.Past.Store = "off"
	if groups, err := rulesOf(c, nil); err != nil || groups != nil {
		t.Errorf("without a past: %v, %v", groups, err)
	}
}

// A token must not make the daemon read a file, whose text a refusal may show.
func TestATokenNamesNoFiles(t *testing.T) {
	before, after := &config.Settings{Config: config.Default()}, &config.Settings{Config: config.Default()}
	after.Config.Alerts.Rules = []string{"/etc/shadow"}
	token := access.Actor{User: "token:ci", UID: access.NoUID, Token: "ci", Door: access.TCP, Role: access.Admin}
	if err := mayRun(token, before, after); err == nil || !strings.Contains(err.Error(), "alerts.rules") {
		t.Errorf("with a token: %v", err)
	}
	if err := mayRun(access.Actor{User: "root", Door: access.Socket, Role: access.Admin}, before, after); err != nil {
		t.Errorf("as root: %v", err)
	}
}
