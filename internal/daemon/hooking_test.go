package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
)

// A daemon with two devices tells a hook of both, from the very start.
func TestEventsReachAHook(t *testing.T) {
	told := make(chan gpu.Event, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e gpu.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		told <- e
	}))
	t.Cleanup(receiver.Close)
	p := newPlace(t, "sim:2")
	p.file = filepath.Join(p.dir, "berth.yaml")
	text := fmt.Sprintf("hooks:\n  chat:\n    url: %s\n    codes: [device_found]\n    severity: info\n", receiver.URL)
	if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop := p.start(t)
	for range 2 {
		if e := <-told; e.Code != gpu.EventDeviceFound || e.GPU == "" || e.ID == 0 {
			t.Errorf("told of %+v", e)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// What a hook has not got when the daemon stops, it gets from the next one.
func TestUndeliveredEventsSurviveARestart(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	tried := make(chan gpu.Event, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e gpu.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		tried <- e
	}))
	t.Cleanup(receiver.Close)
	p := newPlace(t, "sim:1")
	p.file = filepath.Join(p.dir, "berth.yaml")
	text := fmt.Sprintf("hooks:\n  chat:\n    url: %s\n    codes: [device_found]\n    severity: info\n", receiver.URL)
	if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop := p.start(t)
	first := <-tried
	if err := stop(); err != nil {
		t.Error(err)
	}
	for len(tried) > 0 {
		<-tried // tried again, in vain
	}
	away.Store(false)
	_, stop = p.start(t)
	again, second := <-tried, <-tried
	if diff := cmp.Diff(first, again); diff != "" || second.ID <= first.ID {
		t.Errorf("the next daemon sent %+v and %+v: %s", again, second, diff)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A hook that is added to the file gets events from the next reload on; a file
// with a mistake changes nothing.
func TestReload(t *testing.T) {
	told := make(chan gpu.Event, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e gpu.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		told <- e
	}))
	t.Cleanup(receiver.Close)
	p := newPlace(t, "sim:1")
	p.file = filepath.Join(p.dir, "berth.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("gpu: {temp_optimal: 61}\n")
	ctx, cancel := context.WithCancel(t.Context())
	d := p.open(t, ctx)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()

	hook := fmt.Sprintf("hooks: {chat: {url: %s, codes: [config], severity: info}}\n", receiver.URL)
	write("gpu: {temp_optimal: 62}\n" + hook)
	d.Reload()
	if e := <-told; !strings.Contains(e.Text, "gpu.temp_optimal = 62 (was 61)") || !strings.Contains(e.Text, "hooks.chat is new") || strings.Contains(e.Text, receiver.URL) {
		t.Errorf("told %q", e.Text)
	}
	for text, want := range map[string]string{
		"gpu: {temp_optimal: many}\n" + hook:                          "temp_optimal",
		"gpu: {temp_optimal: 63}\ndaemon: {log_level: warn}\n" + hook: "daemon.log_level = warn (was info) needs a restart",
	} {
		write(text)
		d.Reload()
		if e := <-told; e.Severity != gpu.Warning || !strings.Contains(e.Text, "was not read again") || !strings.Contains(e.Text, want) {
			t.Errorf("told %q, want %q", e.Text, want)
		}
	}
	if got := d.settings.load().Config.GPU.TempOptimal; got != 62 {
		t.Errorf("temp_optimal is %v", got)
	}
	write("gpu: {temp_optimal: 64}\n") // and no hook
	d.Reload()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(told) != 0 {
		t.Errorf("a hook that is gone was told %+v", <-told)
	}
}

func TestCommandsDoNotInheritSecrets(t *testing.T) {
	got := hookEnviron([]string{"PATH=/bin", "BERTH_TOKEN=hush", "BERTH_DAEMON_TOKEN=hush", "NOTIFY_SOCKET=/run/x", "HOME=/root"})
	if diff := cmp.Diff([]string{"PATH=/bin", "HOME=/root"}, got); diff != "" {
		t.Error(diff)
	}
}
