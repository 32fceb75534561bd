package gpu

import "testing"

func TestEventFilter(t *testing.T) {
	e := Event{Code: EventThrottle, Severity: Warning, GPU: "GPU-1", Lease: "train-7"}
	for _, c := range []struct {
		name   string
		filter EventFilter
		want   bool
	}{
		{"all", EventFilter{}, true},
		{"its code", EventFilter{Codes: []EventCode{EventResume, EventThrottle}}, true},
		{"another code", EventFilter{Codes: []EventCode{EventResume}}, false},
		{"its device", EventFilter{GPUs: []string{"GPU-0", "GPU-1"}}, true},
		{"another device", EventFilter{GPUs: []string{"GPU-0"}}, false},
		{"its lease", EventFilter{Leases: []string{"train-7"}}, true},
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
