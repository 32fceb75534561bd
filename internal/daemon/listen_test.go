package daemon

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
)

// Whoever has the port of the daemon takes nothing else from it.
func TestSocketServesWhileSomebodyHasThePort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := newPlace(t, "sim:1")
	p.flags["daemon.listen"] = taken.Addr().String()
	c, _ := p.start(t)
	next := func(severity gpu.Severity) gpu.Event {
		for e, err := range c.EventsWhere(t.Context(), client.EventQuery{Follow: true, Filter: gpu.EventFilter{Codes: []gpu.EventCode{gpu.EventListen}}}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Severity == severity {
				return e
			}
		}
		t.Fatal("the events ended")
		return gpu.Event{}
	}
	if e := next(gpu.Warning); !strings.Contains(e.Text, taken.Addr().String()+": a program of the user ") {
		t.Errorf("it told %q", e.Text)
	}
	ready, err := c.Ready(t.Context())
	if err != nil || !ready.Ready || !strings.Contains(ready.Listen, "has that port") {
		t.Errorf("while another program has the port: %+v, %v", ready, err)
	}
	_ = taken.Close()
	next(gpu.Note)
	if ready, err := c.Ready(t.Context()); err != nil || ready.Listen != "" {
		t.Errorf("when it has the port: %+v, %v", ready, err)
	}
	there, err := client.New(client.Options{URL: "http://" + taken.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := there.Ping(t.Context()); err != nil {
		t.Errorf("on its port: %v", err)
	}
}

// A failure of the server on TCP leaves the socket alone, and the address is had again.
func TestAddressIsHadAgainAfterAFailure(t *testing.T) {
	p := newPlace(t, "sim:1")
	d := p.open(t, t.Context())
	settings := d.settings.load().Config.Daemon
	told := make(chan string, 4)
	socket, err := listenSocket(settings, -1, nil)
	if err != nil {
		t.Fatal(err)
	}
	doors, err := openDoors(t.Context(), settings, d.handler, d.doorkeeper(), d.kernel, &d.shown, nil, func() {}, socket, func(have string, trouble error) {
		if trouble != nil {
			have = ""
		}
		told <- have
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	first := <-told
	_ = doors.tcp.Close() // as if the kernel had
	go func() { served <- doors.serve() }()
	if trouble, again := <-told, <-told; first == "" || trouble != "" || again == "" {
		t.Errorf("it told %q, %q, %q", first, trouble, again)
	}
	c, err := client.New(client.Options{Socket: settings.Socket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	doors.close()
	doors.close() // as after a failure of the socket
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestSocketBelongsToTheDaemon(t *testing.T) {
	listen := func(folder string) (*ownSocket, error) {
		return listenSocket(config.Daemon{Socket: filepath.Join(folder, "s")}, -1, nil)
	}
	t.Run("a file is no socket", func(t *testing.T) {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "s"), []byte("notes"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := listen(folder); err == nil || !strings.Contains(err.Error(), "is no socket") {
			t.Error(err)
		}
		if text, err := os.ReadFile(filepath.Join(folder, "s")); string(text) != "notes" {
			t.Errorf("the file has %q, %v", text, err)
		}
	})
	t.Run("another daemon starts", func(t *testing.T) {
		folder := t.TempDir()
		other, err := startAlone(filepath.Join(folder, "s"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := listen(folder); err == nil || !strings.Contains(err.Error(), "starts on") {
			t.Errorf("while another daemon starts: %v", err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the lock stays with nobody
			l, err := listen(folder)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("the socket of another daemon stays", func(t *testing.T) {
		folder := t.TempDir()
		first, err := listen(folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(folder, "s")); err != nil { // somebody tidied up
			t.Fatal(err)
		}
		second, err := listen(folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		if c, err := net.Dial("unix", filepath.Join(folder, "s")); err != nil {
			t.Errorf("the second cannot be reached: %v", err)
		} else {
			_ = c.Close()
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(folder, "s")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it left its socket: %v", err)
		}
	})
	for name, mode := range map[string]os.FileMode{"everybody's": 0o777, "such as /tmp": 0o777 | os.ModeSticky} {
		t.Run("in a folder "+name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "f")
			if err := errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, mode)); err != nil {
				t.Fatal(err)
			}
			_, err := listen(folder)
			if !errors.Is(err, file.ErrOthers) || !strings.Contains(err.Error(), "--socket") {
				t.Error(err)
			}
			link := filepath.Join(t.TempDir(), "l")
			if err := os.Symlink(folder, link); err != nil {
				t.Fatal(err)
			}
			if _, err := listen(link); !errors.Is(err, file.ErrOthers) {
				t.Errorf("behind a link: %v", err)
			}
		})
	}
	t.Run("in a folder of somebody else", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give a folder away")
		}
		folder := t.TempDir()
		if err := os.Chown(folder, 65533, 65533); err != nil {
			t.Fatal(err)
		}
		if _, err := listen(folder); !errors.Is(err, file.ErrOthers) || !strings.Contains(err.Error(), "chown") {
			t.Error(err)
		}
	})
}

// Who has the port is looked for once, and not at each try to have it.
func TestTheHolderOfThePortIsLookedForOnce(t *testing.T) {
	d, told := &Daemon{}, "a program of the user ada has that port" // nothing to look with
	d.unheard.Store(&told)
	d.tellListening("", syscall.EADDRINUSE)
	if why := d.unheard.Load(); why == nil || *why != told {
		t.Errorf("the reason is %v", why)
	}
	d.tellListening("", syscall.EADDRNOTAVAIL) // it tells nobody again
	if why := d.unheard.Load(); why == nil || *why != syscall.EADDRNOTAVAIL.Error() {
		t.Errorf("the address is gone, and the reason is %v", *why)
	}
}

// While a stream on the socket does not end, TCP takes nobody in any more whose request would
// be cut off, and those that it has finish.
func TestDoorsCloseTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stays, finishes := make(chan struct{}), make(chan struct{})
		door := func(until chan struct{}) (*http.Server, *oneConn, net.Conn) {
			ours, theirs := net.Pipe()
			s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-until })}
			l := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
			l.conn <- theirs
			go func() { _ = s.Serve(l) }()
			go func() { _, _ = io.WriteString(ours, "GET / HTTP/1.1\r\nHost: h\r\n\r\n") }()
			synctest.Wait()
			return s, l, ours
		}
		socket, _, stream := door(stays)
		tcp, port, request := door(finishes)
		answer := make(chan error, 1)
		go func() {
			_, err := http.ReadResponse(bufio.NewReader(request), nil)
			answer <- err
		}()
		d := &doors{servers: []*http.Server{socket, tcp}, stop: func() {}}
		go func() {
			time.Sleep(time.Second)
			select {
			case <-port.closed:
			default:
				t.Error("TCP still takes callers")
			}
			close(finishes)
		}()
		d.close()
		if err := <-answer; err != nil {
			t.Errorf("a request that takes a second: %v", err)
		}
		if _, err := http.ReadResponse(bufio.NewReader(stream), nil); err == nil {
			t.Error("a stream that does not end was not cut off")
		}
		close(stays)
	})
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
