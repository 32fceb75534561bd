package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// phase returns how far a device is trusted, and why.
func (w *world) phase(t *testing.T, ref string) (phase, why string) {
	t.Helper()
	s, err := w.Status(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if s.Trust == nil {
		return "trusted", ""
	}
	return s.Trust.Phase, s.Trust.Why
}

// A device leaves its quarantine by a check. One that fails stays, with what was
// found, and is checked again later; when it passes, it comes back.
func TestFromFaultToTrust(t *testing.T) {
	p := newPlace(t, scenario(t, `
devices: [{model: h200}]
timeline:
  - {at: 5s, device: 0, xid: 48}
  - {at: 5s, device: 0, for: 3m, check: {fails: memory, takes: 10s}}
  - {at: 185s, device: 0, check: {takes: 10s}}
`))
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		for _, step := range []struct {
			after      time.Duration
			phase, why string
		}{
			{4 * time.Second, "trusted", ""},
			{60 * time.Second, "quarantine", "XID 48"},
			{90 * time.Second, "quarantine", "its check failed: memory: 1 word of"}, // the next comes two minutes later
			{190 * time.Second, "quarantine", "its check failed"},
			{210 * time.Second, "probation", "its check passed"},
			{520 * time.Second, "trusted", ""},
		} {
			time.Sleep(step.after - time.Since(w.begun))
			synctest.Wait()
			if phase, why := w.phase(t, "0"); phase != step.phase || !strings.Contains(why, step.why) {
				t.Errorf("after %v: %s (%s), want %s (%s)", step.after, phase, why, step.phase, step.why)
			}
			if open := w.refusal(t, "0") == ""; open != (step.phase != "quarantine") {
				t.Errorf("after %v: open %v in %s", step.after, open, step.phase)
			}
		}
		w.stop()
	})
}

// A daemon that is killed in the middle of a check has the device checked again.
func TestKilledInACheck(t *testing.T) {
	p := newPlace(t, scenario(t, "devices: [{model: h200}]\ntimeline: [{at: 5s, device: 0, xid: 48}, {at: 0s, device: 0, check: {takes: 60s}}]\n"))
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		time.Sleep(90 * time.Second)
		if why := w.refusal(t, "0"); !strings.Contains(why, "in quarantine") {
			t.Fatalf("during the check: %q", why)
		}
		w.stop()
		p.flags["daemon.devices"] = scenario(t, "devices: [{model: h200}]\ntimeline: [{at: 0s, device: 0, check: {takes: 60s}}]\n")
		w = p.live(t)
		time.Sleep(30 * time.Second)
		if phase, why := w.phase(t, "0"); phase != "quarantine" || strings.Contains(why, "check") {
			t.Errorf("%s (%s), want it in quarantine, and nothing said about its check", phase, why)
		}
		time.Sleep(40 * time.Second)
		if phase, why := w.phase(t, "0"); phase != "probation" || !strings.Contains(why, "its check passed") {
			t.Errorf("%s (%s)", phase, why)
		}
		w.stop()
	})
}

// Two faults at once, on two devices: each has its own check, and neither waits
// for the other. One of them cannot be asked, and leaves by time.
func TestTwoFaultsAtOnce(t *testing.T) {
	p := newPlace(t, scenario(t, `
devices: [{model: h200, count: 2}]
timeline:
  - {at: 5s, device: 0, xid: 48}
  - {at: 5s, device: 1, xid: 48}
  - {at: 0s, device: 0, check: {unable: no driver}}
  - {at: 0s, device: 1, check: {takes: 30s}}
`))
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		time.Sleep(75 * time.Second)
		if phase, why := w.phase(t, "0"); phase != "probation" || !strings.HasSuffix(why, "it could not be checked: no driver") {
			t.Errorf("the one that cannot be asked: %s (%s)", phase, why)
		}
		if phase, _ := w.phase(t, "1"); phase != "quarantine" {
			t.Errorf("the one that is being checked: %s", phase)
		}
		time.Sleep(30 * time.Second)
		if phase, why := w.phase(t, "1"); phase != "probation" || !strings.HasSuffix(why, "its check passed") {
			t.Errorf("the one that was checked: %s (%s)", phase, why)
		}
		w.stop()
	})
}

// A check by hand tests what is not leased, closes the device meanwhile, and
// changes how far it is trusted.
func TestCheckByHand(t *testing.T) {
	p := newPlace(t, scenario(t, `
devices: [{model: h200, count: 2}]
timeline:
  - {at: 0s, device: 0, check: {takes: 20s}}
  - {at: 0s, device: 1, check: {fails: link}}
`))
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		ctx := t.Context()
		if _, err := w.Allocate(ctx, api.Allocate{ID: "work", Memory: 100 * 1024, GPU: "0", Binding: "named"}); err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			api.Check
			error
		}
		answer := make(chan outcome, 1)
		ask := func(ctx context.Context, kind string) {
			found, err := w.Check(ctx, api.CheckRequest{GPU: "0", Kind: kind})
			answer <- outcome{found, err}
		}
		go ask(ctx, "")
		time.Sleep(10 * time.Second)
		if why := w.refusal(t, "0"); !strings.Contains(why, "it is being checked") {
			t.Errorf("during the check: %q", why)
		}
		var refused *api.Problem
		if _, err := w.Check(ctx, api.CheckRequest{GPU: "0"}); !errors.As(err, &refused) || refused.Code != "device_busy" {
			t.Errorf("a second check: %v", err)
		}
		got := <-answer
		if got.error != nil || got.Verdict != "passed" || got.Kind != "quick" || len(got.Steps) != 7 || got.Memory > got.Total-100*1024 || got.Memory < 30*1024 {
			t.Errorf("%+v, %v", got.Check, got.error)
		}
		if why := w.refusal(t, "0"); why != "" {
			t.Errorf("after the check: %q", why)
		}
		leaving, leave := context.WithCancel(ctx)
		go ask(leaving, "long")
		time.Sleep(10 * time.Second)
		leave()
		got = <-answer
		synctest.Wait() // until the daemon has noticed
		if why := w.refusal(t, "0"); got.error == nil || why != "" {
			t.Errorf("left: %+v, %v, %s", got.Check, got.error, why)
		}
		if found, err := w.Check(ctx, api.CheckRequest{GPU: "1"}); err != nil || found.Verdict != "failed" {
			t.Errorf("%+v, %v", found, err)
		}
		if phase, why := w.phase(t, "1"); phase != "quarantine" || !strings.Contains(why, "its check failed: link") {
			t.Errorf("after a failed check: %s (%s)", phase, why)
		}
		for _, r := range []api.CheckRequest{{}, {GPU: "0", Kind: "thorough"}} {
			if _, err := w.Check(ctx, r); !errors.As(err, &refused) || refused.Code != "invalid_request" {
				t.Errorf("%+v: %v", r, err)
			}
		}
		if _, err := w.StopMonitoring(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Check(ctx, api.CheckRequest{GPU: "0"}); !errors.As(err, &refused) || refused.Code != "monitoring_stopped" {
			t.Errorf("without monitoring: %v", err)
		}
		w.stop()
	})
}

