package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/placement"
	"github.com/berth-gpu/berth/internal/wire"
)

// maxResting is how many goroutines of a stream wait for the next call. One
// that has done a call has the stack for it, and a new one would have to grow
// it first.
const maxResting = 4

// job is a call that is to be done.
type job struct {
	number uint32
	ctx    context.Context
	cancel context.CancelFunc
	do     func(context.Context) (wire.Body, error)
}

// quick is what a frame carries: it can be read the quick way, if it is written
// the usual way.
type quick interface{ Read(data []byte) bool }

// begin reads what a call asks for into asked, and has it done in another
// goroutine. What is wrong with the body is the answer to this call; what is
// wrong with the frame is returned, and ends the stream.
func (st *leaseStream) begin(f wire.Frame, schema *huma.Schema, asked quick, do func(context.Context) (wire.Body, error)) error {
	if f.Number == 0 {
		return badFrame("a call must have a number above 0")
	}
	t := st.queue.enter(st.ctx, light)
	if t == nil {
		return st.ctx.Err()
	}
	wrong := st.bodies.read(f.Body, schema, asked)
	if wrong != nil {
		st.refuse(f.Number, wrong)
	}
	t.leave()
	if wrong != nil {
		return nil
	}
	st.turns.note(st.uid)
	wait := mayWait(asked)
	j := job{number: f.Number, ctx: st.ctx, cancel: func() {}, do: do}
	if wait {
		j.ctx, j.cancel = context.WithCancel(st.ctx)
	}
	st.mu.Lock()
	_, twice := st.calls[j.number]
	full := len(st.calls) >= st.most || st.queue != nil && st.queue.calls.Load() >= mostCalls
	if !twice && !full {
		st.calls[j.number] = j.cancel
		st.count(1)
	}
	st.mu.Unlock()
	switch {
	case twice:
		j.cancel()
		return badFrame("call %d is still under way, and its number is used again", j.number)
	case full:
		j.cancel()
		st.refuse(j.number, problem(http.StatusTooManyRequests, "too_many_calls",
			"Too many calls are under way: %d on one stream are allowed, and %d of one user. Wait for one of them.", st.most, mostCalls))
	case !wait && !st.in.More():
		// Nobody is kept waiting by it for longer than the disk takes, and what
		// comes meanwhile shares the next write to it.
		st.finish(j)
	default:
		st.hand(j)
	}
	return nil
}

// mayWait reports whether a call may wait for its turn.
func mayWait(asked any) bool {
	r, is := asked.(*wire.RequestBody)
	return is && r.Timeout != gpu.Some(0.0)
}

// hand gives a job to a goroutine that rests, or to a new one.
func (st *leaseStream) hand(j job) {
	select {
	case st.jobs <- j:
	default:
		st.working.Go(func() { st.work(j) })
	}
}

// work does one call after the other, as long as there are some.
func (st *leaseStream) work(j job) {
	for more := true; more; {
		st.finish(j)
		select {
		case st.resting <- struct{}{}:
			j, more = <-st.jobs
			<-st.resting
		default:
			return // enough of them rest already
		}
	}
}

// finish does a call and answers it, when it is its user's turn.
func (st *leaseStream) finish(j job) {
	var result wire.Body
	err := error(nil)
	t := st.queue.enter(j.ctx, light)
	if t == nil {
		t, err = free, problemOf(context.Cause(j.ctx)) // to tell it takes no turn
	} else {
		result, err = st.guarded(j, t)
	}
	defer t.leave()
	j.cancel()
	st.mu.Lock()
	delete(st.calls, j.number) // before the answer: from then on the number may be used again
	st.count(-1)
	st.mu.Unlock()
	if err != nil {
		st.refuse(j.number, err)
		return
	}
	st.send(wire.Done, j.number, result)
}

// count keeps the number of calls of the stream's user.
func (st *leaseStream) count(n int64) {
	if st.queue != nil {
		st.queue.calls.Add(n)
	}
}

// guarded keeps a mistake of ours to the one call that met it.
func (st *leaseStream) guarded(j job, t *turn) (result wire.Body, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = st.mistake(cause, "path", wire.Path)
		}
	}()
	if st.queue == nil {
		return j.do(j.ctx)
	}
	return j.do(context.WithValue(j.ctx, turnKey{}, t))
}

// withdraw ends the waiting of a call, which is answered even so. One that has
// been answered already is none of its business.
func (st *leaseStream) withdraw(number uint32) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if cancel := st.calls[number]; cancel != nil {
		cancel()
	}
}

// bodies are what the frames of a stream carry: they are held against the same
// descriptions as the bodies of HTTP requests.
type bodies struct {
	registry                huma.Registry
	acquire, release, renew *huma.Schema
}

func schemaOf[T any](a huma.API) *huma.Schema {
	return a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}

// read reads a body, or says what is wrong with it. What is taken the quick way
// cannot be wrong, except for a policy that does not exist.
func (b *bodies) read(body []byte, schema *huma.Schema, into quick) error {
	if into.Read(body) && knownPolicy(into) {
		return nil
	}
	if len(body) == 0 {
		return wrongBody(http.StatusBadRequest, "request body is required")
	}
	var plain any
	if err := json.Unmarshal(body, &plain); err != nil {
		return wrongBody(http.StatusBadRequest, "validation failed", err)
	}
	var found huma.ValidateResult
	path := huma.NewPathBuffer([]byte("body"), len("body"))
	huma.Validate(b.registry, schema, path, huma.ModeWriteToServer, plain, &found)
	if len(found.Errors) > 0 {
		return wrongBody(http.StatusUnprocessableEntity, "validation failed", found.Errors...)
	}
	reflect.ValueOf(into).Elem().SetZero() // the quick way may have got somewhere
	if err := json.Unmarshal(body, into); err != nil {
		return wrongBody(http.StatusUnprocessableEntity, "validation failed", err)
	}
	return nil
}

// knownPolicy reports whether a body names no policy, or one that exists.
func knownPolicy(asked any) bool {
	r, is := asked.(*wire.RequestBody)
	return !is || r.Policy == "" || slices.Contains(placement.PolicyNames(), r.Policy)
}

// wrongBody is the problem that the same body would be over HTTP.
func wrongBody(status int, detail string, errs ...error) error {
	model := &huma.ErrorModel{Status: status, Detail: detail}
	for _, err := range errs {
		detail := &huma.ErrorDetail{Location: "body", Message: err.Error()}
		errors.As(err, &detail)
		model.Errors = append(model.Errors, detail)
	}
	p, _ := asProblem(nil, "", model)
	return p.(*api.Problem)
}
