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

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
)

// decisive makes a place with every file that decides what its daemon does, and
// returns their paths.
func decisive(t *testing.T) (p *place, files map[string]string) {
	t.Helper()
	a := newAuthority(t)
	a.sign(t, "server", "gpu-box", time.Now().Add(time.Hour))
	p = newPlace(t, "sim:1")
	if err := os.Mkdir(filepath.Join(p.dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	token, rules := filepath.Join(p.dir, "etc/token"), filepath.Join(p.dir, "etc/rules.yml")
	for path, text := range map[string]string{token: strings.Repeat("0123456789abcdef", 2), rules: alwaysHot} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.edit(t, "daemon:\n  listen: 127.0.0.1:0\n  tls_cert: "+a.path("server.pem")+"\n  tls_key: "+a.path("server.key")+"\n  tls_client_ca: "+a.path("ca.pem")+
		"\n  token_file: "+token+"\nalerts:\n  rules: ["+rules+"]\n")
	return p, map[string]string{
		"berth.yaml": p.file, "tls_cert": a.path("server.pem"), "tls_key": a.path("server.key"), "tls_client_ca": a.path("ca.pem"), "token_file": token, "rules": rules, "folder": filepath.Dir(token),
	}
}

// openToOthers lets others change something, until the function that it returns is
// called.
func openToOthers(t *testing.T, path string) (undo func()) {
	t.Helper()
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, before.Mode().Perm()|0o002); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Chmod(path, before.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

// A daemon does not start with a file that somebody else can change, whatever is
// in it.
func TestStartRefusesWhatOthersCanChange(t *testing.T) {
	p, files := decisive(t)
	files["saved settings"] = filepath.Join(p.flags["daemon.state_dir"], inventory.Saved)
	if err := errors.Join(os.MkdirAll(p.flags["daemon.state_dir"], 0o700), os.WriteFile(files["saved settings"], []byte("{}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for what, path := range files {
		undo := openToOthers(t, path)
		if err := startOnce(t, p); !errors.Is(err, file.ErrOthers) || !strings.Contains(err.Error(), "run chmod go-w "+path) {
			t.Errorf("%s: the daemon ended with %v", what, err)
		}
		undo()
	}
}

// A daemon does not start without what was set at run time because it cannot be read at
// the moment: roles and limits may be in it.
func TestStartRefusesWhatItCannotRead(t *testing.T) {
	p := newPlace(t, "sim:1")
	state := p.flags["daemon.state_dir"]
	if err := errors.Join(os.MkdirAll(state, 0o700), os.Symlink("/proc/self/mem", filepath.Join(state, inventory.Saved))); err != nil { // reading it is an I/O error
		t.Fatal(err)
	}
	s, err := Load(Sources{File: p.file, Environ: p.env, Getenv: func(string) string { return "" }, Flags: p.flags, Start: true})
	if err == nil || !strings.Contains(err.Error(), "read what was set at run time") {
		t.Errorf("it starts with %v, %v", s, err)
	}
}

// startOnce runs a daemon that should not start, and returns why.
func startOnce(t *testing.T, p *place) error {
	t.Helper()
	settings, err := p.load()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d, err := Open(ctx, Options{Settings: settings, Version: "test", Log: slog.New(slog.DiscardHandler), Load: p.load})
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Run(ctx)
}

// A reload refuses it too, on SIGHUP and over the API. Nothing changes, and an
// event says why.
func TestReloadRefusesWhatOthersCanChange(t *testing.T) {
	p, files := decisive(t)
	ctx, cancel := context.WithCancel(t.Context())
	d := p.open(t, ctx)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	c, err := client.New(client.Options{Socket: p.flags["daemon.socket"]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for c.Ping(ctx) != nil {
		select {
		case err := <-done:
			t.Fatalf("the daemon ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	p.edit(t, string(text)+"gpu: {temp_optimal: 61}\n")
	for what, path := range files {
		undo := openToOthers(t, path)
		want := "run chmod go-w " + path
		told := len(refusedReloads(d, want))
		d.Reload()
		if got := refusedReloads(d, want); len(got) != told+1 {
			t.Errorf("%s: a hangup is told in the events %+v", what, got)
		}
		_, err := c.ReloadConfig(t.Context())
		if got := refusal(t, err); got.Code != "not_reloaded" || !strings.Contains(got.Error(), want) {
			t.Errorf("%s: reloading is refused with %+v", what, got)
		}
		if got := refusedReloads(d, want); len(got) != told+2 {
			t.Errorf("%s: the refusal is told in the events %+v", what, got)
		}
		undo()
	}
	if got := d.settings.load().Config.GPU.TempOptimal; got != 65 {
		t.Errorf("temp_optimal is %v", got)
	}
	if _, err := c.ReloadConfig(t.Context()); err != nil || d.settings.load().Config.GPU.TempOptimal != 61 {
		t.Errorf("with the files closed: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// refusedReloads returns the events about refused reloads whose text has a part.
func refusedReloads(d *Daemon, part string) (found []gpu.Event) {
	kept, _ := d.events.Kept(0)
	for _, e := range kept {
		if e.Code == gpu.EventConfig && e.Severity == gpu.Warning && strings.Contains(e.Text, "was not read again") && strings.Contains(e.Text, part) {
			found = append(found, e)
		}
	}
	return found
}

func TestRootRefusesTheFileOfAGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to any group")
	}
	p := newPlace(t, "sim:1")
	p.edit(t, "gpu: {temp_optimal: 61}\n")
	if err := errors.Join(os.Chown(p.file, 0, 65534), os.Chmod(p.file, 0o660)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.load(); !errors.Is(err, file.ErrOthers) || !strings.Contains(err.Error(), "group 65534 can write") {
		t.Errorf("root's daemon read the file of a group: %v", err)
	}
}
