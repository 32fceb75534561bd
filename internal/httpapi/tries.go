package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/tokens"
)

// errMalformed refuses an Authorization header that holds no token.
var errMalformed = errors.New("the header Authorization holds no token")

// The reasons for which a try fails, as the metric names them.
const (
	tryMalformed = "malformed"
	tryUnknown   = "unknown"
	tryExpired   = "expired"
	tryRevoked   = "revoked"
)

// TryReasons lists the reasons for which a try to show a token fails.
func TryReasons() []string { return []string{tryMalformed, tryUnknown, tryExpired, tryRevoked} }

const (
	firstDelay  = 25 * time.Millisecond // of the answer to a try that fails; it doubles with each
	mostDelay   = time.Second
	forgetTries = time.Minute // without one that fails
	// mostHeld is how many answers of one caller are delayed at the same time, and
	// mostHeldOfAll those of all. Beyond that, the answer comes at once and says
	// that there were too many tries.
	mostHeld      = 4
	mostHeldOfAll = 64
	// mostTriers is how many callers the daemon tells apart. The rest counts as one.
	mostTriers = 1024
	// mostLines is how many lines a minute the log gets about failed tries.
	mostLines = 20
)

// Tries slows down, counts and logs failed tries to show a token. A try that fails
// delays its own answer alone: it takes no turn of anybody.
type Tries struct {
	count func(reason string)
	log   *slog.Logger

	mu     sync.Mutex // guards what follows
	by     map[string]*trier
	held   int       // answers that are delayed
	minute time.Time // in which lines were logged
	lines  int
}

// trier is a caller whose tries fail.
type trier struct {
	failed int       // tries
	last   time.Time // when the last one failed
	held   int       // answers that are delayed
	logged time.Time // when the log last got a line
	more   int       // tries since then
}

// NewTries returns a counter that calls count for every failed try.
func NewTries(log *slog.Logger, count func(reason string)) *Tries {
	return &Tries{count: count, log: log, by: map[string]*trier{}}
}

// keyOf returns the name under which the failed tries of a caller count: its user,
// or its address. An IPv6 network of 64 bits counts as one address.
func keyOf(c *caller) string {
	if c == nil {
		return "unknown"
	}
	if uid, known := c.uid.Get(); known {
		return "uid " + strconv.Itoa(uid)
	}
	address, err := netip.ParseAddr(c.address)
	if err != nil {
		return "unknown"
	}
	if address = address.Unmap().WithZone(""); address.Is6() {
		if network, err := address.Prefix(64); err == nil {
			return network.String()
		}
	}
	return address.String()
}

// refuse answers a try that failed, after a delay.
func (t *Tries) refuse(w http.ResponseWriter, r *http.Request, c *caller, err error, answer refusing) {
	reason, refusal := tryUnknown, (*api.Problem)(nil)
	switch {
	case errors.Is(err, errMalformed):
		reason = tryMalformed
	case errors.Is(err, tokens.ErrExpired):
		reason = tryExpired
	case errors.Is(err, tokens.ErrRevoked):
		reason = tryRevoked
	}
	t.count(reason)
	who, delay := t.fail(keyOf(c), reason, time.Now())
	if who == nil {
		w.Header().Set("Retry-After", "1")
		writeProblem(w, problem(http.StatusTooManyRequests, "too_many_tries", "Too many tries with wrong tokens came from this user or address. Wait a second, and send a valid token."))
		return
	}
	pause(r.Context(), delay)
	t.letGo(who)
	switch reason {
	case tryExpired:
		refusal = unauthorized(w, "token_expired", "The token has expired")
	case tryRevoked:
		refusal = unauthorized(w, "token_revoked", "The token was revoked")
	case tryMalformed:
		refusal = unauthorized(w, "unauthorized", "The header Authorization holds no token")
	default:
		refusal = unauthorized(w, "unauthorized", "The daemon does not know this token")
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="berth", error="invalid_token"`)
	answer(w, r, refusal)
}

// fail notes a failed try and returns how long its answer is delayed. It returns
// nil if too many answers are delayed already.
func (t *Tries) fail(key, reason string, now time.Time) (who *trier, delay time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	who = t.trier(key, now)
	if now.Sub(who.last) > forgetTries {
		who.failed = 0
	}
	who.failed, who.last = who.failed+1, now
	t.tell(who, key, reason, now)
	if who.held >= mostHeld || t.held >= mostHeldOfAll {
		return nil, 0
	}
	who.held++
	t.held++
	return who, min(firstDelay<<min(who.failed-1, 10), mostDelay)
}

// letGo notes that an answer is no longer delayed.
func (t *Tries) letGo(who *trier) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held--
	who.held--
}

// crowded reports whether so many tries of a caller fail that another one would be
// refused at once.
func (t *Tries) crowded(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	who := t.by[key]
	return t.held >= mostHeldOfAll || who != nil && who.held >= mostHeld
}

// everybodyElse is the key of the callers that are not told apart.
const everybodyElse = "others"

// trier returns the entry of a caller. The caller holds mu.
func (t *Tries) trier(key string, now time.Time) *trier {
	if who := t.by[key]; who != nil {
		return who
	}
	if len(t.by) >= mostTriers {
		maps.DeleteFunc(t.by, func(_ string, who *trier) bool { return who.held == 0 && now.Sub(who.last) > forgetTries })
	}
	if len(t.by) >= mostTriers {
		if key = everybodyElse; t.by[key] != nil {
			return t.by[key]
		}
	}
	who := &trier{}
	t.by[key] = who
	return who
}

// tell logs a failed try: of each caller the first one in a minute, with the number
// of those before it that were not logged. The caller holds mu.
func (t *Tries) tell(who *trier, key, reason string, now time.Time) {
	if now.Sub(t.minute) >= time.Minute {
		t.minute, t.lines = now, 0
	}
	if now.Sub(who.logged) < time.Minute || t.lines >= mostLines {
		who.more++
		return
	}
	t.log.WarnContext(context.Background(), "a token was refused", "from", key, "reason", reason, "more_since_the_last_line", who.more)
	who.logged, who.more = now, 0
	t.lines++
}
