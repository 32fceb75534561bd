package view

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Event writes one event, on several lines if it is too long. The sentence names the
// device itself.
func Event(e gpu.Event, to term.Screen) string {
	mark, c := "  ", term.Plain
	switch e.Severity {
	case gpu.Warning:
		mark, c = "! ", term.Yellow
	case gpu.Serious:
		mark, c = "✗ ", term.Red
	}
	text := string(e.Code) + ": " + term.Clean(e.Text)
	lease, by := "", ""
	if e.Lease != "" {
		lease = "lease " + term.Clean(e.Lease)
	}
	if e.By != (gpu.By{}) {
		by = "by " + term.Clean(e.By.String())
	}
	if about := Join(lease, by); about != "" {
		text += " (" + about + ")"
	}
	return to.Hang(c, e.Time.In(to.Now.Location()).Format("Jan _2 15:04:05 ")+mark, text)
}
