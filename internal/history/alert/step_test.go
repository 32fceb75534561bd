package alert

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"
)

// sameLabels compares labels for cmp.
var sameLabels = cmp.Comparer(labels.Equal)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// found is the element of an answer for a device.
func found(gpu string) Found {
	return Found{
		Labels: labels.FromMap(map[string]string{NameLabel: "Hot", "gpu": gpu, SeverityLabel: "critical"}), Value: 81,
		Annotations: labels.FromMap(map[string]string{"summary": gpu + " is hot"}),
	}
}

// A history is one evaluation a minute. The answers have the alert where there is
// a 1; the phases are - for none, p for pending and F for firing.
func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name            string
		wait, keep      int // minutes
		answers, phases string
	}{
		{"at once", 0, 0, "0110", "-FF-"},
		{"after two minutes", 2, 0, "011110", "-ppFF-"},
		{"too short", 2, 0, "01100110", "-pp--pp-"},
		{"a gap begins it anew", 2, 0, "0110111", "-pp-ppF"},
		{"it fires again", 1, 0, "110110", "pF-pF-"},
		{"less than one interval", 0, 1, "1000", "FF--"},
		{"kept for two minutes", 0, 2, "10000", "FFF--"},
		{"kept, and there again", 0, 2, "10010000", "FFFFFF--"},
		{"a pending one is not kept", 2, 5, "1100", "pp--"},
		{"pending, then kept", 1, 2, "1100011", "pFFF-pF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Rule{Alert: "Hot", For: time.Duration(c.wait) * time.Minute, Keep: time.Duration(c.keep) * time.Minute}
			active, got, fires := Active{}, "", false
			for i, there := range c.answers {
				var answer []Found
				if there == '1' {
					answer = append(answer, found("GPU-a"))
				}
				after, changes, err := r.Step(active, answer, noon.Add(time.Duration(i)*time.Minute), 0)
				if err != nil {
					t.Fatal(err)
				}
				active = after
				phase := "-"
				for _, s := range active {
					phase = map[Phase]string{Pending: "p", Firing: "F"}[s.Phase]
				}
				got += phase
				if now := phase == "F"; (len(changes.Fired) == 1) != (now && !fires) || (len(changes.Resolved) == 1) != (!now && fires) {
					t.Errorf("minute %d: %d fired, %d resolved", i, len(changes.Fired), len(changes.Resolved))
				} else {
					fires = now
				}
			}
			if got != c.phases {
				t.Errorf("answers %s\n   got %s\n  want %s", c.answers, got, c.phases)
			}
		})
	}
}

func TestStep(t *testing.T) {
	r := &Rule{Alert: "Hot", For: time.Minute}
	first, _, err := r.Step(nil, []Found{found("GPU-b"), found("GPU-a")}, noon, 0)
	if err != nil {
		t.Fatal(err)
	}
	hotter := found("GPU-a")
	hotter.Value, hotter.Annotations = 90, labels.FromMap(map[string]string{"summary": "GPU-a burns"})
	second, changes, err := r.Step(first, []Found{hotter, found("GPU-c")}, noon.Add(time.Minute), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []State{
		{
			Fingerprint: Fingerprint(hotter.Labels), Labels: hotter.Labels, Annotations: hotter.Annotations, Phase: Firing, Value: 90,
			ActiveAt: noon, FiredAt: noon.Add(time.Minute),
		},
		{
			Fingerprint: Fingerprint(found("GPU-c").Labels), Labels: found("GPU-c").Labels, Annotations: found("GPU-c").Annotations, Phase: Pending, Value: 81,
			ActiveAt: noon.Add(time.Minute),
		},
	}
	if diff := cmp.Diff(want, second.List(), sameLabels); diff != "" {
		t.Errorf("after the second (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Changes{Fired: want[:1]}, changes, sameLabels); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if first[want[0].Fingerprint].Phase != Pending || len(first) != 2 {
		t.Error("the alerts before the evaluation were changed")
	}

	slower := &Rule{Alert: "Hot", For: time.Hour}
	again, changes, err := slower.Step(second, []Found{hotter}, noon.Add(2*time.Minute), 0)
	if err != nil || again.List()[0].Phase != Pending || len(changes.Resolved) != 1 {
		t.Errorf("a rule that asks for more time: %+v, %+v, %v", again, changes, err)
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	r := &Rule{Alert: "Hot"}
	before, _, _ := r.Step(nil, []Found{found("GPU-a")}, noon, 0)
	after, changes, err := r.Step(before, []Found{found("GPU-b"), found("GPU-b")}, noon, 0)
	if !errors.Is(err, ErrTwice) || !maps.EqualFunc(before, after, func(a, b State) bool { return cmp.Equal(a, b, sameLabels) }) || len(changes.Fired)+len(changes.Resolved) != 0 {
		t.Errorf("one alert twice: %v, %v, %v", after, changes, err)
	}
	after, changes, err = r.Step(before, []Found{found("GPU-a"), found("GPU-b")}, noon, 1)
	many := (*TooManyError)(nil)
	if !errors.As(err, &many) || many.Found != 2 || len(after) != 0 || len(changes.Resolved) != 1 {
		t.Errorf("too many: %v, %v, %v", after, changes, err)
	}
}

// The fingerprint is the one of Alertmanager.
func TestFingerprint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOfN(rapid.StringMatching(`[a-z_]{1,4}`), rapid.String(), 0, 5).Draw(t, "labels")
		set := model.LabelSet{}
		for name, value := range m {
			set[model.LabelName(name)] = model.LabelValue(value)
		}
		if got, want := Fingerprint(labels.FromMap(m)), set.Fingerprint().String(); got != want {
			t.Fatalf("%v: %s, and Alertmanager has %s", m, got, want)
		}
	})
}

