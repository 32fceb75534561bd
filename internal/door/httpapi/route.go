package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/lease"
)

// maxBody is the largest request body, in bytes: far more than a request needs.
const maxBody = 1 << 20

// on describes a route, given as "METHOD /path". Who may use it stands in verbs.
func on(pattern, tag, id, summary, description string, errors ...int) huma.Operation {
	method, path, _ := strings.Cut(pattern, " ")
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Tags: []string{tag}, Summary: summary, Description: description, Errors: errors, MaxBodyBytes: maxBody,
	}
}

// creating returns the description of a route that makes something.
func creating(op huma.Operation) huma.Operation {
	op.DefaultStatus = http.StatusCreated
	return op
}

// answer is a response body in the form that the framework takes.
type answer[T any] struct{ Body T }

func ok[T any](body T) (*answer[T], error) { return &answer[T]{Body: body}, nil }

// body is a request body in the form that the framework takes.
type body[T any] struct{ Body T }

// ofLease has the parameters of a route about one lease, and a body.
type ofLease[T any] struct {
	Named
	Body T
}

// Named has the parameters of a route about one lease: its id and its user. It is exported
// because the framework fills in the fields of no other embedded type.
type Named struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User string `query:"user" doc:"Whose lease it is: login name, uid, token:NAME or cert:NAME. Default: the caller's own, else the only one with this id." maxLength:"256"`
}

func (n *Named) name() lease.Name { return lease.Name{User: n.User, ID: n.ID} }

// serve serves a route. An error becomes the problem that it means.
func serve[In, Out any](s *server, op huma.Operation, do func(context.Context, *In) (*Out, error)) {
	huma.Register(s.api, op, func(ctx context.Context, in *In) (*Out, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, problemOf(err)
		}
		return out, nil
	})
}

// request serves a route by which a caller asks the desk for something.
func request[B, T any](s *server, op huma.Operation, do func(context.Context, desk.Caller, B) (T, error)) {
	serve(s, op, func(ctx context.Context, in *body[B]) (*answer[T], error) {
		out, err := do(ctx, askerOf(ctx), in.Body)
		return &answer[T]{out}, err
	})
}

// change serves a route by which a caller asks the desk to change a lease.
func change[B, T any](s *server, op huma.Operation, do func(context.Context, desk.Caller, lease.Name, B) (T, error)) {
	serve(s, op, func(ctx context.Context, in *ofLease[B]) (*answer[T], error) {
		out, err := do(ctx, askerOf(ctx), in.name(), in.Body)
		return &answer[T]{out}, err
	})
}

// changeWith serves a route as change does, for requests that may lack a body.
func changeWith[B, T any](s *server, op huma.Operation, do func(context.Context, desk.Caller, lease.Name, B) (T, error)) {
	change(s, op, func(ctx context.Context, by desk.Caller, name lease.Name, b *B) (T, error) {
		return do(ctx, by, name, given(b))
	})
}

// given returns the body of a request, or an empty one if the request has none.
func given[T any](body *T) (empty T) {
	if body == nil {
		return empty
	}
	return *body
}
