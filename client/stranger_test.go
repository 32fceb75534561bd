package client

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Nothing is sent to somebody who listens where the daemon should: neither over HTTP nor
// over a stream.
func TestNothingIsSentToAStranger(t *testing.T) {
	me := os.Geteuid()
	mine, others, sticky := shortDir(t), shortDir(t), shortDir(t)
	if err := os.Chmod(sticky, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	if me == 0 {
		if err := os.Chown(others, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		name   string
		folder string
		only   gpu.Opt[int]
		asUser int // who listens
		asked  bool
		root   bool // the test needs root
	}{
		{name: "the user who must be there", folder: mine, only: gpu.Some(me), asUser: me, asked: true},
		{name: "another one", folder: mine, only: gpu.Some(me + 1), asUser: me},
		{name: "a stranger in a folder of root", folder: sticky, asUser: nobody, root: true},
		{name: "a stranger in place of the daemon of root", folder: sticky, only: gpu.Some(0), asUser: nobody, root: true},
		{name: "the daemon of a user in a folder of that user", folder: others, asUser: nobody, asked: true, root: true},
		{name: "root in a folder of a user", folder: others, asUser: 0, asked: true, root: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && me != 0 {
				t.Skip("only root can listen as somebody else")
			}
			path := filepath.Join(c.folder, strconv.Itoa(i)+".sock")
			listener := listenAs(t, path, c.asUser)
			var asked atomic.Int64
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); http.NotFound(w, nil) })}
			go func() { _ = server.Serve(listener) }()
			defer server.Close()
			d, err := New(Options{Socket: path, PeerUID: c.only})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			_, status := d.StatusAll(t.Context())
			_, lease := d.Acquire(t.Context(), api.LeaseRequest{Memory: 1})
			if (asked.Load() > 0) != c.asked {
				t.Errorf("it was asked %d times", asked.Load())
			}
			for _, err := range []error{status, lease} {
				stranger := (*StrangerError)(nil)
				if is := errors.As(err, &stranger); is == c.asked || is && (stranger.UID != c.asUser || stranger.Hint() == "") {
					t.Errorf("the error is %v", err)
				}
			}
		})
	}
}

// listenAs listens on a socket as a user. Credentials belong to a thread, and the kernel
// notes those of the one that listens; the thread ends with the goroutine.
func listenAs(t *testing.T, path string, uid int) net.Listener {
	t.Helper()
	var listener net.Listener
	var listen func() error
	listen = func() error {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			if syscall.Gettid() == os.Getpid() { // it stands for the whole process: another one does it, while this one is held
				err := listen()
				runtime.UnlockOSThread()
				done <- err
				return
			}
			if _, _, failed := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); uid != os.Geteuid() && failed != 0 {
				done <- failed
				return
			}
			var err error
			listener, err = net.Listen("unix", path)
			done <- err
		}()
		return <-done
	}
	if err := listen(); err != nil {
		t.Fatal(err)
	}
	return listener
}