// For each alert by itself, a second and simpler model says the same.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Rule{
			Alert: "Hot", For: time.Duration(rapid.IntRange(0, 4).Draw(t, "for")) * time.Minute,
			Keep: time.Duration(rapid.IntRange(0, 3).Draw(t, "keep")) * time.Minute,
		}
		names := []string{"a", "b", "c"}
		type toy struct {
			since, lastSeen time.Time
			phase           Phase
		}
		toys, fires := map[string]toy{}, map[string]bool{}
		active, at := Active{}, noon
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "pause")) * time.Second)
			var answer []Found
			there := map[string]bool{}
			for _, name := range names {
				if rapid.Bool().Draw(t, name) {
					answer, there[name] = append(answer, found(name)), true
				}
			}
			after, changes, err := r.Step(active, answer, at, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				toy, known := toys[name]
				switch {
				case there[name] && !known:
					toy.since, toy.phase = at, Pending
				case !there[name] && known:
					if toy.lastSeen.IsZero() {
						toy.lastSeen = at
					}
					if toy.phase == Pending || at.Sub(toy.lastSeen) >= r.Keep {
						delete(toys, name)
						continue
					}
				case !known:
					continue
				}
				if there[name] {
					toy.lastSeen = time.Time{}
				}
				if at.Sub(toy.since) >= r.For {
					toy.phase = Firing
				}
				toys[name] = toy
			}
			for _, s := range changes.Fired {
				name := s.Labels.Get("gpu")
				if fires[name] {
					t.Fatalf("%s fires, and did before", name)
				}
				fires[name] = true
			}
			for _, s := range changes.Resolved {
				name := s.Labels.Get("gpu")
				if !fires[name] {
					t.Fatalf("%s is resolved, and did not fire", name)
				}
				fires[name] = false
			}
			got := map[string]Phase{}
			for _, s := range after {
				got[s.Labels.Get("gpu")] = s.Phase
				if (s.Phase == Firing) != fires[s.Labels.Get("gpu")] {
					t.Fatalf("the changes do not add up to %v", s)
				}
			}
			want := map[string]Phase{}
			for name, toy := range toys {
				want[name] = toy.phase
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("at %v (-want +got):\n%s", at, diff)
			}
			active = after
		}
	})
}

func TestValues(t *testing.T) {
	r := &Rule{Alert: "Hot"}
	active, _, _ := r.Step(nil, []Found{found("GPU-a")}, noon, 0)
	var got []string
	for _, v := range active.Samples() {
		var pairs []string
		v.Labels.Range(func(l labels.Label) { pairs = append(pairs, l.Name+"="+l.Value) })
		got = append(got, strings.Join(pairs, " "))
		if want := map[string]float64{Series: 1, SinceSeries: float64(noon.Unix())}[v.Labels.Get(labels.MetricName)]; v.Value != want {
			t.Errorf("%v has the value %v, want %v", v.Labels, v.Value, want)
		}
	}
	if diff := cmp.Diff([]string{
		"__name__=ALERTS alertname=Hot alertstate=firing gpu=GPU-a severity=critical",
		"__name__=ALERTS_FOR_STATE alertname=Hot gpu=GPU-a severity=critical",
	}, got); diff != "" {
		t.Error(diff)
	}
	record := &Rule{Record: "job:used:sum", Labels: labels.FromMap(map[string]string{"gpu": "", "team": "x"})}
	v := record.Recorded(labels.FromMap(map[string]string{labels.MetricName: "used", "gpu": "GPU-a", "job": "berth"}), 7)
	want := labels.FromMap(map[string]string{labels.MetricName: "job:used:sum", "job": "berth", "team": "x"})
	if !labels.Equal(v.Labels, want) || v.Value != 7 {
		t.Errorf("recorded %v", v)
	}
}
