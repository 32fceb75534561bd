package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/process"
)

// socket serves a door on a Unix socket, and knows its callers.
func (d *door) socket(t *testing.T) string {
	t.Helper()
	return d.socketWith(t, users.New(users.Lookup, time.Minute))
}

// socketWith is socket with a user database of its own.
func (d *door) socketWith(t *testing.T, names *users.Names) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth-") // short: a socket's path has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // for other users too
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	d.serve(t, l, os.Geteuid(), names)
	return path
}

// serve serves a door for a daemon that runs as a user, and knows its callers.
func (d *door) serve(t *testing.T, l net.Listener, daemon int, names doorkeeper.Names) {
	t.Helper()
	kernel := peercred.New(process.Proc())
	rules := func() *access.Rules { return &access.Rules{Daemon: daemon} }
	keeper := doorkeeper.Doorkeeper{Kernel: kernel, Processes: process.Proc(), Names: names, Rules: rules}
	guests := peercred.NewGuests(peercred.Limits{User: 99, Unknown: 99, All: 99, Admin: 99}, rules)
	server := &http.Server{Handler: d.server, ConnContext: keeper.ConnContext()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(&peercred.Listener{Listener: l, Kernel: kernel, Guests: guests})
	}()
	t.Cleanup(func() { _ = server.Close(); <-done })
}

// over makes requests over one kind of connection.
func over(t *testing.T, dial func() (net.Conn, error)) func(method, path, body string) (int, []byte) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() },
	}}
	t.Cleanup(client.CloseIdleConnections)
	return func(method, path, body string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://berth"+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		w, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		text, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.StatusCode, text
	}
}

// as connects as another user. Credentials belong to a thread, and the kernel
// notes those of the one that connects; the thread ends with the goroutine.
func as(uid int, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// In /proc this thread stands for the whole process: another one does
			// it, while this one is held.
			conn, err := as(uid, network, address)
			runtime.UnlockOSThread()
			results <- result{conn, err}
			return
		}
		if _, _, failed := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); failed != 0 {
			results <- result{nil, failed}
			return
		}
		conn, err := net.Dial(network, address) // in this thread: the address needs no looking up
		results <- result{conn, err}
	}()
	r := <-results
	return r.conn, r.err
}

// loginName asks the user database, however long that takes.
func loginName(uid int) string { return users.New(users.Lookup, time.Minute).Of(uid) }

// While the user database hangs, everybody gets in, and is known by number.
// What needs no name does not wait for one at all.
func TestHungUserDatabase(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	lookup := func(int) (string, error) { <-hang; return "late", nil }
	d := open(t, "1xrtx-4060")

	patient := d.socketWith(t, users.New(lookup, time.Hour))
	call := over(t, func() (net.Conn, error) { return net.Dial("unix", patient) })
	if status, text := call("GET", "/healthz", ""); status != http.StatusOK {
		t.Errorf("/healthz answers %d: %s", status, text)
	}

	path := d.socketWith(t, users.New(lookup, time.Millisecond))
	call = over(t, func() (net.Conn, error) { return net.Dial("unix", path) })
	status, text := call("POST", "/api/leases", `{"id":"mine","binding":"process"}`)
	var l api.Lease
	if err := json.Unmarshal(text, &l); err != nil || status != http.StatusCreated {
		t.Fatalf("answer is %d: %s", status, text)
	}
	if want := strconv.Itoa(os.Getuid()); l.Holder.User != want {
		t.Errorf("the holder is %+v, want user %s", l.Holder, want)
	}
}

// Who holds a lease is what the kernel says of the connection, whatever the
// caller says of itself.
func TestLeaseHolderIsThePeer(t *testing.T) {
	d := open(t, "1xrtx-4060")
	path := d.socket(t)
	call := over(t, func() (net.Conn, error) { return net.Dial("unix", path) })
	status, text := call("POST", "/api/leases", `{"id":"mine","binding":"process","name":"training"}`)
	var l api.Lease
	if err := json.Unmarshal(text, &l); err != nil || status != http.StatusCreated {
		t.Fatalf("answer is %d: %s", status, text)
	}
	want := api.Holder{Name: "training", User: loginName(os.Getuid()), UID: gpu.Some(os.Getuid()), PID: os.Getpid()}
	if l.Holder != want || l.Binding != "process" {
		t.Errorf("the holder is %+v, want %+v", l.Holder, want)
	}
	status, text = call("POST", "/api/leases", `{"id":"forged","user":"root","uid":0}`)
	if status != http.StatusUnprocessableEntity {
		t.Errorf("who says who it is was answered with %d: %s", status, text)
	}
}

