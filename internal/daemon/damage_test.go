package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process"
)

// model is a state folder with something in every file.
type model struct {
	dir     string
	file    string            // the configuration
	secrets map[string]string // of tokens, by name
	revoked string            // a secret that is not good any more
	session string            // the secret of a session
}

// fillState makes a state folder by running a daemon in it, and adds what that did
// not come to write, in the way that the keepers write it.
func fillState(t *testing.T) model {
	t.Helper()
	p := newPlace(t, "sim:2")
	p.file = filepath.Join(p.dir, "berth.yaml")
	text := "hooks:\n  pager:\n    url: http://127.0.0.1:1/\n    severity: info\n"
	if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := model{dir: p.flags["daemon.state_dir"], file: p.file, secrets: map[string]string{}}
	c, stop := p.start(t)
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Allocate(ctx, api.Allocate{ID: "kept", Memory: 64, GPU: "0", Binding: "named"}))
	must(c.Allocate(ctx, api.Allocate{ID: "over", Memory: 64, GPU: "0", Binding: "named"}))
	must(c.Deallocate(ctx, "over"))
	must(c.NewID(ctx, "train"))
	must(c.Drain(ctx, api.DrainRequest{GPU: "1", Reason: "new fan"}))
	must(c.SetConfig(ctx, json.RawMessage(`{"temp_optimal": 61, "temp_normal": 71}`)))
	for _, name := range []string{"viewer", "operator", "gone"} {
		made, err := c.CreateToken(ctx, api.TokenRequest{Name: name, Role: map[string]string{"gone": "admin"}[name] + strings.TrimPrefix(name, "gone")})
		must(made, err)
		m.secrets[name] = made.Secret
	}
	must(c.RevokeToken(ctx, "gone"))
	must(c.Allocate(ctx, api.Allocate{ID: "late", Memory: 64, GPU: "0", Binding: "named"}))
	m.revoked = m.secrets["gone"]
	delete(m.secrets, "gone")
	c.Close()
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	over, cancel := context.WithCancel(ctx)
	cancel()
	signed, damage := sessions.Open(filepath.Join(m.dir, inventory.Sessions), time.Now())
	if damage != nil {
		t.Fatal(damage)
	}
	secret, _, err := signed.Begin(sessions.Owner{UID: access.KnownUID(1)}, time.Now(), func(sessions.Session) error { return nil })
	must(nil, errors.Join(err, signed.Run(over)))
	m.session = secret
	learned, damage := peaks.Open(filepath.Join(m.dir, inventory.Peaks))
	if damage != nil {
		t.Fatal(damage)
	}
	learned.Add(peaks.Key{User: "ada", Name: "train"}, peaks.Run{Peak: 1000, Seconds: 60}, time.Now())
	must(nil, learned.Run(over))
	standings, damage := monitor.OpenStandings(filepath.Join(m.dir, inventory.Health))
	if damage != nil {
		t.Fatal(damage)
	}
	standings.Changed("GPU-elsewhere", health.Standing{Phase: health.Quarantined, Why: "XID 48", Since: time.Now(), Until: time.Now().Add(time.Hour)})
	standings.Run(over, func(err error) { t.Error(err) })
	boot, err := process.Proc().Boot()
	must(boot, err)
	for name, text := range map[string]string{
		inventory.Throttle: `{"GPU-elsewhere": {"power": {"original_watts": 300, "set_watts": 200, "before_watts": 300}}}`,
		"paced.json":       fmt.Sprintf(`{"boot":%q,"holds":[{"key":{"user":"ada","id":"train"},"fence":99,"share":0.5,"source":"operator"}]}`, boot),
		"parked.json":      fmt.Sprintf(`{"boot":%q,"leases":[{"key":{"user":"ada","id":"train"},"fence":99,"gpu":"GPU-elsewhere","phase":"parked","times":1,"processes":[]}]}`, boot),
	} {
		must(nil, file.Replace(filepath.Join(m.dir, name), []byte(text)))
	}
	store, err := past.Open(filepath.Join(m.dir, inventory.Measured), past.Options{Settings: past.Settings{Recent: time.Hour, Long: time.Hour, Size: 100}})
	must(store, err)
	begin := time.Now().Add(-time.Minute)
	for i := range 50 {
		must(nil, store.Write(begin.Add(time.Duration(i)*time.Second), []series.Sample{{Labels: labels.FromStrings(labels.MetricName, "gpu_load"), Kind: series.Gauge, Value: float64(i)}}))
	}
	must(nil, store.Close())
	return m
}

// content is the part of a file before the zeros at its end.
func content(text []byte) []byte { return bytes.TrimRight(text, "\x00") }

// flip changes one bit in the middle of a file, and not in white space.
func flip(text []byte) []byte {
	out := bytes.Clone(text)
	at := len(content(text)) / 2
	for out[at] <= ' ' {
		at++
	}
	out[at] ^= 1
	return out
}