var histories = flag.Uint64("daemon.histories", 1, "play this many random histories of care")

// Random histories of faults, checks, drains and requests on whole
// daemons: nothing is ever granted on a device that is in quarantine, drained or
// being checked, and every device comes back once its faults stop and its checks
// pass.
func TestCareHistories(t *testing.T) {
	for seed := range *histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 13))
			var text strings.Builder
			text.WriteString("devices: [{model: h200, count: 2}]\ntimeline:\n")
			for range 6 {
				at, on := random.IntN(900), random.IntN(2)
				fmt.Fprintf(&text, "  - {at: %ds, device: %d, xid: 48}\n", at, on)
				fmt.Fprintf(&text, "  - {at: %ds, device: %d, for: %ds, check: %s}\n", at, on, random.IntN(400)+1,
					[]string{"{fails: memory, takes: 5s}", "{unable: no driver}", "{takes: 30s}"}[random.IntN(3)])
			}
			p := newPlace(t, scenario(t, text.String()))
			p.flags["gpu.monitor_interval"] = "5s"
			synctest.Test(t, func(t *testing.T) {
				w := p.live(t)
				for range 200 {
					time.Sleep(time.Duration(random.IntN(9000)) * time.Millisecond)
					ref := fmt.Sprint(random.IntN(2))
					switch random.IntN(8) {
					case 0:
						until := time.Now().Add(time.Duration(random.IntN(200)+1) * time.Second)
						if _, err := w.Drain(t.Context(), api.DrainRequest{GPU: gpu.Ref(ref), Until: &until}); err != nil {
							t.Fatal(err)
						}
					case 1:
						if _, err := w.Undrain(t.Context(), api.UndrainRequest{GPU: gpu.Ref(ref)}); err != nil {
							t.Fatal(err)
						}
					case 2:
						_, _ = w.Check(t.Context(), api.CheckRequest{GPU: gpu.Ref(ref)}) // refused if one runs
					default:
						synctest.Wait()
						s, err := w.Status(t.Context(), ref)
						if err != nil {
							t.Fatal(err)
						}
						shut := s.Drain != nil || s.Trust != nil && s.Trust.Phase == "quarantine"
						if why := w.refusal(t, gpu.Ref(ref)); why == "" && shut {
							t.Fatalf("a lease was granted on %+v, %+v", s.Trust, s.Drain)
						} else if why != "" && !shut && !strings.Contains(why, "it is being checked") {
							t.Fatalf("closed because %s", why)
						}
					}
				}
				time.Sleep(3 * time.Hour)
				for _, ref := range []string{"0", "1"} {
					if phase, why := w.phase(t, ref); phase != "trusted" || w.refusal(t, gpu.Ref(ref)) != "" {
						t.Errorf("GPU %s is not back: %s (%s)", ref, phase, why)
					}
				}
				w.stop()
			})
		})
	}
}

// With gpu.scrub, what earlier programs left is gone before a lease is answered.
func TestScrubBeforeTheLeaseIsAnswered(t *testing.T) {
	p := newPlace(t, scenario(t, "devices: [{model: h200}]\ntimeline: [{at: 0s, device: 0, check: {residue_mb: 100}}]\n"))
	p.flags["gpu.scrub"] = "on"
	synctest.Test(t, func(t *testing.T) {
		w := p.live(t)
		look := func() api.Check {
			t.Helper()
			found, err := w.Check(t.Context(), api.CheckRequest{GPU: "0", Kind: "residue"})
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		if found := look(); found.Verdict != "failed" || found.Left == 0 {
			t.Errorf("before: %+v, want what was left", found)
		}
		l, err := w.Acquire(t.Context(), api.LeaseRequest{ID: "a", Binding: "named", Memory: 1024, Enforce: "watchdog"})
		if err != nil || l.Launch == nil || l.Launch.ClearedBy != "berth" {
			t.Errorf("the lease is %+v, %v", l, err)
		}
		if found := look(); found.Verdict != "passed" {
			t.Errorf("after: %+v, want nothing left", found)
		}
		if got := fmt.Sprint(w.codes()); !strings.Contains(got, "scrub scrub scrub") { // begun, its step, done
			t.Errorf("told %s", got)
		}
		w.stop()
	})
}
