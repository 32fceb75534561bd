package hooks

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := []struct {
			status int
			after  string
			err    error
		}{{status: 503}, {err: errors.New("connection refused")}, {status: 408}, {status: 429, after: "120"}, {status: 500}}
		r := &receiver{answer: func(n int, _ *http.Request) (int, http.Header, error) {
			if n >= len(failures) {
				return 204, nil, nil
			}
			f := failures[n]
			return f.status, http.Header{"Retry-After": {f.after}}, f.err
		}}
		b := run(t, 16, r, Hook{Name: "pager", URL: "http://x/"})
		b.publish(gpu.EventCritical, gpu.Serious, "hot")
		time.Sleep(10 * time.Minute)
		gaps := r.gaps()
		if len(gaps) != len(failures) {
			t.Fatalf("%d attempts", len(gaps)+1)
		}
		for i, gap := range gaps {
			low, high := firstPause<<i/2, firstPause<<i
			if failures[i].after != "" {
				low, high = 2*time.Minute, 2*time.Minute
			}
			if gap < low || gap > high {
				t.Errorf("after failure %d: %v, not %v to %v", i, gap, low, high)
			}
		}
		b.stop()
		if diff := cmp.Diff(map[Status]int{Retried: 5, Delivered: 1}, b.counts); diff != "" || len(b.told) != 1 || b.told[0].Severity != gpu.Warning {
			t.Errorf("told %v; %s", b.told, diff)
		}
	})
}

func TestPause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1<<20).Draw(t, "failures")
		if p := pause(n); p < firstPause/2 || p > longestPause {
			t.Errorf("%v after %d failures", p, n)
		}
	})
}

// A receiver that is away for long hears of the last hour, not of everything,
// and that it was away is told once.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(4 * time.Hour)
		r := &receiver{answer: func(int, *http.Request) (int, http.Header, error) {
			if !time.Now().Before(back) {
				return 200, nil, nil
			}
			return 0, nil, errors.New("connection refused")
		}}
		b := run(t, 64, r, Hook{Name: "pager", URL: "http://x/hush"})
		for i := range 6 { // at 0, 40, 80, … minutes
			b.publish(gpu.EventCritical, gpu.Serious, string(rune('a'+i)))
			time.Sleep(40 * time.Minute)
		}
		time.Sleep(6 * time.Minute)
		b.publish(gpu.EventCritical, gpu.Serious, "last")
		synctest.Wait()
		b.stop()
		bodies := strings.Join(r.bodies()[len(r.bodies())-2:], "")
		if !strings.Contains(bodies, `"text":"f"`) || !strings.Contains(bodies, `"text":"last"`) {
			t.Errorf("the newest were not delivered: %s", bodies)
		}
		if b.counts[Failed] != 5 || b.counts[Delivered] != 2 {
			t.Errorf("counted %v", b.counts)
		}
		told := b.texts()
		if len(told) != 2 || !strings.Contains(told[0], "tries again") || !strings.Contains(told[1], "does not work") {
			t.Fatalf("told %q, want it once when it began, and once when it was given up", told)
		}
		for _, text := range told {
			if !strings.Contains(text, "pager") || !strings.Contains(text, "connection refused") || strings.Contains(text, "hush") {
				t.Errorf("told %q", text)
			}
		}
		for _, e := range b.told {
			if e.Public == "" || strings.Contains(e.Public, "pager") || strings.Contains(e.Public, "refused") {
				t.Errorf("others are told %q", e.Public)
			}
		}
		if n := len(r.bodies()); n > 100 {
			t.Errorf("%d attempts in four hours", n)
		}
	})
}

func TestRefusedIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		statuses := []int{400, 404, 200, 302, 410}
		r := &receiver{answer: func(n int, _ *http.Request) (int, http.Header, error) { return statuses[n], nil, nil }}
		b := run(t, 16, r, Hook{Name: "pager", URL: "http://x/"})
		for range statuses {
			b.publish(gpu.EventCritical, gpu.Serious, "hot")
		}
		synctest.Wait()
		b.stop()
		if diff := cmp.Diff(map[Status]int{Failed: 4, Delivered: 1}, b.counts); diff != "" {
			t.Error(diff)
		}
		if len(b.told) != 2 { // once, and once more after it had worked
			t.Errorf("told %q", b.texts())
		}
	})
}

