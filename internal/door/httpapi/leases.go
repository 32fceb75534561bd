package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// body is a request body in the form that the framework takes.
type body[T any] struct{ Body T }

// named has the parameters of a route about one lease: its id and its user.
type named struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User string `query:"user" doc:"Whose lease it is: login name, uid, token:NAME or cert:NAME. Default: the caller's own, else the only one with this id." maxLength:"256"`
}

func (n *named) name() lease.Name { return lease.Name{User: n.User, ID: n.ID} }

func registerLeases(s *server) {
	op := func(id, method, path, summary string) huma.Operation {
		o := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"leases"}, MaxBodyBytes: maxBody}
		if id == "allocate" || id == "acquire" || id == "adopt" {
			o.DefaultStatus = http.StatusCreated
		}
		if id != "leases" { // every other one names a lease or a device
			o.Errors = []int{http.StatusNotFound, http.StatusConflict}
		}
		return o
	}
	huma.Register(s.api, op("allocate", http.MethodPost, "/api/gpu/memory/allocate", "Lease memory under an id of your own"), s.allocate)
	huma.Register(s.api, op("deallocate", http.MethodPost, "/api/gpu/memory/deallocate", "End a lease, or withdraw a waiting request"), s.deallocate)
	huma.Register(s.api, op("leases", http.MethodGet, "/api/leases", "All leases and all waiting requests"), s.leases)
	huma.Register(s.api, op("acquire", http.MethodPost, "/api/leases", "Ask for slots and memory on one or more devices, and wait for them"), s.acquire)
	huma.Register(s.api, op("lease", http.MethodGet, "/api/leases/{id}", "One lease, or the waiting request with that id"), s.lease)
	huma.Register(s.api, op("release", http.MethodDelete, "/api/leases/{id}", "End a lease, or withdraw a waiting request"), s.release)
	huma.Register(s.api, op("renew", http.MethodPost, "/api/leases/{id}/renew", "Extend a lease that has a time to live"), s.renew)
	huma.Register(s.api, op("bind", http.MethodPost, "/api/leases/{id}/bind", "Bind a lease of one process to another process"), s.bind)
	huma.Register(s.api, op("rescope", http.MethodPost, "/api/leases/{id}/scope", "Change which control groups the processes of a lease are told by"), s.rescope)
	huma.Register(s.api, op("resize", http.MethodPost, "/api/leases/{id}/resize", "Give a lease another amount of memory"), s.resize)
	huma.Register(s.api, op("explain-waiting", http.MethodGet, "/api/leases/{id}/explain", "What a waiting request waits for"), s.explainWaiting)
	huma.Register(s.api, op("adopt", http.MethodPost, "/api/leases/adopt", "Put a process that already runs under a lease"), s.adopt)
	huma.Register(s.api, op("explain", http.MethodPost, "/api/leases/explain", "Say whether a request would be granted and what is in its way, without making it"), s.explain)
	limitNames(s.api.OpenAPI(), lease.MaxIDLength)
	answerStanding(s.api.OpenAPI(), "POST /api/gpu/memory/allocate", "POST /api/leases")
	listPolicies(s.api.OpenAPI(), placement.PolicyNames())
}

func (s *server) allocate(ctx context.Context, in *body[api.Allocate]) (*allocated, error) {
	granted, err := s.Desk.Allocate(ctx, askerOf(ctx), in.Body)
	if err != nil {
		return nil, problemOf(err)
	}
	s.index(granted.Parts)
	return allocatedOf(granted), nil
}

// allocated is a lease that was granted, or that existed already.
type allocated struct {
	Status int
	Body   api.Lease
}

func allocatedOf(l api.Lease) *allocated {
	if l.Stood {
		return &allocated{http.StatusOK, l}
	}
	return &allocated{http.StatusCreated, l}
}

func (s *server) acquire(ctx context.Context, in *body[api.LeaseRequest]) (*allocated, error) {
	granted, err := s.Desk.Acquire(ctx, askerOf(ctx), in.Body)
	if err != nil {
		return nil, problemOf(asID(err))
	}
	return allocatedOf(granted), nil
}

func (s *server) deallocate(ctx context.Context, in *body[api.Deallocate]) (*answer[api.Ended], error) {
	return answered(s.Desk.Release(ctx, askerOf(ctx), lease.Name{User: in.Body.User, ID: in.Body.ID}, 0))
}

// The types here and below repeat ID and User: the framework does not fill in the
// fields of an embedded type that is not exported.
type releaseQuery struct {
	ID    string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User  string `query:"user" doc:"Whose lease it is. Default: the caller's own, else the only one with this id." maxLength:"256"`
	Fence uint64 `query:"fence" doc:"Only if the lease still has this fence."`
}

