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

// A request of an ordinary user that waits for room is not taken for one whose
// caller has left: no deadline runs on its connection once its body is there.
func TestNoDeadlineAfterTheBody(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for _, who := range []doorkeeper.Identity{user(7), holding(lease.Holder{User: "root"}, access.Admin)} {
		r := httptest.NewRequest("POST", "/api/leases", strings.NewReader(`{"slots":1,"timeout_seconds":0}`))
		r.Header.Set("Content-Type", "application/json")
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		d.server.ServeHTTP(w, r.WithContext(withIdentity(t.Context(), who)))
		if w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
		if early := exceeds(who.Actor); w.set != early { // the body of an administrator is read under the deadline, which its end lifts
			t.Errorf("user %d: a deadline was set: %v", who.UID, w.set)
		}
	}
}
