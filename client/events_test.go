package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// script answers the first connection with the first handler, the second with
// the second, and counts every one after the last as a mistake.
type script struct {
	t     *testing.T
	turns []http.HandlerFunc
	count atomic.Int32
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	turn := int(s.count.Add(1)) - 1
	if turn >= len(s.turns) {
		s.t.Errorf("connection %d was not expected", turn+1)
		return
	}
	s.turns[turn](w, r)
}

// events writes the events with these ids and ends the stream in good order.
func events(ids ...uint64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, ": still here\n\n")
		for _, id := range ids {
			_, _ = fmt.Fprintf(w, "id: %d\nevent: throttle\ndata: {\"id\":%d,\"code\":\"throttle\"}\n\n", id, id)
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// resumes runs f and checks where the client asked to go on.
func resumes(t *testing.T, want string, f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Last-Event-ID"); got != want {
			t.Errorf("Last-Event-ID %q, want %q", got, want)
		}
		f(w, r)
	}
}

func refuses(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `{"code":"no","detail":"No."}`)
	}
}

// hold keeps the connection open until the client goes.
func hold(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func then(fs ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, f := range fs {
			f(w, r)
		}
	}
}

// scripted is a client of the script, in the test's own time.
func scripted(t *testing.T, turns ...http.HandlerFunc) *Client {
	t.Helper()
	c, err := New(Options{Transport: Through(&script{t: t, turns: turns})})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// collect ranges until stop ids have come or the sequence ends.
func collect(ctx context.Context, c *Client, after uint64, follow bool, stop int) (ids []uint64, err error) {
	for e, err := range c.Events(ctx, after, follow) {
		if err != nil {
			return ids, err
		}
		if ids = append(ids, e.ID); len(ids) == stop {
			return ids, nil
		}
	}
	return ids, nil
}

func TestEventsThatAreKept(t *testing.T) {
	c := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "follow=false" || r.Header.Get("Last-Event-ID") != "" {
			t.Errorf("asked %s after %q", r.URL.RawQuery, r.Header.Get("Last-Event-ID"))
		}
		events(5, 6)(w, r)
	})
	if ids, err := collect(t.Context(), c, 0, false, 99); err != nil || !slices.Equal(ids, []uint64{5, 6}) {
		t.Errorf("ids %v, error %v", ids, err)
	}
}

func TestEventsResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half := func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "id: 4\ndata: {\"id\":4,\"code\":") }
		c := scripted(t,
			resumes(t, "1", then(events(2, 3), half)), // breaks in the middle of event 4
			resumes(t, "3", refuses(http.StatusServiceUnavailable)),
			resumes(t, "3", events(2, 3, 4)), // repeats what was already given
			resumes(t, "4", events()),
			resumes(t, "4", then(events(5), hold)),
		)
		ids, err := collect(t.Context(), c, 1, true, 4)
		if err != nil || !slices.Equal(ids, []uint64{2, 3, 4, 5}) {
			t.Errorf("ids %v, error %v", ids, err)
		}
	})
}

// A daemon whose clock went back counts from lower ids; the gap it sends says
// so, and what follows must not be taken for old.
func TestEventsAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gap := func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, "data: {\"id\":10,\"code\":\"gap\"}\n\n")
		}
		c := scripted(t, resumes(t, "500", then(gap, events(11, 12), hold)))
		ids, err := collect(t.Context(), c, 500, true, 3)
		if err != nil || !slices.Equal(ids, []uint64{10, 11, 12}) {
			t.Errorf("ids %v, error %v", ids, err)
		}
	})
}

