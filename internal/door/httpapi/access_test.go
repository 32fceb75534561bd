package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// guestRoutes are the routes that other doors serve.
var guestRoutes = []string{
	"GET /", "GET /favicon.svg", "GET /assets/{file}", "GET /help", "GET /help/{page}", "GET /help/pictures/{file}",
}

// Every route has a verb, and nothing else has one. A daemon with a route that has
// none does not start.
func TestEveryRouteHasAVerb(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for route := range verbs {
		if served, guest := slices.Contains(d.routes, route), slices.Contains(guestRoutes, route); served == guest {
			t.Errorf("%s has a verb: served by this door %v, by another %v", route, served, guest)
		}
	}
	if got, want := len(d.routes)+len(guestRoutes), len(verbs); got != want {
		t.Errorf("there are %d routes, and %d have a verb", got, want)
	}
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "GET /api/new has no verb") {
			t.Errorf("a route without a verb: %s", said)
		}
	}()
	d.HandleFunc("GET /api/new", func(http.ResponseWriter, *http.Request) {})
}

// A handler that is reached around the doors turns everybody away.
func TestNobodyComesInAroundTheDoors(t *testing.T) {
	d := open(t, "1xrtx-4060")
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, httptest.NewRequest("GET", "/api/leases", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("answered with %d: %s", w.Code, w.Body)
	}
}

// What changes the daemon for everybody is for root and the daemon's own user.
func TestAdministrators(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for _, route := range []struct{ method, path, body string }{
		{"PUT", "/api/gpu/config", `{"temp_optimal": 61}`},
		{"POST", "/api/gpu/monitoring/stop", ""},
		{"POST", "/api/gpu/monitoring/start", ""},
	} {
		for name, test := range map[string]struct {
			by     doorkeeper.Identity
			status int
		}{
			"somebody": {holding(lease.Holder{UID: 4711, User: "eve"}, access.User), http.StatusForbidden},
			"root":     {holding(lease.Holder{UID: 0, User: "root"}, access.Admin), http.StatusOK},
		} {
			r := httptest.NewRequest(route.method, route.path, strings.NewReader(route.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), test.by)))
			if w.Code != test.status {
				t.Errorf("%s %s by %s: %d %s, want %d", route.method, route.path, name, w.Code, w.Body, test.status)
			}
		}
	}
	if got := d.settings.Config.GPU.TempOptimal; got != 61 {
		t.Errorf("temp_optimal is %v, want what root set", got)
	}
}

// tcp serves a door on TCP for a daemon that runs as a user.
func (d *door) tcp(t *testing.T, daemon int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.serve(t, l, daemon, nil)
	return l.Addr().String()
}

// A caller that sends a request and resets the connection leaves nobody to ask
// for. It used to pass for an administrator then.
func TestResetConnectionsAreNobodys(t *testing.T) {
	d := open(t, "1xrtx-4060")
	address := d.tcp(t, os.Geteuid())
	before := d.settings.Config.GPU.TempOptimal
	for i := range 40 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		body := `{"temp_optimal": 61}`
		_, err = fmt.Fprintf(c, "PUT /api/gpu/config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
	}
	// A request that was read whole is answered before a later one is on the
	// same machine only by chance, so each of the forty has to be refused by
	// itself: root over TCP is refused too.
	call := over(t, func() (net.Conn, error) { return net.Dial("tcp", address) })
	if status, text := call("PUT", "/api/gpu/config", `{"temp_optimal": 62}`); status != http.StatusForbidden {
		t.Errorf("administration over TCP without a token was answered with %d: %s", status, text)
	}
	if got := d.settings.Config.GPU.TempOptimal; got != before {
		t.Errorf("temp_optimal is %v, and was %v", got, before)
	}
}

