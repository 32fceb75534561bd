package gpu

import "testing"

func TestEventFilter(t *testing.T) {
	e := Event{Code: EventThrottle, Also: []EventCode{EventCritical, EventOverheat}, Severity: Warning, GPU: "GPU-1", Lease: "train-7", User: "ada"}
	for _, c := range []struct {
		name   string
		filter EventFilter
		want   bool
	}{
		{"all", EventFilter{}, true},
		{"its code", EventFilter{Codes: []EventCode{EventResume, EventThrottle}}, true},
		{"another code", EventFilter{Codes: []EventCode{EventResume}}, false},
		{"a code of what happened with it", EventFilter{Codes: []EventCode{EventResume, EventOverheat}}, true},
		{"that code and another device", EventFilter{Codes: []EventCode{EventOverheat}, GPUs: []string{"GPU-0"}}, false},
		{"its device", EventFilter{GPUs: []string{"GPU-0", "GPU-1"}}, true},
		{"another device", EventFilter{GPUs: []string{"GPU-0"}}, false},
		{"its lease", EventFilter{Leases: []string{"train-7"}}, true},
		{"its lease and its user", EventFilter{Leases: []string{"ada/train-7"}}, true},
		{"its lease, of another user", EventFilter{Leases: []string{"bob/train-7"}}, false},
		{"its user alone", EventFilter{Leases: []string{"ada/", "ada", "/train-7"}}, false},
		{"another lease", EventFilter{Leases: []string{"train"}}, false},
		{"less severe", EventFilter{Severity: Note}, true},
		{"as severe", EventFilter{Severity: Warning}, true},
		{"more severe", EventFilter{Severity: Serious}, false},
		{"all of them", EventFilter{[]EventCode{EventThrottle}, []string{"GPU-1"}, []string{"train-7"}, Warning}, true},
		{"all but one", EventFilter{[]EventCode{EventThrottle}, []string{"GPU-1"}, []string{"x"}, Warning}, false},
	} {
		if got := c.filter.Matches(e); got != c.want {
			t.Errorf("%s: matches is %v, want %v", c.name, got, c.want)
		}
		if !c.filter.Matches(Event{Code: EventGap, Severity: Note}) {
			t.Errorf("%s: a gap does not match", c.name)
		}
		if c.filter.IsZero() != (c.name == "all") {
			t.Errorf("%s: IsZero is %v", c.name, c.filter.IsZero())
		}
	}
}

func TestConcernsGrant(t *testing.T) {
	for _, c := range []struct {
		name  string
		event Event
		want  bool
	}{
		{"the lease", Event{Lease: "train", Data: map[string]any{"fence": uint64(7)}}, true},
		{"the lease, from JSON", Event{Lease: "train", Data: map[string]any{"fence": 7.0}}, true},
		{"another with its id", Event{Lease: "train", Data: map[string]any{"fence": 8.0}}, false},
		{"one that does not say", Event{Lease: "train"}, true},
		{"another id", Event{Lease: "other", Data: map[string]any{"fence": 7.0}}, false},
		{"a device", Event{GPU: "GPU-1"}, false},
	} {
		if got := c.event.ConcernsGrant("train", 7); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
