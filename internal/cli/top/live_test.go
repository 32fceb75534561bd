package top

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/tui"
	"github.com/berth-gpu/berth/internal/daemon/daemontest"
)

// fake is a daemon with two devices that counts what it is asked. While it is
// away, nobody answers.
type fake struct {
	mu    sync.Mutex
	asked map[string]int
	away  bool
}

// RoundTrip answers a request.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errors.New("connection refused")
	}
	f.asked[r.URL.Path]++
	var body any
	switch r.URL.Path {
	case "/api/gpu/status/all":
		body = api.StatusAll{Host: "box", Monitoring: true, GPUs: []api.Status{{Device: gpu.Device{UUID: "A"}}, {Device: gpu.Device{UUID: "B", Index: 1}}}}
	case "/api/leases":
		body = api.Leases{
			Leases:  []api.Lease{{ID: "one", Parts: []api.LeasePart{{GPU: "A"}}}, {ID: "two", Parts: []api.LeasePart{{GPU: "B"}}}},
			Waiting: []api.Waiting{{ID: "next", Holder: api.Holder{User: "ada"}}},
		}
	case "/api/gpu/metrics/history":
		body = api.Samples{Samples: []gpu.Sample{{Time: time.Now().Add(-time.Minute)}}}
	case "/api/leases/next/explain":
		body = api.Explanation{Text: "no room"}
	default:
		body = struct{}{}
	}
	text, err := json.Marshal(body)
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody, Request: r}
	answer.Body = readCloser{strings.NewReader(string(text))}
	return answer, err
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// running returns a runner that asks a daemon every second, and what it sends.
func running(t *testing.T, transport http.RoundTripper) (*runner, chan tea.Msg) {
	c, err := client.New(client.Options{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan tea.Msg, 1000)
	o := &options{&console.Console{Env: console.Env{Now: time.Now}}, console.Live{Interval: time.Second}}
	return &runner{
		options: o, feed: &feed{from: &console.Source{Client: c}, now: time.Now}, send: func(m tea.Msg) { sent <- m },
		hurried: make(chan struct{}, 1), stirred: make(chan struct{}, 1), wanted: make(chan []tui.Request, 1), acts: make(chan tui.Act, 1),
	}, sent
}

// The feed asks for the devices every interval, and for what changes seldom
// rarely, or when something happened; for the past once, and again after a break.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		daemon := &fake{asked: map[string]int{}}
		r, sent := running(t, daemon)
		ctx, cancel := context.WithCancel(t.Context())
		go r.poll(ctx)
		counts := func(path string, want int) {
			t.Helper()
			daemon.mu.Lock()
			defer daemon.mu.Unlock()
			if got := daemon.asked[path]; got != want {
				t.Errorf("%s was asked for %d times, want %d", path, got, want)
			}
		}
		r.share([]tui.Request{{User: "ada", ID: "old"}})
		r.share([]tui.Request{{User: "ada", ID: "next"}})
		time.Sleep(4500 * time.Millisecond)
		counts("/api/gpu/status/all", 4)
		counts("/api/leases", 1)
		counts("/api/orphans", 1)
		counts("/api/gpu/metrics/history", 2) // a device each
		counts("/api/leases/next/explain", 1)
		counts("/api/leases/old/explain", 0)
		signal(r.stirred)
		time.Sleep(time.Second)
		counts("/api/leases", 2)
		r.hurry()
		synctest.Wait()
		counts("/api/gpu/status/all", 6)
		counts("/api/leases", 3)

		daemon.mu.Lock()
		daemon.away = true
		daemon.mu.Unlock()
		for len(sent) > 0 {
			<-sent
		}
		time.Sleep(2500 * time.Millisecond)
		if m, lost := (<-sent).(daemonLost); !lost || !strings.Contains(m.err.Error(), "connection refused") {
			t.Errorf("%+v", m)
		}
		daemon.mu.Lock()
		daemon.away = false
		daemon.mu.Unlock()
		for len(sent) > 0 {
			<-sent
		}
		time.Sleep(1500 * time.Millisecond)
		if m, back := (<-sent).(factsCame); !back || m.facts.Leases == nil || len(m.facts.Samples) != 2 {
			t.Errorf("%+v", m)
		}
		counts("/api/gpu/metrics/history", 4)
		cancel()
		synctest.Wait()
	})
}