func TestEventsEnd(t *testing.T) {
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	unreadable := func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "data: {\"id\":oops}\n\n") }
	endless := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", strings.Repeat("x", maxLine))
	}
	for _, c := range []struct {
		name   string
		follow bool
		turns  []http.HandlerFunc
		want   string // part of the error
	}{
		{"refused at the start", true, []http.HandlerFunc{refuses(503)}, "No."},
		{"refused for good", true, []http.HandlerFunc{events(1), refuses(401)}, "No."},
		{"broken while reading what is kept", false, []http.HandlerFunc{then(events(1), broken)}, "GET /api/events: unexpected EOF"},
		{"unreadable event", true, []http.HandlerFunc{then(events(1), unreadable)}, "read an event"},
		{"line without end", true, []http.HandlerFunc{endless}, "token too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			daemon := newClient(t, (&script{t: t, turns: c.turns}).ServeHTTP)
			_, err := collect(t.Context(), daemon, 0, c.follow, 99)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Over a real connection: cut in the middle, and made again.
func TestEventsResumeOverTCP(t *testing.T) {
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	daemon := newClient(t, (&script{t: t, turns: []http.HandlerFunc{
		then(events(1, 2), cut), resumes(t, "2", then(events(3), hold)),
	}}).ServeHTTP)
	var why error
	daemon.retry = func(err error, _ time.Duration) { why = err }
	ids, err := collect(t.Context(), daemon, 0, true, 3)
	if err != nil || !slices.Equal(ids, []uint64{1, 2, 3}) {
		t.Errorf("ids %v, error %v", ids, err)
	}
	if why == nil {
		t.Error("nobody was told about the break")
	}
}

func TestEventsNoDaemonAtTheStart(t *testing.T) {
	c, err := New(Options{Socket: shortDir(t) + "/none"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = collect(t.Context(), c, 0, true, 1)
	if none := (*NoDaemonError)(nil); !errors.As(err, &none) {
		t.Errorf("error %v", err)
	}
}

func TestEventsWaitForADaemonThatWentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := refuses(http.StatusBadGateway)
		turns := []http.HandlerFunc{events(1)}
		for range 20 {
			turns = append(turns, gone)
		}
		c := scripted(t, append(turns, then(events(2), hold))...)
		var waits []time.Duration
		c.retry = func(_ error, wait time.Duration) { waits = append(waits, wait) }
		if ids, err := collect(t.Context(), c, 0, true, 2); err != nil || !slices.Equal(ids, []uint64{1, 2}) {
			t.Fatalf("ids %v, error %v", ids, err)
		}
		if len(waits) != 21 || waits[0] >= 200*time.Millisecond {
			t.Errorf("waits %v", waits)
		}
		if longest := slices.Max(waits); longest < 5*time.Second || longest > 7500*time.Millisecond {
			t.Errorf("longest wait %s", longest)
		}
	})
}

func TestEventsStopWithTheContext(t *testing.T) {
	reason := errors.New("enough")
	for name, turns := range map[string][]http.HandlerFunc{
		"while reading": {then(events(1), hold)},
		"while waiting": {events(1), refuses(503), refuses(503), refuses(503), refuses(503), refuses(503), refuses(503)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, reason)
				defer cancel()
				ids, err := collect(ctx, scripted(t, turns...), 0, true, 99)
				if !errors.Is(err, reason) || len(ids) != 1 {
					t.Errorf("ids %v, error %v", ids, err)
				}
			})
		})
	}
}

func TestPermanent(t *testing.T) {
	for err, want := range map[error]bool{
		&api.Problem{Status: 400}:   true,
		&api.Problem{Status: 401}:   true,
		&api.Problem{Status: 408}:   false,
		&api.Problem{Status: 429}:   false,
		&api.Problem{Status: 503}:   false,
		&badEventError{}:            true,
		errors.New("reset by peer"): false,
		error(&NoDaemonError{}):     false,
	} {
		if got := isPermanent(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// A filter travels with every connection, and what the daemon passed over is not
// asked for again.
func TestFilteredEventsResumeAfterWhatWasPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := func(f http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				want := "code=throttle&code=resume&follow=true&gpu=0&lease=a&lease=b&severity=warning"
				if r.URL.RawQuery != want {
					t.Errorf("asked for %s, want %s", r.URL.RawQuery, want)
				}
				f(w, r)
			}
		}
		passed := func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "id: 9\n\n") }
		c := scripted(t, asks(then(events(5), passed)), asks(resumes(t, "9", then(events(12), hold))))
		var got []uint64
		for e, err := range c.EventsWhere(t.Context(), EventQuery{Follow: true, Filter: gpu.EventFilter{
			Codes: []gpu.EventCode{gpu.EventThrottle, gpu.EventResume}, GPUs: []string{"0"}, Leases: []string{"a", "b"}, Severity: gpu.Warning,
		}}) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, e.ID); len(got) == 2 {
				break
			}
		}
		if !slices.Equal(got, []uint64{5, 12}) {
			t.Errorf("got events %v, want 5 and 12", got)
		}
	})
}
