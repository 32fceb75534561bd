package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
)

// modelPrefix begins the names of programs that are servers of models.
const modelPrefix = "model-"

// modelMemory is what each server uses, in MiB: two of them do not fit on lotDevice.
const modelMemory = 5000

// runModel is the server of a model: model-x NAME PORT GUESTS. It uses memory of the
// simulated device, answers every POST with its name and its process, and streams pieces
// without end.
func runModel() {
	name, port, guests := os.Args[1], os.Args[2], os.Args[3]
	time.AfterFunc(15*time.Minute, func() { os.Exit(1) }) // whatever becomes of the test
	file := filepath.Join(guests, lotDevice, strconv.Itoa(os.Getpid()))
	if err := errors.Join(os.WriteFile(file+".new", fmt.Appendf(nil, `{"memory_mb":%d}`, modelMemory), 0o644), os.Rename(file+".new", file)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, `{"model":%q,"pid":%d}`, name, os.Getpid())
	})
	mux.HandleFunc("POST /stream", func(w http.ResponseWriter, r *http.Request) {
		for i := 0; r.Context().Err() == nil; i++ {
			fmt.Fprintln(w, i)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	fmt.Println("listening on", port)
	fmt.Println(http.ListenAndServe("127.0.0.1:"+port, mux))
	os.Exit(1)
}

// models is a daemon with a simulated GPU, two services that do not fit on it together,
// and a front.
type models struct {
	*machine
	front string // its address
	limit context.Context
}

// freeAddress returns an address on which nobody listens. Its port is below those that the
// kernel gives to connections and those that berth gives to servers.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10000+rand.IntN(10000)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		return l.Addr().String()
	}
}

