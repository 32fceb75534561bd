package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/desk"
)

// line is the client's end of a lease stream.
type line struct {
	t    *testing.T
	conn net.Conn
	in   *wire.Reader
}

// dial opens a stream over a real connection; it ends with stop.
func (d *door) dial(t *testing.T) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	server := &http.Server{Handler: d, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = server.Serve(listener) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = server.Close()
		d.Streams.Wait()
		_ = conn.Close()
	})
	return upgrade(t, conn)
}

// upgrade makes a lease stream of a connection.
func upgrade(t *testing.T, conn net.Conn) *line {
	t.Helper()
	in := bufio.NewReader(conn)
	r, _ := http.NewRequest(http.MethodPost, "http://localhost"+wire.Path, nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", wire.Protocol)
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(in, r)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the handshake was answered with %v, %v", answer, err)
	}
	return &line{t, conn, wire.NewReader(in, wire.MaxAnswer)}
}

// text is a body as it is.
type text string

func (t text) Append(dst []byte) []byte { return append(dst, t...) }

func (l *line) send(kind wire.Kind, number uint32, body string) {
	l.t.Helper()
	l.raw(wire.Append(nil, kind, number, text(body)))
}

func (l *line) raw(data []byte) {
	l.t.Helper()
	if _, err := l.conn.Write(data); err != nil {
		l.t.Fatal(err)
	}
}

// receive reads an answer that must be of a kind and have a number.
func (l *line) receive(kind wire.Kind, number uint32, into any) {
	l.t.Helper()
	f, err := l.in.Next()
	if err != nil {
		l.t.Fatal(err)
	}
	if f.Kind != kind || f.Number != number {
		l.t.Fatalf("got kind %#x, number %d, want %#x, %d: %s", f.Kind, f.Number, kind, number, f.Body)
	}
	if err := json.Unmarshal(f.Body, into); err != nil {
		l.t.Fatalf("%s: %v", f.Body, err)
	}
}

func (l *line) acquire(number uint32, body string) (got api.Lease) {
	l.t.Helper()
	l.send(wire.Acquire, number, body)
	l.receive(wire.Done, number, &got)
	return got
}

func (l *line) refused(kind wire.Kind, number uint32, body string) (p api.Problem) {
	l.t.Helper()
	l.send(kind, number, body)
	l.receive(wire.Refused, number, &p)
	return p
}

func TestStreamLife(t *testing.T) {
	d := open(t, "2xrtx-4060")
	l := d.dial(t)
	got := l.acquire(1, `{"id":"a","memory_mb":1024,"ttl_seconds":60,"timeout_seconds":0}`)
	if got.ID != "a" || got.Fence == 0 || got.Binding != "ttl" || got.TTL != 60 || len(got.Parts) != 1 || got.Parts[0].Memory != 1024 {
		t.Errorf("granted %+v", got)
	}
	if made := l.acquire(2, `{"memory_mb":1}`); !strings.HasPrefix(made.ID, "lease-") {
		t.Errorf("a lease without a name is called %q", made.ID)
	}
	l.send(wire.Renew, 3, `{"id":"a","fence":`+fence(got)+`,"ttl_seconds":90}`)
	var renewed api.Lease
	if l.receive(wire.Done, 3, &renewed); renewed.TTL != 90 || renewed.Fence != got.Fence {
		t.Errorf("renewed %+v", renewed)
	}
	if p := l.refused(wire.Release, 4, `{"id":"a","fence":999}`); p.Code != "unknown_fence" || p.Status != 409 {
		t.Errorf("released with a wrong fence: %+v", p)
	}
	l.send(wire.Release, 5, `{"id":"a","fence":`+fence(got)+`}`)
	var ended api.Ended
	if l.receive(wire.Done, 5, &ended); ended.ID != "a" || ended.Lease == nil || ended.Lease.Fence != got.Fence {
		t.Errorf("ended %+v", ended)
	}
	if p := l.refused(wire.Release, 6, `{"id":"a"}`); p.Code != "unknown_allocation" {
		t.Errorf("released twice: %+v", p)
	}
}

