package drains_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/drains"
)

var card = gpu.Device{UUID: "GPU-a"}

func open(t *testing.T, path string) *drains.Drains {
	t.Helper()
	k, damage := drains.Open(path)
	if damage != nil {
		t.Fatal(damage)
	}
	return k
}

// A drain is on the disk when Drain returns, and the book has heard of it.
func TestDrainSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drains.json")
	k := open(t, path)
	var told []string
	k.Tell(drains.Hooks{Changed: func(uuid string) { told = append(told, uuid+" "+k.Why(card)) }})
	d := health.Drain{By: "alice", Why: "new fan", Since: time.Unix(100, 0).UTC(), Until: time.Unix(1e9, 0).UTC()}
	if err := k.Drain("GPU-a", d); err != nil {
		t.Fatal(err)
	}
	again := open(t, path) // as after kill -9
	if got, drained := again.Drained(card); !drained || got != d {
		t.Errorf("after a restart %+v, %v; want %+v", got, drained, d)
	}
	if got, drained := again.Drained(gpu.Device{UUID: "MIG-1", Parent: "GPU-a"}); !drained || got != d {
		t.Errorf("an instance of the device: %+v, %v", got, drained)
	}
	if _, drained := again.Drained(gpu.Device{UUID: "GPU-b"}); drained {
		t.Error("another device is drained, too")
	}
	if was, drained, err := k.Undrain("GPU-a"); err != nil || !drained || was != d {
		t.Errorf("undrain: %+v, %v, %v", was, drained, err)
	}
	if _, drained, err := k.Undrain("GPU-a"); err != nil || drained {
		t.Errorf("undrain again: %v, %v", drained, err)
	}
	if why := open(t, path).Why(card); why != "" {
		t.Errorf("closed after a restart: %s", why)
	}
	const want = "GPU-a it is drained until Sep 9 01:46:40 UTC: new fan|GPU-a |GPU-a "
	if got := strings.Join(told, "|"); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// If the disk refuses, nothing changes.
func TestDrainThatCannotBeWritten(t *testing.T) {
	k := open(t, filepath.Join(t.TempDir(), "missing", "drains.json"))
	if err := k.Drain("GPU-a", health.Drain{By: "alice"}); err == nil || k.Why(card) != "" {
		t.Errorf("drained %q, %v", k.Why(card), err)
	}
}

// If berth does not know what is drained, everything is, across restarts, until
// somebody says otherwise about a device.
func TestDamagedFileDrainsEverything(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"version":2}`, "{}", `{"version":1}`, "\x00\x00\x00"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "drains.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, damage := drains.Open(path)
		if damage == nil || damage.Aside == "" || !strings.Contains(damage.String(), "berth undrain") {
			t.Fatalf("%q: %v", text, damage)
		}
		if kept, err := os.ReadFile(damage.Aside); err != nil || string(kept) != text {
			t.Errorf("%q: kept is %q, %v", text, kept, err)
		}
		other, part := gpu.Device{UUID: "GPU-b"}, gpu.Device{UUID: "MIG-1", Parent: "GPU-a"}
		closed := func(k *drains.Drains, want ...bool) {
			t.Helper()
			for i, on := range []gpu.Device{card, other, part} {
				if why := k.Why(on); (why != "") != want[i] || want[i] && !strings.Contains(why, "it is drained") {
					t.Errorf("%q: %s is closed because %q", text, on.UUID, why)
				}
			}
		}
		closed(k, true, true, true)
		k = open(t, path) // killed before anybody did anything
		closed(k, true, true, true)
		if was, drained, err := k.Undrain("GPU-a"); err != nil || !drained || !strings.Contains(was.Why, "damaged") {
			t.Errorf("undrained from %+v, %v, %v", was, drained, err)
		}
		if err := k.Drain("GPU-b", health.Drain{By: "alice", Why: "new fan"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			closed(k, false, true, false)
			if why := k.Why(other); !strings.Contains(why, "new fan") {
				t.Errorf("closed because %q", why)
			}
			k = open(t, path)
		}
		if _, drained, err := k.Undrain("GPU-b"); err != nil || !drained {
			t.Errorf("undrain: %v, %v", drained, err)
		}
		closed(k, false, false, false)
		closed(open(t, path), false, false, false)
	}
}

// A drain ends at its time and no earlier. One that was drained again meanwhile
// goes by the new time, and one that was over before a restart ends at once.
func TestDrainEndsByItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drains.json")
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ended := map[string]time.Duration{}
		run := func() (stop func(), k *drains.Drains) {
			k = open(t, path)
			k.Tell(drains.Hooks{Ended: func(uuid string, _ health.Drain) { ended[uuid] = time.Since(begun) }})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); k.Run(ctx) }()
			return func() { cancel(); <-done }, k
		}
		stop, k := run()
		for uuid, after := range map[string]time.Duration{"GPU-a": 90 * time.Second, "GPU-b": time.Hour, "GPU-c": 5 * time.Hour} {
			if err := k.Drain(uuid, health.Drain{Until: begun.Add(after).UTC()}); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.Drain("GPU-d", health.Drain{Since: begun.UTC()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if err := k.Drain("GPU-b", health.Drain{Until: begun.Add(2 * time.Hour).UTC()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		stop()
		time.Sleep(3 * time.Hour) // GPU-c is over while nobody runs
		restarted := time.Since(begun)
		stop, k = run()
		synctest.Wait()
		stop()
		for uuid, want := range map[string]time.Duration{"GPU-a": 90 * time.Second, "GPU-b": 2 * time.Hour, "GPU-c": restarted} {
			if ended[uuid] != want {
				t.Errorf("%s ended after %v, want %v", uuid, ended[uuid], want)
			}
		}
		if _, over := ended["GPU-d"]; over || len(k.All()) != 1 {
			t.Errorf("drained still: %v, want GPU-d alone", k.All())
		}
	})
}

// Only one works on a device at a time. What it does there closes the device, and
// a drain goes on beneath it.
func TestHold(t *testing.T) {
	k := open(t, "")
	release, err := k.Hold("GPU-a", "it is being checked")
	if err != nil || k.Why(card) != "it is being checked" {
		t.Fatalf("%q, %v", k.Why(card), err)
	}
	busy := (*drains.BusyError)(nil)
	if _, err := k.Hold("GPU-a", "its memory is being overwritten"); !errors.As(err, &busy) || busy.Why != "it is being checked" {
		t.Errorf("a second hold: %v", err)
	}
	if other, err := k.Hold("GPU-b", "it is being checked"); err != nil {
		t.Error(err)
	} else {
		other()
	}
	if err := k.Drain("GPU-a", health.Drain{By: "alice"}); err != nil {
		t.Fatal(err)
	}
	release()
	if why := k.Why(card); why != "it is drained" {
		t.Errorf("closed because %q, want the drain", why)
	}
	if _, err := k.Hold("GPU-a", "it is being checked"); err != nil {
		t.Error(err)
	}
}