func (s *server) release(ctx context.Context, in *releaseQuery) (*answer[api.Ended], error) {
	return answered(s.Desk.Release(ctx, askerOf(ctx), lease.Name{User: in.User, ID: in.ID}, in.Fence))
}

type renewQuery struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User string `query:"user" doc:"Whose lease it is. Default: the caller's own, else the only one with this id." maxLength:"256"`
	Body api.Renew
}

func (s *server) renew(ctx context.Context, in *renewQuery) (*answer[api.Lease], error) {
	return answered(s.Desk.Renew(ctx, askerOf(ctx), lease.Name{User: in.User, ID: in.ID}, in.Body))
}

type resizeQuery struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User string `query:"user" doc:"Whose lease it is. Default: the caller's own, else the only one with this id." maxLength:"256"`
	Body api.Resize
}

func (s *server) resize(ctx context.Context, in *resizeQuery) (*answer[api.Lease], error) {
	return answered(s.Desk.Resize(ctx, askerOf(ctx), lease.Name{User: in.User, ID: in.ID}, in.Body))
}

type bindQuery struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User string `query:"user" doc:"Whose lease it is. Default: the caller's own, else the only one with this id." maxLength:"256"`
	Body api.Bind
}

func (s *server) bind(ctx context.Context, in *bindQuery) (*answer[api.Lease], error) {
	return answered(s.Desk.Bind(ctx, askerOf(ctx), lease.Name{User: in.User, ID: in.ID}, in.Body))
}

type rescopeQuery struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	User string `query:"user" doc:"Whose lease it is. Default: the caller's own, else the only one with this id." maxLength:"256"`
	Body api.Rescope
}

func (s *server) rescope(ctx context.Context, in *rescopeQuery) (*answer[api.Lease], error) {
	return answered(s.Desk.Rescope(ctx, askerOf(ctx), lease.Name{User: in.User, ID: in.ID}, in.Body))
}

type leasesQuery struct{ Page }

func (s *server) leases(ctx context.Context, in *leasesQuery) (*listed[api.Leases], error) {
	var after placement.Mark
	if _, err := in.resume(leasesList, &after); err != nil {
		return nil, err
	}
	page, sight := s.Ledger.Page(after, in.most()), sightOf(ctx)
	all := api.Leases{Leases: []api.Lease{}, Waiting: []api.Waiting{}}
	belonging := s.Ledger.Belonging()
	for _, held := range page.Leases {
		l := sight.lease(held, belonging[held.Fence])
		s.Desk.Complete(&l, held, sight.owns(held.Holder))
		all.Leases = append(all.Leases, l)
	}
	for _, w := range page.Waiting {
		all.Waiting = append(all.Waiting, sight.waiting(w.Request, w.Position))
	}
	if page.More {
		all.More = in.more(leasesList, page.Last)
	}
	return answerPage(&in.Page, all.More, all)
}

type leaseQuery struct {
	ID     string   `path:"id" doc:"Id of the lease." maxLength:"512"`
	User   string   `query:"user" doc:"Whose lease it is: login name, uid, token:NAME or cert:NAME. Default: the caller's own, else the only one with this id." maxLength:"256"`
	Launch bool     `query:"launch" doc:"Add launch, with the environment of a program under the lease. For the user of the lease and operators."`
	Caps   []string `query:"caps" doc:"The libraries that launch.environment limits, if enforced_by is framework. Default: all that the daemon knows." enum:"cupy,jax,torch"`
}

func (s *server) lease(ctx context.Context, in *leaseQuery) (*answer[api.Lease], error) {
	sight := sightOf(ctx)
	k, err := s.Desk.Seek(sight.Actor, lease.Name{User: in.User, ID: in.ID})
	if err != nil {
		return nil, problemOf(err)
	}
	held, found := s.Ledger.Find(k)
	if !found {
		if r, position, waits := s.Ledger.FindWaiting(k); waits {
			return ok(desk.Asked(r, sight.waiting(r, position)))
		}
		held, found = s.Ledger.Find(k) // it may have been granted between the two calls
	}
	if !found {
		return nil, problemOf(lease.ErrUnknown)
	}
	l := sight.lease(held, s.Ledger.Belonging()[held.Fence])
	s.Desk.Complete(&l, held, sight.owns(held.Holder))
	s.Desk.TraceDescent(&l)
	if in.Launch {
		if err := s.Desk.AddLaunch(ctx, sight.Actor, &l, held, in.Caps); err != nil {
			return nil, problemOf(err)
		}
	}
	if r, position, waits := s.Ledger.FindWaiting(k); waits { // to return, or to be larger
		w := sight.waiting(r, position)
		l.Waiting = &w
	}
	return ok(l)
}

func (s *server) adopt(ctx context.Context, in *body[api.Adopt]) (*answer[api.Lease], error) {
	adopted, err := s.Desk.Adopt(ctx, askerOf(ctx), in.Body)
	return answered(adopted, asID(err))
}