// damages are what can become of a file.
var damages = map[string]func(text, other []byte) []byte{
	"half":              func(text, _ []byte) []byte { return text[:len(content(text))/2] },
	"empty":             func([]byte, []byte) []byte { return nil },
	"zeros":             func(text, _ []byte) []byte { return make([]byte, len(text)) },
	"a bit that flips":  func(text, _ []byte) []byte { return flip(text) },
	"another file's":    func(_, other []byte) []byte { return other },
	"a folder, instead": nil,
}

// Strangers may ask for damaged files, and so do not make the daemon look for them.
func TestDamagedFilesAreLookedForNowAndThen(t *testing.T) {
	p := newPlace(t, "sim:1")
	d := p.open(t, t.Context())
	file := filepath.Join(d.settings.load().Config.Daemon.StateDir, inventory.Tokens+".damaged-20261116T080000Z")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if list := d.damaged(); len(list) != 1 {
		t.Fatalf("%q", list)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	d.asides.looked = time.Now().Add(time.Hour) // a busy machine may take more than a second to come here
	if list := d.damaged(); len(list) != 1 {
		t.Error("it looked again at once")
	}
	d.asides.looked = time.Time{}
	if list := d.damaged(); len(list) != 0 {
		t.Errorf("%q", list)
	}
}

// A state folder that hangs keeps nobody waiting who asks for damaged files, and is looked at
// once.
func TestDamagedFilesOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, looks := make(chan []string), 0
		look := func() []string { looks++; return <-answer }
		a := &asides{list: []string{"before"}}
		for range 3 {
			if list := a.now(look); !slices.Equal(list, []string{"before"}) || looks != 1 {
				t.Errorf("%q after %d looks", list, looks)
			}
		}
		if err := a.hang(); err != nil {
			t.Error(err)
		}
		time.Sleep(asidesHang)
		if err := a.hang(); err == nil {
			t.Error("a disk that does not answer is not told")
		}
		answer <- []string{"now"}
		synctest.Wait()
		go func() { answer <- []string{"next"} }()
		if list := a.now(look); !slices.Equal(list, []string{"next"}) || looks != 2 || a.hang() != nil {
			t.Errorf("%q after %d looks, %v", list, looks, a.hang())
		}
	})
}

// TestDamagedState damages every state file in every way. The daemon starts, tells
// and keeps the file, or it does not start; and it loses no lease, no token and no
// drain without a word, and grants nothing that was not granted before.
func TestDamagedState(t *testing.T) {
	m := fillState(t)
	for _, kept := range []struct {
		name string // a pattern, of which the last one counts
		code gpu.EventCode
	}{
		{inventory.Saved, gpu.EventStateDamaged}, {inventory.Tokens, gpu.EventStateDamaged}, {inventory.Sessions, gpu.EventStateDamaged}, {inventory.Drains, gpu.EventStateDamaged},
		{inventory.Health, gpu.EventStateDamaged}, {inventory.Heat, gpu.EventStateDamaged}, {inventory.Hooks, gpu.EventStateDamaged}, {inventory.Alerts, gpu.EventStateDamaged},
		{inventory.PastLeases, gpu.EventStateDamaged}, {inventory.Energy, gpu.EventStateDamaged}, {inventory.Peaks, gpu.EventStateDamaged}, {inventory.Throttle, gpu.EventStateDamaged},
		{inventory.Numbers, gpu.EventStateDamaged}, {"paced.json", gpu.EventStateDamaged}, {"parked.json", gpu.EventStateDamaged},
		{"events/events-*.jsonl", gpu.EventStateDamaged}, {"audit/*", gpu.EventAudit}, {"past/recent/wal/0*", gpu.EventPast}, {"journal/log-*", ""},
	} {
		for how, damage := range damages {
			t.Run(kept.name+" "+how, func(t *testing.T) {
				if damage == nil && strings.Contains(kept.name, "/") {
					t.Skip("what is in these folders has tests of its own")
				}
				m.damage(t, kept.name, kept.code, damage)
			})
		}
	}
}

