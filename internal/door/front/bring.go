package front

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/door/front/route"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when"
)

const (
	// startTimeout is how long a request waits for a service that says nothing about it.
	startTimeout = 10 * time.Minute
	// daemonPatience is how long a request waits for a daemon that does not answer.
	daemonPatience = 30 * time.Second
	// whyPatience is how long the daemon may take to say why a service has not come.
	whyPatience = 2 * time.Second
	// again is the pause before the daemon is asked again.
	again = 200 * time.Millisecond
	// mostBringing is how many questions for services the daemon has until those of further
	// users are one for each service: the front has room for others then, and reports.
	mostBringing = 256
)

// bringing is a question to the daemon for a service, which the requests of one user
// share, or those of all users who are not kept apart. The lock of the table guards waiters.
type bringing struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // valid after done is closed
}

// enter admits a request of a user to a service. If the service is away, it has it
// brought, calls waits, which must not block, and waits.
func (f *Front) enter(ctx context.Context, name, user string, waits func()) (none admission, refused *route.Refusal) {
	t := f.table
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.services[name]
	if s == nil {
		return none, noService(name, nil)
	}
	if most := s.told.MaxOpen; most > 0 && s.open+s.waiting >= most {
		return none, retry(refusal(http.StatusTooManyRequests, "too_many_requests", "The service %s has %d requests open or waiting, which is its max_open. Try again when some have ended.", name, s.open+s.waiting), 1)
	}
	if most, own := s.share(), s.uses.has(user); own >= most {
		return none, retry(refusal(http.StatusTooManyRequests, "too_many_requests", "%s has %d requests of the service %s open or waiting; one user has at most half of its max_open of %d. Try again when some have ended.", user, own, name, s.told.MaxOpen), 1)
	}
	if s.told.Stopped == nil { // nearly always it is there, and nobody needs a timer
		if in, open := s.admit(user); open {
			t.ring(t.wake)
			return in, nil
		}
	}
	waits()
	s.waiting++
	waited := s.uses.wait(user)
	defer func() {
		s.waiting--
		waited()
		t.changed(s)
	}()
	timeout := startTimeout
	if seconds := s.told.Timeout; seconds > 0 && seconds < startTimeout.Seconds()*1000 {
		timeout = time.Duration(seconds * float64(time.Second))
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var silent time.Time // since when the daemon has not answered
	for {
		if t.services[name] != s {
			return none, noService(name, nil)
		}
		if stopped := s.told.Stopped; stopped != nil {
			return none, refusal(http.StatusServiceUnavailable, "stopped", "%s", stopped.Sentence(name))
		}
		if in, open := s.admit(user); open {
			return in, nil
		}
		err := f.await(ctx, s, user)
		switch problem := (*api.Problem)(nil); {
		case ctx.Err() != nil:
			return none, f.late(caller, s, user, timeout)
		case errors.As(err, &problem) && problem.Code != "stopping": // else the next daemon answers
			return none, asRefusal(problem)
		case err == nil:
			silent = time.Time{}
			if s.stay != nil && !s.stay.over {
				continue
			}
		case silent.IsZero():
			silent = time.Now()
		case time.Since(silent) > daemonPatience:
			return none, retry(refusal(http.StatusServiceUnavailable, "no_daemon", "The service %s is away, and the daemon of berth does not answer: %v. Look whether it runs: berth doctor.", name, err), 10)
		}
		t.mu.Unlock()
		when.Pause(ctx, again)
		t.mu.Lock()
	}
}

// share returns how many requests one user may have open or waiting: half of all, so that
// nobody shuts the others out with requests that do not end, unless there are no others.
func (s *service) share() int {
	if s.told.MaxOpen <= 0 || len(s.told.Users) == 1 {
		return math.MaxInt
	}
	return (s.told.MaxOpen + 1) / 2
}

// late says that a service did not come in time, and what the daemon says that it waits
// for. The caller holds the lock of the table, which late gives up while it asks.
func (f *Front) late(ctx context.Context, s *service, user string, waited time.Duration) *route.Refusal {
	name, state := s.counted.Service, s.told.State
	if ctx.Err() == nil {
		f.table.mu.Unlock()
		_, err, _ := f.reasons.Do(name, func() (any, error) { // those who gave up together ask once
			ctx, cancel := context.WithTimeout(context.Background(), whyPatience)
			defer cancel()
			return f.daemon.FrontBring(ctx, api.FrontBring{Front: f.name, Service: name, User: user, Waited: waited.Seconds()})
		})
		f.table.mu.Lock()
		if problem := (*api.Problem)(nil); errors.As(err, &problem) && problem.Code == "start_timeout" {
			return asRefusal(problem)
		}
	}
	return retry(refusal(http.StatusServiceUnavailable, "start_timeout", "The service %s did not come within its start_timeout of %s; it is %s now.", name, words.Duration(waited), state), 10)
}

// await asks the daemon for a service, together with the other requests of the user. The
// caller holds the lock of the table, which await gives up while it waits.
func (f *Front) await(ctx context.Context, s *service, user string) error {
	b := s.bringing[user]
	if b == nil && f.table.bringing >= mostBringing {
		user = "" // all who are not kept apart
		b = s.bringing[user]
	}
	if b == nil {
		f.table.bringing++
		asking, cancel := context.WithCancel(context.Background())
		b = &bringing{cancel: cancel, done: make(chan struct{})}
		s.bringing[user] = b
		go f.bring(asking, s, s.counted.Service, user, b)
	}
	b.waiters++
	f.table.ring(f.table.wake)
	f.table.mu.Unlock()
	select {
	case <-b.done:
	case <-ctx.Done():
	}
	f.table.mu.Lock()
	if b.waiters--; b.waiters == 0 {
		b.cancel() // nobody waits any more, so the daemon need not bring it
		if s.bringing[user] == b {
			delete(s.bringing, user)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.err
}

// bring asks the daemon for a service with a name.
func (f *Front) bring(ctx context.Context, s *service, name, user string, b *bringing) {
	brought, err := f.daemon.FrontBring(ctx, api.FrontBring{Front: f.name, Service: name, User: user})
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	f.table.bringing--
	if s.bringing[user] == b {
		delete(s.bringing, user)
	}
	// The orders may have come first, and say that this stay is over.
	if told := s.told; err == nil && f.table.services[name] == s && (&stay{epoch: brought.Epoch}).follows(told) {
		told.Epoch, told.Port, told.UID = brought.Epoch, brought.Port, brought.UID
		s.enter(told, f.connect)
	}
	b.err = err
	close(b.done)
}

// asRefusal returns the daemon's reason in the front's words.
func asRefusal(p *api.Problem) *route.Refusal {
	r := refusal(p.Status, p.Code, "%s", p.Detail)
	if seconds, ok := p.Extra["retry_after_seconds"].(float64); ok && seconds > 0 && seconds < 1e6 {
		r.Retry = int(math.Ceil(seconds))
	}
	return r
}

// noService says that there is no service of a name, and which the caller could have meant.
func noService(name string, mine []route.Names) *route.Refusal {
	var known []string
	for _, n := range mine {
		known = append(known, n.Service)
	}
	hint := ""
	if near, is := words.Nearest(name, known); is {
		hint = fmt.Sprintf("Did you mean %q? ", near)
	}
	return refusal(http.StatusNotFound, "model_not_found", "There is no service %q here. %s/v1/models lists the models.", name, hint)
}
