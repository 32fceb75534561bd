package desk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// How long a request waits, and how long the memory of a lease is on its way, before
// that needs a person.
const (
	longWait = 15 * time.Minute
	longMove = 5 * time.Minute
)

// Concerns is what Needs looks at, as one caller sees it.
type Concerns struct {
	Monitoring bool // the sampling loop runs
	GPUs       []api.Status
	Leases     []api.Lease
	Waiting    []api.Waiting
	Alerts     []api.Alert
	Hogs       []Hog
	Orphans    int // processes that use a device after the end of their lease
	Services   []api.Service
	Front      *api.FrontState // nil if there is to be none
}

// Needs returns what needs a person, the worst first.
func Needs(c Concerns, now time.Time) []api.Need {
	var list []api.Need
	if !c.Monitoring {
		list = append(list, api.Need{Kind: "monitoring", Subject: "monitoring", Text: "Monitoring is stopped, so the numbers are old", Next: "POST /api/gpu/monitoring/start"})
	}
	for i := range c.GPUs {
		list = append(list, deviceNeeds(&c.GPUs[i])...)
	}
	for i := range c.Alerts {
		a := &c.Alerts[i]
		if a.State != "firing" || a.Acknowledged != nil {
			continue // it may pass, or somebody takes care of it
		}
		if tells(list, c.GPUs, a) {
			continue
		}
		text := a.Alert
		if said := cmp.Or(a.Annotations["summary"], a.Annotations["description"], a.Labels["gpu"]); said != "" {
			text += ": " + said
		}
		list = append(list, api.Need{Kind: "alert", Severity: a.Severity, Subject: a.Alert, GPU: a.Labels["gpu"], Since: &a.Since, Text: text, Next: "berth alerts"})
	}
	for i := range c.Leases {
		list = append(list, leaseNeeds(&c.Leases[i], now)...)
	}
	list = append(list, serviceNeeds(c.Services, c.Front)...)
	list = append(list, hogNeeds(c.Hogs, now)...)
	list = append(list, waitingNeeds(c.Waiting, now)...)
	if n := c.Orphans; n > 0 {
		text := fmt.Sprintf("%s %s a GPU after the end of the lease", words.Count(n, "process"), words.Form(n, "uses", "use"))
		list = append(list, api.Need{Kind: "orphans", Subject: words.Count(n, "process"), Text: text, Next: "berth leases --orphans"})
	}
	var worst, others []api.Need
	for _, n := range list {
		if n.Severity == gpu.Serious {
			worst = append(worst, n)
		} else {
			n.Severity = gpu.Warning
			others = append(others, n)
		}
	}
	return append(worst, others...)
}

// tells reports whether the list has the fact of an alert already, because a device is in
// a state for the same cause. That need is then as severe as the alert.
func tells(list []api.Need, devices []api.Status, a *api.Alert) bool {
	uuid, causes := a.Labels["gpu"], strings.Fields(a.Annotations[gpu.CauseAnnotation])
	d := slices.IndexFunc(devices, func(d api.Status) bool { return d.Device.UUID == uuid && slices.Contains(causes, d.StateCause) })
	if d < 0 {
		return false
	}
	n := slices.IndexFunc(list, func(n api.Need) bool { return n.GPU == uuid && n.Kind == strings.ToLower(string(devices[d].State)) })
	if n >= 0 && a.Severity == gpu.Serious {
		list[n].Severity = gpu.Serious
	}
	return n >= 0
}

