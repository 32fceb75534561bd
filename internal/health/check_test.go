package health_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/health"
)

var checking = func() health.Rules { r := rules; r.Check = true; return r }()

// inQuarantine returns a device a fault ago.
func inQuarantine() health.Standing {
	var s health.Standing
	s.Fail(checking, begun, "XID 48")
	return s
}

// Time alone does not let a device out of quarantine; a check that it passed
// does, with the next answer.
func TestCheckEndsQuarantine(t *testing.T) {
	s := inQuarantine()
	if s.CheckDue(checking, after(59*time.Second)) || s.CheckDue(rules, after(time.Hour)) {
		t.Error("a check is due before its time, or where none is asked for")
	}
	s.Answer(checking, after(time.Hour), false)
	if s.Phase != health.Quarantined || !s.CheckDue(checking, after(time.Hour)) {
		t.Fatalf("%q after its time, want it to wait for its check", s.Phase)
	}
	s.Checked(checking, after(time.Hour), after(time.Hour+20*time.Second), proof.Passed, "")
	if s.CheckDue(checking, after(2*time.Hour)) || s.Phase != health.Quarantined {
		t.Errorf("%q after its check, want it to wait for an answer and for nothing else", s.Phase)
	}
	s.Answer(checking, after(2*time.Hour), false)
	if s.Phase != health.Probation || !strings.HasSuffix(s.Reason(), "XID 48; its check passed") {
		t.Errorf("%q: %s", s.Phase, s.Reason())
	}
	s.Answer(checking, after(3*time.Hour), false)
	if s.Phase != health.Trusted || s.Cause() != "" {
		t.Errorf("%q: %s", s.Phase, s.Cause())
	}
}

// A device that fails stays, and waits longer for each further check.
func TestFailedCheckKeepsQuarantine(t *testing.T) {
	s := inQuarantine()
	at := begun
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 64} {
		if got := s.Until.Sub(at); got != wait*time.Minute {
			t.Errorf("waits %v for its check, want %v", got, wait*time.Minute)
		}
		at = s.Until.Add(20 * time.Second)
		s.Checked(checking, s.Until, at, proof.Failed, "memory: 1 word is wrong")
		s.Return(checking, at) // a reset does not hide that
		s.Answer(checking, at, false)
		if s.Phase != health.Quarantined || !strings.Contains(s.Reason(), "XID 48; its check failed: memory: 1 word is wrong") {
			t.Fatalf("%q: %s", s.Phase, s.Reason())
		}
	}
	s.Checked(checking, at.Add(time.Second), at.Add(2*time.Second), proof.Passed, "") // somebody asked for it, before its time
	s.Answer(checking, at.Add(3*time.Second), false)
	if s.Phase != health.Probation {
		t.Errorf("%q after it passed", s.Phase)
	}
}

// A trusted device that fails a check goes into quarantine; one that passes, or
// could not be checked, stays as it is.
func TestCheckOfATrustedDevice(t *testing.T) {
	for o, want := range map[proof.Verdict]health.Phase{proof.Passed: health.Trusted, proof.Unasked: health.Trusted, proof.Failed: health.Quarantined} {
		var s health.Standing
		s.Checked(checking, begun, after(time.Second), o, "slow link")
		if s.Phase != want || want == health.Trusted && s != (health.Standing{}) {
			t.Errorf("%s: %+v", o, s)
		}
		if want == health.Quarantined && s.Cause() != "its check failed: slow link" {
			t.Errorf("it is in quarantine because %q", s.Cause())
		}
	}
}

