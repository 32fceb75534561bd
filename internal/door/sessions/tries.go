package sessions

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// The reasons for a failed try, as the metric names them.
const (
	TokenMalformed = "malformed"
	TokenUnknown   = "unknown"
	TokenExpired   = "expired"
	TokenRevoked   = "revoked"
)

// TryReasons lists the reasons for a failed try to show a token.
func TryReasons() []string { return []string{TokenMalformed, TokenUnknown, TokenExpired, TokenRevoked} }

// The delays and limits of failed tries.
const (
	FirstDelay  = 25 * time.Millisecond // of the answer to a failed try; it doubles with each
	MostDelay   = time.Second
	forgetTries = time.Minute // without a failed try
	// MostHeld limits the answers to one caller that are delayed at the same time, and
	// mostHeldOfAll those to all callers. Beyond that, the answer comes at once and
	// says that there were too many tries.
	MostHeld      = 4
	mostHeldOfAll = 64
	// MostTriers limits the callers that the daemon tells apart. The rest count as one.
	MostTriers = 1024
	// MostLines limits the lines a minute in the log about failed tries.
	MostLines = 20
)

// Tries slows down, counts and logs failed tries to show a token. A failed try delays
// only its own answer.
type Tries struct {
	count func(reason string)
	log   *slog.Logger

	mu     sync.Mutex // guards what follows
	by     map[string]*Trier
	held   int       // delayed answers
	minute time.Time // in which lines were logged
	lines  int
}

// Trier is a caller with failed tries.
type Trier struct {
	failed int       // failed tries
	last   time.Time // when the last one failed
	held   int       // delayed answers
	logged time.Time // when it was last logged
	more   int       // tries since then
}

// NewTries returns a Tries that calls count for every failed try.
func NewTries(log *slog.Logger, count func(reason string)) *Tries {
	return &Tries{count: count, log: log, by: map[string]*Trier{}}
}

// Fail records a failed try and returns how long to delay its answer. It returns nil if
// too many answers are already delayed.
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
	if t.crowded(who) {
		return nil, 0
	}
	who.held++
	t.held++
	return who, min(FirstDelay<<min(who.failed-1, 10), MostDelay)
}

// LetGo records that an answer is no longer delayed.
func (t *Tries) LetGo(who *Trier) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held--
	who.held--
}

// Crowded reports whether another failed try of a caller would be refused at once.
func (t *Tries) Crowded(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	who := t.by[key]
	if who == nil && len(t.by) >= MostTriers {
		who = t.by[everybodyElse]
	}
	return who != nil && t.crowded(who)
}

// crowded reports whether a caller has as many delayed answers as they may: one in any case,
// so that others who guess take nobody's. The caller holds mu.
func (t *Tries) crowded(who *Trier) bool {
	return who.held >= MostHeld || who.held > 0 && t.held >= mostHeldOfAll
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

// tell logs a failed try: the first of each caller in a minute, with the number of
// earlier tries that were not logged. The caller holds mu.
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

// Forget forgets the failed tries of every caller.
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
