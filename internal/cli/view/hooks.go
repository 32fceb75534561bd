package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Hooks shows the hooks and their results in a table.
func Hooks(all api.Hooks, to term.Screen) []string {
	if len(all.Hooks) == 0 {
		return []string{"There are no hooks. The section hooks of berth.yaml makes some."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "NAME", Least: 8}, {Title: "KIND"}, {Title: "SEVERITY"}, {Title: "CODES", Least: 12, Fold: true}, {Title: "WAITING", Right: true}, {Title: "LAST DELIVERY", Least: 20, Fold: true},
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
