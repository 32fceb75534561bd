package daemon

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// piped is a listener whose connections are handed to it.
type piped chan net.Conn

func (l piped) Accept() (net.Conn, error) {
	c, open := <-l
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l piped) Close() error   { close(l); return nil }
func (l piped) Addr() net.Addr { return &net.UnixAddr{Name: "here", Net: "unix"} }

// guest is a connection to doors with one server.
type guest struct {
	net.Conn
	in *bufio.Reader
}

// admit serves as many connections to a handler. The doors close with the test.
func admit(t *testing.T, h http.HandlerFunc, n int) (*doors, []guest) {
	l := make(piped, n)
	keep := func(ctx context.Context, _ net.Conn) context.Context { return ctx }
	d := &doors{socket: l, servers: []*http.Server{newServer(t.Context(), h, keep)}, stop: func() {}}
	served := make(chan error, 1)
	go func() { served <- d.serve() }()
	guests := make([]guest, n)
	for i := range guests {
		ours, theirs := net.Pipe()
		guests[i] = guest{ours, bufio.NewReader(ours)}
		l <- theirs
	}
	t.Cleanup(func() {
		d.close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		for _, g := range guests {
			_ = g.Close()
		}
	})
	return d, guests
}

// ask sends a request and returns the status of its answer.
func (g guest) ask(t *testing.T, text string) int {
	t.Helper()
	if _, err := io.WriteString(g, text); err != nil {
		t.Fatal(err)
	}
	return g.status(t)
}

func (g guest) status(t *testing.T) int {
	t.Helper()
	answer, err := http.ReadResponse(g.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode
}

const healthy = "GET /healthz HTTP/1.1\r\nHost: berth\r\n\r\n"

// reading answers when the body of a request has come or will not come.
func reading(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusRequestTimeout)
	}
}

// Each part of a request has so long to come, and so has the next request. What came before
// on the same connection does not count.
func TestRequestsAreLate(t *testing.T) {
	for name, c := range map[string]struct {
		sent string
		want time.Duration
		ends bool
	}{
		"the next request": {"", 2 * time.Minute, true},
		"headers":          {"GET / HTTP/1.1\r\n", 5 * time.Second, true},
		"a body":           {"POST / HTTP/1.1\r\nHost: berth\r\nContent-Length: 4\r\n\r\nbo", 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, guests := admit(t, reading, 1)
				g := guests[0]
				for range 3 {
					if status := g.ask(t, healthy); status != http.StatusOK {
						t.Fatal(status)
					}
					time.Sleep(2*time.Minute - time.Second)
				}
				g.ask(t, healthy)
				if _, err := io.WriteString(g, c.sent); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, err := g.in.ReadByte()
				if took := time.Since(began); took != c.want || (err == io.EOF) != c.ends {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}

func TestLongHeadersAreRefused(t *testing.T) {
	for size, want := range map[int]int{8 << 10: http.StatusOK, 24 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		synctest.Test(t, func(t *testing.T) {
			_, guests := admit(t, reading, 1)
			g := guests[0]
			go func() { // the server does not read all of it
				_, _ = io.WriteString(g, "GET / HTTP/1.1\r\nHost: berth\r\nX: "+strings.Repeat("x", size)+"\r\n\r\n")
			}()
			if status := g.status(t); status != want {
				t.Errorf("headers of %d bytes: %d", size, status)
			}
		})
	}
}

// Doors that close send the answers that come in time, and break off the others.
func TestClosingDoorsAnswerRequestsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, guests := admit(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" {
				wait, err := time.ParseDuration(r.URL.Path[1:])
				if err != nil {
					t.Error(err)
				}
				select {
				case <-time.After(wait):
				case <-r.Context().Done():
				}
			}
		}, 3)
		idle, soon, late := guests[0], guests[1], guests[2]
		idle.ask(t, healthy)
		for path, g := range map[string]guest{"1s": soon, "10s": late} {
			if _, err := io.WriteString(g, "GET /"+path+" HTTP/1.1\r\nHost: berth\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		go d.close()
		if _, err := idle.in.ReadByte(); err != io.EOF || time.Since(began) != 0 {
			t.Errorf("an idle connection: %v after %v", err, time.Since(began))
		}
		if status := soon.status(t); status != http.StatusOK || time.Since(began) != time.Second {
			t.Errorf("a request under way: %d after %v", status, time.Since(began))
		}
		if _, err := late.in.ReadByte(); err != io.EOF || time.Since(began) != 3*time.Second {
			t.Errorf("a request that takes long: %v after %v", err, time.Since(began))
		}
	})
}
