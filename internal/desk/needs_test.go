package desk

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// A person is needed for what does not pass by itself, and for nothing else.
func TestNeeds(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	device := func(change func(*api.Status)) Concerns {
		d := api.Status{Device: gpu.Device{UUID: "G", Index: 2}, State: gpu.Optimal, Since: ago(time.Minute), Health: gpu.Healthy, Reason: "why"}
		change(&d)
		return Concerns{Monitoring: true, GPUs: []api.Status{d}}
	}
	alert := func(change func(*api.Alert)) Concerns {
		a := api.Alert{Alert: "Hot", Severity: gpu.Serious, State: "firing", Since: ago(time.Minute), Annotations: map[string]string{"summary": "GPU 2 is hot"}, Labels: map[string]string{"gpu": "G"}}
		change(&a)
		return Concerns{Monitoring: true, Alerts: []api.Alert{a}}
	}
	hot := func(s gpu.State, cause string) Concerns {
		c := device(func(d *api.Status) { d.State, d.StateCause = s, gpu.CauseTemperature })
		c.Alerts = alert(func(a *api.Alert) { a.Labels, a.Annotations["cause"] = map[string]string{"gpu": "G"}, cause }).Alerts
		return c
	}
	held := func(leased, used gpu.MiB, state string, p *api.Parking) Concerns {
		return Concerns{Monitoring: true, Leases: []api.Lease{{
			ID: "train", State: state, Holder: api.Holder{User: "ada"}, Parking: p, Parts: []api.LeasePart{{GPU: "G", Memory: leased, Measured: gpu.Some(used)}},
		}}}
	}
	waits := func(lengths ...time.Duration) Concerns {
		c := Concerns{Monitoring: true}
		for _, d := range lengths {
			c.Waiting = append(c.Waiting, api.Waiting{ID: "w-" + d.String(), Since: ago(d)})
		}
		return c
	}
	hog := func(change func(*Hog)) Concerns {
		h := Hog{
			Lease:   api.Lease{ID: "big", State: "active", Granted: ago(time.Hour), Holder: api.Holder{User: "ada"}, Parts: []api.LeasePart{{GPU: "G", Memory: 20 << 10, Measured: gpu.Some(gpu.MiB(2 << 10))}}},
			Waiting: []api.Waiting{{ID: "eval", Since: ago(2 * time.Minute), Holder: api.Holder{User: "bob"}}},
		}
		change(&h)
		return Concerns{Monitoring: true, Hogs: []Hog{h}}
	}
	const small = "warning hog big of ada holds 20 GiB and has used at most 2 GiB of its 20 GiB, while eval of bob waits"
	for name, c := range map[string]struct {
		of   Concerns
		want []string // severity, kind, text
	}{
		"well": {device(func(*api.Status) {}), nil},
		"a service that failed": {Concerns{Monitoring: true, Services: []api.Service{{Name: "red", State: "ready"}, {Name: "blue", State: "failed", Failure: &api.ServiceFailure{Count: 2, Why: "it was not ready"}}}},
			[]string{"warning service blue has failed 2 times: it was not ready"}},
		"a front": {Concerns{Monitoring: true, Front: &api.FrontState{Listen: "a", Address: "a"}}, nil},
		"a front without its address": {Concerns{Monitoring: true, Front: &api.FrontState{Listen: "a", Why: "another program has it"}},
			[]string{"critical front No front takes requests for services: another program has it"}},
		"not measured": {Concerns{}, []string{"warning monitoring Monitoring is stopped, so the numbers are old"}},
		"critical":     {device(func(d *api.Status) { d.State = gpu.Critical }), []string{"critical critical GPU 2 is CRITICAL: why"}},
		"gone": {device(func(d *api.Status) { d.State, d.Stale, d.Health = gpu.Unavailable, true, gpu.Unhealthy }),
			[]string{"critical unavailable GPU 2 is UNAVAILABLE: why"}},
		"unhealthy":  {device(func(d *api.Status) { d.Health, d.Reason = gpu.Unhealthy, "" }), []string{"critical unhealthy GPU 2 is unhealthy"}},
		"throttled":  {device(func(d *api.Status) { d.State = gpu.Throttled }), []string{"warning throttled GPU 2 is THROTTLED: why"}},
		"quarantine": {device(func(d *api.Status) { d.Trust = &api.Trust{Phase: "quarantine", Why: "it failed"} }), []string{"warning quarantine GPU 2 is in quarantine: it failed"}},
		"probation":  {device(func(d *api.Status) { d.Trust = &api.Trust{Phase: "probation"} }), nil},
		"old": {device(func(d *api.Status) { d.Stale = true }),
			[]string{"warning stale GPU 2 has not answered for a while, so its numbers are old"}},
		"drained":                                {device(func(d *api.Status) { d.Drain = &api.Drain{By: "ada", Reason: "fan"} }), []string{"warning drained GPU 2 is drained by ada: fan"}},
		"alert":                                  {alert(func(*api.Alert) {}), []string{"critical alert Hot: GPU 2 is hot"}},
		"a lesser alert":                         {alert(func(a *api.Alert) { a.Severity, a.Annotations = gpu.Warning, nil }), []string{"warning alert Hot: G"}},
		"hot, and an alert says so":              {hot(gpu.Critical, "temperature"), []string{"critical critical GPU 2 is CRITICAL: why"}},
		"warm, and an alert says more":           {hot(gpu.Throttled, "lost temperature"), []string{"critical throttled GPU 2 is THROTTLED: why"}},
		"hot, and an alert about something else": {hot(gpu.Critical, "memory"), []string{"critical critical GPU 2 is CRITICAL: why", "critical alert Hot: GPU 2 is hot"}},
		"hot, and an alert that does not say":    {hot(gpu.Critical, ""), []string{"critical critical GPU 2 is CRITICAL: why", "critical alert Hot: GPU 2 is hot"}},
		"well, and an alert":                     {hot(gpu.Normal, "temperature"), []string{"critical alert Hot: GPU 2 is hot"}},
		"gone into quarantine": {device(func(d *api.Status) {
			d.State, d.StateCause, d.Health, d.Trust = gpu.Unavailable, gpu.CauseFault, gpu.Unhealthy, &api.Trust{Phase: "quarantine", Why: "it failed"}
		}), []string{"critical unavailable GPU 2 is UNAVAILABLE: why"}},
		"it may pass":    {alert(func(a *api.Alert) { a.State = "pending" }), nil},
		"somebody cares": {alert(func(a *api.Alert) { a.Acknowledged = &api.Acknowledgement{By: "ada"} }), nil},
		"over its lease": {held(1000, 1300, "active", nil), []string{"warning over train uses 1.3 GiB and leased 1 GiB"}},
		"a little over":  {held(1000, 1200, "active", nil), nil},
		"parked, not 0":  {held(0, 100, "parked", nil), nil},
		"stuck":          {held(1000, 0, "parking", &api.Parking{Since: ago(time.Hour)}), []string{"warning parking train is parking"}},
		"moving":         {held(1000, 0, "parking", &api.Parking{Since: ago(time.Minute)}), nil},
		"long parked":    {held(1000, 0, "parked", &api.Parking{Since: ago(time.Hour)}), nil},
		"not moved":      {held(1000, 0, "active", &api.Parking{Failed: "the driver refused"}), []string{"warning parking train: the driver refused"}},
		"waits":          {waits(15 * time.Minute), nil},
		"waits long":     {waits(16*time.Minute, time.Minute), []string{"warning waiting w-16m0s waits"}},
		"several wait":   {waits(16*time.Minute, time.Hour), []string{"warning waiting 2 requests wait, the first of them w-1h0m0s"}},
		"far too large":  {hog(func(*Hog) {}), []string{small}},
		"used more once": {hog(func(h *Hog) { h.Peak = 6 << 10 }), nil},
		"just granted":   {hog(func(h *Hog) { h.Lease.Granted = ago(time.Minute) }), nil},
		"nobody waits":   {hog(func(h *Hog) { h.Waiting = nil }), nil},
		"ends already":   {hog(func(h *Hog) { h.Lease.Cancelled = &now }), nil},
		"under MPS":      {hog(func(h *Hog) { h.Lease.EnforcedBy = "mps" }), nil},
		"nothing there":  {hog(func(h *Hog) { h.Lease.Parts[0].Measured = gpu.Opt[gpu.MiB]{} }), []string{"warning hog big of ada holds 20 GiB and has nothing on its GPU, while eval of bob waits"}},
		"idle": {hog(func(h *Hog) { h.Peak, h.Lease.Idle = 20<<10, &api.Idle{Since: ago(40 * time.Minute)} }),
			[]string{"warning hog big of ada holds 20 GiB and has not used its GPU for 40 min, while eval of bob waits"}},
		"a short pause":   {hog(func(h *Hog) { h.Peak, h.Lease.Idle = 20<<10, &api.Idle{Since: ago(4 * time.Minute)} }), nil},
		"an orphan":       {Concerns{Monitoring: true, Orphans: 1}, []string{"warning orphans 1 process uses a GPU after the end of the lease"}},
		"the worst first": {Concerns{GPUs: device(func(d *api.Status) { d.State = gpu.Critical }).GPUs}, []string{"critical critical GPU 2 is CRITICAL: why", "warning monitoring Monitoring is stopped, so the numbers are old"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, n := range Needs(c.of, now) {
				got = append(got, string(n.Severity)+" "+n.Kind+" "+n.Text)
				if n.Kind == "alert" && n.GPU != "G" {
					t.Errorf("%+v does not name the device of the alert", n)
				}
				if n.Subject == "" || n.Next == "" {
					t.Errorf("%+v names no subject or no next step", n)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Whoever may change the lease is told how, and others are told whom to ask.
func TestHogNext(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	idle := &api.Idle{Since: now.Add(-time.Hour)}
	parts := []api.LeasePart{{Memory: 20 << 10, Measured: gpu.Some(gpu.MiB(2 << 10))}}
	for want, h := range map[string]Hog{
		"ask ada":                 {Lease: api.Lease{ID: "a", Holder: api.Holder{User: "ada"}, Parts: parts}},
		"berth park a":            {Lease: api.Lease{ID: "a", Idle: idle, Parkable: true, Parts: parts}, Yours: true},
		"berth resize a 2561MiB":  {Lease: api.Lease{ID: "a", Parts: parts}, Yours: true},
		"berth cancel a":          {Lease: api.Lease{ID: "a", Parts: []api.LeasePart{{Memory: 20 << 10}}}, Yours: true},
		"berth cancel 'my lease'": {Lease: api.Lease{ID: "my lease", Idle: idle, Parts: parts}, Peak: 20 << 10, Yours: true},
	} {
		if got := hogNext(&h, now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
