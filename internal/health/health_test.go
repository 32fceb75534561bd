package health_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/health"
)

var (
	begun = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rules = health.DefaultRules()
)

func after(d time.Duration) time.Time { return begun.Add(d) }

// A fault leads to quarantine, that to probation, and that to trust.
func TestFromFaultToTrust(t *testing.T) {
	var s health.Standing
	s.Fail(rules, begun, "XID 48")
	for _, step := range []struct {
		at   time.Duration
		want health.Phase
		of8  int
	}{
		{59 * time.Second, health.Quarantined, 8},
		{time.Minute, health.Probation, 4},
		{6*time.Minute - 1, health.Probation, 4},
		{6 * time.Minute, health.Trusted, 8},
	} {
		s.Answer(rules, after(step.at), false)
		if s.Phase != step.want || s.Slots(8) != step.of8 {
			t.Errorf("after %v: %q with %d of 8 slots, want %q with %d", step.at, s.Phase, s.Slots(8), step.want, step.of8)
		}
	}
	if s.Reason() != "" {
		t.Errorf("trusted, and still %q", s.Reason())
	}
}

func TestFaultsInQuarantineProlongIt(t *testing.T) {
	var s health.Standing
	s.Fail(rules, begun, "XID 48")
	s.Fail(rules, after(40*time.Second), "XID 63")
	s.Answer(rules, after(90*time.Second), false)
	if s.Phase != health.Quarantined || s.Relapses != 0 {
		t.Errorf("%q after %d relapses, want the quarantine of one", s.Phase, s.Relapses)
	}
	if !strings.Contains(s.Reason(), "Jan 2 03:05:45 UTC") || !strings.Contains(s.Reason(), "XID 48") {
		t.Errorf("reason %q, want the new end and the first fault", s.Reason())
	}
	s.Answer(rules, after(100*time.Second), false)
	if s.Phase != health.Probation {
		t.Errorf("%q a minute after the last fault", s.Phase)
	}
}

func TestRelapsesDouble(t *testing.T) {
	var s health.Standing
	now := begun
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 64} {
		s.Fail(rules, now, "XID 79")
		if got := s.Until.Sub(now); got != want*time.Minute {
			t.Errorf("quarantine %d takes %v, want %v", i, got, want*time.Minute)
		}
		now = s.Until
		s.Answer(rules, now, false)
	}
	s.Fail(rules, now.Add(25*time.Hour), "XID 79")
	if s.Relapses != 0 {
		t.Errorf("%d relapses a day later", s.Relapses)
	}
}

// A device that was reset is tried at once; one that comes and goes is not.
func TestReturn(t *testing.T) {
	var s health.Standing
	s.Fail(rules, begun, "it fell off the bus")
	s.Return(rules, after(10*time.Second))
	if want := "on probation until Jan 2 03:09:15 UTC, with half its slots: it fell off the bus"; s.Reason() != want {
		t.Errorf("reason %q, want %q", s.Reason(), want)
	}
	s.Fail(rules, after(20*time.Second), "it fell off the bus")
	s.Return(rules, after(30*time.Second))
	if want := "in quarantine until Jan 2 03:06:25 UTC at least: it fell off the bus"; s.Reason() != want {
		t.Errorf("reason %q, want %q", s.Reason(), want)
	}
}

func TestExhaustion(t *testing.T) {
	var s health.Standing
	for _, step := range []struct {
		at   time.Duration
		full bool
		of4  int
	}{
		{0, true, 3},
		{10 * time.Minute, true, 3}, // still the same time
		{11 * time.Minute, false, 3},
		{12 * time.Minute, true, 2},
		{13 * time.Minute, false, 2},
		{18*time.Minute - 1, false, 2},
		{18 * time.Minute, false, 3},
		{23 * time.Minute, false, 4},
		{60 * time.Minute, false, 4},
		{61 * time.Minute, true, 3},
		{61*time.Minute + 1, false, 3},
		{61*time.Minute + 2, true, 3}, // it trembles: the same trouble
		{61*time.Minute + 3, false, 3},
	} {
		if s.Answer(rules, after(step.at), step.full); s.Slots(4) != step.of4 {
			t.Errorf("after %v: %d of 4 slots, want %d", step.at, s.Slots(4), step.of4)
		}
	}
}

