package httpapi

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
)

// What one user may have under way at a time, administrators excepted. What is
// over that waits for its turn, so that a user who asks without end slows down
// nobody but themselves.
const (
	// mostCalls is how many calls of lease streams, those that wait included.
	mostCalls = 2048
	// mostFollowers is how many event streams.
	mostFollowers = 32
	// smallBody is the largest body of an ordinary request. Larger ones are
	// read one after the other, so that they do not fill the memory.
	smallBody = 64 << 10
)

// weight is how much work a request makes.
type weight int

const (
	light    weight = iota
	heavy           // lists everything, or compiles
	lasting         // a stream, which limits itself
	anybodys        // cheaper than counting it
)

// weightOf is how much work a request on a route makes.
func weightOf(pattern string, r *http.Request) weight {
	switch pattern {
	case "GET /healthz", "GET /readyz":
		return anybodys
	case "GET /api/events", "POST /api/leases/stream":
		return lasting
	case "GET /api/leases", "GET /api/measurements", "GET /api/orphans", "GET /api/batches", "GET /api/gpu/metrics/history",
		"GET /metrics", "POST /api/plans", "POST /api/plans/run":
		return heavy
	}
	if r.ContentLength > smallBody || r.ContentLength < 0 {
		return heavy
	}
	return light
}

// turns lets every user have a turn.
type turns struct {
	last    atomic.Int64 // who asked last
	changed atomic.Int64 // when that was somebody else before, in nanoseconds since 1970

	mu     sync.Mutex // guards what follows
	byUser map[int]*queue
	tidyAt int // how many there are when those are forgotten that nobody needs
}

// recently is for how long somebody who asked counts as being there.
const recently = 100 * time.Millisecond

// note notes who asks.
func (t *turns) note(uid int) {
	if t.last.Load() != int64(uid) {
		t.last.Store(int64(uid))
		t.changed.Store(time.Now().UnixNano())
	}
}

// shared reports whether several users ask these days. A user who is alone need
// not make room for anybody.
func (t *turns) shared(now time.Time) bool {
	return now.UnixNano()-t.changed.Load() < int64(recently)
}

// queue is one user's place at the daemon. It outlives those who stand in it, so
// that a user who asks for one thing after the other is not new each time.
type queue struct {
	all          *turns
	light, heavy chan struct{} // hold a token for each that has its turn
	calls        atomic.Int64
	followers    atomic.Int64
	here         int // who uses it; guarded by turns.mu

	mu   sync.Mutex    // guards what follows
	debt time.Duration // work that was done lately
	paid time.Time     // when debt was last reckoned
}

// join is the queue of a user. It is to be left again.
func (t *turns) join(uid int) (q *queue, leave func()) {
	t.note(uid)
	t.mu.Lock()
	defer t.mu.Unlock()
	if q = t.byUser[uid]; q == nil {
		// As many as can work at once: the processors are shared with others.
		q = &queue{all: t, light: make(chan struct{}, runtime.GOMAXPROCS(0)), heavy: make(chan struct{}, 1)}
		if t.byUser == nil {
			t.byUser = map[int]*queue{}
		}
		t.tidy(time.Now())
		t.byUser[uid] = q
	}
	q.here++
	return q, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		q.here--
	}
}

// fewQueues need not be forgotten.
const fewQueues = 64

// tidy forgets the queues that nobody stands in and whose work was long ago, now
// and then. The caller holds mu.
func (t *turns) tidy(now time.Time) {
	if len(t.byUser) < max(t.tidyAt, fewQueues) {
		return
	}
	maps.DeleteFunc(t.byUser, func(_ int, q *queue) bool { return q.here == 0 && q.rested(now) })
	t.tidyAt = 2 * len(t.byUser)
}

// follow counts an event stream of a user; nil: there are too many.
func (t *turns) follow(uid int) (q *queue, leave func()) {
	q, left := t.join(uid)
	if q.followers.Add(1) > mostFollowers {
		q.followers.Add(-1)
		left()
		return nil, nil
	}
	return q, func() {
		q.followers.Add(-1)
		left()
	}
}

