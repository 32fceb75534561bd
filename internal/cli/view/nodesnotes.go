package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Silence says that a machine does not answer, or has not for a while. It returns "" if
// the machine answers. The result bad reports whether nothing is known about the
// machine.
func Silence(n api.Node, now time.Time) (text string, bad bool) {
	name, late := Short(n.Name), fleet.Late(n, now)
	switch {
	case n.Down != "" && n.Status == nil:
		return name + ": " + sentence(n.Down), true
	case n.Down != "":
		at := n.At.In(now.Location()).Format(time.TimeOnly)
		return fmt.Sprintf("%s: %s The rest is from %s, %s ago.", name, sentence(n.Down), at, words.Age(now.Sub(n.At))), false
	case late > 0:
		return fmt.Sprintf("%s: its driver last heard from the daemon %s ago.", name, words.Age(late)), false
	}
	return "", false
}

// Complaint says what is wrong with a device. It returns "" if nothing is, or if the
// answer is old.
func Complaint(d fleet.GPU, now time.Time) (text string, bad bool) {
	text = fmt.Sprintf("%s GPU %d ", Short(d.Node), d.Device.Index)
	switch {
	case d.Old || d.Well() && d.Drain == nil:
		return "", false
	case d.Well():
		text += "is drained"
		if d.Drain.By != "" {
			text += " by " + Short(d.Drain.By)
		}
		return text + because(d.Drain.Reason), false
	}
	text += DeviceState(d)
	if !d.Since.IsZero() {
		text += " for " + words.Age(now.Sub(d.Since))
	}
	if d.Health == gpu.Unhealthy && d.State != gpu.Unavailable {
		text += ", unhealthy"
	}
	why := d.Reason
	if d.Trust != nil && d.Trust.Phase != "" && d.State != gpu.Unavailable {
		why = "in " + d.Trust.Phase + ": " + d.Trust.Why
	}
	return text + because(why), d.State.Worse(gpu.Throttled) || d.Health == gpu.Unhealthy
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + term.Clean(why)
}

// notes lists the machines that do not answer.
func notes(all api.Nodes, to term.Screen) []string {
	var lines []string
	for _, n := range all.Nodes {
		if text, bad := Silence(n, to.Now); bad {
			lines = append(lines, to.Hang(term.Red, "✗ ", text))
		} else if text != "" {
			lines = append(lines, to.Hang(term.Yellow, "! ", text))
		}
	}
	return lines
}

// sentence cleans a reason, and ends it with a full stop.
func sentence(why string) string {
	why = strings.TrimSpace(term.Clean(strings.Join(strings.Fields(why), " ")))
	if !strings.HasSuffix(why, ".") {
		why += "."
	}
	return why
}

// sumOf describes the totals of several machines.
func sumOf(all api.Nodes) string {
	sum := fleet.Add(all.Nodes)
	nodes := words.Count(sum.Nodes, "node")
	if sum.Silent > 0 {
		nodes += fmt.Sprintf(" (%d %s)", sum.Silent, words.Form(sum.Silent, "does not answer", "do not answer"))
	}
	gpus := words.Count(sum.GPUs, "GPU")
	var states []string
	for _, state := range gpu.States() {
		if n := sum.States[state]; n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(states) > 0 {
		gpus += ": " + strings.Join(states, ", ")
	}
	return strings.Join([]string{nodes, gpus, words.Count(sum.Leases, "lease"), fmt.Sprintf("%s of %s GiB leased", GiB(sum.Leased), GiB(sum.Total))}, " · ")
}
