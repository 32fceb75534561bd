package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Alerts shows the alerts that are pending or firing.
func Alerts(all api.Alerts, to term.Screen) []string {
	var note []string
	if all.Note != "" {
		note = []string{to.Hang(term.Plain, "", term.Clean(all.Note))}
	}
	if len(all.Alerts) == 0 {
		if note != nil {
			return note
		}
		return []string{"No alert is pending or fires."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "FINGERPRINT"}, {Title: "ALERT", Least: 16, Fold: true}, {Title: "STATE"}, {Title: "SINCE", Right: true}, {Title: "WHAT", Least: 16, Fold: true}, {Title: "CARED FOR BY", Least: 8, Fold: true},
	}}
	for i := range all.Alerts {
		one := &all.Alerts[i]
		t.Add(term.Text(term.Clean(one.Fingerprint)), term.Text(term.Clean(one.Alert)), phase(one), term.Text(words.Age(to.Now.Sub(one.Since))),
			term.Text(term.Clean(said(one))), term.Text(caredFor(one, to.Now)))
	}
	return append(t.Lines(to.Width, to.Painter), note...)
}

// phase returns the state of an alert, in red if it is firing and critical.
func phase(a *api.Alert) term.Cell {
	switch {
	case a.State == "firing" && a.Severity == gpu.Serious:
		return term.Painted("CRITICAL", term.Red)
	case a.State == "firing":
		return term.Painted("firing", term.Yellow)
	}
	return term.Text(term.Clean(a.State))
}

// said returns the text of an alert.
func said(a *api.Alert) string {
	for _, name := range []string{"summary", "description"} {
		if text := a.Annotations[name]; text != "" {
			return text
		}
	}
	return ""
}

// caredFor says who takes care of an alert, and for how long.
func caredFor(a *api.Alert, now time.Time) string {
	k := a.Acknowledged
	if k == nil {
		return "nobody"
	}
	return term.Clean(k.By + " until " + clock(k.Until, now) + given(": ", k.Comment))
}

// Acknowledged says that somebody takes care of alerts, or no longer does.
func Acknowledged(changed api.Alerts, to term.Screen) (lines []string) {
	for _, a := range changed.Alerts {
		if a.Acknowledged == nil {
			lines = append(lines, term.Clean(a.Alert+" is not acknowledged any more."))
			continue
		}
		until := clock(a.Acknowledged.Until, to.Now)
		lines = append(lines, to.Hang(term.Plain, "", term.Clean(fmt.Sprintf("%s is acknowledged until %s, or until it ends. Hooks get nothing more about it.", a.Alert, until))))
	}
	return lines
}

// Hooks shows the hooks and their results in a table.
func Hooks(all api.Hooks, to term.Screen) []string {
	if len(all.Hooks) == 0 {
		return []string{"There are no hooks. The section hooks of berth.yaml makes some."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "NAME", Least: 12, Fold: true}, {Title: "KIND"}, {Title: "SEVERITY"}, {Title: "CODES", Least: 12, Fold: true}, {Title: "WAITING", Right: true}, {Title: "LAST DELIVERY", Least: 20, Fold: true},
	}}
	for _, h := range all.Hooks {
		codes := "all"
		if len(h.Codes) > 0 {
			codes = strings.Join(h.Codes, ", ")
		}
		t.Add(term.Text(term.Clean(h.Name)), term.Text(term.Clean(h.Kind)), term.Text(term.Clean(string(h.Severity))), term.Text(term.Clean(codes)),
			term.Text(strconv.Itoa(h.Waiting)), lastDelivery(h.Last, to.Now))
	}
	return t.Lines(to.Width, to.Painter)
}

// lastDelivery describes the result of the last attempt, in red if it failed.
func lastDelivery(d *api.HookDelivery, now time.Time) term.Cell {
	if d == nil {
		return term.Text("none")
	}
	text := term.Clean(fmt.Sprintf("%s %s, %s ago", d.Code, d.Status, words.Age(now.Sub(d.Time))))
	if d.Status == "delivered" {
		return term.Text(text)
	}
	return term.Painted(text+": "+term.Clean(d.Error), term.Red)
}

// HookTest describes the result of the test of a hook.
func HookTest(t api.HookTest, to term.Screen) string {
	took := time.Duration(t.TookSeconds * float64(time.Second)).Round(time.Millisecond)
	if t.Status == "delivered" {
		return to.Hang(term.Plain, "", term.Clean(fmt.Sprintf("%s got a test in %v.", t.Hook, took)))
	}
	return to.Hang(term.Red, "✗ ", term.Clean(fmt.Sprintf("%s did not get a test, after %v: %s", t.Hook, took, t.Error)))
}
