package alert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/history/series"
)

// world is what the alerts ask, and what they tell.
type world struct {
	t *testing.T
	*Alerts

	mu      sync.Mutex
	hot     map[string]float64 // answers to the question hot, by gpu
	fails   error
	slow    time.Duration
	asking  int
	most    int
	asked   []time.Time
	told    []gpu.Event
	samples []series.Sample
	stored  []time.Time
	records []string
	refused error
}

func newWorld(t *testing.T, file string) *world {
	w := &world{t: t, hot: map[string]float64{}}
	w.Alerts = New(Options{
		Ask: w.ask, Store: w, File: file, Known: func(uuid string) bool { return uuid != "GPU-x" },
		Event: func(e gpu.Event) { w.mu.Lock(); defer w.mu.Unlock(); w.told = append(w.told, e) }, Tell: func(err error) { t.Error(err) },
		Record: func(by access.Actor, s *State, a *Acknowledgement) error {
			w.records = append(w.records, fmt.Sprintf("%s %s %v", by.User, s.Name(), a != nil))
			return w.refused
		},
	})
	if damage := w.Recall(); damage != nil {
		t.Error(damage)
	}
	return w
}

func (w *world) ask(ctx context.Context, expr string, at time.Time) (series.Answer, error) {
	w.mu.Lock()
	slow := w.slow
	w.asking++
	w.most = max(w.most, w.asking)
	w.asked = append(w.asked, at)
	w.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking--
	if err := errors.Join(w.fails, ctx.Err()); err != nil {
		return series.Answer{}, err
	}
	switch expr {
	case "one":
		return series.Answer{Value: promql.Scalar{V: 1}}, nil
	case "text":
		return series.Answer{Value: promql.String{V: "x"}}, nil
	}
	list := promql.Vector{}
	for name, v := range w.hot {
		own := labels.FromStrings(labels.MetricName, "t", "gpu", name)
		if user, id, lease := strings.Cut(name, "/"); lease {
			own = labels.FromStrings(labels.MetricName, "t", "lease", user+"/"+id)
		}
		list = append(list, promql.Sample{Metric: own, T: at.UnixMilli(), F: v})
	}
	return series.Answer{Value: list}, nil
}

func (w *world) Append(at time.Time, list []series.Sample) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples, w.stored = append(w.samples, list...), append(w.stored, at)
	return nil
}

// heat sets the answers.
func (w *world) heat(hot map[string]float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hot = hot
}

// events returns what was told since the last call, in short.
func (w *world) events() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, e := range w.told {
		text := fmt.Sprintf("%s %s %s", e.Code, e.Severity, e.Text)
		for _, key := range []string{"again", "acknowledged"} {
			if e.Data[key] == true {
				text += " (" + key + ")"
			}
		}
		list = append(list, text)
	}
	w.told = nil
	return list
}

// expect compares what was told.
func (w *world) expect(what string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.events()); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// runs evaluates the rules until the function that it returns is called.
func (w *world) runs() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	return func() { cancel(); <-done }
}

// hotRules is a group with one alert.
func hotRules(wait time.Duration) []Group {
	return []Group{{Name: "g", File: "f.yml", Interval: 10 * time.Second, Rules: []Rule{{
		Alert: "Hot", Expr: "hot", For: wait, Labels: labels.FromMap(map[string]string{"severity": "critical"}),
		Annotations: labels.FromMap(map[string]string{"summary": "{{ $labels.gpu }} is at {{ $value }}"}),
	}}}}
}

func TestAnAlertBecomesAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.Configure(hotRules(15 * time.Second))
		defer w.runs()()
		w.heat(map[string]float64{"GPU-a": 81})
		time.Sleep(20 * time.Second)
		w.expect("pending")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		fired := slices.Clone(w.told)
		w.expect("firing", "alert critical Hot: GPU-a is at 81")
		if len(fired) != 1 {
			t.Fatal("it is told once")
		}
		own := map[string]string{"alertname": "Hot", "gpu": "GPU-a", "severity": "critical"}
		s := w.Active()[0]
		want := map[string]any{
			"alert": "Hot", "labels": own, "value": 81.0, "since": s.ActiveAt.UTC(), "fingerprint": Fingerprint(labels.FromMap(own)),
			"annotations": map[string]string{"summary": "GPU-a is at 81"},
		}
		if diff := cmp.Diff(want, fired[0].Data); diff != "" || fired[0].GPU != "GPU-a" {
			t.Errorf("about %q (-want +got):\n%s", fired[0].GPU, diff)
		}
		w.heat(map[string]float64{"GPU-a": 85, "GPU-x": 90})
		time.Sleep(40 * time.Second)
		w.expect("another, of no device", "alert critical Hot: GPU-x is at 90")
		w.heat(nil)
		time.Sleep(10 * time.Second)
		w.expect("resolved", "alert_resolved info Hot is over. It said: GPU-a is at 85", "alert_resolved info Hot is over. It said: GPU-x is at 90")
		if len(w.Active()) != 0 {
			t.Errorf("still active: %v", w.Active())
		}
	})
}

// The event says that another one has told the same, but not when it is told again.
func TestAnAlertThatWasToldAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.Told = func(uuid, cause string, s gpu.Severity) bool {
			return uuid == "GPU-a" && cause == "temperature" && s == gpu.Serious
		}
		rules := hotRules(0)
		rules[0].Rules[0].Annotations = labels.FromMap(map[string]string{"cause": "temperature"})
		w.Configure(rules)
		defer w.runs()()
		w.heat(map[string]float64{"GPU-a": 86, "GPU-b": 86, "GPU-x": 86})
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		told := map[string][]any{}
		for _, e := range w.told {
			told[e.GPU] = append(told[e.GPU], e.Data["told"])
		}
		if diff := cmp.Diff(map[string][]any{"GPU-a": {true, nil}, "GPU-b": {nil, nil}, "": {nil, nil}}, told); diff != "" {
			t.Error(diff)
		}
	})
}

// An alert about a lease is an event about its user, whom viewers do not see.
func TestAnAlertAboutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.Configure(hotRules(0))
		defer w.runs()()
		w.heat(map[string]float64{"ada/train-7": 1})
		time.Sleep(time.Minute)
		synctest.Wait()
		if e := w.told[0]; e.User != "ada" || e.Lease != "train-7" || e.GPU != "" {
			t.Errorf("the event is %+v", e)
		}
	})
}

func TestNobodyCares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		rules := hotRules(0)
		rules[0].Interval = time.Minute
		w.Configure(rules)
		defer w.runs()()
		w.heat(map[string]float64{"GPU-a": 81})
		time.Sleep(time.Minute)
		w.expect("firing", "alert critical Hot: GPU-a is at 81")
		time.Sleep(Repeat)
		w.expect("after four hours", "alert critical Hot: GPU-a is at 81 (again)")
		eve := access.Actor{User: "eve", UID: 7, Door: access.Socket, Role: access.Operator}
		mark := w.Active()[0].Fingerprint
		if _, err := w.Acknowledge(eve, "0000000000000000", time.Hour, ""); !errors.Is(err, ErrUnknown) {
			t.Errorf("an unknown alert: %v", err)
		}
		if _, err := w.Unacknowledge(eve, mark); !errors.Is(err, ErrNotAcknowledged) {
			t.Errorf("one that nobody acknowledged: %v", err)
		}
		w.refused = errors.New("the audit log cannot be written")
		if _, err := w.Acknowledge(eve, mark, time.Hour, ""); !errors.Is(err, w.refused) || w.Active()[0].Acknowledged != nil {
			t.Errorf("without an audit log: %v, %v", err, w.Active()[0].Acknowledged)
		}
		w.refused = nil
		s, err := w.Acknowledge(eve, mark, 8*time.Hour, "I look at the fans")
		if err != nil || s.Acknowledged.Comment != "I look at the fans" || s.Acknowledged.By.User != "eve" {
			t.Fatalf("%+v, %v", s.Acknowledged, err)
		}
		w.expect("acknowledged", "alert_acknowledged info Hot is acknowledged until "+s.Acknowledged.Until.Format(time.TimeOnly)+": I look at the fans")
		time.Sleep(8*time.Hour - time.Minute)
		w.expect("for eight hours")
		time.Sleep(2 * time.Minute)
		w.expect("after them", "alert critical Hot: GPU-a is at 81 (again)")
		if _, err := w.Acknowledge(eve, mark, 8*time.Hour, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Unacknowledge(eve, mark); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := w.events(); len(got) != 3 || !strings.HasSuffix(got[1], "no longer acknowledged") || !strings.HasSuffix(got[2], "(again)") {
			t.Errorf("taken back: %q", got)
		}
		if diff := cmp.Diff([]string{"eve Hot true", "eve Hot true", "eve Hot true", "eve Hot false"}, w.records); diff != "" {
			t.Errorf("written down (-want +got):\n%s", diff)
		}
	})
}