// damage damages one file of a copy of the folder, and starts a daemon in it twice.
func (m *model) damage(t *testing.T, pattern string, code gpu.EventCode, damage func(text, other []byte) []byte) {
	p := newPlace(t, "sim:2")
	p.file = m.file
	state := p.flags["daemon.state_dir"]
	if err := os.CopyFS(state, os.DirFS(m.dir)); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(state, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("there is no %s: %v", pattern, err)
	}
	path := biggest(t, paths)
	damaged := spoil(t, path, damage)
	name := filepath.Base(path)

	for start := range 2 {
		d, err := m.open(t, p)
		if code == "" { // the journal: it refuses, or tells what it cut off
			if err != nil && strings.Contains(err.Error(), "berth journal repair") {
				return
			}
			if err != nil {
				t.Fatalf("it does not start, and says %v", err)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		c := d.inside(t)
		m.stands(t, d, c, name)
		if code != "" {
			told(t, d, c, code, name, damaged, start)
		}
		c.Close()
		if err := errors.Join(d.past.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *model) open(t *testing.T, p *place) (*Daemon, error) {
	t.Helper()
	settings, err := Load(Sources{File: p.file, Getenv: func(string) string { return "" }, Flags: p.flags, Start: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), Options{Settings: settings, Version: "test", Log: slog.New(slog.DiscardHandler), Load: p.load})
	if err != nil {
		return nil, err
	}
	d.closing = time.Minute
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d.past.Run(over) // it opens the store
	stop := d.rememberEvents(t.Context())
	stop() // they are written
	return d, nil
}

// biggest returns the largest of some files.
func biggest(t *testing.T, paths []string) string {
	t.Helper()
	return slices.MaxFunc(paths, func(a, b string) int {
		var sizes [2]int64
		for i, path := range []string{a, b} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			sizes[i] = info.Size()
		}
		return int(sizes[0] - sizes[1])
	})
}

// spoil damages a file, and returns what it holds then; nil: it is a folder.
func spoil(t *testing.T, path string, damage func(text, other []byte) []byte) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if damage == nil {
		if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "in"), 0o700)); err != nil {
			t.Fatal(err)
		}
		return nil
	}
	other := inventory.Heat
	if filepath.Base(path) == other {
		other = inventory.Alerts
	}
	foreign, err := os.ReadFile(filepath.Join(path[:strings.LastIndex(path, "/state/")], "state", other))
	if err != nil {
		t.Fatal(err)
	}
	damaged := damage(text, foreign)
	if bytes.Equal(damaged, text) {
		t.Fatal("that is no damage")
	}
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]byte{}, damaged...)
}

// stands checks that the daemon knows what it knew, but for what was in the damaged
// file, and that it knows nothing else.
func (m *model) stands(t *testing.T, d *Daemon, c *client.Client, damaged string) {
	t.Helper()
	leases, err := c.Leases(t.Context())
	var ids []string
	for _, l := range leases.Leases {
		ids = append(ids, l.ID)
	}
	all, _ := d.events.Kept(0)
	cut := slices.ContainsFunc(all, func(e gpu.Event) bool { return e.Code == gpu.EventJournal && e.Severity == gpu.Warning })
	if slices.Sort(ids); err != nil || !slices.Equal(ids, []string{"kept", "late"}) && !cut {
		t.Errorf("the leases are %q, %v, and nobody is told", ids, err)
	}
	for name, secret := range m.secrets {
		shown, err := d.tokens.Check(secret, time.Now())
		if err == nil && (shown.Role.String() != name || shown.Name != name) {
			t.Errorf("token %s is now %s with the role %s", name, shown.Name, shown.Role)
		}
		if err != nil && damaged != inventory.Tokens {
			t.Errorf("token %s: %v", name, err)
		}
	}
	if _, err := d.tokens.Check(m.revoked, time.Now()); err == nil {
		t.Error("a revoked token is good again")
	}
	if _, err := d.sessions.Check(m.session, time.Now()); (err == nil) == (damaged == inventory.Sessions) {
		t.Errorf("the session: %v", err)
	}
	for _, r := range d.monitor.Readings() {
		why := d.drains.Why(r.Device)
		if open := why == ""; open == (r.Device.Index == 1 || damaged == inventory.Drains) {
			t.Errorf("%s is closed because %q", r.Device.Label(), why)
		}
	}
	if is, was := d.settings.load().Config.GPU.TempOptimal, gpu.Celsius(61); (is == was) == (damaged == inventory.Saved) {
		t.Errorf("temp_optimal is %v", is)
	}
}

// told checks that an event, once, and /readyz name a damaged file, and that it is
// kept.
func told(t *testing.T, d *Daemon, c *client.Client, code gpu.EventCode, name string, damaged []byte, start int) {
	t.Helper()
	ready, err := c.Ready(t.Context())
	if err != nil || !ready.Ready {
		t.Fatalf("ready: %+v, %v", ready, err)
	}
	var events []gpu.Event
	all, _ := d.events.Kept(0)
	for _, e := range all {
		if e.Code == code && e.Severity != gpu.Note {
			events = append(events, e)
		}
	}
	if code == gpu.EventAudit {
		if len(events) == 0 || start == 0 && ready.Audit == "" {
			t.Errorf("told %+v, ready: %q", events, ready.Audit)
		}
		return
	}
	if len(events) != 1 || len(ready.Damaged) != 1 {
		t.Fatalf("start %d: told %+v, ready: %q", start, events, ready.Damaged)
	}
	if code == gpu.EventStateDamaged && (!strings.Contains(events[0].Text, name) || strings.Contains(events[0].Public, "damaged-")) {
		t.Errorf("told %+v", events[0])
	}
	kept := filepath.Join(d.settings.load().Config.Daemon.StateDir, ready.Damaged[0])
	found := false
	err = filepath.WalkDir(kept, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			found = found || damaged == nil
			return nil
		}
		text, err := os.ReadFile(path)
		found = found || bytes.Equal(text, damaged)
		return err
	})
	if err != nil || !found {
		t.Errorf("%s is not what the file was: %v", kept, err)
	}
}
