package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/access"
)

// Requests in the usual form.
const (
	usualBody    = `{"id":"a","slots":1,"ttl_seconds":60,"timeout_seconds":0}`
	usualRelease = "DELETE /api/leases/a HTTP/1.1\r\nHost: berth\r\nUser-Agent: Go-http-client/1.1\r\n\r\n"
)

var usualAcquire = acquiring(usualBody)

func acquiring(body string) string {
	return fmt.Sprintf("POST /api/leases HTTP/1.1\r\nHost: berth\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n%s", len(body), body)
}

// piped is an end of a pipe whose other end is known.
type piped struct{ net.Conn }

func (piped) Peer() access.Peer { return access.Peer{} }

// rail is a connection to a server.
type rail struct {
	t      *testing.T
	conn   net.Conn
	in     *bufio.Reader
	stop   context.CancelFunc
	server *http.Server
	states chan http.ConnState
}

// board connects to a server with a handler, through an Express or not.
func board(t *testing.T, express bool, handler http.Handler) *rail {
	ours, theirs := net.Pipe()
	listener := make(handed, 1)
	listener <- piped{theirs}
	ctx, stop := context.WithCancel(t.Context())
	r := &rail{t: t, conn: ours, in: bufio.NewReader(ours), stop: stop, states: make(chan http.ConnState, 100)}
	r.server = &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return withIdentity(ctx, user(7)) },
		ConnState:   func(_ net.Conn, s http.ConnState) { r.states <- s },
	}
	var from net.Listener = listener
	if express {
		x := &Express{Listener: listener, Handler: handler}
		from, r.server.ConnContext = x, x.ConnContext(r.server.ConnContext)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = r.server.Serve(from) }()
	t.Cleanup(func() { close(listener); <-done; stop(); _ = r.server.Close(); _ = ours.Close() })
	return r
}

// ask sends a text in one piece and returns the answer.
func (r *rail) ask(text string) (*http.Response, []byte) {
	r.t.Helper()
	if _, err := io.WriteString(r.conn, text); err != nil {
		r.t.Fatal(err)
	}
	return r.answer()
}

func (r *rail) answer() (*http.Response, []byte) {
	r.t.Helper()
	w, err := http.ReadResponse(r.in, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := io.ReadAll(w.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return w, body
}

// passed reports whether net/http has read a request.
func (r *rail) passed() bool {
	for {
		select {
		case s := <-r.states:
			if s == http.StateActive {
				return true
			}
		default:
			return false
		}
	}
}

// echo answers with the method, the path and the body of a request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprint(w, r.Method, " ", r.URL.Path, " ", len(body), " ", err)
})

func TestUsualRequestsDoWithoutTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := board(t, true, echo)
		for range 3 {
			if w, _ := r.ask(usualRelease); w.StatusCode != http.StatusOK {
				t.Fatal(w.Status)
			}
		}
		if r.passed() {
			t.Error("net/http has read a usual request")
		}
	})
}

// From the first other request on, net/http reads the connection, with the time that it
// gives every request: the time before does not count.
func TestTheServerReadsWhatIsNotUsual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := board(t, true, echo)
		for range 30 {
			r.ask(usualRelease)
			time.Sleep(time.Minute - time.Second)
		}
		_, _ = io.WriteString(r.conn, "POST /other HTTP/1.1\r\nHost: berth\r\n")
		time.Sleep(4 * time.Second) // headers may take 5 seconds
		_, _ = io.WriteString(r.conn, "Content-Length: 4\r\n\r\n")
		time.Sleep(4 * time.Second) // the whole request may take 10
		if _, body := r.ask("body"); string(body) != "POST /other 4 <nil>" {
			t.Errorf("got %q", body)
		}
		r.ask(usualRelease)
		if !r.passed() {
			t.Error("net/http has read no request")
		}
	})
}

func TestHeadersOfAnUnusualRequestAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := board(t, true, echo)
		r.ask(usualRelease)
		_, _ = io.WriteString(r.conn, "GET / HTTP/1.1\r\n")
		began := time.Now()
		if n, err := io.Copy(io.Discard, r.conn); err != nil || time.Since(began) != expressHeader {
			t.Errorf("closed after %v with %d bytes, %v", time.Since(began), n, err)
		}
	})
}

func TestIdleConnectionsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := board(t, true, echo)
		r.ask(usualRelease)
		began := time.Now()
		if _, err := r.in.ReadByte(); err != io.EOF || time.Since(began) != expressIdle {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestConnectionsCloseWhenTheDaemonStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := board(t, true, echo)
		r.ask(usualRelease)
		r.stop()
		began := time.Now()
		if _, err := r.in.ReadByte(); err != io.EOF || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A server that shuts down sends the answers to requests under way.
func TestCloseWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := board(t, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			echo(w, r)
		}))
		_, _ = io.WriteString(r.conn, usualRelease)
		go func() { _ = r.server.Close() }()
		synctest.Wait()
		if w, _ := r.answer(); w.StatusCode != http.StatusOK {
			t.Error(w.Status)
		}
	})
}

