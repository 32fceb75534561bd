// Package fair shares the daemon among its users: one who asks without end slows
// down nobody else.
//
// Queues are for requests, which take the processors. A user's requests wait for
// places, and while several users ask, one who takes more than a fair share of the
// time rests. So a queue outlives its requests: it remembers what they took.
//
// Limiter is for calls of the ledger, which mostly wait for the disk. It counts
// those under way and measures no time: a call shares its write with others, and
// a user who rested for the time of a slow disk would keep the next write from being
// shared. There is nothing to remember, so it forgets a user with the last call.
package fair

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

// mostQueries is how many queries of a user may wait for a place.
const mostQueries = 32

// Queues has a queue for every user.
type Queues struct {
	last    atomic.Int64 // the user who asked last
	changed atomic.Int64 // when last changed, in nanoseconds since 1970

	mu     sync.Mutex // guards what follows
	byUser map[int]*Queue
	tidyAt int // the number of queues at which tidy removes unused ones
}

// recently is how long several users count as asking after the user who asks has changed.
const recently = 100 * time.Millisecond

// UserOf returns the number of the user whose queue an actor is in: the user id, or a
// number made from the name of a token or certificate, so that their holders
// share a queue neither with each other nor with callers who are not known.
func UserOf(a access.Actor) int {
	if a.UID != access.NoUID || !strings.Contains(a.User, ":") {
		return a.UID
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.User))
	return -2 - int(h.Sum32())
}

// Note records the user who asks.
func (a *Queues) Note(uid int) {
	if a.last.Load() != int64(uid) {
		a.last.Store(int64(uid))
		a.changed.Store(time.Now().UnixNano())
	}
}

// shared reports whether several users asked recently. A user who is alone need not
// make room for others.
func (a *Queues) shared(now time.Time) bool {
	since := time.Duration(now.UnixNano() - a.changed.Load()) // negative if the clock was set back
	return since.Abs() < recently
}

// Queue orders the requests of one user. It outlives them, so that a user who makes
// one request after the other keeps the debt.
type Queue struct {
	all          *Queues
	light, heavy chan struct{} // hold a token for each request that has a place
	query        chan struct{} // likewise
	queries      atomic.Int64  // that wait for a place
	Calls        atomic.Int64  // how many calls of lease streams are under way; the streams count them
	followers    atomic.Int64
	rate         atomic.Uint64 // bits of the number of calls a second; zero means no limit
	here         int           // how many requests use it; guarded by Queues.mu

	mu   sync.Mutex    // guards what follows
	next time.Time     // when a user with a rate makes the next call, at that rate
	debt time.Duration // recent work
	paid time.Time     // when debt was last computed
}

// Join returns the queue of a user who may make this many calls a second; zero means no
// limit. The caller calls leave when it is done.
func (a *Queues) Join(uid int, rate float64) (q *Queue, leave func()) {
	a.Note(uid)
	a.mu.Lock()
	defer a.mu.Unlock()
	if q = a.byUser[uid]; q == nil {
		// More places than processors would not make the user faster.
		q = &Queue{all: a, light: make(chan struct{}, runtime.GOMAXPROCS(0)), heavy: make(chan struct{}, 1), query: make(chan struct{}, 1)}
		if a.byUser == nil {
			a.byUser = map[int]*Queue{}
		}
		a.tidy(time.Now())
		a.byUser[uid] = q
	}
	q.Limit(rate)
	q.here++
	return q, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		q.here--
	}
}

// fewQueues is the number of queues below which tidy removes none.
const fewQueues = 64

// tidy removes the queues that nobody uses and that have no debt, if there are many
// queues. The caller holds mu.
func (a *Queues) tidy(now time.Time) {
	if len(a.byUser) < max(a.tidyAt, fewQueues) {
		return
	}
	maps.DeleteFunc(a.byUser, func(_ int, q *Queue) bool { return q.here == 0 && q.rested(now) })
	a.tidyAt = 2 * len(a.byUser)
}

// Follow joins for an event stream. It returns nil if the user has as many streams as
// they may have.
func (a *Queues) Follow(uid int, rate float64, most int) (q *Queue, leave func()) {
	q, left := a.Join(uid, rate)
	if q.followers.Add(1) > int64(most) {
		q.followers.Add(-1)
		left()
		return nil, nil
	}
	return q, func() {
		q.followers.Add(-1)
		left()
	}
}

// Limit sets how many calls a second the user may make; zero means no limit.
func (q *Queue) Limit(rate float64) {
	if bits := math.Float64bits(rate); q.rate.Load() != bits {
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

// Enter waits for a place. It returns nil if ctx ends first, or at once if too many
// queries of the user wait. A nil queue is that of an administrator, who need not
// wait.
func (q *Queue) Enter(ctx context.Context, w Weight) *Place {
	if q == nil {
		return free
	}
	p := &Place{queue: q, lane: q.light}
	switch w {
	case Heavy:
		p.lane = q.heavy
	case Query:
		p.lane = q.query
		defer q.queries.Add(-1)
		if q.queries.Add(1) > mostQueries {
			return nil
		}
	}
	if !p.resume(ctx) {
		return nil
	}
	return p
}

// Place is the right of a request to work. The zero value is the place of an
// administrator, who needs none. A place is for one goroutine.
type Place struct {
	queue *Queue
	lane  chan struct{}
	begun time.Time // zero if it is not held
}

// free is the place of administrators. It never changes.
var free = &Place{}

// resume waits for the place. It returns false if ctx ends first.
func (p *Place) resume(ctx context.Context) bool {
	if p.lane == nil || !p.begun.IsZero() {
		return true
	}
	select {
	case p.lane <- struct{}{}:
		p.begun = time.Now()
		return true
	case <-ctx.Done():
		return false
	}
}

// A user who asks a lot while others ask too leaves room for them: beyond a burst
// and a fifth of the time of one processor, each place stays unused nine times as
// long as it was used. Otherwise the daemon would have spent its share of the
// processors on one user when another one asks.
const (
	burst = 2 * time.Millisecond
	drain = 5
	rest  = 9
	// mostDebt is the most work that a queue remembers: a user who was alone for
	// long does not pay for all of it when another user asks.
	mostDebt = 100 * time.Millisecond
	// longest is how long a place stays unused at most. A request that used its place
	// for long has mostly waited for a slow client, and the user's other programs
	// need not wait many times as long for that.
	longest = time.Second
)

// spent records how long a place was used, and reports whether the user has used
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

// Leave gives the place to the next request. It may be called again.
func (p *Place) Leave() {
	if p.begun.IsZero() {
		return
	}
	now := time.Now()
	worked := now.Sub(p.begun)
	p.begun = time.Time{}
	lane := p.lane
	if over := p.queue.spent(worked, now); !over || !p.queue.all.shared(now) {
		<-lane
		return
	}
	time.AfterFunc(min(rest*worked, longest), func() { <-lane })
}

// Aside gives the place to the next request while the desk waits for the ledger: the
// request does no work meanwhile, and the ledger has a Limiter of its own.
func (p *Place) Aside() { p.Leave() }

// Back waits for the place again, unless ctx ends first.
func (p *Place) Back(ctx context.Context) { p.resume(ctx) }
