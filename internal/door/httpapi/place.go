package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/packed"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/lease/fair"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// The most that one user may have under way at a time, except for administrators, so
// that a user who asks without end slows down nobody else.
const (
	// mostCalls limits the calls of lease streams, including waiting ones.
	mostCalls = 2048
	// smallBody is the largest body of a light request. The daemon reads larger
	// bodies one after the other, so that they do not fill the memory.
	smallBody = 64 << 10
)

// withoutPlace reports whether a request on a route takes no place: a stream takes
// places itself, a try to sign in that fails must delay nobody else, and a probe or a file of
// the page is less work than taking one. The requests of the front are those of all who
// call it, and some of them wait for long; who is not the front has no right to that.
func (s *server) withoutPlace(pattern string, r *http.Request) bool {
	switch pattern {
	case "GET /healthz", "GET /readyz", "GET /", "GET /favicon.svg", "GET /assets/{file}", "GET /help/{page}", "GET /help/pictures/{file}", "POST /api/session", "GET /api/events", "POST /api/leases/stream":
		return true
	case "GET /api/front/orders", "POST /api/front/reports", "POST /api/front/bring", "POST /api/front/caller":
		return s.Desk.Services.FrontCalled(askerOf(r.Context())) == nil
	}
	return false
}

// weightOf returns the weight of a request on a route.
func weightOf(pattern string, r *http.Request) fair.Weight {
	switch pattern {
	case "POST /api/optimize", "GET /api/leases", "GET /api/jobs", "GET /api/energy", "GET /api/measurements", "GET /api/orphans", "GET /api/past/leases", "GET /api/audit", "GET /api/batches", "GET /api/gpu/metrics/history", "GET /api/report", "GET /api/users",
		"GET /metrics", "POST /api/plans", "POST /api/plans/run", "POST /api/backup":
		return fair.Heavy
	}
	if strings.HasPrefix(pattern, "GET /api/gpu/status") && r.URL.Query().Get("leases") == "true" {
		return fair.Heavy // the answer lists the leases
	}
	if strings.Contains(pattern, " /api/v1/") {
		return fair.Query
	}
	if r.ContentLength > smallBody || r.ContentLength < 0 {
		return fair.Heavy
	}
	return fair.Light
}

// placeKey is the context key of the place of a request.
type placeKey struct{}

// inPlace waits for a place of the user and serves the request. The body of a light request
// comes before it takes a place, so that a slow client keeps nobody waiting.
func (s *server) inPlace(w http.ResponseWriter, r *http.Request, pattern string, who access.Actor) {
	if r.ContentLength != 0 {
		r.Body = wholeBody{r.Body}
	}
	r = noteAgent(r)
	weight := weightOf(pattern, r)
	if weight == fair.Light {
		if !arrived(r) {
			problems.Write(w, problems.New(http.StatusRequestTimeout, "request_timeout", bodyMissing))
			return
		}
		w = settled{w}
	}
	if exceeds(who) || s.withoutPlace(pattern, r) {
		s.queues.Note(fair.UserOf(who))
		s.answer(w, r, pattern)
		return
	}
	q, leave := s.queues.Join(fair.UserOf(who), limitsOf(r.Context()).Calls.Or(0))
	defer leave()
	if !q.Pace(r.Context()) {
		problems.Write(w, noPlace(r.Context()))
		return
	}
	t := enter(r.Context(), q, weight)
	if t == nil {
		problems.Write(w, noPlace(r.Context()))
		return
	}
	defer t.Leave()
	s.answer(w, r.WithContext(context.WithValue(r.Context(), placeKey{}, t)), pattern)
}

// answer serves a request on a route.
func (s *server) answer(w http.ResponseWriter, r *http.Request, pattern string) {
	if pattern != "GET /api/gpu/status/all" && pattern != "GET /openapi.json" {
		s.mux.ServeHTTP(w, r)
		return
	}
	answer := packed.New(w, r) // the page asks for the one every second, and the other is large
	s.mux.ServeHTTP(answer, r)
	answer.Close()
}

// paced waits until the rate of a caller admits a request that is not served. It answers,
// and returns false, if the caller leaves meanwhile or the daemon stops.
func (s *server) paced(w http.ResponseWriter, r *http.Request, who access.Actor) bool {
	if exceeds(who) {
		return true
	}
	q, leave := s.queues.Join(fair.UserOf(who), limitsOf(r.Context()).Calls.Or(0))
	defer leave()
	if !q.Pace(r.Context()) {
		problems.Write(w, noPlace(r.Context()))
		return false
	}
	return true
}

// queryWait is how long a query waits for a place of its user.
const queryWait = 10 * time.Second

// enter waits for a place. A query gives up if other requests of its user take too long.
func enter(ctx context.Context, q *fair.Queue, w fair.Weight) *fair.Place {
	if w == fair.Query {
		limited, cancel := context.WithTimeout(ctx, queryWait)
		defer cancel()
		ctx = limited
	}
	return q.Enter(ctx, w)
}

// noPlace is the answer to a request that got no place in time: the daemon is about to
// stop, other requests of the user take too long, or the caller has left, and nobody reads
// the answer.
func noPlace(ctx context.Context) *api.Problem {
	if cause := context.Cause(ctx); errors.Is(cause, ledger.ErrStopped) {
		return problemOf(cause)
	}
	return problems.New(http.StatusTooManyRequests, "no_turn", "Other requests of yours are under way, and this one had no turn in time. Nothing was changed: send it again, with fewer at a time.")
}

// arrived reads a body whose length is known. It returns false if the body does not arrive
// whole.
func arrived(r *http.Request) bool {
	if r.ContentLength == 0 {
		return true
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// settled answers a request whose body has arrived. The framework gives each body five
// seconds by a deadline on the connection. After the body, the server reads the
// connection to learn that the caller has left, and would mistake the deadline for
// that.
type settled struct{ http.ResponseWriter }

// SetReadDeadline does nothing: there is nothing left to read.
func (settled) SetReadDeadline(time.Time) error { return nil }

// Unwrap returns the writer, for http.ResponseController.
func (s settled) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// wholeBody is a body whose errors are those of the caller. The framework would answer
// a truncated body with 500, and only a late one with 408.
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
	return problems.New(http.StatusTooManyRequests, "too_many_streams", "You have %d event streams open, which is your limit (%s). Close one first.", l.Streams.Or(0), l.Streams.Source)
}