func fence(l api.Lease) string {
	text, _ := json.Marshal(l.Fence)
	return string(text)
}

// The same request is the same lease, and the same mistake the same problem,
// over HTTP and over a stream.
func TestStreamAnswersLikeHTTP(t *testing.T) {
	d := open(t, "1xrtx-4060")
	l := d.dial(t)
	if w := d.ask("POST", "/api/leases", `{"id":"taken","memory_mb":1}`); w.Code != http.StatusCreated {
		t.Fatal(w.Body)
	}
	for i, body := range []string{
		`{"id":"taken","memory_mb":1}`, `{"id":"x","memory_mb":99999999,"timeout_seconds":0}`, `{"id":"x","memory_mb":99999999}`,
		`{"id":"x","memory_mb":0,"slots":0}`, `{"id":"x","memory_mb":-1}`, `{"id":"x","memory_mb":1.5}`, `{"id":"x","memory_mb":9223372036854775808}`,
		`{"id":"x","memory_mb":1,"ttl_seconds":3153600000}`, `{"id":"x","memory_mb":1,"ttl_seconds":"soon"}`, `{"id":"x","memory_mb":1,"ttl_seconds":1e300}`,
		`{"id":"` + strings.Repeat("x", 200) + `","memory_mb":1}`, `{"id":"\u0000","memory_mb":1}`, `{"id":" ","memory_mb":1}`, `{"id":"a\u202eb","memory_mb":1}`,
		`{"id":"x","gpus":0,"memory_mb":1}`, `{"id":"x","gpus":9,"memory_mb":1,"timeout_seconds":0}`, `{"id":"x","gpus":2000,"memory_mb":1}`,
		`{"id":"x","memory_mb":1,"gpu":"7"}`, `{"id":"x","memory_mb":1,"gpu":7}`, `{"id":"x","memory_mb":1,"gpu":-1}`, `{"id":"x","memory_mb":1,"gpu":[0]}`, `{"id":"x","memory_mb":1,"policy":"best"}`, `{"id":"x","memory_mb":1,"where":"name~"}`,
		`{"id":"x","memory_mb":1,"binding":"forever"}`, `{"id":"x","memory_mb":1,"binding":"ttl"}`, `{"id":"x","memory_mb":1,"binding":"process"}`,
		`{"id":"x","memory_mb":1,"pid":-1}`, `{"id":"x","memory_mb":1,"priority":2000000}`, `{"id":"x","memory_mb":1,"timeout_seconds":-1}`,
		`{"id":"x","memory_mb":1,"enforce":"maybe"}`, `{"id":"x","memory_mb":1,"learned_memory":"yes"}`, `{"id":"x","memory_mb":1,"colour":"red"}`, `{"id":"x","memory_mb":1,"slots":-3}`, `{"id":7,"memory_mb":1}`,
		`{"id":"x","memory_mb":1`, `[]`, `"x"`, `null`, `{"id":"x"}{}`, ``,
	} {
		w := d.ask("POST", "/api/leases", body, "Content-Type", "application/json")
		want := decode[api.Problem](t, w)
		got := l.refused(wire.Acquire, uint32(i+1), body)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.100s (-HTTP +stream):\n%s", body, diff)
		}
	}
	const fine = `"gpu":0,"memory_mb":64,"slots":0,"ttl_seconds":60,"timeout_seconds":1.5,"priority":3,"where":"memory>=1GiB","policy":"pack"}`
	want := decode[api.Lease](t, d.ask("POST", "/api/leases", `{"id":"h",`+fine))
	got := l.acquire(1000, `{"id":"s",`+fine)
	got.ID, got.Fence, got.Granted, got.Expires = want.ID, want.Fence, want.Granted, want.Expires
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(gpu.Opt[int]{}, gpu.Opt[gpu.MiB]{}, gpu.Opt[gpu.Joules]{})); diff != "" {
		t.Errorf("the lease (-HTTP +stream):\n%s", diff)
	}
}

