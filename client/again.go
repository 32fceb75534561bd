package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/when"
)

const (
	// awayLimit is how long a request that waits is made again after the daemon went.
	awayLimit = time.Minute
	// A pause between two tries begins with firstPause and grows to longestPause. The
	// daemon keeps the place of a request for 10 s after it starts.
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// repeated is the query of a request that was made before.
var repeated = url.Values{"repeated": {"true"}}

// AwayError reports that the daemon went away while a request waited: it was stopped,
// killed or replaced. The client makes the request again under the same id, and the
// daemon has kept its place.
type AwayError struct {
	Within time.Duration // how long the client goes on asking
	Err    error         // how the daemon went, or why it does not answer now
}

func (e *AwayError) Error() string {
	if turnedAway(e.Err) {
		return fmt.Sprintf("the daemon went away while the request waited, and has read nothing since: %v", e.Err)
	}
	return fmt.Sprintf("the daemon went away while the request waited, and did not come back within %s: %v", e.Within, e.Err)
}

func (e *AwayError) Unwrap() error { return e.Err }

// persist makes a request that may wait. If the daemon goes away meanwhile, persist makes
// it again until the daemon has answered, or has been away for awayLimit. While too many
// connections are open, persist makes it again until its timeout is over, if it has one. A
// request that is made again has the rest of its timeout, and the query that says so if the
// daemon may have seen it: one that was never read could get what another one was granted.
func persist[T any](ctx context.Context, c *Client, timeout gpu.Opt[float64], ask func(timeout gpu.Opt[float64], query url.Values) (T, error)) (T, error) {
	begun := time.Now()
	answer, err := ask(timeout, nil)
	if !wentAway(err) && !turnedAway(err) {
		return answer, err
	}
	rest := func() gpu.Opt[float64] {
		if seconds, limited := timeout.Get(); limited {
			return gpu.Some(max(seconds-time.Since(begun).Seconds(), 0))
		}
		return timeout
	}
	var query url.Values
	for since, wait := time.Now(), firstPause; ; wait = min(2*wait, longestPause) {
		if wentAway(err) && !isUnsent(err) {
			query = repeated
		}
		away := &AwayError{Within: awayLimit, Err: err}
		var why error = away
		if turnedAway(err) {
			why = err
		}
		if time.Since(since) >= awayLimit || turnedAway(err) && rest() == gpu.Some(0.0) {
			if query != nil { // it may have been granted
				return answer, away
			}
			return answer, why
		}
		if c.retry != nil && (!turnedAway(err) || time.Since(begun) >= longestPause) {
			c.retry(why, wait)
		}
		if !when.Pause(ctx, wait) {
			return answer, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		asked := time.Now()
		answer, err = ask(rest(), query)
		switch {
		case turnedAway(err):
			since = time.Now() // it is there
		case wentAway(err):
			if time.Since(asked) > longestPause { // it was back, and the request waited
				since = time.Now()
			}
		case !isAway(err):
			return answer, err
		}
	}
}

// endure makes a call again while a daemon is being replaced, or too many connections are
// open, for as long as the client has patience. Of a call that changes something, the daemon
// has read nothing; one that only asks may have been cut off.
func (c *Client) endure(ctx context.Context, asks bool, call func() error) error {
	passes := func(err error) bool {
		return replaced(err, time.Now()) || turnedAway(err) || isUnsent(err) || asks && wentAway(err)
	}
	err := call()
	for since, wait := time.Now(), firstPause; passes(err) && time.Since(since) < c.patience; wait = min(2*wait, longestPause) {
		if c.retry != nil && time.Since(since) >= longestPause {
			c.retry(err, wait)
		}
		if !when.Pause(ctx, wait) {
			break
		}
		err = call()
	}
	return err
}

// replacedWithin is how soon after the end of a daemon the next one is expected.
const replacedWithin = time.Minute

// replaced reports whether no daemon listens, but one did: its socket refuses, because it
// was killed since the machine started, or has just gone. Without either, the machine has
// no daemon.
func replaced(err error, now time.Time) bool {
	missing := (*NoDaemonError)(nil)
	if !errors.As(err, &missing) {
		return false
	}
	return slices.ContainsFunc(missing.Attempts, func(a Attempt) bool {
		return a.Network == "unix" && (errors.Is(a.Err, syscall.ECONNREFUSED) && file.SinceBoot(a.Address) || errors.Is(a.Err, fs.ErrNotExist) && now.Sub(file.TracedSince(a.Address)) < replacedWithin)
	})
}

// wentAway reports whether the daemon went away before it answered a request that it
// may have seen.
func wentAway(err error) bool {
	unanswered, problem := (*unansweredError)(nil), (*api.Problem)(nil)
	return isCut(err) || isUnsent(err) || errors.As(err, &unanswered) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &problem) && (problem.Code == "stopping" || problem.Code == "no_turn") // what older daemons say when they stop
}

// turnedAway reports whether the daemon took no connection, because the user has too many
// open, or all users together have. It has read nothing, and takes one when others end.
func turnedAway(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && problem.Code == "too_many_connections"
}

// isUnsent reports whether the connection ended before anything of the call was sent.
func isUnsent(err error) bool {
	unsent := (*unsentError)(nil)
	return errors.As(err, &unsent)
}

// isCut reports whether the daemon ended while a call was under way.
func isCut(err error) bool {
	cut := (*cutError)(nil)
	return errors.As(err, &cut)
}

// isAway reports whether no daemon listens now. While it is away, somebody else may.
func isAway(err error) bool {
	missing, stranger := (*NoDaemonError)(nil), (*StrangerError)(nil)
	return errors.As(err, &stranger) || errors.As(err, &missing) && !errors.Is(err, fs.ErrPermission)
}