// An Express answers as net/http does: with the same status, headers and body.
func TestExpressAnswersAreThoseOfTheServer(t *testing.T) {
	quick, slow := board(t, true, open(t, "1xrtx-4060").server), board(t, false, open(t, "1xrtx-4060").server)
	for _, text := range []string{
		usualAcquire, usualAcquire, usualRelease, usualRelease,
		acquiring(`{"id":"b","memory_mb":999999,"timeout_seconds":0}`),
		acquiring(`{"id":"b","memory_mb":0,"slots":0,"timeout_seconds":0}`),
		strings.Replace(usualRelease, "/a ", "/"+strings.Repeat("a", 600)+" ", 1),
	} {
		got, body := quick.ask(text)
		want, theirs := slow.ask(text)
		if got.Status != want.Status || !slices.Equal(names(got.Header), names(want.Header)) || got.Header.Get("Content-Type") != want.Header.Get("Content-Type") {
			t.Errorf("%.60s…: %s %v\nnet/http: %s %v", text, got.Status, got.Header, want.Status, want.Header)
		}
		var v, their any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(theirs, &their); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(timeless(v), timeless(their)) {
			t.Errorf("%.60s…: %s\nnet/http: %s", text, body, theirs)
		}
	}
	if quick.passed() {
		t.Error("net/http has read a usual request")
	}
}

// names returns the names of headers.
func names(h http.Header) []string {
	var all []string
	for name := range h {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestUsual(t *testing.T) {
	for _, text := range []string{usualAcquire, usualRelease} {
		if !usual([]byte(text), new(http.Request)) {
			t.Errorf("not usual: %q", text)
		}
		for cut := range len(text) {
			if usual([]byte(text[:cut]), new(http.Request)) {
				t.Errorf("a part is usual: %q", text[:cut])
			}
		}
		if usual([]byte(text+"x"), new(http.Request)) || usual([]byte(text+usualRelease), new(http.Request)) {
			t.Errorf("more than one request is usual: %q", text)
		}
		for _, header := range []string{
			"Authorization: Bearer x", "Berth-Agent: x", "Transfer-Encoding: chunked", "Expect: 100-continue", "Upgrade: x", "Connection: close", "Cookie: a=b", "Origin: http://x",
			"Host: other", "Content-Length: 1", "Content-Type: text/plain", "Accept: application/cbor", "X: y", "x", ": y", " x: y", "User-Agent : x", "Accept-Encoding:  x", "Accept-Encoding: x\t", "Accept-Encoding: \x00", "Accept-Encoding: x\ny: z", "Accept-Encoding: ",
		} {
			if with := strings.Replace(text, "\r\n", "\r\n"+header+"\r\n", 1); usual([]byte(with), new(http.Request)) {
				t.Errorf("usual with %q", header)
			}
		}
		for _, change := range [][2]string{
			{"HTTP/1.1", "HTTP/1.0"}, {"HTTP/1.1", "HTTP/1.1 "}, {"/api", "//api"}, {"/leases", "/leases/"}, {"/leases", "/leases?user=b"}, {"\r\n", "\n"}, {"Host: berth\r\n", ""}, {"Host: berth", "Host: b/rth"}, {"Host: berth", "host: berth"},
			{"POST", "PUT"}, {"DELETE", "GET"}, {"/a ", "/%61 "}, {"/a ", "/a/b "}, {"/a ", "/.. "}, {"/a ", "/a%2fb "}, {"/a ", "/a b "}, {"/a ", "/a#b "},
			{"Content-Length: 57", "Content-Length: +57"}, {"Content-Length: 57", "Content-Length: 057x"}, {"Content-Length: 57\r\n", ""},
			{usualBody, strings.Replace(usualBody, `,"timeout_seconds":0`, `,"timeout_seconds":9`, 1)}, {usualBody, `{}` + strings.Repeat(" ", len(usualBody)-2)},
		} {
			changed := strings.Replace(text, change[0], change[1], 1)
			if changed != text && usual([]byte(changed), new(http.Request)) {
				t.Errorf("usual: %q", changed)
			}
		}
	}
}

// What an Express takes for a request, net/http reads as the same request.
func FuzzUsual(f *testing.F) {
	f.Add([]byte(usualAcquire))
	f.Add([]byte(usualRelease))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r http.Request
		if !usual(text, &r) {
			return
		}
		in := bufio.NewReader(bytes.NewReader(text))
		want, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", text, err)
		}
		body, _ := io.ReadAll(r.Body)
		theirs, err := io.ReadAll(want.Body)
		if err != nil || want.Method != r.Method || *want.URL != *r.URL || want.Host != r.Host || want.ContentLength != r.ContentLength || !bytes.Equal(theirs, body) || want.Close {
			t.Fatalf("%q is %s %v %q; net/http reads %s %v %q, %v", text, r.Method, r.URL, body, want.Method, want.URL, theirs, err)
		}
		if rest, _ := io.ReadAll(in); len(rest) > 0 {
			t.Fatalf("net/http leaves %q of %q", rest, text)
		}
	})
}
