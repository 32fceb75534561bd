package client

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestNoDaemonOnSocket(t *testing.T) {
	missing := filepath.Join(shortDir(t), "berth.sock")
	c, err := New(Options{Socket: missing})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.StatusAll(t.Context())
	none := (*NoDaemonError)(nil)
	if !errors.As(err, &none) {
		t.Fatalf("error %v", err)
	}
	if want := "no daemon answers (" + missing + ": no such file or directory)"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("the cause is lost")
	}
	if want := "start one: berth serve"; none.Hint() != want {
		t.Errorf("hint %q, want %q", none.Hint(), want)
	}
}

func TestNoDaemonOnTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	c, err := New(Options{URL: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Ping(t.Context())
	none := (*NoDaemonError)(nil)
	if !errors.As(err, &none) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("error %v", err)
	}
	if !strings.Contains(none.Hint(), "check the address") {
		t.Errorf("hint %q", none.Hint())
	}
}

func TestPermissionHint(t *testing.T) {
	err := &NoDaemonError{Attempts: []Attempt{
		{"unix", "/run/user/7/berth/berth.sock", fs.ErrNotExist},
		{"unix", "/run/berth/berth.sock", syscall.EACCES},
	}}
	want := "your user may not open /run/berth/berth.sock: join the group that owns it, or use sudo"
	if err.Hint() != want {
		t.Errorf("hint %q, want %q", err.Hint(), want)
	}
}

func TestFallsBackToTheNextSocket(t *testing.T) {
	for _, stale := range []bool{false, true} {
		first := filepath.Join(shortDir(t), "s")
		if stale { // a daemon killed with -9 leaves its socket behind
			listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: first, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			listener.SetUnlinkOnClose(false)
			_ = listener.Close()
		}
		answered := false
		second := serveUnix(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered = true }))
		c := overSockets(Options{}, []string{first, second})
		if err := c.Ping(t.Context()); err != nil || !answered {
			t.Errorf("stale %v: answered %v, error %v", stale, answered, err)
		}
		// It stays with the daemon that it began with, also if there is another one by now.
		answered = false
		_ = os.Remove(first)
		listener, err := net.Listen("unix", first)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := listener.Accept(); err == nil {
				_ = conn.Close()
			}
		}()
		c.Close()
		if err := c.Ping(t.Context()); err != nil || !answered {
			t.Errorf("stale %v: then answered %v, error %v", stale, answered, err)
		}
		c.Close()
		_ = listener.Close()
	}
}

func TestFindOrder(t *testing.T) {
	all := map[string]string{"BERTH_SOCKET": "/env.sock", "BERTH_URL": "http://env", "BERTH_TOKEN": "secret"}
	for _, c := range []struct {
		name         string
		given        Options
		env          map[string]string
		socket, url  string
		defaultPaths bool
	}{
		{"given socket", Options{Socket: "/s"}, all, "/s", "", false},
		{"given URL", Options{URL: "http://u"}, all, "", "http://u", false},
		{"socket of the environment", Options{}, all, "/env.sock", "", false},
		{"URL of the environment", Options{}, map[string]string{"BERTH_URL": "http://env"}, "", "http://env", false},
		{"nothing", Options{}, nil, "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := func(name string) string { return c.env[name] }
			got, err := c.given.withEnv(env)
			token := c.env["BERTH_TOKEN"]
			if c.url == "" { // a socket needs none
				token = ""
			}
			if err != nil || got.Socket != c.socket || got.URL != c.url || got.Token != token {
				t.Errorf("got %+v, %v", got, err)
			}
			if _, err := Find(c.given, env); err != nil {
				t.Error(err)
			}
		})
	}
}

// A token in a file is for sockets too: in a container it is the only way to be
// known.
func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"secret\n": "secret", " s \n\n": "s", "": "", "\n": "", "a b": "", "a\x00b": "", "ü": ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, place := range []Options{{Socket: "/s"}, {URL: "https://u"}, {}} {
			got, err := place.withEnv(func(name string) string {
				return map[string]string{"BERTH_TOKEN_FILE": path, "BERTH_TOKEN": "other"}[name]
			})
			if (err == nil) != (want != "") || err == nil && (got.Token != want || got.TokenFile != path) {
				t.Errorf("%q is the token %q of %q, %v", text, got.Token, got.TokenFile, err)
			}
		}
	}
	if _, err := Find(Options{}, func(name string) string { return map[string]string{"BERTH_TOKEN_FILE": "/nowhere"}[name] }); err == nil {
		t.Error("a file that is not there is no error")
	}
}

func TestDefaultSockets(t *testing.T) {
	env := func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}[name] }
	if got, want := defaultSockets(true, env), []string{"/run/berth/berth.sock"}; !slices.Equal(got, want) {
		t.Errorf("as root %q, want %q", got, want)
	}
	want := []string{"/run/user/7/berth/berth.sock", "/run/berth/berth.sock"}
	if got := defaultSockets(false, env); !slices.Equal(got, want) {
		t.Errorf("as a user %q, want %q", got, want)
	}
}

// Reach finds a daemon that listens, and what is asked next goes over the connection that it
// made. A client that asks nothing more closes it.
func TestReach(t *testing.T) {
	socket := filepath.Join(shortDir(t), "s")
	c, err := New(Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	missing := (*NoDaemonError)(nil)
	if err := c.Reach(t.Context()); !errors.As(err, &missing) {
		t.Fatalf("without a daemon: %v", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan http.ConnState, 16)
	server := &http.Server{
		Handler:   http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ConnState: func(_ net.Conn, s http.ConnState) { states <- s },
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	if err := errors.Join(c.Reach(t.Context()), c.Ping(t.Context()), c.Ping(t.Context())); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for opened := 0; ; {
		state := <-states
		if state == http.StateNew {
			opened++
		}
		if state == http.StateClosed {
			if opened != 1 {
				t.Errorf("%d connections were made", opened)
			}
			break
		}
	}
	if err := c.Reach(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for state := range states {
		if state == http.StateClosed {
			break
		}
	}
}
