package sessions

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// The reasons for which a try fails, as the metric names them.
const (
	TokenMalformed = "malformed"
	TokenUnknown   = "unknown"
	TokenExpired   = "expired"
	TokenRevoked   = "revoked"
)

// TryReasons lists the reasons for which a try to show a token fails.
func TryReasons() []string { return []string{TokenMalformed, TokenUnknown, TokenExpired, TokenRevoked} }

// How failed tries are slowed down.
const (
	FirstDelay  = 25 * time.Millisecond // of the answer to a try that fails; it doubles with each
	MostDelay   = time.Second
	forgetTries = time.Minute // without one that fails
	// MostHeld is how many answers of one caller are delayed at the same time, and
	// mostHeldOfAll those of all. Beyond that, the answer comes at once and says
	// that there were too many tries.
	MostHeld      = 4
	mostHeldOfAll = 64
	// MostTriers is how many callers the daemon tells apart. The rest counts as one.
	MostTriers = 1024
	// MostLines is how many lines a minute the log gets about failed tries.
	MostLines = 20
)

// Tries slows down, counts and logs failed tries to show a token. A try that fails
// delays its own answer alone, and nobody else's.
type Tries struct {
	count func(reason string)
	log   *slog.Logger

	mu     sync.Mutex // guards what follows
	by     map[string]*Trier
	held   int       // answers that are delayed
	minute time.Time // in which lines were logged
	lines  int
}

// Trier is a caller whose tries fail.
type Trier struct {
	failed int       // tries
	last   time.Time // when the last one failed
	held   int       // answers that are delayed
	logged time.Time // when the log last got a line
	more   int       // tries since then
}

// NewTries returns a Tries that calls count for every failed try.
func NewTries(log *slog.Logger, count func(reason string)) *Tries {
	return &Tries{count: count, log: log, by: map[string]*Trier{}}
}

// Fail notes a failed try and returns how long its answer is delayed. It returns
// nil if too many answers are delayed already.
func (t *Tries) Fail(key, reason string, now time.Time) (who *Trier, delay time.Duration) {
	t.count(reason)
	t.mu.Lock()
	defer t.mu.Unlock()
	who = t.trier(key, now)
	if now.Sub(who.last) > forgetTries {
		who.failed = 0
	}
	who.failed, who.last = who.failed+1, now
	t.tell(who, key, reason, now)
	if who.held >= MostHeld || t.held >= mostHeldOfAll {
		return nil, 0
	}
	who.held++
	t.held++
	return who, min(FirstDelay<<min(who.failed-1, 10), MostDelay)
}

// LetGo notes that an answer is no longer delayed.
func (t *Tries) LetGo(who *Trier) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held--
	who.held--
}

// Crowded reports whether so many tries of a caller fail that another one would be
// refused at once.
func (t *Tries) Crowded(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	who := t.by[key]
	return t.held >= mostHeldOfAll || who != nil && who.held >= MostHeld
}

// everybodyElse is the key of the callers that are not told apart.
const everybodyElse = "others"

// trier returns the entry of a caller. The caller holds mu.
func (t *Tries) trier(key string, now time.Time) *Trier {
	if who := t.by[key]; who != nil {
		return who
	}
	if len(t.by) >= MostTriers {
		maps.DeleteFunc(t.by, func(_ string, who *Trier) bool { return who.held == 0 && now.Sub(who.last) > forgetTries })
	}
	if len(t.by) >= MostTriers {
		if key = everybodyElse; t.by[key] != nil {
			return t.by[key]
		}
	}
	who := &Trier{}
	t.by[key] = who
	return who
}

// tell logs a failed try: of each caller the first one in a minute, with the number
// of those before it that were not logged. The caller holds mu.
func (t *Tries) tell(who *Trier, key, reason string, now time.Time) {
	if now.Sub(t.minute) >= time.Minute {
		t.minute, t.lines = now, 0
	}
	if now.Sub(who.logged) < time.Minute || t.lines >= MostLines {
		who.more++
		return
	}
	t.log.WarnContext(context.Background(), "a token was refused", "from", key, "reason", reason, "more_since_the_last_line", who.more)
	who.logged, who.more = now, 0
	t.lines++
}

// Forget forgets every caller whose tries failed.
func (t *Tries) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.by)
}

// Len returns how many callers are told apart, and how many answers are delayed.
func (t *Tries) Len() (callers, held int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.by), t.held
}
