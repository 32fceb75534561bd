package httpapi

import (
	"bytes"
	"context"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/quota"
)

// The most that one user may have under way at a time, except for administrators.
// A user who asks without end slows down nobody else.
const (
	// mostCalls is how many calls of lease streams, waiting ones included.
	mostCalls = 2048
	// smallBody is the largest body of a light request. The daemon reads larger
	// bodies one after the other, so that they do not fill the memory.
	smallBody = 64 << 10
)

// weight says how much work a request makes.
type weight int

const (
	light    weight = iota
	heavy           // lists everything, or compiles
	lasting         // a stream, which takes turns itself
	anybodys        // less work than taking a turn
)

// weightOf returns how much work a request on a route makes.
func weightOf(pattern string, r *http.Request) weight {
	switch pattern {
	case "GET /healthz", "GET /readyz":
		return anybodys
	case "GET /api/events", "POST /api/leases/stream":
		return lasting
	case "GET /api/leases", "GET /api/measurements", "GET /api/orphans", "GET /api/past/leases", "GET /api/audit", "GET /api/batches", "GET /api/gpu/metrics/history",
		"GET /metrics", "POST /api/plans", "POST /api/plans/run":
		return heavy
	}
	if strings.HasPrefix(pattern, "GET /api/gpu/status") && r.URL.Query().Get("leases") == "true" {
		return heavy // it lists the leases
	}
	if r.ContentLength > smallBody || r.ContentLength < 0 {
		return heavy
	}
	return light
}

// turns gives every user a turn.
type turns struct {
	last    atomic.Int64 // the user who asked last
	changed atomic.Int64 // when last changed, in nanoseconds since 1970

	mu     sync.Mutex // guards what follows
	byUser map[int]*queue
	tidyAt int // the number of queues at which tidy removes unused ones
}

// recently is how long a change of the user who asks means that several users ask.
const recently = 100 * time.Millisecond

// lineOf returns the number under which an actor takes turns: the user id, or a
// number made from the name of a token or certificate, so that their holders
// share a line neither with each other nor with callers who are not known.
func lineOf(a access.Actor) int {
	if a.UID != access.NoUID || !strings.Contains(a.User, ":") {
		return a.UID
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.User))
	return -2 - int(h.Sum32())
}

// note records the user who asks.
func (t *turns) note(uid int) {
	if t.last.Load() != int64(uid) {
		t.last.Store(int64(uid))
		t.changed.Store(time.Now().UnixNano())
	}
}

// shared reports whether several users asked recently. A user who is alone need not
// make room for others.
func (t *turns) shared(now time.Time) bool {
	return now.UnixNano()-t.changed.Load() < int64(recently)
}

// queue orders the requests of one user. It outlives them, so that a user who makes
// one request after the other keeps the debt.
type queue struct {
	all          *turns
	light, heavy chan struct{} // hold a token for each request that has a turn
	calls        atomic.Int64
	followers    atomic.Int64
	rate         atomic.Uint64 // bits of the number of calls a second; zero: as many as come
	here         int           // how many requests use it; guarded by turns.mu

	mu   sync.Mutex    // guards what follows
	next time.Time     // when a user with a rate makes the next call, at that rate
	debt time.Duration // recent work
	paid time.Time     // when debt was last computed
}

// join returns the queue of a user, with the limits that hold now. The caller
// calls leave when it is done.
func (t *turns) join(uid int, limits *quota.Limits) (q *queue, leave func()) {
	t.note(uid)
	t.mu.Lock()
	defer t.mu.Unlock()
	if q = t.byUser[uid]; q == nil {
		// More turns than processors would not make the user faster.
		q = &queue{all: t, light: make(chan struct{}, runtime.GOMAXPROCS(0)), heavy: make(chan struct{}, 1)}
		if t.byUser == nil {
			t.byUser = map[int]*queue{}
		}
		t.tidy(time.Now())
		t.byUser[uid] = q
	}
	q.limit(limits)
	q.here++
	return q, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		q.here--
	}
}

// fewQueues is the number of queues below which tidy removes none.
const fewQueues = 64

// tidy removes the queues that nobody uses and that have no debt, if there are many
// queues. The caller holds mu.
func (t *turns) tidy(now time.Time) {
	if len(t.byUser) < max(t.tidyAt, fewQueues) {
		return
	}
	maps.DeleteFunc(t.byUser, func(_ int, q *queue) bool { return q.here == 0 && q.rested(now) })
	t.tidyAt = 2 * len(t.byUser)
}

// follow counts an event stream of a user. It returns nil if there are too many.
func (t *turns) follow(uid int, limits *quota.Limits) (q *queue, leave func()) {
	q, left := t.join(uid, limits)
	if q.followers.Add(1) > int64(limits.Streams.Or(math.MaxInt32)) {
		q.followers.Add(-1)
		left()
		return nil, nil
	}
	return q, func() {
		q.followers.Add(-1)
		left()
	}
}