// A call that waits holds up no other, and a release on the same stream lets it
// in.
func TestStreamWaitingHoldsUpNobody(t *testing.T) {
	l := open(t, "1xrtx-4060").dial(t)
	first := l.acquire(1, `{"id":"first","memory_mb":7000}`)
	l.send(wire.Acquire, 2, `{"id":"second","memory_mb":7000,"timeout_seconds":60}`)
	l.send(wire.Release, 3, `{"id":"first","fence":`+fence(first)+`}`)
	granted := map[uint32]bool{}
	for range 2 {
		f, err := l.in.Next()
		if err != nil || f.Kind != wire.Done {
			t.Fatalf("%+v, %v", f, err)
		}
		granted[f.Number] = true
	}
	if !granted[2] || !granted[3] {
		t.Errorf("answered were %v", granted)
	}
}

func TestStreamCancel(t *testing.T) {
	d := open(t, "1xrtx-4060")
	l := d.dial(t)
	l.acquire(1, `{"id":"first","memory_mb":7000}`)
	l.send(wire.Acquire, 2, `{"id":"second","memory_mb":7000,"timeout_seconds":60}`)
	l.send(wire.Cancel, 2, "")
	var p api.Problem
	if l.receive(wire.Refused, 2, &p); p.Code != "withdrawn" {
		t.Errorf("a cancelled call ends with %+v", p)
	}
	l.send(wire.Cancel, 2, "") // it has ended: nothing happens
	if _, waiting := d.Ledger.Len(); waiting != 0 {
		t.Errorf("%d still wait", waiting)
	}
	l.acquire(2, `{"id":"third","memory_mb":1}`) // its number is free again
}

// What waits is withdrawn when the client hangs up, and what was granted stays.
func TestStreamHangUp(t *testing.T) {
	d := open(t, "1xrtx-4060")
	l := d.dial(t)
	l.acquire(1, `{"id":"first","memory_mb":7000}`)
	l.send(wire.Acquire, 2, `{"id":"second","memory_mb":7000,"timeout_seconds":60}`)
	_ = l.conn.Close()
	d.Streams.Wait()
	if standing, waiting := d.Ledger.Len(); standing != 1 || waiting != 0 {
		t.Errorf("%d leases stand and %d requests wait, want 1 and 0", standing, waiting)
	}
}

func TestStreamBadFrames(t *testing.T) {
	whole := func(kind wire.Kind, number uint32, body string) []byte {
		return wire.Append(nil, kind, number, text(body))
	}
	waiting := whole(wire.Acquire, 7, `{"id":"w","memory_mb":7000,"timeout_seconds":60}`)
	for _, test := range []struct {
		name   string
		sent   []byte
		number uint32
		says   string
	}{
		{"no length", []byte{0, 0, 0, 0}, 0, "length is 0"},
		{"a gigabyte", []byte{0x40, 0, 0, 0}, 0, "length is 1073741824"},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), 0, "length is"},
		{"too large by one", whole(wire.Acquire, 1, strings.Repeat("x", wire.MaxRequest+1)), 0, "length is"},
		{"unknown kind", whole(99, 3, "{}"), 3, "kind 99"},
		{"an answer", whole(wire.Done, 3, "{}"), 3, "kind 129"},
		{"number zero", whole(wire.Release, 0, `{"id":"a"}`), 0, "above 0"},
		{"a number twice", append(waiting, waiting...), 7, "used twice"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := open(t, "1xrtx-4060")
			l := d.dial(t)
			l.acquire(1, `{"id":"first","memory_mb":7000}`)
			l.raw(test.sent)
			var p api.Problem
			l.receive(wire.Refused, test.number, &p)
			if p.Code != "bad_frame" || p.Status != 400 || !strings.Contains(p.Detail, test.says) {
				t.Errorf("answered with %+v", p)
			}
			for {
				f, err := l.in.Next()
				if err != nil {
					if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
						t.Errorf("the stream ended with %v", err)
					}
					break
				}
				if f.Number != 7 || f.Kind != wire.Refused { // what waited is withdrawn
					t.Errorf("after a bad frame came %+v", f)
				}
			}
			d.Streams.Wait()
			if standing, waiting := d.Ledger.Len(); standing != 1 || waiting != 0 {
				t.Errorf("%d leases stand and %d requests wait, want 1 and 0", standing, waiting)
			}
		})
	}
}