// A receiver that takes its time is told what it missed; the one that
// publishes does not wait, and neither does another hook.
func TestSlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := &receiver{answer: func(_ int, r *http.Request) (int, http.Header, error) {
			if r.URL.Host == "slow" {
				<-release
			}
			return 200, nil, nil
		}}
		b := run(t, 4, r, Hook{Name: "slow", URL: "http://slow/", Codes: []gpu.EventCode{gpu.EventCritical}}, Hook{Name: "quick", URL: "http://quick/"})
		for i := range 20 {
			b.publish(gpu.EventCritical, gpu.Serious, string(rune('a'+i)))
			synctest.Wait()
		}
		if b.counts[Delivered] != 20 {
			t.Errorf("the quick one was told of %d", b.counts[Delivered])
		}
		seen := len(r.bodies())
		close(release)
		synctest.Wait()
		b.stop()
		rest := r.bodies()[seen:]
		if len(rest) != 5 || !strings.Contains(rest[0], `"code":"gap"`) || !strings.Contains(rest[1], `"text":"q"`) || !strings.Contains(rest[4], `"text":"t"`) {
			t.Errorf("the slow one was then told %q", rest)
		}
		if b.drops != 15 || !strings.Contains(rest[0], `"dropped":15`) {
			t.Errorf("%d were counted as dropped, and the slow one was told %s", b.drops, rest[0])
		}
	})
}

// A slow hook once lost the loss of a device among thousands of notes, and
// nothing counted it.
func TestNotesCostAHookNoWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := &receiver{answer: func(int, *http.Request) (int, http.Header, error) {
			<-release
			return 200, nil, nil
		}}
		b := run(t, 8, r, Hook{Name: "warnings", URL: "http://warnings/", Severity: gpu.Warning}, Hook{Name: "all", URL: "http://all/"})
		b.publish(gpu.EventDeviceFound, gpu.Note, "first")
		synctest.Wait() // it is being sent
		b.log.Publish(gpu.Event{Time: time.Now(), Code: gpu.EventDeviceLost, Severity: gpu.Serious, Text: "lost"})
		for range 5000 {
			b.publish(gpu.EventGranted, gpu.Note, "noise")
		}
		b.log.Publish(gpu.Event{Time: time.Now(), Code: gpu.EventDeviceLost, Severity: gpu.Serious, Text: "lost too"})
		synctest.Wait()
		close(release)
		synctest.Wait()
		b.stop()
		var got []string
		for _, body := range r.bodies() {
			_, text, _ := strings.Cut(body, `"text":"`)
			text, _, _ = strings.Cut(text, `"`)
			got = append(got, text)
		}
		slices.Sort(got)
		noise := slices.Repeat([]string{"noise"}, 8)
		want := append([]string{"4992 events were not sent to this hook, 0 of them warnings or worse: it is too slow, and its queue was full.", "first", "lost", "lost", "lost too", "lost too"}, noise...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("both were told (-want +got):\n%s", diff)
		}
		if b.drops != 4992 {
			t.Errorf("%d counted as dropped", b.drops)
		}
	})
}

// What one user causes costs a hook nothing about devices or another user.
func TestUsersShareAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(8, 1, func() {}, func() {})
		for i := range 1000 {
			e := gpu.Event{ID: uint64(10 + i), Code: gpu.EventExpired, Severity: gpu.Warning, User: "eve"}
			switch i {
			case 3:
				e.User, e.Text = "ada", "of ada"
			case 4:
				e.User, e.Code, e.Text = "", gpu.EventDeviceLost, "lost"
			}
			w.add(e)
		}
		var got []string
		for last := uint64(0); ; {
			e, found := w.take()
			if !found {
				break
			}
			if e.ID <= last {
				t.Errorf("%d comes after %d", e.ID, last)
			}
			last = e.ID
			got = append(got, string(e.Code)+" "+e.Text)
		}
		want := []string{
			"gap 991 events were not sent to this hook, 991 of them warnings or worse: it is too slow, and its queue was full.",
			"lease_expired of ada", "device_lost lost",
		}
		want = append(want, slices.Repeat([]string{"lease_expired "}, 7)...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("taken (-want +got):\n%s", diff)
		}
	})
}

func TestHangingReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(n int, r *http.Request) (int, http.Header, error) {
			if n == 0 {
				<-r.Context().Done()
				return 0, nil, r.Context().Err()
			}
			return 200, nil, nil
		}}
		b := run(t, 4, r, Hook{Name: "pager", URL: "http://x/", Timeout: 7 * time.Second})
		b.publish(gpu.EventCritical, gpu.Serious, "hot")
		time.Sleep(time.Minute)
		b.stop()
		if gaps := r.gaps(); len(gaps) != 1 || gaps[0] < 7*time.Second || gaps[0] > 8*time.Second || b.counts[Delivered] != 1 {
			t.Errorf("attempts %v apart, counted %v", gaps, b.counts)
		}
	})
}

// What has happened when the daemon stops is still delivered, if that succeeds
// at once.
func TestStop(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		hang   bool
		took   time.Duration
		want   map[Status]int
	}{
		"answers": {status: 200, want: map[Status]int{Delivered: 3}},
		"fails":   {status: 503, want: map[Status]int{Retried: 1}},
		"hangs":   {hang: true, took: farewell, want: map[Status]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				r := &receiver{answer: func(_ int, r *http.Request) (int, http.Header, error) {
					<-gate
					if c.hang {
						<-r.Context().Done()
						return 0, nil, r.Context().Err()
					}
					return c.status, nil, nil
				}}
				b := run(t, 8, r, Hook{Name: "pager", URL: "http://x/"})
				for range 3 {
					b.publish(gpu.EventCritical, gpu.Serious, "hot")
				}
				synctest.Wait()
				begun := time.Now()
				go func() {
					synctest.Wait() // Run has been told to stop
					close(gate)
				}()
				b.stop()
				if took := time.Since(begun); took != c.took {
					t.Errorf("took %v", took)
				}
				if diff := cmp.Diff(c.want, b.counts); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestWants(t *testing.T) {
	for _, c := range []struct {
		hook Hook
		e    gpu.Event
		want bool
	}{
		{Hook{Severity: gpu.Warning}, gpu.Event{Code: gpu.EventCritical, Severity: gpu.Serious}, true},
		{Hook{Severity: gpu.Warning}, gpu.Event{Code: gpu.EventGranted, Severity: gpu.Note}, false},
		{Hook{Severity: gpu.Note, Codes: []gpu.EventCode{gpu.EventGranted}}, gpu.Event{Code: gpu.EventGranted, Severity: gpu.Note}, true},
		{Hook{Severity: gpu.Note, Codes: []gpu.EventCode{gpu.EventGranted}}, gpu.Event{Code: gpu.EventCritical, Severity: gpu.Serious}, false},
		{Hook{Severity: gpu.Serious, Codes: []gpu.EventCode{gpu.EventGranted}}, gpu.Event{Code: gpu.EventGap, Severity: gpu.Warning}, true},
		{Hook{Severity: gpu.Note}, gpu.Event{Code: gpu.EventHook, Severity: gpu.Warning}, false},
		{Hook{Severity: gpu.Note}, gpu.Event{Code: gpu.EventAlert, Severity: gpu.Serious}, true},
		{Hook{Severity: gpu.Note}, gpu.Event{Code: gpu.EventAlert, Severity: gpu.Serious, Data: map[string]any{"acknowledged": true}}, false},
		{Hook{Severity: gpu.Warning, Codes: []gpu.EventCode{gpu.EventThrottle}}, gpu.Event{Code: gpu.EventStateChange, Also: []gpu.EventCode{gpu.EventThrottle}, Severity: gpu.Warning}, true},
		{Hook{Severity: gpu.Warning, Codes: []gpu.EventCode{gpu.EventResume}}, gpu.Event{Code: gpu.EventStateChange, Also: []gpu.EventCode{gpu.EventThrottle}, Severity: gpu.Warning}, false},
		{Hook{Severity: gpu.Note}, gpu.Event{Code: gpu.EventAlert, Severity: gpu.Serious, Data: map[string]any{"told": true}}, false},
		{Hook{Severity: gpu.Note, Codes: []gpu.EventCode{gpu.EventAlert, gpu.EventStateChange}}, gpu.Event{Code: gpu.EventAlert, Severity: gpu.Serious, Data: map[string]any{"told": true}}, false},
		{Hook{Severity: gpu.Note, Codes: []gpu.EventCode{gpu.EventAlert}}, gpu.Event{Code: gpu.EventAlert, Severity: gpu.Serious, Data: map[string]any{"told": true}}, true},
		{Hook{Severity: gpu.Note}, gpu.Event{Code: gpu.EventAlertResolved, Severity: gpu.Note, Data: map[string]any{"acknowledged": true}}, true},
	} {
		if got := c.hook.wants(&c.e); got != c.want {
			t.Errorf("%+v of %+v: %v", c.hook, c.e, got)
		}
	}
}

// Whatever a receiver answers, every event is delivered or counted as failed,
// once, and none overtakes another.
func TestEveryEventOnceInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(rt, "events")
		answers := rapid.SliceOf(rapid.SampledFrom([]int{200, 204, 400, 408, 429, 500, 503})).Draw(rt, "answers")
		synctest.Test(t, func(t *testing.T) {
			r := &receiver{answer: func(i int, _ *http.Request) (int, http.Header, error) {
				if i < len(answers) {
					return answers[i], nil, nil
				}
				return 200, nil, nil
			}}
			b := run(t, 32, r, Hook{Name: "pager", URL: "http://x/"})
			for i := range n {
				b.publish(gpu.EventCritical, gpu.Serious, string(rune('a'+i)))
			}
			time.Sleep(24 * time.Hour)
			b.stop()
			if got := b.counts[Delivered] + b.counts[Failed]; got != n {
				t.Errorf("%d of %d events were settled", got, n)
			}
			order := ""
			for _, body := range r.bodies() {
				_, text, _ := strings.Cut(body, `"text":"`)
				if !strings.HasSuffix(order, text[:1]) {
					order += text[:1]
				}
			}
			if order != "abcdefgh"[:n] {
				t.Errorf("delivered %s", order)
			}
		})
	})
}