// limit sets how many calls a second the user may make.
func (q *queue) limit(l *quota.Limits) {
	if bits := math.Float64bits(l.Calls.Or(0)); q.rate.Load() != bits {
		q.rate.Store(bits)
	}
}

// pace delays a call that is beyond the rate of the user. A user who has been
// quiet may make the calls of one second at once. It returns false if ctx ends
// first. A nil queue is that of an administrator.
func (q *queue) pace(ctx context.Context) bool {
	if q == nil {
		return true
	}
	rate := math.Float64frombits(q.rate.Load())
	if rate <= 0 {
		return true
	}
	wait := q.ahead(rate, time.Now())
	if wait <= 0 {
		return true
	}
	later := time.NewTimer(wait)
	defer later.Stop()
	select {
	case <-later.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ahead counts a call, and returns how far the calls are ahead of the rate.
func (q *queue) ahead(rate float64, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next.Before(now) {
		q.next = now
	}
	q.next = q.next.Add(time.Duration(float64(time.Second) / rate))
	return q.next.Sub(now) - max(time.Second, time.Duration(float64(time.Second)/rate))
}

// enter waits for a turn. It returns nil if ctx ends first. A nil queue is that of
// an administrator, who need not wait.
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

// turn is the right of a request to work. The zero value is the turn of an
// administrator, who needs none. A turn is for one goroutine.
type turn struct {
	queue *queue
	line  chan struct{}
	begun time.Time // zero: it is not held
}

// free is the turn of administrators. It never changes.
var free = &turn{}

// resume waits for the turn. It returns false if ctx ends first.
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

// A user who asks a lot while others ask too leaves room for them: beyond a burst
// and a fifth of the time of one processor, each turn stays unused nine times as
// long as it was used. Otherwise the daemon would have spent its share of the
// processors on one user when another one asks.
const (
	burst = 2 * time.Millisecond
	drain = 5
	rest  = 9
	// mostDebt is the most work that a queue remembers: a user who was alone for
	// long does not pay for all of it when another user asks.
	mostDebt = 100 * time.Millisecond
	// longest is how long a turn stays unused at most. A request that used its turn
	// for long has mostly waited for a slow client, and the user's other programs
	// need not wait many times as long for that.
	longest = time.Second
)

// spent records how long a turn was used, and reports whether the user has used
// more than a fair share.
func (q *queue) spent(worked time.Duration, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.debt = min(max(q.debt-now.Sub(q.paid)/drain, 0)+worked, mostDebt)
	q.paid = now
	return q.debt > burst
}

// rested reports whether the debt of the user is gone.
func (q *queue) rested(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.debt <= now.Sub(q.paid)/drain
}

// leave gives the turn to the next request. It may be called again.
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

// turnKey is the context key of the turn of a request.
type turnKey struct{}

// Aside gives the turn to the next request while the desk waits for the ledger: the
// request does no work meanwhile, and the ledger has turns of its own.
func (t *turn) Aside() { t.leave() }

// Back waits for the turn again, unless ctx ends first.
func (t *turn) Back(ctx context.Context) { t.resume(ctx) }

// inTurn waits for a turn of the user and serves the request.
func (s *server) inTurn(w http.ResponseWriter, r *http.Request, pattern string, who access.Actor) {
	weight := weightOf(pattern, r)
	if r.ContentLength != 0 {
		r.Body = wholeBody{r.Body}
	}
	if exceeds(who) || weight == lasting || weight == anybodys {
		s.turns.note(lineOf(who))
		s.mux.ServeHTTP(w, r)
		return
	}
	q, leave := s.turns.join(lineOf(who), limitsOf(r.Context()))
	defer leave()
	if weight == light && !arrived(r) {
		writeProblem(w, problem(http.StatusRequestTimeout, "request_timeout", bodyMissing))
		return
	}
	if !q.pace(r.Context()) {
		return // the client is gone
	}
	t := q.enter(r.Context(), weight)
	if t == nil {
		return // the client is gone
	}
	defer t.leave()
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), turnKey{}, t)))
}

// arrived reads a small body before the request takes a turn, so that a slow client
// keeps nobody waiting. It returns false if the body does not arrive whole.
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

// bodyMissing says that a body ended early or too late.
const bodyMissing = "The body did not arrive whole within 10 s. Send the request again."

// wholeBody is a body whose errors are those of the caller. The framework would
// answer a body that is cut off with 500, and only one that is late with 408.
type wholeBody struct{ io.ReadCloser }

func (b wholeBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil && err != io.EOF {
		err = &cutOffError{err}
	}
	return n, err
}

// cutOffError is a body that did not arrive whole. It is a net.Error, by which the
// framework knows what to answer.
type cutOffError struct{ error }

func (e *cutOffError) Unwrap() error   { return e.error }
func (e *cutOffError) Timeout() bool   { return true }
func (e *cutOffError) Temporary() bool { return false }

func tooManyStreams(l *quota.Limits) *api.Problem {
	return problem(http.StatusTooManyRequests, "too_many_streams", "You have %d event streams open, which is your limit (%s). Close one first.", l.Streams.Or(0), l.Streams.Source)
}