// One that was acknowledged while it was pending is told, and not to hooks.
func TestAcknowledgedBeforeItFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.Configure(hotRules(time.Minute))
		defer w.runs()()
		w.heat(map[string]float64{"GPU-a": 81})
		time.Sleep(30 * time.Second)
		if _, err := w.Acknowledge(access.Actor{User: "eve", Door: access.TCP}, w.Active()[0].Fingerprint, time.Hour, ""); err != nil {
			t.Fatal(err)
		}
		w.events()
		time.Sleep(time.Minute)
		w.expect("firing", "alert critical Hot: GPU-a is at 81 (acknowledged)")
	})
}

// If an alert ends while its acknowledgement is recorded, the audit log says that this is
// over, too.
func TestAcknowledgedAsItEnds(t *testing.T) {
	w := newWorld(t, "")
	rules := hotRules(0)
	w.Configure(rules)
	w.heat(map[string]float64{"GPU-a": 81})
	w.evaluate(t.Context(), w.groups[0])
	record := w.Record
	w.Record = func(by access.Actor, s *State, a *Acknowledgement) error {
		w.Configure(nil)
		return record(by, s, a)
	}
	_, err := w.Acknowledge(access.Actor{User: "eve", Door: access.TCP}, w.Active()[0].Fingerprint, time.Hour, "")
	if want := []string{"eve Hot true", "eve Hot false"}; !errors.Is(err, ErrUnknown) || !slices.Equal(w.records, want) {
		t.Errorf("%v, and the audit log has %q, want %q", err, w.records, want)
	}
}

func TestAlertsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "alerts.json")
		w := newWorld(t, file)
		w.Configure(hotRules(15 * time.Second))
		stop := w.runs()
		w.heat(map[string]float64{"GPU-a": 81, "GPU-b": 82})
		time.Sleep(time.Minute)
		synctest.Wait()
		eve := access.Actor{User: "eve", UID: 7, Door: access.Socket, Role: access.Operator}
		if _, err := w.Acknowledge(eve, w.Active()[0].Fingerprint, 8*time.Hour, "mine"); err != nil {
			t.Fatal(err)
		}
		before := w.Active()
		time.Sleep(2 * writeAfter) // and then it is killed
		killed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file has mode %v, %v", info.Mode(), err)
		}
		if err := os.WriteFile(file, killed, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)

		next := newWorld(t, file)
		next.Configure(hotRules(15 * time.Second))
		same := cmp.Options{sameLabels, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })}
		if diff := cmp.Diff(before, next.Active(), same); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		stop = next.runs()
		next.heat(map[string]float64{"GPU-a": 81})
		time.Sleep(time.Minute)
		next.expect("what fired fires on, and one is over", "alert_resolved info Hot is over. It said: GPU-b is at 82")
		stop()

		some := newWorld(t, file)
		some.ConfigureSome(nil)
		if !some.Lacks() {
			t.Error("it lacks no rules")
		}
		some.runs()()
		some.expect("while its rules cannot be read")
		again := newWorld(t, file)
		again.ConfigureSome(nil)
		again.Configure(hotRules(15 * time.Second))
		again.expect("when they can be read")
		if list := again.Active(); len(list) != 1 || list[0].Phase != Firing || list[0].Acknowledged == nil || again.Lacks() {
			t.Errorf("when its rules can be read: %+v", list)
		}

		time.Sleep(2 * time.Hour)
		late := newWorld(t, file)
		late.Configure(hotRules(15 * time.Second))
		late.expect("after a long time", "alert_resolved info Hot is over: berth was not running for more than an hour")

		gone := newWorld(t, file)
		gone.Configure(nil)
		gone.expect("without rules", "alert_resolved info Hot is over: its rule is gone")
	})
}