// A frame that ends in the middle does nothing.
func TestStreamHalfAFrame(t *testing.T) {
	d := open(t, "1xrtx-4060")
	l := d.dial(t)
	frame := wire.Append(nil, wire.Acquire, 1, text(`{"id":"a","memory_mb":1}`))
	l.raw(frame[:len(frame)-1])
	_ = l.conn.Close()
	d.Streams.Wait()
	if standing, _ := d.Ledger.Len(); standing != 0 {
		t.Errorf("%d leases stand", standing)
	}
}

// When the daemon stops, those who wait are told, and the stream ends.
func TestStreamEndsWithTheDaemon(t *testing.T) {
	d := open(t, "1xrtx-4060")
	mine, theirs := net.Pipe()
	ctx, stop := context.WithCancel(withIdentity(t.Context(), user(4711)))
	st := newStream(d.server, ctx, theirs, bufio.NewReader(theirs))
	st.grace = time.Minute
	over := make(chan struct{})
	go func() { defer close(over); st.serve(); _ = theirs.Close() }()
	l := &line{t, mine, wire.NewReader(bufio.NewReader(mine), wire.MaxAnswer)}
	l.acquire(1, `{"id":"first","memory_mb":7000}`)
	l.send(wire.Acquire, 2, `{"id":"second","memory_mb":7000,"timeout_seconds":60}`)
	l.send(wire.Cancel, 99, "") // what was sent before has been taken when this has
	stop()
	var p api.Problem
	if l.receive(wire.Refused, 2, &p); p.Code != "withdrawn" {
		t.Errorf("who waited is told %+v", p)
	}
	if _, err := l.in.Next(); err != io.EOF {
		t.Errorf("then comes %v", err)
	}
	<-over
}

func TestStreamHasItsLimit(t *testing.T) {
	d := open(t, "1xrtx-4060")
	mine, theirs := net.Pipe()
	st := newStream(d.server, withIdentity(t.Context(), user(4711)), theirs, bufio.NewReader(theirs))
	st.most = 2
	over := make(chan struct{})
	go func() { defer close(over); st.serve() }()
	l := &line{t, mine, wire.NewReader(bufio.NewReader(mine), wire.MaxAnswer)}
	l.acquire(1, `{"id":"first","memory_mb":7000}`)
	l.send(wire.Acquire, 2, `{"id":"b","memory_mb":7000,"timeout_seconds":60}`)
	l.send(wire.Acquire, 3, `{"id":"c","memory_mb":7000,"timeout_seconds":60}`)
	if p := l.refused(wire.Release, 4, `{"id":"first"}`); p.Code != "too_many_calls" || p.Status != 429 {
		t.Errorf("one more is answered with %+v", p)
	}
	_ = mine.Close()
	<-over
}

func TestStreamMistakeOfOursIsOneProblem(t *testing.T) {
	d := open(t, "1xrtx-4060")
	works := *d.Desk
	*d.Desk = desk.Desk{} // a mistake
	l := d.dial(t)
	if p := l.refused(wire.Release, 1, `{"id":"a"}`); p.Code != "internal" || p.Status != 500 {
		t.Errorf("answered with %+v", p)
	}
	*d.Desk = works
	if p := l.refused(wire.Release, 2, `{"id":"a"}`); p.Code != "unknown_allocation" {
		t.Errorf("the next call is answered with %+v", p)
	}
}

func TestStreamIsAskedFor(t *testing.T) {
	d := open(t, "")
	w := d.ask("POST", wire.Path, "")
	if p := decode[api.Problem](t, w); w.Code != http.StatusUpgradeRequired || p.Code != "upgrade_required" || w.Header().Get("Upgrade") != wire.Protocol {
		t.Errorf("without Upgrade: %d %+v", w.Code, p)
	}
	w = d.ask("POST", wire.Path, "", "Connection", "Upgrade", "Upgrade", wire.Protocol)
	if p := decode[api.Problem](t, w); w.Code != http.StatusNotImplemented || p.Code != "no_stream" {
		t.Errorf("where nothing can be a stream: %d %+v", w.Code, p)
	}
}
