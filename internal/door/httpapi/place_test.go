package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/fair"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// Every route has a weight that fits its body: what may be large is heavy.
func TestLargeBodiesAreHeavy(t *testing.T) {
	r := httptest.NewRequest("POST", "/api/leases", strings.NewReader(strings.Repeat(" ", smallBody+1)))
	if weightOf("POST /api/leases", r) != fair.Heavy {
		t.Error("a large body is light")
	}
	r.ContentLength = -1
	if weightOf("POST /api/leases", r) != fair.Heavy {
		t.Error("a body of unknown length is light")
	}
	if weightOf("POST /api/leases", httptest.NewRequest("POST", "/", strings.NewReader("{}"))) != fair.Light {
		t.Error("a small body is heavy")
	}
}

// An ordinary user's request that waits for room does not keep the others of
// that user waiting.
func TestWaitingTakesNoTurn(t *testing.T) {
	d := open(t, "1xrtx-4060")
	who := user(7)
	ask := func(ctx context.Context, method, path, body string) int {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		d.server.ServeHTTP(w, r.WithContext(withIdentity(ctx, who)))
		return w.Code
	}
	if status := ask(t.Context(), "POST", "/api/leases", `{"id":"all","slots":2}`); status != http.StatusCreated {
		t.Fatal(status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	const many = 16
	done := make(chan int, many)
	for range many {
		go func() { done <- ask(ctx, "POST", "/api/leases", `{"slots":1,"timeout_seconds":3600}`) }()
	}
	for len(d.Ledger.View().Waiting) < many {
		if status := ask(t.Context(), "GET", "/api/gpu/status", ""); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	cancel()
	for range many {
		<-done
	}
}

// A request that has no turn before the daemon stops hears that it stops, so that its
// client asks the next daemon. Only the front itself needs no turn for its routes.
func TestNoTurnBeforeTheDaemonStops(t *testing.T) {
	d := open(t, "1xrtx-4060")
	who := user(7)
	stopping, stop := context.WithCancelCause(withIdentity(t.Context(), who))
	stop(ledger.ErrStopped)
	q, leave := d.server.queues.Join(fair.UserOf(standingOf(stopping)), 0)
	defer leave()
	for range 1000 { // which of two is ready is chance, and after so many every turn is taken
		if turn := q.Enter(stopping, fair.Light); turn != nil {
			defer turn.Leave()
		}
	}
	for cause, want := range map[error]string{ledger.ErrStopped: `"stopping"`, context.Canceled: `"no_turn"`} {
		for _, path := range []string{"/api/leases", "/api/front/reports", "/api/front/bring"} {
			ctx, end := context.WithCancelCause(withIdentity(t.Context(), who))
			end(cause)
			r := httptest.NewRequest("POST", path, strings.NewReader(`{"slots":1}`))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			d.server.ServeHTTP(w, r.WithContext(ctx))
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%v is answered with %d to %s: %s", cause, w.Code, path, w.Body)
			}
		}
	}
}

// A caller that sends its body slowly keeps the other programs of its user
// waiting for nothing.
func TestSlowBodyTakesNoTurn(t *testing.T) {
	d := open(t, "1xrtx-4060")
	who := user(7)
	var sending sync.WaitGroup
	var ends []*io.PipeWriter
	for range 8 {
		body, end := io.Pipe()
		ends = append(ends, end)
		r := httptest.NewRequest("POST", "/api/leases", body)
		r.ContentLength = 1000
		r.Header.Set("Content-Type", "application/json")
		sending.Go(func() {
			w := httptest.NewRecorder()
			d.server.ServeHTTP(w, r.WithContext(withIdentity(t.Context(), who)))
			if w.Code != http.StatusRequestTimeout {
				t.Errorf("half a body was answered with %d: %s", w.Code, w.Body)
			}
		})
		if _, err := end.Write([]byte("{")); err != nil { // it is being read
			t.Fatal(err)
		}
	}
	r := httptest.NewRequest("GET", "/api/gpu/status", nil)
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r.WithContext(withIdentity(t.Context(), who)))
	if w.Code != http.StatusOK {
		t.Errorf("another program was answered with %d", w.Code)
	}
	for _, end := range ends {
		_ = end.CloseWithError(io.ErrUnexpectedEOF)
	}
	sending.Wait()
}

// deadlines notes whether a deadline for reading was set.
type deadlines struct {
	*httptest.ResponseRecorder
	set bool
}

func (d *deadlines) SetReadDeadline(time.Time) error { d.set = true; return nil }

// A request that waits is not taken for one whose caller has left: no deadline runs on its
// connection once its body is there, or if it has none.
func TestNoDeadlineAfterTheBody(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for _, who := range []doorkeeper.Identity{user(7), holding(lease.Holder{User: "root"}, access.Admin)} {
		for _, c := range []struct {
			path, body string
			want       int
		}{
			{"/api/leases", `{"slots":1,"timeout_seconds":0}`, http.StatusCreated},
			{"/api/leases/a/resume", "", http.StatusNotFound},
		} {
			r := httptest.NewRequest("POST", c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			d.server.ServeHTTP(w, r.WithContext(withIdentity(t.Context(), who)))
			if w.Code != c.want {
				t.Fatal(w.Code, w.Body)
			}
			if w.set {
				t.Errorf("user %d, %s: a deadline was set", who.UID, c.path)
			}
		}
	}
}
