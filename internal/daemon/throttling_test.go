package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/devicelock"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

const hotCard = "devices: [{model: rtx-4060}]\ntimeline: [{device: 0, load: 100, ambient_celsius: 40}]\n"

// hot opens a daemon on a card that gets too hot, and runs what acts on it.
func hot(t *testing.T, p *place) (d *Daemon, c *client.Client, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d = p.open(t, ctx)
	c = d.inside(t)
	var running parts
	running.run("monitor", func() { _ = d.monitor.Run(ctx) })
	running.run("ledger", func() { _ = d.ledger.Run(ctx) })
	running.run("throttle", func() { d.throttle.Run(ctx) })
	return d, c, func() {
		cancel()
		if left := running.wait(time.Minute); len(left) > 0 {
			t.Errorf("%v did not end", left)
		}
	}
}

// What berth does about a hot device shows in its status and on the page of
// metrics, follows the settings, and is given back at the end.
func TestThrottling(t *testing.T) {
	p := newPlace(t, scenario(t, hotCard))
	synctest.Test(t, func(t *testing.T) {
		d, c, stop := hot(t, p)
		set := func(policy string) {
			t.Helper()
			if _, err := c.SetConfig(t.Context(), json.RawMessage(`{"throttle": "`+policy+`"}`)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second) // simulated
		}
		time.Sleep(2 * time.Minute) // simulated
		s, err := c.Status(t.Context(), "0")
		if err != nil || s.State != gpu.Throttled || s.Slots.Usable >= s.Slots.Capacity || s.Throttling == nil || s.Throttling.Policy != "slots" || s.Throttling.Original.Known() {
			t.Fatalf("with slots: %+v, %+v, %v", s, s.Throttling, err)
		}
		set("advise")
		if s, _ = c.Status(t.Context(), "0"); s.State != gpu.Throttled || s.Slots.Usable != s.Slots.Capacity || s.Multiplier != 0.5 {
			t.Errorf("with advise: %+v; want all slots", s)
		}
		set("power")
		time.Sleep(time.Minute) // simulated
		throttle, err := c.Throttle(t.Context(), "0")
		acts := throttle.Throttling
		if err != nil || acts == nil || acts.Policy != "power" || acts.Original.Or(0) != 115 || !(acts.PowerLimit.Or(0) < 115) || acts.PowerSteps < 2 {
			t.Fatalf("with power: %+v, %v", acts, err)
		}
		if s, _ = c.Status(t.Context(), "0"); s.Device.PowerLimit != acts.PowerLimit {
			t.Errorf("the device says %v, and berth %v", s.Device.PowerLimit, acts.PowerLimit)
		}
		foreseen := 0
		events, _ := d.events.Kept(0)
		for _, e := range events {
			if _, known := e.Data["expected_celsius"]; known && e.Code == gpu.EventPowerLimit {
				foreseen++
			}
		}
		if foreseen < 2 {
			t.Errorf("%d steps say what they should do: %v", foreseen, events)
		}
		set("slots")
		if s, _ = c.Status(t.Context(), "0"); s.Device.PowerLimit.Or(0) != 115 || s.Throttling.Original.Known() {
			t.Errorf("with slots again: %v, %+v", s.Device.PowerLimit, s.Throttling)
		}
		set("power")
		time.Sleep(time.Minute) // simulated
		if _, err := c.StopMonitoring(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s, _ = c.Status(t.Context(), "0"); s.Device.PowerLimit.Or(0) != 115 {
			t.Errorf("monitoring is stopped, and the limit is %v", s.Device.PowerLimit)
		}
		if _, err := c.StartMonitoring(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // simulated
		if s, _ = c.Status(t.Context(), "0"); !s.Throttling.Original.Known() {
			t.Errorf("monitoring goes on, and nothing is done: %+v", s.Throttling)
		}
		stop()
		text, err := os.ReadFile(filepath.Join(p.flags["daemon.state_dir"], inventory.Throttle))
		if err != nil || !strings.HasSuffix(string(text), "\n{}") {
			t.Errorf("at the end there is to give back: %s, %v", text, err)
		}
		_ = d.Close()
	})
}

// A daemon beside another one starts, says so, and tells instead of acting.
func TestSecondDaemon(t *testing.T) {
	guests := filepath.Join(t.TempDir(), "guests")
	t.Setenv("BERTH_SIM_GUESTS", guests)
	first := devicelock.New(devicelock.Options{Own: guests + ".daemons", Processes: process.Proc()})
	if why := first.Denied("SIM-rtx-4060-0"); why != "" {
		t.Fatal(why)
	}
	defer runtime.KeepAlive(first) // a file that nobody has any more is closed, and not locked
	p := newPlace(t, "sim:rtx-4060")
	d := p.open(t, t.Context())
	defer d.Close()
	if note := d.Note(); !strings.Contains(note, "(GPU 0: another daemon is in charge of it)") {
		t.Errorf("note %q", note)
	}
	c := d.settings.load().Config
	c.GPU.Foreign, c.GPU.OverLimit, c.GPU.Overheat = "kill", "revoke", "revoke"
	if s := d.watching(c); s.GPU.Foreign != watchdog.Show || s.GPU.Overheat != watchdog.Tell || s.GPU.OverLimit != watchdog.Warn || len(s.Services) > 0 {
		t.Errorf("a second daemon acts: %+v", s)
	}
	nobody := process.ID{PID: os.Getpid(), Start: 1} // another process had the pid
	if err := (inCharge{process.Proc(), d.charge}).Signal(kinship.Authority(), nobody, process.Terminate); err == nil || errors.Is(err, process.ErrGone) {
		t.Errorf("a second daemon signals processes: %v", err)
	}
}
