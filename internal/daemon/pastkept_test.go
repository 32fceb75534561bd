package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/berth-gpu/berth/internal/history/past"
)

// count returns how many samples of a metric a store has, by device.
func count(t *testing.T, p *past.Past, name string) map[string]int {
	t.Helper()
	q, err := p.Queryable().Querier(0, time.Now().Add(time.Hour).UnixMilli())
	if errors.Is(err, past.ErrOpening) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	n := map[string]int{}
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", name), labels.MustNewMatcher(labels.MatchEqual, "job", "berth"))
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			n[set.At().Labels().Get("gpu")]++
		}
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// What is measured is stored, and is there after a restart.
func TestThePastIsKept(t *testing.T) {
	p := newPlace(t, "sim:2")
	now := time.Now().Truncate(time.Second).Add(time.Millisecond)
	for run := 1; run <= 2; run++ {
		d := p.open(t, t.Context())
		var done remembered
		for range 12 {
			if next := d.remember(now, time.Second, &done); !next.Equal(now.Truncate(time.Second).Add(time.Second)) {
				t.Fatalf("after %v the next time is %v", now, next)
			}
			d.remember(now.Add(time.Millisecond), time.Second, &done) // too early: nothing is due
			now = now.Add(time.Second)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		d.past.Run(over) // it stores what was handed over
		for name, want := range map[string]int{"gpu_temperature_celsius": 12 * run, "gpu_state": 5 * 12 * run} {
			if got := count(t, d.past, name); len(got) != 2 || got["SIM-h200-1"] != want {
				t.Errorf("run %d: %v samples of %s, want %d of each device", run, got, name, want)
			}
		}
		for _, name := range []string{"up", "berth_leases", "berth_events_total"} {
			if got := count(t, d.past, name)[""]; got == 0 || got%(2*run) != 0 {
				t.Errorf("run %d: %d samples of %s, want two of each series and run", run, got, name)
			}
		}
		if c := d.past.Cost(); c.Dropped != 0 || c.Samples == 0 {
			t.Errorf("run %d: the cost is %+v", run, c)
		}
		if err := d.past.Close(); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A daemon that runs stores by itself, and closes the past when it ends.
func TestADaemonKeepsThePast(t *testing.T) {
	p := newPlace(t, "sim:1")
	c, stop := p.start(t)
	if ready, err := c.Ready(t.Context()); err != nil || !strings.HasPrefix(ready.Past, "The past takes ") {
		t.Errorf("it says %+v, %v", ready, err)
	}
	c.Close()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(p.flags["daemon.state_dir"], "past", "recent", "wal")); err != nil {
		t.Errorf("there is no past: %v", err)
	}
}

// A daemon that ends stores what was since the last samples.
func TestTheLastSamplesAreKept(t *testing.T) {
	p := newPlace(t, "sim:1")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d := p.open(t, t.Context())
	d.keepPast(over)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = p.open(t, t.Context())
	d.past.Run(over) // it opens the store
	if got := count(t, d.past, "up")[""]; got == 0 {
		t.Error("the past has no sample")
	}
	if err := d.past.Close(); err != nil {
		t.Fatal(err)
	}
}

// A past that is off opens nothing, and leaves an earlier one alone.
func TestAPastThatIsOff(t *testing.T) {
	p := newPlace(t, "sim:1")
	p.flags["past.store"] = "off"
	earlier := filepath.Join(p.flags["daemon.state_dir"], "past")
	if err := os.MkdirAll(filepath.Join(earlier, "recent"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(earlier, "recent", "kept"), make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	d := p.open(t, t.Context())
	var done remembered
	d.remember(time.Now(), time.Second, &done)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d.past.Run(over)
	if got, want := d.past.Text(), "The past is off. An earlier one takes 5 MiB in "+earlier; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	list, err := os.ReadDir(filepath.Join(earlier, "recent"))
	if err != nil || len(list) != 1 {
		t.Errorf("the earlier past has %v, %v", list, err)
	}
}

// A daemon that only looks has no past.
func TestALookHasNoPast(t *testing.T) {
	p := newPlace(t, "sim:1")
	settings, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), Options{Settings: settings, Version: "test", Log: slog.New(slog.DiscardHandler), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.keepPast(t.Context())
	if _, err := os.Stat(p.flags["daemon.state_dir"]); d.past.On() || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a past, or a state folder: %v", err)
	}
}

func TestInstance(t *testing.T) {
	for _, c := range [][3]string{
		{"box", "127.0.0.1:8000", "box:8000"}, {"box", "", "box"}, {"box", "127.0.0.1:0", "box"}, {"", "[::1]:9000", "localhost:9000"},
	} {
		if got := instance(c[0], c[1]); got != c[2] {
			t.Errorf("%q on %q is %q", c[0], c[1], got)
		}
	}
}