// enter waits for a turn; nil: ctx ended first. An administrator has no queue,
// and need not wait.
func (q *queue) enter(ctx context.Context, w weight) *turn {
	if q == nil {
		return free
	}
	t := &turn{queue: q, line: q.light}
	if w == heavy {
		t.line = q.heavy
	}
	if !t.resume(ctx) {
		return nil
	}
	return t
}

// turn is a place that somebody works in. The zero value is an administrator's,
// who needs none. It is for one goroutine.
type turn struct {
	queue *queue
	line  chan struct{}
	begun time.Time // zero: it is not held
}

// free is the turn of administrators. Nothing about it ever changes.
var free = &turn{}

// resume waits for the place; false: ctx ended first.
func (t *turn) resume(ctx context.Context) bool {
	if t.line == nil || !t.begun.IsZero() {
		return true
	}
	select {
	case t.line <- struct{}{}:
		t.begun = time.Now()
		return true
	case <-ctx.Done():
		return false
	}
}

// A user who asks a lot while others ask too leaves room for them: beyond a
// burst and a fifth of the time of one processor, each place stays empty nine
// times as long as it was used. Otherwise the daemon would have used up its
// share of the processors, with the work of one user, when anybody else comes.
const (
	burst = 2 * time.Millisecond
	drain = 5
	rest  = 9
	// mostDebt is how much work is remembered: a user who was alone for long
	// does not pay for that when somebody else comes.
	mostDebt = 100 * time.Millisecond
	// longest is for how long a place stays empty at most. Who used it for long
	// has mostly waited for a caller that is slow to send or to read, and the
	// user's other programs are not to wait many times as long for that.
	longest = time.Second
)

// spent notes how long a place of a user was used, and reports whether that is
// more than their share.
func (q *queue) spent(worked time.Duration, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.debt = min(max(q.debt-now.Sub(q.paid)/drain, 0)+worked, mostDebt)
	q.paid = now
	return q.debt > burst
}

// rested reports whether what a user has done does not count any more.
func (q *queue) rested(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.debt <= now.Sub(q.paid)/drain
}

// leave gives the place to the next; it may be called again.
func (t *turn) leave() {
	if t.begun.IsZero() {
		return
	}
	now := time.Now()
	worked := now.Sub(t.begun)
	t.begun = time.Time{}
	line := t.line
	if over := t.queue.spent(worked, now); !over || !t.queue.all.shared(now) {
		<-line
		return
	}
	time.AfterFunc(min(rest*worked, longest), func() { <-line })
}

// turnKey is where the turn of a request is kept in the context.
type turnKey struct{}

// Aside gives the place to the next while the desk waits for the ledger: the
// request does no work meanwhile, and the ledger has turns of its own.
func (t *turn) Aside() { t.leave() }

// Back waits for the place again. A caller who has left needs none.
func (t *turn) Back(ctx context.Context) { t.resume(ctx) }

// inTurn serves a request when it is its user's turn.
func (s *server) inTurn(w http.ResponseWriter, r *http.Request, pattern string, who access.Actor) {
	weight := weightOf(pattern, r)
	if exceeds(who) || weight == lasting || weight == anybodys {
		s.turns.note(who.UID)
		s.mux.ServeHTTP(w, r)
		return
	}
	q, leave := s.turns.join(who.UID)
	defer leave()
	if weight == light && !arrived(r) {
		writeProblem(w, problem(http.StatusRequestTimeout, "request_timeout", "The body did not arrive whole within 10 s. Send the request again."))
		return
	}
	t := q.enter(r.Context(), weight)
	if t == nil {
		return // nobody is left to be answered
	}
	defer t.leave()
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), turnKey{}, t)))
}

// arrived reads a small body before the request takes a turn, so that a caller
// that is slow to send it keeps nobody waiting; false: it does not come whole.
func arrived(r *http.Request) bool {
	if r.ContentLength <= 0 {
		return true
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

func tooManyStreams() *api.Problem {
	return problem(http.StatusTooManyRequests, "too_many_streams", "You follow the events %d times already. Close some of these streams first.", mostFollowers)
}