func newModels(t *testing.T, settings string) *models {
	t.Helper()
	m := &models{machine: emptyMachine(t)}
	var stop context.CancelFunc
	m.limit, stop = context.WithTimeout(t.Context(), patience)
	t.Cleanup(stop)
	m.front = freeAddress(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	user, front := "", ""
	if os.Geteuid() == 0 { // others have to run the program
		user, front = "user: daemon", ", user: nobody"
	}
	for _, name := range []string{"berth", modelPrefix + "server"} {
		if out, err := exec.Command("cp", self, m.path(name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	text := fmt.Sprintf("daemon: {devices: 'sim:%s', state_dir: %s, socket: %s, listen: ''}\nfront: {listen: '%s'%s}\ngpu: {monitor_interval: 0.1}\noptimization: {keep_seconds: 0, longest_wait: 1}\nservices:\n",
		m.path("card.yaml"), m.path("state"), m.path("s"), m.front, front)
	for _, name := range []string{"red", "blue"} {
		text += fmt.Sprintf("  %s:\n    command: [%s, %s, '${PORT}', %s]\n    directory: %s\n    memory: %dMiB\n    ready: /health\n    %s\n%s",
			name, m.path(modelPrefix+"server"), name, m.path("guests"), m.path("work"), modelMemory+1000, user, settings)
	}
	err = errors.Join(os.Chmod(m.dir, 0o755), os.MkdirAll(m.path(filepath.Join("guests", lotDevice)), 0o755), os.Mkdir(m.path("work"), 0o755),
		os.Chmod(m.path(filepath.Join("guests", lotDevice)), 0o777), os.Chmod(m.path("work"), 0o777), os.Chmod(m.path("guests"), 0o777),
		os.WriteFile(m.path("berth.yaml"), []byte(text), 0o600), os.WriteFile(m.path("card.yaml"), []byte("devices: rtx-4060\nspeed: 20\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	m.begin()
	t.Cleanup(m.end)
	return m
}

// begin starts the daemon, and waits until it and the front are up.
func (m *models) begin() {
	m.daemon = exec.Command(m.path("berth"), "serve", "--config", m.path("berth.yaml"))
	m.daemon.Env = append(m.env, "NOTIFY_SOCKET="+m.path("n"))
	m.ready()
}

// end stops everything that outlives the daemon.
func (m *models) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, name := range []string{"red", "blue"} {
		if _, err := m.client.StopService(ctx, name, ""); err != nil {
			m.t.Logf("stop %s: %v", name, err)
			continue
		}
		for ctx.Err() == nil {
			if s, err := m.client.Service(ctx, name); err != nil || s.Lease == "" {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if pid := m.frontProcess(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// frontProcess returns the process of the front, or 0 if it is not known.
func (m *models) frontProcess() int {
	text, err := os.ReadFile(m.path("state/services/front.lock"))
	var r struct{ PID int }
	if err != nil || json.Unmarshal(text, &r) != nil {
		return 0
	}
	return r.PID
}

// answer is the answer of a server.
type answer struct {
	Model string
	PID   int
}

// try asks for a model through the front.
func (m *models) try(model string) (a answer, status int, text string, err error) {
	r, err := http.NewRequestWithContext(m.limit, "POST", "http://"+m.front+"/v1/chat/completions", strings.NewReader(`{"model":"`+model+`"}`))
	if err != nil {
		return a, 0, "", err
	}
	r.Close = true // the front may not be the one of the last request
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	_ = json.Unmarshal(body, &a)
	return a, resp.StatusCode, string(body), err
}

// ask asks for a model, which must answer.
func (m *models) ask(model string) answer {
	m.t.Helper()
	a, status, text, err := m.try(model)
	if err != nil || status != http.StatusOK || a.Model != model {
		s, _ := m.client.Service(m.limit, model)
		m.t.Fatalf("%s answers %d %s, %v; it is %s: %+v", model, status, text, err, s.State, s.Failure)
	}
	return a
}

// until waits for a service to be as it should.
func (m *models) until(name, what string, is func(api.Service) bool) api.Service {
	m.t.Helper()
	for {
		s, err := m.client.Service(m.limit, name)
		if err != nil {
			m.t.Fatalf("%s is never %s: %v", name, what, err)
		}
		if is(s) {
			return s
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func state(want string) func(api.Service) bool {
	return func(s api.Service) bool { return s.State == want }
}

// Two models that do not fit together answer in turn, on one address. One that is parked
// answers from the same process, and one that was stopped from another.
func TestModelsInTurn(t *testing.T) {
	for _, way := range []string{"park", "stop"} {
		t.Run(way, func(t *testing.T) { // one after the other: without control groups, daemons of one user end each other's programs
			m := newModels(t, "    away: "+way+"\n")
			red, blue := m.ask("red"), m.ask("blue")
			if way == "park" {
				m.until("red", "parked", state("parked"))
			}
			again := m.ask("red")
			if (again.PID == red.PID) != (way == "park") {
				t.Errorf("red answers from process %d, and from %d before", again.PID, red.PID)
			}
			if next := m.ask("blue"); (next.PID == blue.PID) != (way == "park") {
				t.Errorf("blue answers from process %d, and from %d before", next.PID, blue.PID)
			}
			leases, err := m.client.Leases(m.limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range leases.Leases {
				if _, err := m.client.Cancel(m.limit, l.ID, api.Cancel{}); err == nil || !strings.Contains(err.Error(), "berth stop "+l.Holder.Service) {
					t.Errorf("the lease %s is cancelled: %v", l.ID, err)
				}
			}
		})
	}
}

// A daemon that is killed leaves the servers and their streams alone, and the next one
// goes on with them.
func TestTheDaemonDiesUnderAStream(t *testing.T) {
	m := newModels(t, "")
	server := m.ask("red")
	ctx, cancel := context.WithCancel(m.limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+m.front+"/services/red/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	pieces, count := bufio.NewScanner(resp.Body), 0
	read := func(when string) {
		t.Helper()
		for range 50 {
			if !pieces.Scan() || pieces.Text() != strconv.Itoa(count) {
				t.Fatalf("%s, piece %d is %q, %v", when, count, pieces.Text(), pieces.Err())
			}
			count++
		}
	}
	read("at first")
	front := m.frontProcess()
	_ = m.daemon.Process.Kill()
	_ = m.daemon.Wait()
	read("without a daemon")
	m.begin()
	read("with the next daemon")
	m.until("red", "in use", func(s api.Service) bool { return s.State == "ready" && s.Open == 1 })
	if now := m.frontProcess(); now != front {
		t.Errorf("the front is process %d, and was %d", now, front)
	}
	if again := m.ask("red"); again.PID != server.PID {
		t.Errorf("red answers from process %d, and from %d before", again.PID, server.PID)
	}
	read("in the end")
	cancel()
	m.ask("blue")
}

// A front that is killed comes back.
func TestTheFrontDies(t *testing.T) {
	m := newModels(t, "")
	server, front := m.ask("red"), m.frontProcess()
	if err := syscall.Kill(front, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for {
		a, status, text, err := m.try("red")
		if refused := (*net.OpError)(nil); errors.As(err, &refused) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil || status != http.StatusOK || a.PID != server.PID {
			t.Fatalf("red answers %d %s, %v; its process was %d", status, text, err, server.PID)
		}
		break
	}
	if now := m.frontProcess(); now == front {
		t.Error("the front is the same process")
	}
}

// A service that somebody stopped refuses requests, with who and why, until somebody starts
// it, whatever becomes of the daemon.
func TestStoppedOverARestart(t *testing.T) {
	m := newModels(t, "")
	m.ask("red")
	if _, err := m.client.StopService(m.limit, "red", "it is too hot"); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		if _, status, text, err := m.try("red"); err != nil || status != http.StatusServiceUnavailable || !strings.Contains(text, "it is too hot") || !strings.Contains(text, "berth start red") {
			t.Fatalf("%s red answers %d %s, %v", when, status, text, err)
		}
	}
	refused("stopped,")
	m.until("red", "stopped", func(s api.Service) bool { return s.State == "stopped" && s.Lease == "" })
	_ = m.daemon.Process.Signal(syscall.SIGTERM)
	_ = m.daemon.Wait()
	_ = drain(m.notify)
	m.begin()
	refused("after a restart,")
	m.ask("blue")
	if _, err := m.client.StartService(m.limit, "red", ""); err != nil {
		t.Fatal(err)
	}
	m.ask("red")
}

// drain reads what the daemon that has ended told systemd.
func drain(c *net.UnixConn) error {
	defer c.SetReadDeadline(time.Time{})
	for {
		if err := c.SetReadDeadline(time.Now()); err != nil {
			return err
		}
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			return err
		}
	}
}

// Neither a token nor an ordinary user makes the daemon run something else.
func TestWhoSetsWhatIsRun(t *testing.T) {
	m := newModels(t, "")
	made, err := m.client.CreateToken(m.limit, api.TokenRequest{Name: "admin", Role: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	token, err := client.New(client.Options{Socket: m.path("s"), Token: made.Secret})
	if err != nil {
		t.Fatal(err)
	}
	defer token.Close()
	const change = `{"services": {"red": {"command": ["sh"]}}}`
	if _, err := token.SetConfig(m.limit, []byte(change)); err == nil || !strings.Contains(fmt.Sprintf("%+v", err), "services.red.command") {
		t.Errorf("a token sets the command: %v", err)
	}
	if _, err := token.FrontBring(m.limit, api.FrontBring{Front: "f", Service: "red", User: "root"}); err == nil {
		t.Error("a token brings a service as the front does")
	}
	if os.Geteuid() == 0 {
		set := exec.CommandContext(m.limit, m.path("berth"), "config", "set", "services.red.command=sh")
		set.Env = append(m.env, asUser+"=4711")
		if said, err := set.CombinedOutput(); err == nil || !strings.Contains(string(said), "role") {
			t.Errorf("an ordinary user sets the command: %v, %s", err, said)
		}
	}
	if _, err := m.client.SetConfig(m.limit, []byte(`{"services": {"red": {"idle_after": 3600}}}`)); err != nil {
		t.Errorf("an administrator changes what runs nothing: %v", err)
	}
	if s := m.until("red", "there", func(api.Service) bool { return true }); s.Command[0] == "sh" {
		t.Error("the command was changed")
	}
}

// A daemon of root runs no program as root.
func TestRootRunsNoPrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the daemon is not root")
	}
	dir := shortDir(t)
	berth := berthIn(t, dir)
	for settings, want := range map[string]string{
		"services: {a: {command: a}}":             "services.a.command: the daemon runs as root",
		"services: {a: {command: a, user: root}}": "services.a.user: is root",
		"front: {user: root}":                     "front.user: is root",
	} {
		file := filepath.Join(dir, "berth.yaml")
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, berth, "serve", "--config", file, "--devices", "sim:1", "--listen", "", "--socket", filepath.Join(dir, "s"), "--state-dir", filepath.Join(dir, "state"))
		said, err := cmd.CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(said), want) {
			t.Errorf("%s: %v, %s", settings, err, said)
		}
		if _, err := os.Stat(filepath.Join(dir, "s")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the daemon has begun to serve", settings)
		}
	}
}
