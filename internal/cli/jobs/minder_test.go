package jobs

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/process/minder"
)

// While the daemon is away, somebody else may listen where it did. A minder asks nothing
// there, and asks again: the daemon may come back.
func TestAMinderAsksOnlyTheUserWhoStartedIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can let somebody else listen")
	}
	folder, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "s")
	ask := asker(socket)

	const impostor = `import os, socket, sys
os.setresuid(65534, 65534, 65534)
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
print("listens", flush=True)
c, _ = s.accept()
print(len(c.recv(1)), flush=True)`
	cmd := exec.Command("python3", "-c", impostor, socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(from)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := said.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	stranger := (*client.StrangerError)(nil)
	if _, err := ask(t.Context(), "1.0.1"); !errors.As(err, &stranger) || errors.Is(err, minder.ErrRefused) {
		t.Errorf("the error is %v, want that a stranger listens", err)
	}
	if sent, err := said.ReadString('\n'); err != nil || sent != "0\n" {
		t.Errorf("it was sent %q bytes: %v", sent, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}

	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); http.NotFound(w, nil) })}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	if _, err := ask(t.Context(), "1.0.1"); err == nil || asked.Load() != 1 {
		t.Errorf("the daemon was asked %d times: %v", asked.Load(), err)
	}
}

// A minder writes down that its run has failed if the daemon has no order for it, and for
// nothing else.
func TestOnlyThatThereIsNoOrderIsAnEnd(t *testing.T) {
	folder, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	socket := filepath.Join(folder, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var answer *api.Problem
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { problems.Write(w, answer) })}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	for code, status := range map[string]int{
		"no_order": http.StatusConflict, "no_minder": http.StatusForbidden, "withdrawn": http.StatusRequestTimeout,
		"journal_full": http.StatusInsufficientStorage, "no_process": http.StatusServiceUnavailable, "unknown_path": http.StatusNotFound,
	} {
		answer = problems.New(status, code, "No.")
		if _, err := asker(socket)(t.Context(), "1.0.1"); err == nil || errors.Is(err, minder.ErrRefused) != (code == "no_order") {
			t.Errorf("%s: %v", code, err)
		}
	}
}
