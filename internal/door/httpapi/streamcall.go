package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/lease/fair"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// job is a call to run.
type job struct {
	number uint32
	ctx    context.Context
	cancel context.CancelFunc
	do     func(context.Context) (wire.Body, error)
}

// quick is the body of a frame. Read decodes a body in the usual form, and returns
// false for any other.
type quick interface{ Read(data []byte) bool }

// begin decodes the body of a call into asked, and runs the call, usually in another
// goroutine. It answers the call with a problem if the body is wrong. It returns an
// error, which ends the stream, if the frame is wrong.
func (st *leaseStream) begin(f wire.Frame, schema *huma.Schema, asked quick, do func(context.Context) (wire.Body, error)) error {
	if f.Number == 0 {
		return badFrame("a call must have a number above 0")
	}
	if st.queue != nil {
		st.queue.Limit(limitsOf(st.ctx).Calls.Or(0)) // it may have changed since the stream began
	}
	if !st.queue.Pace(st.ctx) {
		return st.ctx.Err()
	}
	t := st.queue.Enter(st.ctx, fair.Light)
	if t == nil {
		return st.ctx.Err()
	}
	wrong := st.bodies.read(f.Body, schema, asked)
	if wrong != nil {
		st.refuse(f.Number, wrong)
	}
	t.Leave()
	if wrong != nil {
		return nil
	}
	st.queues.Note(st.uid)
	wait := mayWait(asked)
	j := job{number: f.Number, ctx: st.ctx, cancel: func() {}, do: do}
	if wait {
		j.ctx, j.cancel = context.WithCancel(st.ctx)
	}
	st.mu.Lock()
	_, twice := st.calls[j.number]
	full := len(st.calls) >= st.most || st.queue != nil && st.queue.Calls.Load() >= mostCalls
	if !twice && !full {
		st.calls[j.number] = j.cancel
		st.count(1)
	}
	st.mu.Unlock()
	switch {
	case twice:
		j.cancel()
		return badFrame("number %d is used twice: the first call is still under way", j.number)
	case full:
		j.cancel()
		st.refuse(j.number, problems.New(http.StatusTooManyRequests, "too_many_calls",
			"Too many calls are under way: at most %d on one stream, and %d of one user. Wait for one of them to end.", st.most, mostCalls))
	case !wait && !st.in.More():
		// The call takes no longer than the disk does. The calls that come meanwhile
		// share the next write to the disk.
		st.finish(j)
	default:
		st.working.Go(func() { st.finish(j) })
	}
	return nil
}

// mayWait reports whether a call may wait for a place.
func mayWait(asked any) bool {
	r, is := asked.(*wire.RequestBody)
	return is && r.Timeout != gpu.Some(0.0)
}

// finish waits for a place of the user, runs a call and answers it.
func (st *leaseStream) finish(j job) {
	var result wire.Body
	err := error(nil)
	t := st.queue.Enter(j.ctx, fair.Light)
	if t == nil {
		t, err = new(fair.Place), problemOf(context.Cause(j.ctx)) // the answer needs no place
	} else {
		result, err = st.guarded(j, t)
	}
	defer t.Leave()
	j.cancel()
	st.mu.Lock()
	delete(st.calls, j.number) // before the answer, after which the caller may use the number again
	st.count(-1)
	st.mu.Unlock()
	if err != nil {
		st.refuse(j.number, err)
		return
	}
	st.send(wire.Done, j.number, result)
}

// count adds n to the number of calls of the user.
func (st *leaseStream) count(n int64) {
	if st.queue != nil {
		st.queue.Calls.Add(n)
	}
}

// guarded runs a call and confines a panic to it.
func (st *leaseStream) guarded(j job, t *fair.Place) (result wire.Body, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = st.mistake(cause, j.ctx, "POST "+wire.Path)
		}
	}()
	if st.queue == nil {
		return j.do(j.ctx)
	}
	return j.do(context.WithValue(j.ctx, placeKey{}, t))
}

// withdraw makes a call stop waiting; finish then answers it. It does nothing for a
// call that is already answered.
func (st *leaseStream) withdraw(number uint32) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if cancel := st.calls[number]; cancel != nil {
		cancel()
	}
}

// bodies decodes the bodies of frames. It validates them against the same schemas
// as the bodies of HTTP requests.
type bodies struct {
	registry                huma.Registry
	acquire, release, renew *huma.Schema
}

func schemaOf[T any](a huma.API) *huma.Schema {
	return a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}

// unlisted returns the schema of a type that no path takes, so that the API
// description does not list it.
func unlisted[T any](a huma.API) *huma.Schema {
	return huma.SchemaFromType(a.OpenAPI().Components.Schemas, reflect.TypeFor[T]())
}

// read decodes a body, or returns the error in it. A body that the quick way accepts is
// valid, except for a policy that does not exist.
func (b *bodies) read(body []byte, schema *huma.Schema, into quick) error {
	if into.Read(body) && knownPolicy(into) {
		return nil
	}
	if len(body) == 0 {
		return b.wrong(schema, http.StatusBadRequest, "request body is required")
	}
	var plain any
	err := bounded(body, maxBody)
	if err == nil {
		err = json.Unmarshal(body, &plain)
	}
	if err != nil {
		return b.wrong(schema, http.StatusBadRequest, "validation failed", err)
	}
	var found huma.ValidateResult
	path := huma.NewPathBuffer([]byte("body"), len("body"))
	huma.Validate(b.registry, schema, path, huma.ModeWriteToServer, plain, &found)
	if len(found.Errors) > 0 {
		return b.wrong(schema, http.StatusUnprocessableEntity, "validation failed", found.Errors...)
	}
	reflect.ValueOf(into).Elem().SetZero() // the quick way may have set some fields
	if err := json.Unmarshal(body, into); err != nil {
		return b.wrong(schema, http.StatusUnprocessableEntity, "validation failed", err)
	}
	return nil
}

// knownPolicy reports whether a body names no policy, or one that exists.
func knownPolicy(asked any) bool {
	r, is := asked.(*wire.RequestBody)
	return !is || r.Policy == "" || slices.Contains(placement.PolicyNames(), r.Policy)
}

// wrong returns the problem that the same body would get over HTTP.
func (b *bodies) wrong(schema *huma.Schema, status int, detail string, errs ...error) error {
	model := &huma.ErrorModel{Status: status, Detail: detail}
	for _, err := range errs {
		detail := &huma.ErrorDetail{Location: "body", Message: err.Error()}
		errors.As(err, &detail)
		model.Errors = append(model.Errors, detail)
	}
	return frameworkProblem(model, taken{body: schema, schemas: b.registry})
}