func TestOnlyTheHolderMayTouchALease(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can connect as several users")
	}
	d := open(t, "1xrtx-4060")
	path := d.socket(t)
	const alice, bob = 64001, 64002
	for _, who := range []int{alice, bob} {
		call := over(t, func() (net.Conn, error) { return as(who, "unix", path) })
		if status, text := call("POST", "/api/gpu/memory/allocate", fmt.Sprintf(`{"allocation_id":"of-%d","memory_mb":10,"ttl_seconds":600}`, who)); status != http.StatusCreated {
			t.Fatalf("answer is %d: %s", status, text)
		}
	}
	asBob := over(t, func() (net.Conn, error) { return as(bob, "unix", path) })
	id := fmt.Sprintf("of-%d", alice)
	for _, test := range []struct{ method, path, body string }{
		{"POST", "/api/gpu/memory/deallocate", `{"allocation_id":"` + id + `","user":"64001"}`},
		{"DELETE", "/api/leases/" + id + "?user=64001", ""},
		{"DELETE", "/api/leases/nothing?user=64001", ""},
		{"POST", "/api/leases/" + id + "/renew?user=64001", `{"fence":0}`},
		{"POST", "/api/leases/" + id + "/resize?user=64001", `{"memory_mb":1}`},
		{"POST", "/api/leases/" + id + "/trim?user=64001", ""},
		{"POST", "/api/leases/" + id + "/bind?user=64001", fmt.Sprintf(`{"pid":%d}`, os.Getpid())},
		{"POST", "/api/leases/adopt", fmt.Sprintf(`{"pid":%d,"gpu":"0","memory_mb":1}`, os.Getpid())},
		{"POST", "/api/leases", fmt.Sprintf(`{"pid":%d}`, os.Getpid())},
	} {
		var p api.Problem
		status, text := asBob(test.method, test.path, test.body)
		if err := json.Unmarshal(text, &p); err != nil || status != http.StatusForbidden || p.Code != "not_yours" {
			t.Errorf("%s %s of somebody else's was answered with %d: %s", test.method, test.path, status, text)
		}
	}
	if status, text := asBob("DELETE", fmt.Sprintf("/api/leases/of-%d", bob), ""); status != http.StatusOK {
		t.Errorf("his own: %d %s", status, text)
	}
	asRoot := over(t, func() (net.Conn, error) { return net.Dial("unix", path) })
	if status, text := asRoot("DELETE", "/api/leases/"+id, ""); status != http.StatusOK {
		t.Errorf("an administrator: %d %s", status, text)
	}
}

func TestLeaseIsHandedToAnotherProcess(t *testing.T) {
	d := open(t, "1xrtx-4060")
	path := d.socket(t)
	call := over(t, func() (net.Conn, error) { return net.Dial("unix", path) })
	program := exec.Command("cat")
	if _, err := program.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill(); _ = program.Wait() })
	pid := program.Process.Pid
	for _, body := range []string{`{"id":"mine","binding":"process","name":"training"}`, `{"id":"named"}`} {
		if status, text := call("POST", "/api/leases", body); status != http.StatusCreated {
			t.Fatalf("answer is %d: %s", status, text)
		}
	}
	var l api.Lease
	status, text := call("POST", "/api/leases/mine/bind", fmt.Sprintf(`{"pid":%d,"fence":1}`, pid))
	if err := json.Unmarshal(text, &l); err != nil || status != http.StatusOK || l.Holder.PID != pid || l.Fence != 1 || l.Holder.Name != "training" {
		t.Errorf("answer is %d: %s", status, text)
	}
	for _, test := range []struct {
		id     string
		body   string
		status int
		code   string
	}{
		{"named", fmt.Sprintf(`{"pid":%d}`, pid), 409, "not_process_bound"},
		{"other", fmt.Sprintf(`{"pid":%d}`, pid), 404, "unknown_allocation"},
		{"mine", fmt.Sprintf(`{"pid":%d,"fence":2}`, pid), 409, "stale_fence"},
		{"mine", `{"pid":2147483647}`, 409, "process_gone"},
		{"mine", `{"pid":1}`, 403, "process_not_allowed"},
		{"mine", fmt.Sprintf(`{"pid":%d}`, os.Getpid()), 403, "process_not_allowed"},
		{"mine", `{"pid":0}`, 422, "invalid_request"},
		{"mine", `{}`, 422, "invalid_request"},
	} {
		var p api.Problem
		status, text := call("POST", "/api/leases/"+test.id+"/bind", test.body)
		if err := json.Unmarshal(text, &p); err != nil || status != test.status || p.Code != test.code {
			t.Errorf("%s %s was answered with %d: %s", test.id, test.body, status, text)
		}
	}
}
