package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/gpu"
)

// far is the daemon's end of a stream, in the hands of the test.
type far struct {
	t    *testing.T
	conn net.Conn
	in   *wire.Reader
}

// next reads a call.
func (f *far) next() (wire.Frame, string) {
	f.t.Helper()
	frame, err := f.in.Next()
	if err != nil {
		f.t.Error(err)
	}
	return frame, string(frame.Body)
}

type text string

func (t text) Append(dst []byte) []byte { return append(dst, t...) }

func (f *far) answer(kind wire.Kind, number uint32, body string) {
	f.t.Helper()
	if _, err := f.conn.Write(wire.Append(nil, kind, number, text(body))); err != nil {
		f.t.Error(err)
	}
}

// streaming is a client whose streams end at daemons that the test plays, one
// for each connection. It is used in a bubble.
func streaming(t *testing.T, play ...func(*far)) *Client {
	t.Helper()
	var mu sync.Mutex
	dial := func(context.Context) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(play) == 0 {
			return nil, &NoDaemonError{Attempts: []Attempt{{"unix", "s", errors.New("gone")}}}
		}
		part := play[0]
		play = play[1:]
		mine, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			in := bufio.NewReader(theirs)
			r, err := http.ReadRequest(in)
			if err != nil || r.Header.Get("Upgrade") != wire.Protocol || r.URL.Path != wire.Path {
				t.Errorf("the handshake is %v, %v", r, err)
				return
			}
			fmt.Fprintf(theirs, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", wire.Protocol)
			part(&far{t, theirs, wire.NewReader(in, wire.MaxRequest)})
		}()
		return mine, nil
	}
	c, err := New(Options{Transport: Through(http.NotFoundHandler())})
	if err != nil {
		t.Fatal(err)
	}
	c.streams = newStreams(dial, c.token)
	t.Cleanup(c.Close)
	return c
}

// until lives on for as long as the client wants.
func until(f *far) {
	if frame, err := f.in.Next(); err == nil {
		f.t.Errorf("an unexpected call: %+v", frame)
	}
}

// A daemon that stands still and reads nothing holds no caller, and the other calls of the
// client go over another connection.
func TestADaemonThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan bool)
		c := streaming(t, func(*far) { <-over }, func(f *far) {
			got, _ := f.next()
			f.answer(wire.Done, got.Number, `{"id":"a"}`)
			until(f)
		})
		done := make(chan error, 1)
		go func() {
			_, err := c.Release(t.Context(), "a", 0)
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(streamStuck + time.Second):
			t.Error("the caller is held")
		}
		close(over)
	})
}

// A stream cannot say for which program a call is made.
func TestCallsForAProgramNameIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := streaming(t, func(f *far) {
			got, _ := f.next()
			f.answer(wire.Done, got.Number, `{"id":"a"}`)
			until(f)
		})
		agent := ""
		c.http.Transport = Through(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			agent = r.Header.Get("Berth-Agent")
			_, _ = io.WriteString(w, `{"id":"a"}`)
		}))
		for _, each := range []*Client{c, c.For("helper")} {
			if _, err := each.Release(t.Context(), "a", 7); err != nil {
				t.Error(err)
			}
		}
		if agent != "helper" {
			t.Errorf("it acts for %q", agent)
		}
	})
}

func TestStreamCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := streaming(t, func(f *far) {
			for _, step := range []struct {
				kind   wire.Kind
				body   string
				answer string
			}{
				{wire.Acquire, `{"id":"a","memory_mb":64,"ttl_seconds":60}`, `{"id":"a","fence":7}`},
				{wire.Renew, `{"id":"a","fence":7}`, `{"id":"a", "fence":7, "unknown":[1]}`},
				{wire.Release, `{"id":"a","fence":7}`, `{"id":"a","lease":{"id":"a","fence":7}}`},
			} {
				got, body := f.next()
				if got.Kind != step.kind || body != step.body {
					t.Errorf("call %d is %s", got.Kind, body)
				}
				f.answer(wire.Done, got.Number, step.answer)
			}
			got, _ := f.next()
			f.answer(wire.Refused, got.Number, `{"status":404,"code":"unknown_allocation","detail":"No."}`)
			until(f)
		})
		granted, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "a", Memory: 64, TTL: gpu.Some(60.0)})
		if err != nil || granted.Fence != 7 {
			t.Errorf("acquire: %+v, %v", granted, err)
		}
		if renewed, err := c.Renew(t.Context(), "a", api.Renew{Fence: 7}); err != nil || renewed.Fence != 7 {
			t.Errorf("renew: %+v, %v", renewed, err)
		}
		ended, err := c.Release(t.Context(), "a", 7)
		if diff := cmp.Diff(api.Ended{ID: "a", Lease: &api.Lease{ID: "a", Fence: 7}}, ended, cmp.AllowUnexported(gpu.Opt[int]{}, gpu.Opt[gpu.Joules]{})); err != nil || diff != "" {
			t.Errorf("release: %v\n%s", err, diff)
		}
		problem := (*api.Problem)(nil)
		if _, err := c.Release(t.Context(), "a", 7); !errors.As(err, &problem) || problem.Code != "unknown_allocation" || problem.Status != 404 {
			t.Errorf("release again: %v", err)
		}
	})
}