// deviceNeeds returns the needs of a device. A device that is UNAVAILABLE because it is in
// quarantine has one.
func deviceNeeds(d *api.Status) []api.Need {
	var list []api.Need
	label := d.Device.Label()
	add := func(kind string, severity gpu.Severity, since *time.Time, next, what, why string) {
		if why != "" {
			what += ": " + why
		}
		list = append(list, api.Need{Kind: kind, Severity: severity, Subject: label, GPU: d.Device.UUID, Since: since, Text: label + " " + what, Next: next})
	}
	status := fmt.Sprintf("berth status %d", d.Device.Index)
	quarantined := d.Trust != nil && d.Trust.Phase == "quarantine"
	if quarantined && d.StateCause == gpu.CauseFault {
		status = fmt.Sprintf("berth check %d", d.Device.Index)
	}
	var since *time.Time
	if !d.Since.IsZero() {
		since = &d.Since
	}
	switch {
	case d.State.Worse(gpu.Throttled):
		add(strings.ToLower(string(d.State)), gpu.Serious, since, status, "is "+string(d.State), d.Reason)
	case d.Health == gpu.Unhealthy:
		add("unhealthy", gpu.Serious, since, status, "is unhealthy", d.Reason)
	case d.State.Worse(gpu.Normal):
		add(strings.ToLower(string(d.State)), gpu.Warning, since, status, "is "+string(d.State), d.Reason)
	}
	if t := d.Trust; quarantined && d.StateCause != gpu.CauseFault {
		add("quarantine", gpu.Warning, t.Since, fmt.Sprintf("berth check %d", d.Device.Index), "is in quarantine", t.Why)
	}
	if d.Stale && d.State != gpu.Unavailable {
		add("stale", gpu.Warning, nil, status, "has not answered for a while, so its numbers are old", "")
	}
	if d.Drain != nil {
		what := "is drained"
		if d.Drain.By != "" {
			what += " by " + d.Drain.By
		}
		add("drained", gpu.Warning, nil, fmt.Sprintf("berth undrain %d", d.Device.Index), what, cmp.Or(d.Drain.Reason, "no new leases there"))
	}
	return list
}

// leaseNeeds returns the needs of a lease. A little more memory than it leased is not
// one: measurements differ by as much.
func leaseNeeds(l *api.Lease, now time.Time) []api.Need {
	need := api.Need{Kind: "parking", Subject: l.ID, Lease: l.ID, User: l.Holder.User}
	var list []api.Need
	switch p := l.Parking; {
	case p == nil:
	case p.Failed != "":
		need.Text, need.Next = l.ID+": "+p.Failed, "berth leases"
		list = append(list, need)
	case (l.State == "parking" || l.State == "resuming") && now.Sub(p.Since) > longMove:
		need.Text, need.Next, need.Since = l.ID+" is "+l.State, "berth leases", &p.Since
		list = append(list, need)
	}
	var leased, used gpu.MiB
	for _, p := range l.Parts {
		leased += p.Memory
		used += p.Measured.Or(0)
	}
	if l.State == "active" && leased > 0 && used-leased > max(256, leased/50) {
		need.Kind, need.Since = "over", nil
		need.Text, need.Next = fmt.Sprintf("%s uses %s and leased %s", l.ID, used.Beside(leased), leased.Beside(used)), resizeTo(l.ID, used)
		list = append(list, need)
	}
	return list
}

// serviceNeeds returns the needs of services that have failed, and of the front.
func serviceNeeds(services []api.Service, front *api.FrontState) []api.Need {
	var list []api.Need
	if front != nil && front.Address == "" {
		list = append(list, api.Need{Kind: "front", Severity: gpu.Serious, Subject: "front", Text: "No front takes requests for services: " + front.Why, Next: "berth doctor"})
	}
	for i := range services {
		s := &services[i]
		if f := s.Failure; s.State == "failed" && f != nil {
			list = append(list, api.Need{
				Kind: "service", Subject: s.Name, User: s.User, Since: &f.At, Next: "berth logs " + words.Shell(s.Name),
				Text: fmt.Sprintf("%s has failed %s: %s", s.Name, words.Count(f.Count, "time"), f.Why),
			})
		}
	}
	return list
}

// waitingNeeds returns at most one need, for the requests that have waited for long.
func waitingNeeds(waiting []api.Waiting, now time.Time) []api.Need {
	late := slices.DeleteFunc(slices.Clone(waiting), func(w api.Waiting) bool { return now.Sub(w.Since) <= longWait })
	if len(late) == 0 {
		return nil
	}
	first := slices.MinFunc(late, func(a, b api.Waiting) int { return a.Since.Compare(b.Since) })
	need := api.Need{Kind: "waiting", Subject: first.ID, Lease: first.ID, User: first.Holder.User, Since: &first.Since, Text: first.ID + " waits", Next: "berth explain " + words.Shell(first.ID)}
	if n := len(late); n > 1 {
		need.Subject, need.Text = words.Count(n, "request"), fmt.Sprintf("%s wait, the first of them %s", words.Count(n, "request"), first.ID)
	}
	return []api.Need{need}
}