func TestCommandsRunOneAfterTheOther(t *testing.T) {
	dir := t.TempDir()
	b := run(t, 16, nil, Hook{Name: "mail", Command: []string{"sh", "-c", `echo "begin $BERTH_EVENT_TEXT" >> "$1/got"; echo "end $BERTH_EVENT_TEXT" >> "$1/got"`, "sh", dir}})
	want := ""
	for _, text := range []string{"a", "b", "c", "d"} {
		b.publish(gpu.EventCritical, gpu.Serious, text)
		want += "begin " + text + "\nend " + text + "\n"
	}
	b.settle(4)
	b.stop()
	got, err := os.ReadFile(filepath.Join(dir, "got"))
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if b.counts[Delivered] != 4 {
		t.Errorf("counted %v", b.counts)
	}
}

// That a command fails is told once; it is not run again.
func TestCommandThatFails(t *testing.T) {
	b := run(t, 16, nil, Hook{Name: "mail", Command: []string{"sh", "-c", "echo no mail today >&2; exit 3"}})
	b.publish(gpu.EventCritical, gpu.Serious, "hot")
	b.publish(gpu.EventCritical, gpu.Serious, "hot")
	b.settle(2)
	b.stop()
	if told := b.texts(); len(told) != 1 || !strings.Contains(told[0], "exit status 3") {
		t.Errorf("told %q", told)
	}
	if b.counts[Failed] != 2 || len(b.output) != 2 {
		t.Errorf("counted %v, wrote %q", b.counts, b.output)
	}
}
