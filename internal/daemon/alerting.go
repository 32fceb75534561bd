package daemon

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/deploy/prometheus"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/text/words"
)

// settleAlerts is the least time between the start, or the end of a pause of the past, and
// the first evaluation of a rule: by then the store has samples of this daemon.
const settleAlerts = 15 * time.Second

// openAlerts opens the alerts, including those from before the restart. Run evaluates
// their rules. A daemon that only looks has no alerts. If a file of rules cannot be read,
// the daemon goes on without these rules until it can; if others can change the file,
// openAlerts returns an error.
func (d *Daemon) openAlerts(o Options) error {
	if o.ReadOnly {
		return nil
	}
	d.alerts = alert.New(alert.Options{
		Ask: d.askNow, Store: d.past, Event: d.publish, Record: d.recordAcknowledgement, Settle: settleAlerts,
		Known: d.known, Told: d.told, File: o.state(inventory.Alerts), Tell: func(err error) { d.log.Warn(err.Error()) },
	})
	d.tellDamage(d.alerts.Recall())
	groups, err := rulesOf(o.Settings.Config, d.warn)
	if errors.Is(err, file.ErrOthers) {
		return fmt.Errorf("read the rules (alerts.rules): %w", err)
	}
	if err != nil {
		d.tellRules(err, "Only the shipped rules are evaluated until they can be read: berth tries again every minute.")
		shipped := o.Settings.Config
		shipped.Alerts.Rules = nil
		groups, _ = rulesOf(shipped, d.warn) // a test parses the shipped rules
		d.alerts.ConfigureSome(groups)
		d.run("rules", d.awaitRules)
	} else {
		d.alerts.Configure(groups)
	}
	d.run("alerts", d.alerts.Run)
	return nil
}

// awaitRules reads the rules again every minute until it can, or until somebody else has
// put rules into force.
func (d *Daemon) awaitRules(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for d.alerts.Lacks() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		c := d.settings.load().Config
		hold, err := d.readRules(config.Config{}, c, false) // without the lock: a file may be where a read hangs
		if err != nil {
			continue
		}
		d.settings.changing.Lock()
		if d.alerts.Lacks() && sameRules(c, d.settings.load().Config) {
			hold()
		}
		d.settings.changing.Unlock()
	}
}

// sameRules reports whether two configurations name the same rules.
func sameRules(a, b config.Config) bool {
	return reflect.DeepEqual(a.Alerts, b.Alerts) && a.Past.Store == b.Past.Store
}

// told reports whether the event about the state of a device has said what an alert with
// these causes says.
func (d *Daemon) told(uuid, causes string, severity gpu.Severity) bool {
	r, known := d.monitor.Find(uuid)
	return known && r.Device.UUID == uuid && slices.Contains(strings.Fields(causes), r.StateCause) && monitor.Severity(r.State).AtLeast(severity)
}

// askNow answers the query of a rule, which may see everything. It returns an error while
// the past lacks the present: what is not there would look as if it were over.
func (d *Daemon) askNow(ctx context.Context, expr string, at time.Time) (series.Answer, error) {
	now := time.Now()
	c, err := d.past.Cost(), d.pastBehind(now, soonBehind)
	if c.Paused || now.Sub(c.Resumed) < settleAlerts {
		err = errors.New("the past pauses, or has just paused (see the events with code past)")
	}
	if err != nil {
		return series.Answer{}, &series.Error{Fault: series.Down, Text: err.Error()}
	}
	return d.engine.Instant(ctx, expr, at, series.Options{})
}

// evaluated returns when each group of rules was last evaluated, for the page of metrics.
// If groups in several files have the same name, the one that has waited longest counts.
func (d *Daemon) evaluated() map[string]time.Time {
	last := map[string]time.Time{}
	for _, e := range d.alerts.Evaluations() {
		if before, twice := last[e.Group]; !e.Last.IsZero() && (!twice || e.Last.Before(before)) {
			last[e.Group] = e.Last
		}
	}
	return last
}

// rulesOf reads the rules that a configuration names. It returns none if rules are
// switched off, or if there is no past to evaluate them on.
func rulesOf(c config.Config, warn func(string)) ([]alert.Group, error) {
	if whyNoAlerts(c) != "" {
		return nil, nil
	}
	groups, err := alert.Load(c.Alerts.Rules, c.Alerts.Interval, warn)
	if err != nil || c.Alerts.Shipped == "off" {
		return groups, err
	}
	shipped, err := alert.Parse(prometheus.Name, []byte(prometheus.Rules), c.Alerts.Interval)
	shipped = slices.DeleteFunc(shipped, func(g alert.Group) bool { return g.Name == prometheus.Outside })
	return append(shipped, groups...), err
}

// whyNoAlerts returns why no rules are evaluated, or "" if they are.
func whyNoAlerts(c config.Config) string {
	switch {
	case c.Alerts.Evaluate == "off":
		return "alerts.evaluate is off: berth evaluates no rules."
	case c.Past.Store == "off":
		return "past is off: there is nothing that rules could be evaluated on."
	}
	return ""
}

// noAlerts returns why this daemon evaluates no rules, or "" if it does.
func (d *Daemon) noAlerts() string {
	if d.alerts == nil {
		return "This process only looks, and evaluates no rules."
	}
	return whyNoAlerts(d.settings.load().Config)
}

// readRules reads the rules that a new configuration names, if it differs from before or
// again is true. It returns a function that puts them into force. If there is a mistake,
// nothing changes. A daemon that only looks reads none.
func (d *Daemon) readRules(before, after config.Config, again bool) (hold func(), err error) {
	if d.alerts == nil || !again && sameRules(before, after) {
		return func() {}, nil
	}
	groups, err := rulesOf(after, d.warn)
	if err != nil {
		if again {
			d.tellRules(err, "The rules before it stay.")
		}
		return nil, err
	}
	return func() {
		if !d.alerts.Configure(groups) {
			return
		}
		rules := 0
		for _, g := range groups {
			rules += len(g.Rules)
		}
		d.publish(gpu.Event{
			Time: time.Now(), Code: gpu.EventRules, Severity: gpu.Note,
			Text: fmt.Sprintf("The alert rules were read: %s with %s", words.Count(len(groups), "group"), words.Count(rules, "rule")),
			Data: map[string]any{"groups": len(groups), "rules": rules},
		})
	}, nil
}

// tellRules publishes what is wrong with files of rules, and which rules are in force.
func (d *Daemon) tellRules(err error, so string) {
	e := gpu.Event{
		Time: time.Now(), Code: gpu.EventRules, Severity: gpu.Warning, Text: fmt.Sprintf("Alert rules cannot be read: %v. %s", err, so),
		Public: "Alert rules cannot be read. " + so, Data: map[string]any{},
	}
	if first := (*alert.FileError)(nil); errors.As(err, &first) {
		e.Data["file"], e.Data["line"] = first.File, first.Line
	}
	d.publish(e)
}

// recordAcknowledgement records in the audit log that somebody acknowledged an alert, or
// took that back.
func (d *Daemon) recordAcknowledgement(by access.Actor, s *alert.State, a *alert.Acknowledgement) error {
	entry := api.AuditEntry{
		Who: audit.Who(by), What: access.Acknowledge.String(), Object: api.AuditObject{Kind: "alert", ID: s.Fingerprint}, Outcome: audit.Done,
		After: map[string]string{"alert": s.Name(), "acknowledged": "no"},
	}
	if a != nil {
		entry.After["acknowledged"], entry.Why = "until "+a.Until.UTC().Format(time.RFC3339), a.Comment
	}
	return d.audit.Record(entry)
}
