package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file"
)

// A change is told with what it changed; one that changes nothing is not told.
func TestChangeIsTold(t *testing.T) {
	c, _ := newPlace(t, "sim:1").start(t)
	for _, body := range []string{`{"temp_optimal": 61, "devices": {"SIM-h200-0": {"max_pipelines": 3}}}`, `{"temp_optimal": 61}`, `{}`, `{"devices": null}`} {
		if _, err := c.SetConfig(t.Context(), json.RawMessage(body)); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	var told []string
	for e, err := range c.Events(t.Context(), 0, false) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Code == gpu.EventConfig {
			told = append(told, e.Text)
		}
	}
	want := []string{
		"The configuration was changed: gpu.devices.SIM-h200-0.max_pipelines = 3 (was not set), gpu.temp_optimal = 61 (was 65)",
		"The configuration was changed: gpu.devices.SIM-h200-0.max_pipelines is not set (was 3)",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}

// Everybody learns that the configuration was changed; only those who see everything
// learn which users, groups and hooks it names.
func TestChangeNamesNobody(t *testing.T) {
	d := newPlace(t, "sim:1").open(t, t.Context())
	if err := d.settings.Change(t.Context(), access.Daemon(), []byte(`{"temp_optimal": 61, "users": {"carol": {"role": "operator"}}}`)); err != nil {
		t.Fatal(err)
	}
	told := false
	kept, _ := d.events.Kept(0)
	for _, e := range kept {
		if e.Code != gpu.EventConfig {
			continue
		}
		told = strings.Contains(e.Text, "users.carol.role = operator")
		if public := fmt.Sprint(e.Public, e.Data); strings.Contains(public, "carol") || !strings.Contains(public, "temp_optimal") {
			t.Errorf("others are told %s", public)
		}
	}
	if !told {
		t.Error("nobody is told who became an operator")
	}
}

// A disk that takes its time for a change holds up neither those who read the
// settings nor what is in force; of two changes at once none is lost.
func TestChangeWaitsForTheDiskAlone(t *testing.T) {
	p := newPlace(t, "sim:1")
	d := p.open(t, t.Context())
	s, first := d.settings, d.settings.load()
	told := func() (all []string) {
		kept, _ := d.events.Kept(0)
		for _, e := range kept {
			if e.Code == gpu.EventConfig {
				all = append(all, e.Data["changed"].([]string)...)
			}
		}
		return all
	}
	writing, written := make(chan struct{}), make(chan error)
	s.write = func(path string, text []byte) error {
		writing <- struct{}{}
		if err := <-written; err != nil {
			return err
		}
		return file.Replace(path, text)
	}
	answers := make(chan error, 3)
	change := func(body string) { go func() { answers <- s.Change(t.Context(), access.Daemon(), []byte(body)) }() }

	change(`{"temp_optimal": 61}`)
	<-writing
	if got := s.load().Config.GPU.TempOptimal; got != first.Config.GPU.TempOptimal || len(told()) != 0 {
		t.Errorf("temp_optimal is %v before it is written, and %v was told", got, told())
	}
	if s.GPU(); len(s.Fields()) == 0 {
		t.Error("the settings cannot be read")
	}
	change(`{"max_pipelines": 3}`)
	written <- nil
	<-writing
	if got := s.load().Config.GPU.TempOptimal; got != 61 {
		t.Errorf("temp_optimal is %v after it was written", got)
	}
	written <- nil
	change(`{"temp_optimal": 62}`)
	<-writing
	full := errors.New("no room")
	written <- full
	if err := errors.Join(<-answers, <-answers, <-answers); !errors.Is(err, full) {
		t.Errorf("a change that was not written was answered with %v", err)
	}
	if want := []string{"gpu.max_pipelines = 3 (was CPUs / devices, rounded up)", "gpu.temp_optimal = 61 (was 65)"}; !slices.Equal(slices.Sorted(slices.Values(told())), want) {
		t.Errorf("told %v, want %v", told(), want)
	}
	kept, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	if got := kept.Config.GPU; got.TempOptimal != 61 || got.MaxPipelines.Or(0) != 3 {
		t.Errorf("after a restart temp_optimal is %v and max_pipelines %v", got.TempOptimal, got.MaxPipelines)
	}
}