// Answers may come in any order.
func TestStreamCarriesSeveralCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 5
		c := streaming(t, func(f *far) {
			var got []wire.Frame
			for range calls {
				frame, body := f.next()
				frame.Body = []byte(body)
				got = append(got, frame)
			}
			for i := range got {
				frame := got[len(got)-1-i]
				var asked api.LeaseRequest
				_ = json.Unmarshal(frame.Body, &asked)
				f.answer(wire.Done, frame.Number, `{"id":"`+asked.ID+`"}`)
			}
			until(f)
		})
		var waiting sync.WaitGroup
		for i := range calls {
			id := fmt.Sprint(i)
			waiting.Go(func() {
				if l, err := c.Acquire(t.Context(), api.LeaseRequest{ID: id}); err != nil || l.ID != id {
					t.Errorf("asked for %s and got %+v, %v", id, l, err)
				}
			})
		}
		waiting.Wait()
	})
}

// Whoever stops waiting withdraws the request, and a lease that comes even so
// is given back.
func TestStreamGivesBackWhatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := streaming(t, func(f *far) {
			asked, _ := f.next()
			if cancel, _ := f.next(); cancel.Kind != wire.Cancel || cancel.Number != asked.Number {
				t.Errorf("after giving up comes %+v", cancel)
			}
			f.answer(wire.Done, asked.Number, `{"id":"a","fence":3}`)
			release, body := f.next()
			if release.Kind != wire.Release || body != `{"id":"a","fence":3}` {
				t.Errorf("after a late grant comes %+v %s", release, body)
			}
			f.answer(wire.Done, release.Number, `{"id":"a"}`)
			until(f)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx, api.LeaseRequest{ID: "a"}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "POST /api/leases") {
			t.Errorf("given up with %v", err)
		}
		synctest.Wait()
	})
}

// The same when the client is closed in between: the stream ends after that.
// A caller that leaves while it reads for others lets them go on, also in the
// middle of an answer.
func TestStreamReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half, whole := make(chan struct{}), make(chan struct{})
		c := streaming(t, func(f *far) {
			first, _ := f.next()
			second, _ := f.next()
			answer := wire.Append(nil, wire.Done, second.Number, text(`{"id":"b","fence":8}`))
			if _, err := f.conn.Write(answer[:20]); err != nil {
				t.Error(err)
			}
			close(half)
			if left, _ := f.next(); left.Kind != wire.Cancel || left.Number != first.Number {
				t.Errorf("the first caller left with %+v", left)
			}
			if _, err := f.conn.Write(answer[20:]); err != nil {
				t.Error(err)
			}
			<-whole
			f.answer(wire.Refused, first.Number, `{"status":409,"code":"withdrawn"}`)
			until(f)
		})
		ctx, leave := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, api.LeaseRequest{ID: "a"})
			first <- err
		}()
		synctest.Wait()
		go func() {
			granted, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "b"})
			if granted.Fence != 8 {
				err = errors.Join(err, fmt.Errorf("fence %d", granted.Fence))
			}
			second <- err
		}()
		<-half
		synctest.Wait()
		leave()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("who stayed got %v", err)
		}
		close(whole)
	})
}

func TestStreamCloseWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		c := streaming(t, func(f *far) {
			asked, _ := f.next()
			_, _ = f.next() // the cancel
			f.answer(wire.Done, asked.Number, `{"id":"a","fence":3}`)
			release, _ := f.next()
			f.answer(wire.Done, release.Number, `{"id":"a"}`)
			until(f)
			close(ended)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = c.Acquire(ctx, api.LeaseRequest{ID: "a"})
		c.Close()
		<-ended
	})
}

// A daemon that was restarted is found again, and a call whose answer got lost
// is not made twice.
func TestStreamOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grant := func(f *far) {
			asked, _ := f.next()
			f.answer(wire.Done, asked.Number, `{"id":"a"}`)
		}
		c := streaming(t, grant, func(f *far) { _, _ = f.next() }, grant)
		if _, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "a"}); err != nil {
			t.Error(err)
		}
		synctest.Wait() // the first daemon is gone
		_, err := c.Release(t.Context(), "a", 0)
		if err == nil || !strings.Contains(err.Error(), "what became of the call is not known") {
			t.Errorf("without an answer: %v", err)
		}
		if _, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "a"}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		missing := (*NoDaemonError)(nil)
		if _, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "a"}); !errors.As(err, &missing) {
			t.Errorf("without a daemon: %v", err)
		}
	})
}

func TestStreamThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := streaming(t, func(f *far) {
			_, _ = f.next()
			f.answer(wire.Refused, 0, `{"status":400,"code":"bad_frame","detail":"No."}`)
			until(f)
		})
		if _, err := c.Renew(t.Context(), "a", api.Renew{Fence: 1}); err == nil || !strings.Contains(err.Error(), "No.") {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestStreamRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		c := streaming(t, func(f *far) {
			for range 2 {
				asked, _ := f.next()
				f.answer(wire.Done, asked.Number, `{"id":"a"}`)
			}
			until(f)
			ended <- time.Now()
		})
		for range 2 {
			if _, err := c.Release(t.Context(), "a", 0); err != nil {
				t.Error(err)
			}
			time.Sleep(streamIdle / 2)
		}
		last := time.Now().Add(-streamIdle / 2)
		if idle := (<-ended).Sub(last); idle < streamIdle/2 || idle > 2*streamIdle {
			t.Errorf("let go after %v", idle)
		}
	})
}

// A daemon from before there were streams is spoken to over HTTP, and is not
// asked for one again; so is any daemon when a request is too large.
func TestStreamFallsBackToHTTP(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	path := serveUnix(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.URL.Path)
		if r.URL.Path == wire.Path {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"id":"a"}`))
	}))
	c, err := New(Options{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if l, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "a"}); err != nil || l.ID != "a" {
			t.Fatalf("%+v, %v", l, err)
		}
		if _, err := c.Release(t.Context(), "a", 0); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"POST " + wire.Path, "POST /api/leases", "DELETE /api/leases/a", "POST /api/leases", "DELETE /api/leases/a"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A process that asks for one lease opens no stream for it.
func TestWithoutStream(t *testing.T) {
	asked := make(chan string, 2)
	path := serveUnix(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body api.LeaseRequest
		err := json.NewDecoder(r.Body).Decode(&body)
		asked <- fmt.Sprintf("%s %s for %s of %d, %v", r.Method, r.URL.Path, body.ID, body.Memory, err)
		_ = json.NewEncoder(w).Encode(api.Lease{ID: body.ID, Launch: &api.Launch{Context: 5, Devices: []gpu.Device{{UUID: "GPU-1", Name: "\u00e9"}}}})
	}))
	c, err := New(Options{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.WithoutStream().Acquire(t.Context(), api.LeaseRequest{ID: "a", Memory: 7})
	if err != nil || l.ID != "a" || l.Launch == nil || l.Launch.Devices[0].Name != "\u00e9" {
		t.Errorf("%+v, %v", l, err)
	}
	if got := <-asked; got != "POST /api/leases for a of 7, <nil>" {
		t.Errorf("asked with %s", got)
	}
}

func TestStreamSendsNothingTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := streaming(t, until)
		problem := (*api.Problem)(nil)
		_, err := c.Acquire(t.Context(), api.LeaseRequest{ID: strings.Repeat("x", wire.MaxRequest)})
		if err == nil || errors.As(err, &problem) || !strings.Contains(err.Error(), "POST /api/leases") {
			t.Errorf("it did not go over HTTP: %v", err)
		}
		synctest.Wait()
	})
}

// An answer that passes does not mean that the daemon has no lease stream.
func TestStreamIsAskedForAgain(t *testing.T) {
	for status, want := range map[int]int{http.StatusServiceUnavailable: 2, http.StatusUnauthorized: 2, http.StatusTooManyRequests: 2, http.StatusNotFound: 1, http.StatusOK: 1} {
		var asked atomic.Int32
		path := serveUnix(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == wire.Path {
				asked.Add(1)
				w.WriteHeader(status)
				return
			}
			_, _ = w.Write([]byte(`{"id":"a"}`))
		}))
		c, err := New(Options{Socket: path})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if l, err := c.Acquire(t.Context(), api.LeaseRequest{ID: "a"}); err != nil || l.ID != "a" {
				t.Errorf("after %d: %+v, %v", status, l, err)
			}
		}
		c.Close()
		if got := int(asked.Load()); got != want {
			t.Errorf("after %d it asked %d times, want %d", status, got, want)
		}
	}
}

// A connection that ends before it is a stream has carried no call: that goes over HTTP.
func TestStreamThatDoesNotOpen(t *testing.T) {
	c, err := New(Options{Transport: Through(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"id":"a"}`)) }))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.streams = newStreams(func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		return near, far.Close()
	}, c.token)
	if ended, err := c.Release(t.Context(), "a", 0); err != nil || ended.ID != "a" {
		t.Errorf("%+v, %v", ended, err)
	}
}