// Whatever happens, there is a slot left where there was one, never more than
// there are, and a device that answers without faults is trusted in the end.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s health.Standing
		now := begun
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "later")))
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				s.Fail(rules, now, "fault")
			case 1:
				s.Return(rules, now)
			default:
				s.Answer(rules, now, rapid.Bool().Draw(t, "full"))
			}
			all := rapid.IntRange(1, 64).Draw(t, "all")
			if n := s.Slots(all); n < 1 || n > all {
				t.Fatalf("%d of %d slots: %+v", n, all, s)
			}
			if (s.Reason() == "") != (s.Phase == health.Trusted) {
				t.Fatalf("reason %q in %q", s.Reason(), s.Phase)
			}
		}
		for range 200 {
			now = now.Add(time.Minute)
			s.Answer(rules, now, false)
		}
		if s.Phase != health.Trusted || s.Withheld != 0 {
			t.Fatalf("three hours of good answers: %+v", s)
		}
	})
}

func TestQuarantines(t *testing.T) {
	for _, c := range []struct {
		fault gpu.Fault
		want  bool
	}{
		{gpu.Fault{Class: gpu.FaultDevice, Severity: gpu.Serious}, true},
		{gpu.Fault{Class: gpu.FaultLink, Severity: gpu.Serious}, true},
		{gpu.Fault{Class: gpu.FaultDriver, Severity: gpu.Serious}, true},
		{gpu.Fault{Class: gpu.FaultProgram, Severity: gpu.Serious}, false},
		{gpu.Fault{Class: gpu.FaultDevice, Severity: gpu.Warning}, false},
		{gpu.Fault{}, false},
	} {
		if got := health.Quarantines(c.fault); got != c.want {
			t.Errorf("%+v: %v", c.fault, got)
		}
	}
}

// A fault while the clock was ahead is one of now: the quarantine takes as long as it had
// to, a check lets the device out, and slots come back.
func TestTheClockWasAhead(t *testing.T) {
	checked := rules
	checked.Check = true
	later := begun.AddDate(10, 0, 0)
	for _, r := range []health.Rules{rules, checked} {
		var s health.Standing
		s.Answer(r, later, true)
		s.Fail(r, later, "XID 48")
		s = s.Bounded(begun)
		s.Answer(r, after(time.Second), false)
		if r.Check {
			s.Checked(r, after(10*time.Second), after(20*time.Second), proof.Passed, "")
		}
		s.Answer(r, after(r.Quarantine), false)
		if s.Phase != health.Probation {
			t.Errorf("check %v: after the quarantine: %+v", r.Check, s)
		}
		s.Answer(r, after(r.Quarantine+r.Probation), false)
		s.Answer(r, after(time.Hour), false)
		if s.Phase != health.Trusted || s.Slots(8) != 8 {
			t.Errorf("check %v: after an hour: %+v", r.Check, s)
		}
	}
	var s health.Standing // the clock is set back while the daemon runs
	s.Fail(rules, later, "XID 48")
	s.Answer(rules, begun, false)
	s.Answer(rules, after(rules.Quarantine), false)
	if s.Phase != health.Probation {
		t.Errorf("after the quarantine: %+v", s)
	}
}

// What is in order stays as it is.
func TestBoundedKeeps(t *testing.T) {
	var s health.Standing
	s.Answer(rules, begun, true)
	s.Fail(rules, after(time.Second), "XID 48")
	for _, now := range []time.Duration{time.Second, time.Minute, 1000 * time.Hour} {
		if got := s.Bounded(after(now)); got != s {
			t.Errorf("after %v: %+v, was %+v", now, got, s)
		}
	}
}