// --gpu shows one device and its leases.
func TestOneDevice(t *testing.T) {
	r, _ := running(t, &fake{asked: map[string]int{}})
	for _, name := range []string{"1", "B"} {
		r.feed.gpu = name
		facts, err := r.feed.ask(t.Context(), nil)
		if err != nil || len(facts.Status.GPUs) != 1 || len(facts.Leases.Leases) != 1 || facts.Leases.Leases[0].ID != "two" {
			t.Errorf("%s: %+v, %v", name, facts.Leases, err)
		}
	}
	// One that goes away while it is looked at is no mistake.
	r.feed.gpu = "7"
	if facts, err := r.feed.ask(t.Context(), nil); err != nil || len(facts.Status.GPUs) != 0 || len(facts.Leases.Leases) != 0 {
		t.Errorf("%+v, %v", facts, err)
	}
	r.feed.known = nil
	if _, err := r.feed.ask(t.Context(), nil); err == nil || !strings.Contains(err.Error(), `no GPU "7"`) {
		t.Errorf("%v", err)
	}
}

// What a person confirms, the daemon does, and to no other lease.
func TestActs(t *testing.T) {
	c := daemontest.Open(t, daemontest.Options{Devices: "sim:1"})
	r := &runner{options: &options{Console: &console.Console{Env: console.Env{Now: time.Now}}}, feed: &feed{from: &console.Source{Client: c}, now: time.Now}}
	l, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "train", Memory: 1024, Binding: "named"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	user, uuid := all.Leases[0].Holder.User, l.Parts[0].GPU
	for _, s := range []struct {
		act  tui.Act
		says string
		fine bool
	}{
		{tui.Act{Verb: "drain", GPU: uuid}, "GPU 0 is drained", true},
		{tui.Act{Verb: "undrain", GPU: uuid}, "GPU 0 is not drained any more.", true},
		{tui.Act{Verb: "drain", GPU: "GPU-gone"}, "There is no device", false},
		{tui.Act{Verb: "resume", User: user, ID: "train", Fence: l.Fence}, "it is active", false},
		{tui.Act{Verb: "park", User: user, ID: "train", Fence: l.Fence + 1}, "fence", false},
		{tui.Act{Verb: "release", User: user, ID: "train", Fence: l.Fence + 1}, "fence", false},
		{tui.Act{Verb: "release", User: user, ID: "train", Fence: l.Fence}, "train is released: 1 GiB and 1 slot on GPU 0", true},
		{tui.Act{Verb: "release", User: user, ID: "train", Fence: l.Fence}, "train", false},
		{tui.Act{Verb: "dance"}, "cannot dance", false},
	} {
		did, err := r.act(t.Context(), s.act)
		if said := did; err != nil {
			if said = err.Error(); s.fine || !strings.Contains(said, s.says) {
				t.Errorf("%+v: %s", s.act, said)
			}
		} else if !s.fine || !strings.Contains(said, s.says) {
			t.Errorf("%+v: %s", s.act, said)
		}
	}
}

// The terminal library calls keys what the screen calls them.
func TestKeys(t *testing.T) {
	for want, key := range map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift},
		"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown},
		"home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd}, "backspace": {Code: tea.KeyBackspace}, "space": {Code: tea.KeySpace, Text: " "},
		"ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+z": {Code: 'z', Mod: tea.ModCtrl}, "?": {Code: '?', Text: "?"}, "S": {Code: 's', Mod: tea.ModShift, Text: "S"}, "f1": {Code: tea.KeyF1},
	} {
		if got := tea.KeyPressMsg(key).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The program hands on what it gets, and ends when the user wants that.
func TestProgram(t *testing.T) {
	r, _ := running(t, &fake{asked: map[string]int{}})
	p := &program{r, tui.New()}
	p.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	if v := p.View(); !v.AltScreen || strings.Count(v.Content, "\n") != 23 {
		t.Errorf("%+v", v)
	}
	facts, err := r.feed.ask(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Update(factsCame{facts})
	p.Update(eventsCame{[]gpu.Event{{ID: 1, Code: "gap", Text: "it began"}}})
	if text, wanted := p.View().Content, <-r.wanted; len(wanted) != 1 || !strings.Contains(text, "LEASES 2") || !strings.Contains(text, "it began") {
		t.Errorf("%v\n%s", wanted, text)
	}
	for _, key := range []rune("2r") {
		p.Update(tea.KeyPressMsg{Code: key, Text: string(key)})
	}
	p.Update(tea.PasteMsg{Content: "y"})
	if len(r.acts) != 0 {
		t.Fatalf("a pasted y did %+v", <-r.acts)
	}
	p.Update(tea.KeyPressMsg{Code: 'y', Text: "y"})
	if len(r.acts) != 1 {
		t.Fatal("y does nothing")
	}
	act := <-r.acts
	if act.ID != "one" {
		t.Fatalf("%+v", act)
	}
	p.Update(actDone{act, "", errors.New("not yours")})
	p.Update(daemonLost{errors.New("gone")})
	if text := p.View().Content; !strings.Contains(text, "not yours") || !strings.Contains(text, "No answer from the daemon") {
		t.Error(text)
	}
	p.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
	p.Update(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	if _, cmd := p.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); cmd == nil || cmd() != (tea.QuitMsg{}) {
		t.Error("q does not end it")
	}
}
