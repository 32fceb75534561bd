package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/quota"
)

// plain returns the limits of a user for whom nobody has set any.
func plain() *quota.Limits { return builtinLimits.Of(lease.Subject{}) }

// A user with a limit makes the calls of one second at once, and then waits for
// each; another user does not, nor does the same one without the limit.
func TestCallsAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		slow := plain()
		slow.Calls.Opt = gpu.Some(10.0)
		q, leave := all.join(7, slow)
		defer leave()
		began := time.Now()
		after := func(calls int) time.Duration {
			for range calls {
				if !q.pace(t.Context()) {
					t.Fatal("a call was refused")
				}
			}
			return time.Since(began)
		}
		if took := after(10); took != 0 {
			t.Errorf("the calls of the first second took %v", took)
		}
		if took := after(20); took != 2*time.Second {
			t.Errorf("20 more took %v", took)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if q.pace(gone) {
			t.Error("somebody who has left may call")
		}
		other, leaveOther := all.join(8, plain())
		defer leaveOther()
		for range 1000 {
			other.pace(t.Context())
		}
		q.limit(plain())
		after(1000)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("without a limit, calls took %v", took)
		}
		q.limit(slow)
		slow.Calls.Opt = gpu.Some(0.5)
		q.limit(slow)
		time.Sleep(time.Minute)
		began = time.Now()
		if took := after(2); took != 2*time.Second {
			t.Errorf("two calls at one in 2 s took %v", took)
		}
	})
}

// Requests of one user work in turn, those of others are not held up, and
// somebody who leaves while waiting takes no turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		q, leave := all.join(7, plain())
		for range cap(q.light) {
			if q.enter(t.Context(), light) == nil {
				t.Fatal("there was no turn")
			}
		}
		heavyOne := q.enter(t.Context(), heavy) // has a line of its own
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if q.enter(gone, light) != nil {
			t.Error("somebody who has left has a turn")
		}
		next := make(chan *turn)
		go func() { next <- q.enter(context.Background(), heavy) }()
		synctest.Wait()
		other, leaveOther := all.join(8, plain())
		other.enter(t.Context(), light).leave()
		leaveOther()
		heavyOne.leave()
		heavyOne.leave()
		(<-next).leave()
		leave()
		for uid, q := range all.byUser {
			if q.here != 0 {
				t.Errorf("%d of user %v are left behind", q.here, uid)
			}
		}
	})
}

// A caller that is slow to send or to read keeps its place for as long as that
// takes, and not many times as long.
func TestASlowCallerRestsAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		q, leave := all.join(7, plain())
		defer leave()
		slow := q.enter(t.Context(), heavy)
		time.Sleep(10 * time.Second)
		all.note(8) // somebody else asks too
		slow.leave()
		begun := time.Now()
		q.enter(t.Context(), heavy).leave()
		if waited := time.Since(begun); waited > 2*time.Second {
			t.Errorf("the next request of the same user waited %v", waited)
		}
		synctest.Wait()
	})
}

// A user who asks for one thing after the other has done all of it.
func TestOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		begun, worked := time.Now(), 100*time.Millisecond
		for range 10 {
			q, leave := all.join(7, plain())
			place := q.enter(t.Context(), heavy)
			time.Sleep(worked)
			all.note(8) // somebody else asks too
			place.leave()
			leave()
		}
		if took, want := time.Since(begun), 9*(1+rest)*worked; took < want {
			t.Errorf("10 requests of %v took %v beside another user, want %v at least", worked, took, want)
		}
	})
}

func TestQueuesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		for uid := range 100 * fewQueues {
			q, leave := all.join(uid, plain())
			place := q.enter(t.Context(), light)
			time.Sleep(time.Millisecond)
			place.leave()
			leave()
		}
		if n := len(all.byUser); n > 2*fewQueues {
			t.Errorf("%d queues are kept", n)
		}
	})
}

func TestFollowersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		var leaves []func()
		for range quota.Streams {
			q, leave := all.follow(7, plain())
			if q == nil {
				t.Fatalf("turned away after %d", len(leaves))
			}
			leaves = append(leaves, leave)
		}
		if q, _ := all.follow(7, plain()); q != nil {
			t.Error("one too many was let in")
		}
		if q, leave := all.follow(8, plain()); q == nil {
			t.Error("another user was turned away")
		} else {
			leave()
		}
		for _, leave := range leaves {
			leave()
		}
		synctest.Wait()
		for uid, q := range all.byUser {
			if q.here != 0 {
				t.Errorf("%d of user %v are left behind", q.here, uid)
			}
		}
	})
}

// Every route has a weight that fits its body: what may be large is heavy.
func TestLargeBodiesAreHeavy(t *testing.T) {
	r := httptest.NewRequest("POST", "/api/leases", strings.NewReader(strings.Repeat(" ", smallBody+1)))
	if weightOf("POST /api/leases", r) != heavy {
		t.Error("a large body is light")
	}
	r.ContentLength = -1
	if weightOf("POST /api/leases", r) != heavy {
		t.Error("a body of unknown length is light")
	}
	if weightOf("POST /api/leases", httptest.NewRequest("POST", "/", strings.NewReader("{}"))) != light {
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