// A device that cannot be checked leaves by time, and says so.
func TestUncheckedDeviceLeavesByTime(t *testing.T) {
	s := inQuarantine()
	s.Checked(checking, after(time.Second), after(2*time.Second), proof.Unasked, "there is no libcuda")
	s.Answer(checking, after(3*time.Second), false)
	if s.Phase != health.Quarantined || s.Check != "" {
		t.Fatalf("%+v before its time", s)
	}
	s.Checked(checking, after(time.Minute), after(61*time.Second), proof.Unasked, "there is no libcuda")
	s.Answer(checking, after(62*time.Second), false)
	if s.Phase != health.Probation || !strings.HasSuffix(s.Reason(), "XID 48; it could not be checked: there is no libcuda") {
		t.Errorf("%q: %s", s.Phase, s.Reason())
	}
}

// A fault that comes during a check counts for more than that the check passed.
func TestFaultDuringACheck(t *testing.T) {
	for _, o := range []proof.Verdict{proof.Passed, proof.Unasked} {
		s := inQuarantine()
		s.Fail(checking, after(65*time.Second), "XID 63")
		s.Checked(checking, after(60*time.Second), after(3*time.Minute), o, "")
		s.Answer(checking, after(3*time.Minute), false)
		if s.Phase != health.Quarantined || !s.CheckDue(checking, after(3*time.Minute)) {
			t.Errorf("%s: %+v, want another check", o, s)
		}
	}
}

// A device that fell off the bus and came back is checked at once.
func TestReturnIsChecked(t *testing.T) {
	s := inQuarantine()
	s.Return(checking, after(5*time.Second))
	s.Answer(checking, after(5*time.Second), false)
	if s.Phase != health.Quarantined || !s.CheckDue(checking, after(5*time.Second)) {
		t.Fatalf("%+v, want its check to be due", s)
	}
	s.Checked(checking, after(5*time.Second), after(15*time.Second), proof.Passed, "")
	s.Answer(checking, after(16*time.Second), false)
	if s.Phase != health.Probation {
		t.Errorf("%q", s.Phase)
	}
}

// Whatever happens in whichever order: a device leaves its quarantine only with
// a check that began after its last fault and passed, or that could not be made;
// it is never stuck, and comes back once its faults stop and its checks pass.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s health.Standing
		now, began := begun, time.Time{} // began: of the check that runs; zero: none does
		cleared := false                 // by an outcome since the last fault
		fault := func() {
			s.Fail(checking, now, "a fault")
			cleared = false
		}
		end := func(o proof.Verdict) {
			late := now.Before(s.Until)
			counts := s.Phase == health.Quarantined && s.Fault.Before(began)
			s.Checked(checking, began, now, o, "as drawn")
			switch {
			case o == proof.Failed:
				cleared = false
			case counts && (o == proof.Passed || !late):
				cleared = true
			}
			began = time.Time{}
		}
		answer := func() {
			before := s.Phase
			s.Answer(checking, now, rapid.Bool().Draw(t, "full"))
			if before == health.Quarantined && s.Phase != before && !cleared {
				t.Fatalf("it left its quarantine without a check: %+v", s)
			}
			if s.Phase == health.Trusted && before == health.Quarantined {
				t.Fatalf("it was trusted without probation: %+v", s)
			}
			if s.CheckDue(checking, now) && began.IsZero() {
				began = now
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds")) * time.Second)
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				fault()
			case 1:
				s.Return(checking, now)
			case 2:
				if began.IsZero() {
					began = now // by hand
				}
			case 3, 4:
				if !began.IsZero() {
					end(rapid.SampledFrom([]proof.Verdict{proof.Passed, proof.Failed, proof.Unasked}).Draw(t, "outcome"))
				}
			default:
				answer()
			}
			if got := s.Slots(8); got < 1 || got > 8 {
				t.Fatalf("%d of 8 slots", got)
			}
		}
		for i := 0; s.Phase != health.Trusted; i++ { // no more faults, and every check passes
			if now = now.Add(10 * time.Second); i > 24*360 {
				t.Fatalf("it is not trusted after a day: %+v", s)
			}
			if !began.IsZero() {
				end(proof.Passed)
			}
			answer()
		}
	})
}
