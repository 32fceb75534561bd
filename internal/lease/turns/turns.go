// Package turns lets the requests of one user work in turn, so that a user who
// asks without end slows down nobody else.
//
// While several users ask, one who takes more than a fair share rests.
package turns

import (
	"context"
	"hash/fnv"
	"maps"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// Weight says how much work a request makes.
type Weight int

// The weights. Heavy requests of a user work one after the other, and so do
// queries, which may take seconds: nothing but queries waits for a query.
const (
	Light Weight = iota
	Heavy        // lists everything, or compiles
	Query        // reads the past
)

// mostQueries is how many queries of a user wait for a turn.
const mostQueries = 32

// Keeper gives every user a turn.
type Keeper struct {
	last    atomic.Int64 // the user who asked last
	changed atomic.Int64 // when last changed, in nanoseconds since 1970

	mu     sync.Mutex // guards what follows
	byUser map[int]*Queue
	tidyAt int // the number of queues at which tidy removes unused ones
}

// recently is how long a change of the user who asks means that several users ask.
const recently = 100 * time.Millisecond

// LineOf returns the number under which an actor takes turns: the user id, or a
// number made from the name of a token or certificate, so that their holders
// share a line neither with each other nor with callers who are not known.
func LineOf(a access.Actor) int {
	if a.UID != access.NoUID || !strings.Contains(a.User, ":") {
		return a.UID
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.User))
	return -2 - int(h.Sum32())
}

// Note records the user who asks.
func (t *Keeper) Note(uid int) {
	if t.last.Load() != int64(uid) {
		t.last.Store(int64(uid))
		t.changed.Store(time.Now().UnixNano())
	}
}

// shared reports whether several users asked recently. A user who is alone need not
// make room for others.
func (t *Keeper) shared(now time.Time) bool {
	return now.UnixNano()-t.changed.Load() < int64(recently)
}

// Queue orders the requests of one user. It outlives them, so that a user who makes
// one request after the other keeps the debt.
type Queue struct {
	all          *Keeper
	light, heavy chan struct{} // hold a token for each request that has a turn
	query        chan struct{} // likewise
	queries      atomic.Int64  // that wait for a turn
	Calls        atomic.Int64  // how many calls of lease streams are under way; its user counts them
	followers    atomic.Int64
	rate         atomic.Uint64 // bits of the number of calls a second; zero: as many as come
	here         int           // how many requests use it; guarded by Keeper.mu

	mu   sync.Mutex    // guards what follows
	next time.Time     // when a user with a rate makes the next call, at that rate
	debt time.Duration // recent work
	paid time.Time     // when debt was last computed
}

// Join returns the queue of a user, with the limits that hold now. The caller
// calls leave when it is done.
func (t *Keeper) Join(uid int, limits *quota.Limits) (q *Queue, leave func()) {
	t.Note(uid)
	t.mu.Lock()
	defer t.mu.Unlock()
	if q = t.byUser[uid]; q == nil {
		// More turns than processors would not make the user faster.
		q = &Queue{all: t, light: make(chan struct{}, runtime.GOMAXPROCS(0)), heavy: make(chan struct{}, 1), query: make(chan struct{}, 1)}
		if t.byUser == nil {
			t.byUser = map[int]*Queue{}
		}
		t.tidy(time.Now())
		t.byUser[uid] = q
	}
	q.Limit(limits)
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
func (t *Keeper) tidy(now time.Time) {
	if len(t.byUser) < max(t.tidyAt, fewQueues) {
		return
	}
	maps.DeleteFunc(t.byUser, func(_ int, q *Queue) bool { return q.here == 0 && q.rested(now) })
	t.tidyAt = 2 * len(t.byUser)
}

// Follow counts an event stream of a user. It returns nil if there are too many.
func (t *Keeper) Follow(uid int, limits *quota.Limits) (q *Queue, leave func()) {
	q, left := t.Join(uid, limits)
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

// Limit sets how many calls a second the user may make.
func (q *Queue) Limit(l *quota.Limits) {
	if bits := math.Float64bits(l.Calls.Or(0)); q.rate.Load() != bits {
		q.rate.Store(bits)
	}
}

// Pace delays a call that is beyond the rate of the user. A user who has been
// quiet may make the calls of one second at once. It returns false if ctx ends
// first. A nil queue is that of an administrator.
func (q *Queue) Pace(ctx context.Context) bool {
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
func (q *Queue) ahead(rate float64, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next.Before(now) {
		q.next = now
	}
	q.next = q.next.Add(time.Duration(float64(time.Second) / rate))
	return q.next.Sub(now) - max(time.Second, time.Duration(float64(time.Second)/rate))
}

// Enter waits for a turn. It returns nil if ctx ends first, or at once if too many
// queries of the user wait. A nil queue is that of an administrator, who need not
// wait.
func (q *Queue) Enter(ctx context.Context, w Weight) *Turn {
	if q == nil {
		return free
	}
	t := &Turn{queue: q, line: q.light}
	switch w {
	case Heavy:
		t.line = q.heavy
	case Query:
		t.line = q.query
		defer q.queries.Add(-1)
		if q.queries.Add(1) > mostQueries {
			return nil
		}
	}
	if !t.resume(ctx) {
		return nil
	}
	return t
}

// Turn is the right of a request to work. The zero value is the turn of an
// administrator, who needs none. A turn is for one goroutine.
type Turn struct {
	queue *Queue
	line  chan struct{}
	begun time.Time // zero: it is not held
}

// free is the turn of administrators. It never changes.
var free = &Turn{}

// resume waits for the turn. It returns false if ctx ends first.
func (t *Turn) resume(ctx context.Context) bool {
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
func (q *Queue) spent(worked time.Duration, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.debt = min(max(q.debt-now.Sub(q.paid)/drain, 0)+worked, mostDebt)
	q.paid = now
	return q.debt > burst
}

// rested reports whether the debt of the user is gone.
func (q *Queue) rested(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.debt <= now.Sub(q.paid)/drain
}

// Leave gives the turn to the next request. It may be called again.
func (t *Turn) Leave() {
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

// Aside gives the turn to the next request while the desk waits for the ledger: the
// request does no work meanwhile, and the ledger has turns of its own.
func (t *Turn) Aside() { t.Leave() }

// Back waits for the turn again, unless ctx ends first.
func (t *Turn) Back(ctx context.Context) { t.resume(ctx) }
