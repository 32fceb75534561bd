package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/events"
)

// openLogging makes a daemon that writes its log into a buffer.
func openLogging(t *testing.T) (*Daemon, *bytes.Buffer) {
	t.Helper()
	settings, err := newPlace(t, "sim:1").load()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	d, err := Open(t.Context(), Options{Settings: settings, Version: "test", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, &log
}

// 40 plans with a name of 4 MB once took 300 MiB of memory and 160 MB of log.
func TestLongEventsAreTrimmedBeforeEverythingElse(t *testing.T) {
	d, log := openLogging(t)
	before := log.Len()
	d.publish(gpu.Event{Code: gpu.EventConfig, Severity: gpu.Note, Text: "changed\n" + strings.Repeat("x", 4<<20)})
	if n := log.Len() - before; n == 0 || n > gpu.MaxEventJSON {
		t.Errorf("%d bytes of log", n)
	}
	kept, _ := d.events.Kept(0)
	if last := kept[len(kept)-1]; len(last.Text) > 1024 || strings.Contains(last.Text, "\n") {
		t.Errorf("an event of %d bytes is kept", len(last.Text))
	}
}

// One user who causes warnings without end fills neither the log nor the memory,
// and hides nothing from anybody else.
func TestWarningsOfAUserAreRationed(t *testing.T) {
	d, log := openLogging(t)
	before := strings.Count(log.String(), "\n")
	d.publish(gpu.Event{Code: gpu.EventDeviceLost, Severity: gpu.Serious, GPU: "GPU-a", Text: "lost"})
	for range 10_000 {
		d.publish(gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, Lease: "a", User: "eve", Text: "expired"})
		d.publish(gpu.Event{Code: gpu.EventPlan, Severity: gpu.Note, User: "eve", Text: "planned"})
	}
	d.publish(gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, Lease: "b", User: "ada", Text: "of ada"})
	if n := strings.Count(log.String(), "\n") - before; n != 1+events.PerMinute+1 {
		t.Errorf("%d lines of log", n)
	}
	count := map[string]int{}
	kept, _ := d.events.Kept(0)
	for _, e := range kept {
		count[e.Text]++
	}
	if count["lost"] != 1 || count["of ada"] != 1 || count["expired"] != events.PerMinute {
		t.Errorf("kept %v", count)
	}
}