// Over TCP everybody is their own user.
func TestUsersOverTCP(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can connect as several users")
	}
	d := open(t, "1xrtx-4060")
	address := d.tcp(t, 0)
	const alice, bob = 64001, 64002
	dial := func(uid int) func(method, path, body string) (int, []byte) {
		return over(t, func() (net.Conn, error) { return as(uid, "tcp", address) })
	}
	if status, text := dial(alice)("POST", "/api/gpu/memory/allocate", `{"allocation_id":"mine","memory_mb":10}`); status != http.StatusCreated || !strings.Contains(string(text), `"uid":64001`) {
		t.Fatalf("answer is %d: %s", status, text)
	}
	if status, text := dial(bob)("POST", "/api/gpu/memory/deallocate", `{"allocation_id":"mine","user":"64001"}`); status != http.StatusForbidden {
		t.Errorf("another user released it: %d: %s", status, text)
	}
	if status, text := dial(alice)("POST", "/api/gpu/memory/deallocate", `{"allocation_id":"mine"}`); status != http.StatusOK {
		t.Errorf("its own user could not release it: %d: %s", status, text)
	}
	if status, text := dial(0)("POST", "/api/gpu/memory/allocate", `{"allocation_id":"roots","memory_mb":10}`); status != http.StatusCreated {
		t.Errorf("root over TCP: %d: %s", status, text)
	}
	if status, _ := dial(0)("PUT", "/api/gpu/config", `{}`); status != http.StatusForbidden {
		t.Errorf("root administers over TCP without the token: %d", status)
	}
}

// A daemon that an ordinary user runs is closed to others on TCP as on its
// socket.
func TestPrivateDaemonOverTCP(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can connect as several users")
	}
	d := open(t, "1xrtx-4060")
	const owner, other = 64001, 64002
	address := d.tcp(t, owner)
	for _, test := range []struct {
		uid  int
		path string
		want int
	}{
		{owner, "/api/leases", http.StatusOK}, {other, "/api/leases", http.StatusForbidden}, {0, "/api/leases", http.StatusForbidden},
		{other, "/healthz", http.StatusOK},
	} {
		call := over(t, func() (net.Conn, error) { return as(test.uid, "tcp", address) })
		if status, text := call("GET", test.path, ""); status != test.want {
			t.Errorf("GET %s by user %d: %d: %s", test.path, test.uid, status, text)
		}
	}
}

// A number that was written down in a container means a process of the
// container. It used to be taken for a process of the host.
func TestPidsFromAContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make namespaces for sure")
	}
	d := open(t, "1xrtx-4060")
	path := d.socket(t)
	const inside = `
import json, os, socket, subprocess, sys
os.setresuid(65534, 65534, 65534)
def ask(method, path, body):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
    text = json.dumps(body)
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    answer = b""
    while part := s.recv(65536): answer += part
    return answer.split(b"\r\n\r\n", 1)[1].decode().strip()
child = subprocess.Popen(["sleep", "1000"])
print(ask("POST", "/api/leases", {"id": "mine", "binding": "process", "pid": child.pid}), flush=True)
print(ask("POST", "/api/leases", {"id": "own", "binding": "process"}), flush=True)
print(ask("POST", "/api/leases/own/bind", {"pid": child.pid}), flush=True)
print(ask("POST", "/api/leases", {"id": "none", "binding": "process", "pid": int(sys.argv[2])}), flush=True)
print(ask("POST", "/api/leases/adopt", {"id": "none", "pid": int(sys.argv[2]), "gpu": "0", "memory_mb": 1}), flush=True)
sys.stdin.read()
`
	// A process of the same user outside, whose number is none in there.
	bystander := exec.Command("setpriv", "--reuid", "65534", "--clear-groups", "sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	cmd := exec.Command("unshare", "-pf", "--kill-child", "--mount-proc",
		"python3", "-c", inside, path, strconv.Itoa(bystander.Process.Pid))
	stdin, _ := cmd.StdinPipe()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close(); _ = cmd.Wait() }()
	answers := bufio.NewScanner(out)
	next := func() string {
		if !answers.Scan() {
			t.Fatalf("it ended early: %v", answers.Err())
		}
		return answers.Text()
	}
	for i, step := range []string{"a lease for the child", "one for itself", "handing that to the child"} {
		var l api.Lease
		answer := next()
		if err := json.Unmarshal([]byte(answer), &l); err != nil || l.Holder.PID == 0 {
			t.Fatalf("%s: %s", step, answer)
		}
		want := "sleep"
		if i == 1 {
			want = "python3"
		}
		namespace, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", l.Holder.PID))
		own, _ := os.Readlink("/proc/self/ns/pid")
		if name := process.Proc().Name(l.Holder.PID); name != want || namespace == own || l.Holder.PID == bystander.Process.Pid {
			t.Errorf("%s: it is bound to process %d, which is called %s", step, l.Holder.PID, name)
		}
	}
	for _, step := range []string{"a lease for a number of the host", "adopting it"} {
		if answer := next(); !strings.Contains(answer, "process_gone") {
			t.Errorf("%s: %s", step, answer)
		}
	}
}
