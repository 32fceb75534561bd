package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/file/inventory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a state folder with what a daemon in it would be started with.
type place struct {
	dir   string
	flags map[string]string
	env   []string
	file  string
}

func newPlace(t *testing.T, devices string) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth-") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &place{dir: dir, flags: map[string]string{
		"daemon.devices": devices, "daemon.state_dir": filepath.Join(dir, "state"),
		"daemon.socket": filepath.Join(dir, "run", "berth.sock"), "daemon.listen": "127.0.0.1:0",
	}}
}

// freeAddress returns an address on which nobody listens, and that no connection takes.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, _, err := freePort(firstPort, lastPort)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// scenario writes a scenario of the simulator to a file, and returns the devices
// that it describes.
func scenario(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "sim:" + path
}

func (p *place) load() (*config.Settings, error) {
	return Load(Sources{File: p.file, Environ: p.env, Getenv: func(string) string { return "" }, Flags: p.flags})
}

// open makes a daemon that does not run yet.
func (p *place) open(t *testing.T, ctx context.Context) *Daemon {
	t.Helper()
	settings, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(ctx, Options{Settings: settings, Version: "test", Log: slog.New(slog.DiscardHandler), Load: p.load})
	if err != nil {
		t.Fatal(err)
	}
	d.closing = time.Minute
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// part returns a part of a daemon by its name.
func (d *Daemon) part(name string) *part {
	return &d.parts[slices.IndexFunc(d.parts, func(p part) bool { return p.name == name })]
}

// inside returns a client that asks a daemon without a socket.
func (d *Daemon) inside(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Transport: client.Through(doorkeeper.InProcess(d.handler))})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start runs a daemon and returns a client of its socket, and what stops it
// and says how that went.
func (p *place) start(t *testing.T) (*client.Client, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := p.open(t, ctx)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	c, err := client.New(client.Options{Socket: p.flags["daemon.socket"]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for c.Ping(ctx) != nil {
		select {
		case err := <-done:
			done <- err
			t.Fatalf("the daemon did not start: %v", err)
		default:
		}
	}
	return c, stop
}

func TestStartsAnswersAndStops(t *testing.T) {
	p := newPlace(t, "sim:4")
	c, stop := p.start(t)
	all, err := c.StatusAll(t.Context())
	if err != nil || len(all.GPUs) != 4 || !all.Monitoring {
		t.Errorf("status of all = %+v, %v", all, err)
	}
	if info, err := os.Stat(p.flags["daemon.socket"]); err != nil || info.Mode().Type() != os.ModeSocket {
		t.Errorf("the socket is %v, %v", info, err)
	}
	c.Close()
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

func TestChangedConfigSurvivesARestart(t *testing.T) {
	p := newPlace(t, "sim:1")
	c, stop := p.start(t)
	if _, err := c.SetConfig(t.Context(), json.RawMessage(`{"temp_optimal": 61}`)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Config.GPU.TempOptimal; got != 61 {
		t.Errorf("after a restart temp_optimal is %v, want 61", got)
	}
	if got := again.Source("gpu.temp_optimal"); got != "saved at run time" {
		t.Errorf("its source is %q", got)
	}
}

// A change that cannot be written down does not hold either.
func TestChangeThatCannotBeKeptChangesNothing(t *testing.T) {
	p := newPlace(t, "sim:1")
	p.flags["past.store"] = "off" // while it is opened, it makes folders
	c, _ := p.start(t)
	state := p.flags["daemon.state_dir"]
	if err := os.Rename(state, state+".gone"); err != nil { // in one step: it writes meanwhile
		t.Fatal(err)
	}
	_, err := c.SetConfig(t.Context(), json.RawMessage(`{"temp_optimal": 61}`))
	if err == nil || !strings.Contains(err.Error(), "Nothing was changed") {
		t.Errorf("the change was answered with %v", err)
	}
	text, err := c.Config(t.Context())
	if err != nil || !strings.Contains(string(text), `"temp_optimal":65`) {
		t.Errorf("the configuration is now %s, %v", text, err)
	}
}

func TestDamagedSavedConfigIsNamed(t *testing.T) {
	p := newPlace(t, "sim:1")
	if err := os.MkdirAll(p.flags["daemon.state_dir"], 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.flags["daemon.state_dir"], inventory.Saved)
	if err := os.WriteFile(path, []byte("gpu: {temp_optimal: hot"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.load(); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("loading said %v", err)
	}
}

func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	p := newPlace(t, "sim:1")
	p.file = filepath.Join(p.dir, "berth.yaml")
	if err := os.WriteFile(p.file, []byte("gpu:\n  temp_optimal: 99\n  colour: red\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.env = []string{"BERTH_GPU_HISTORY_SIZE=-1"}
	_, err := p.load()
	for _, want := range []string{p.file + ":2", p.file + ":3", "colour", "BERTH_GPU_HISTORY_SIZE"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the complaint does not name %s:\n%v", want, err)
		}
	}
}

func TestRefusesToStart(t *testing.T) {
	for name, test := range map[string]struct{ field, value, want string }{
		"another address without TLS":   {"daemon.listen", "0.0.0.0:0", "tls_cert"},
		"no port":                       {"daemon.listen", "127.0.0.1", "127.0.0.1:8000"},
		"a state folder that is a file": {"daemon.state_dir", "/dev/null/state", "--state-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, "sim:1")
			p.flags[test.field] = test.value
			settings, err := p.load()
			if err == nil {
				var d *Daemon
				d, err = Open(t.Context(), Options{Settings: settings, Version: "test", Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				err = d.Run(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it said %v, and not what to do (%s)", err, test.want)
			}
		})
	}
}

// A state file that cannot be read may be whole: the daemon does not begin without it.
func TestDoesNotStartWithoutWhatItCannotRead(t *testing.T) {
	p := newPlace(t, "sim:1")
	path := filepath.Join(p.flags["daemon.state_dir"], inventory.Drains)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink("/proc/self/mem", path)); err != nil { // it has no first byte
		t.Fatal(err)
	}
	settings, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Settings: settings, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "read the state file drains.json") {
		t.Errorf("it said %v", err)
	}
}

func TestSecondDaemonIsRefused(t *testing.T) {
	p := newPlace(t, "sim:1")
	p.start(t)
	settings, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{Settings: settings, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("a second daemon in the same state folder said %v", err)
	}
	p.flags["daemon.state_dir"] = filepath.Join(p.dir, "other")
	if err := p.open(t, t.Context()).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second daemon on the same socket said %v", err)
	}
}

// A daemon that has no room for more callers is alive.
func TestSocketOfABusyDaemonIsLeft(t *testing.T) {
	path := filepath.Join(newPlace(t, "sim:1").dir, "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for { // nobody accepts them
		conn, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if _, err := listenSocket(config.Daemon{Socket: path}, -1, nil); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second daemon said %v", err)
	}
}

func TestSocketOfADeadDaemonIsTakenOver(t *testing.T) {
	p := newPlace(t, "sim:1")
	if err := os.MkdirAll(filepath.Dir(p.flags["daemon.socket"]), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", p.flags["daemon.socket"])
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as kill -9 leaves it
	_ = l.Close()
	p.start(t)
}

func TestUnknownDevicesAreRefused(t *testing.T) {
	for _, spec := range []string{"cuda", "sim:rtx-9999", "sim:/nothing/here.yaml"} {
		if _, err := openDevices(spec); err == nil {
			t.Errorf("devices %q were opened", spec)
		}
	}
}

func TestNoGPUIsNotAnError(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("this machine has one")
	}
	c, _ := newPlace(t, "auto").start(t)
	all, err := c.StatusAll(t.Context())
	if err != nil || len(all.GPUs) != 0 || !strings.Contains(all.Note, "berth doctor") {
		t.Errorf("without a GPU: %+v, %v", all, err)
	}
}

const oneHangs = `
devices:
  - {model: h200, count: 4}
timeline:
  - {at: 5s, device: 1, hang: true, for: 20s}
`

// While a device hangs, it is UNAVAILABLE within two intervals, the others go
// on, every answer comes at once, and it comes back by itself. Time is
// simulated: an answer that waited for the driver would take some of it.
func TestHungDevice(t *testing.T) {
	p := newPlace(t, scenario(t, oneHangs))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := p.open(t, ctx)
		c := d.inside(t)
		done := make(chan struct{})
		go func() { defer close(done); _ = d.monitor.Run(ctx) }()
		start := time.Now()
		states := func(at time.Duration) []gpu.State {
			time.Sleep(time.Until(start.Add(at))) // simulated
			asked := time.Now()
			all, err := c.StatusAll(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(asked); took != 0 {
				t.Errorf("at %v the answer took %v of simulated time", at, took)
			}
			var out []gpu.State
			for _, g := range all.GPUs {
				out = append(out, g.State)
			}
			return out
		}
		well := []gpu.State{gpu.Optimal, gpu.Optimal, gpu.Optimal, gpu.Optimal}
		hung := []gpu.State{gpu.Optimal, gpu.Unavailable, gpu.Optimal, gpu.Optimal}
		for _, step := range []struct {
			at   time.Duration
			want []gpu.State
		}{
			{4900 * time.Millisecond, well},
			{7100 * time.Millisecond, hung},
			{24 * time.Second, hung},
			{27 * time.Second, well},
		} {
			if diff := cmp.Diff(step.want, states(step.at)); diff != "" {
				t.Errorf("at %v (-want +got):\n%s", step.at, diff)
			}
		}
		cancel()
		<-done
	})
}

// Readers that come and go leave nothing behind; goleak looks at the end.
func TestReadersComeAndGo(t *testing.T) {
	d := newPlace(t, "sim:dgx-h200").open(t, t.Context())
	server := httptest.NewServer(doorkeeper.InProcess(d.handler))
	defer server.Close()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 125 {
				ctx, cancel := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/events", nil)
				if err != nil {
					t.Error(err)
				}
				answer, err := server.Client().Do(r)
				if err != nil {
					t.Errorf("reader %d of %d: %v", i, worker, err)
				} else {
					_, _ = answer.Body.Read(make([]byte, 1))
					cancel()
					_ = answer.Body.Close()
				}
				cancel()
				if i%10 == 0 {
					doorkeeper.InProcess(d.handler).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
				}
			}
		})
	}
	group.Wait()
}

// The wire shape of the configuration and the configuration are held together.
func TestConfigOnTheWire(t *testing.T) {
	c := newPlace(t, "sim:1").open(t, t.Context()).settings
	text, err := json.Marshal(c.GPU())
	if err != nil {
		t.Fatal(err)
	}
	inner, err := c.load().Config.Changeable()
	if err != nil {
		t.Fatal(err)
	}
	var wire, own map[string]any
	if err := json.Unmarshal(text, &wire); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(inner, &own); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(own, wire); diff != "" {
		t.Errorf("api.GPUConfig is not what config writes (-config +api):\n%s", diff)
	}
	if len(c.Fields()) < 20 {
		t.Errorf("only %d fields are listed", len(c.Fields()))
	}
}

func ExampleSources() {
	settings, err := Load(Sources{
		Environ: []string{"BERTH_LISTEN=127.0.0.1:9000"}, Getenv: func(string) string { return "" },
		Flags: map[string]string{"daemon.state_dir": "/nowhere", "daemon.socket": "/nowhere/berth.sock"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(settings.Config.Daemon.Listen, "from", settings.Source("daemon.listen"))
	// Output: 127.0.0.1:9000 from environment BERTH_LISTEN
}