func TestAFileThatCannotBeReadIsPutAside(t *testing.T) {
	for name, text := range map[string]string{"torn": `{"version":1,"al`, "newer": `{"version":2}`} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k := New(Options{File: file})
		damage := k.Recall()
		if damage == nil {
			t.Fatalf("%s: nobody is told", name)
		}
		if kept, err := os.ReadFile(damage.Aside); err != nil || string(kept) != text {
			t.Errorf("%s: %q %v", name, kept, err)
		}
	}
}

func TestRulesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.Configure(hotRules(0))
		defer w.runs()()
		w.heat(map[string]float64{"GPU-a": 81})
		time.Sleep(time.Minute)
		w.expect("firing", "alert critical Hot: GPU-a is at 81")
		before := w.Groups()[0].Evaluated
		w.Configure(hotRules(0))
		if got := w.Groups()[0].Evaluated; !got.Equal(before) {
			t.Error("a group that is as it was began anew")
		}
		changed := hotRules(0)
		changed[0].Rules[0].Annotations = labels.FromMap(map[string]string{"summary": "other words"})
		w.Configure(changed)
		time.Sleep(time.Minute)
		w.expect("other words, the same alert")
		if got := w.Active()[0].Annotations.Get("summary"); got != "other words" {
			t.Errorf("it says %q", got)
		}
		w.Configure(hotRules(0))
		changed[0].Rules[0].Alert = "Hotter"
		w.Configure(changed)
		w.expect("another alert", "alert_resolved info Hot is over: its rule is gone")
		time.Sleep(time.Minute)
		w.expect("fires", "alert critical Hotter: other words")
		w.Configure(nil)
		w.expect("none", "alert_resolved info Hotter is over: its rule is gone")
		w.asked = nil
		time.Sleep(time.Hour)
		if synctest.Wait(); len(w.asked) != 0 || len(w.Groups()) != 0 {
			t.Errorf("%d questions without rules", len(w.asked))
		}
	})
}

// An alert whose rule goes as it fires is over afterwards, not before.
func TestARuleThatGoesAsItsAlertFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		var going sync.WaitGroup
		told := w.Event
		w.Event = func(e gpu.Event) {
			if e.Code == gpu.EventAlert {
				going.Go(func() { w.Configure(nil) })
				for range 100 {
					runtime.Gosched() // so that it could come first
				}
			}
			told(e)
		}
		w.Configure(hotRules(0))
		defer w.runs()()
		w.heat(map[string]float64{"GPU-a": 81})
		time.Sleep(time.Minute)
		going.Wait()
		w.expect("its end", "alert critical Hot: GPU-a is at 81", "alert_resolved info Hot is over: its rule is gone")
	})
}

func TestQuestionsThatFailOrTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		rules := hotRules(0)
		rules[0].Rules = append(rules[0].Rules, Rule{Alert: "Text", Expr: "text"}, Rule{Alert: "Always", Expr: "one"})
		w.Configure(rules)
		defer w.runs()()
		w.heat(map[string]float64{"GPU-a": 81})
		time.Sleep(time.Minute)
		w.expect("firing", "alert critical Hot: GPU-a is at 81", "alert warning Always: the alert fires")
		r := w.Groups()[0].Rules
		if r[0].Health != Good || r[1].Health != Bad || !strings.Contains(r[1].Error, "neither a vector nor a number") || r[0].Phase() != Firing || r[1].Phase() != Inactive {
			t.Errorf("rules: %+v", r)
		}
		w.mu.Lock()
		w.fails = errors.New("the store is closed")
		w.mu.Unlock()
		time.Sleep(10 * time.Minute)
		w.expect("an answer that does not come resolves nothing")
		if r := w.Groups()[0].Rules[0]; r.Health != Bad || !strings.Contains(r.Error, "the store is closed") {
			t.Errorf("the rule is %s: %s", r.Health, r.Error)
		}
		w.mu.Lock()
		w.fails, w.slow, w.asked = nil, time.Hour, nil
		w.mu.Unlock()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if w.most != 1 || len(w.asked) == 0 || len(w.asked) > 70 {
			t.Errorf("%d questions in ten minutes, %d at once", len(w.asked), w.most)
		}
		if r := w.Groups()[0].Rules[0]; !strings.Contains(r.Error, "deadline") {
			t.Errorf("the rule is %s: %s", r.Health, r.Error)
		}
	})
}

func TestWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		rules := hotRules(0)
		rules[0].Rules = append([]Rule{{Record: "gpu:hot:max", Expr: "hot", Labels: labels.FromMap(map[string]string{"by": "me"})}}, rules[0].Rules...)
		w.Configure(rules)
		defer w.runs()()
		w.heat(map[string]float64{"GPU-a": 81})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		w.heat(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		stale := map[string]int{}
		values := map[string]float64{}
		for _, s := range w.samples {
			name := s.Labels.Get(labels.MetricName)
			if value.IsStaleNaN(s.Value) {
				stale[name]++
			} else {
				values[name] = s.Value
			}
		}
		if diff := cmp.Diff(map[string]int{"gpu:hot:max": 1, Series: 1, SinceSeries: 1}, stale); diff != "" {
			t.Errorf("ended (-want +got):\n%s", diff)
		}
		if values["gpu:hot:max"] != 81 || values[Series] != 1 || values[SinceSeries] == 0 {
			t.Errorf("stored %v", values)
		}
	})
}

// What a group with an offset finds is stored at the time that it asked about, as samples
// that come late: a list of the past would be taken for a clock that went back.
func TestOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		rules := hotRules(0)
		rules[0].Offset = 10 * time.Minute
		w.Configure(rules)
		defer w.runs()()
		w.heat(map[string]float64{"GPU-a": 81})
		time.Sleep(25 * time.Second)
		w.heat(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(w.stored) < 2 {
			t.Fatalf("stored %d times", len(w.stored))
		}
		for i, at := range w.stored {
			if asked := w.asked[i]; !at.Equal(asked.Add(rules[0].Offset)) {
				t.Errorf("a list of %v was asked for %v", at, asked)
			}
		}
		for _, s := range w.samples {
			if s.Before != rules[0].Offset {
				t.Errorf("%v is %v late", s.Labels, s.Before)
			}
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"seen":"2026-01-31T12:00:00Z","alerts":[{"group":"f.yml;g","rule":0,"labels":{"alertname":"Hot"},"firing":true,"value":81,"active_at":"2026-01-31T12:00:00Z"}]}`))
	f.Add([]byte(`{"version":1,"alerts":[{"group":"f.yml;g","rule":-7,"labels":{"alertname":"Hot"},"value":"NaN"}]}`))
	path := filepath.Join(f.TempDir(), "alerts.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		k := New(Options{File: path, Event: func(gpu.Event) {}})
		if damage := k.Recall(); damage != nil {
			if err := os.Remove(damage.Aside); err != nil { // the next one is to have room
				t.Fatal(err)
			}
			return
		}
		k.Configure(hotRules(0))
		for _, s := range k.Active() {
			if s.Name() != "Hot" {
				t.Errorf("an alert of no rule: %+v", s)
			}
		}
	})
}
