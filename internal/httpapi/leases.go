package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/ledger"
	"github.com/berth-gpu/berth/internal/placement"
)

// body is a request body in the form the framework takes.
type body[T any] struct{ Body T }

// named is a path about one lease.
type named struct {
	ID string `path:"id" doc:"Id of the lease." maxLength:"512"`
}

func (s *server) registerLeases() {
	op := func(id, method, path, summary string) huma.Operation {
		o := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"leases"}, MaxBodyBytes: maxBody}
		if id == "allocate" || id == "acquire" || id == "adopt" {
			o.DefaultStatus = http.StatusCreated
		}
		return o
	}
	huma.Register(s.api, op("allocate", http.MethodPost, "/api/gpu/memory/allocate", "Lease memory under an id of your own"), s.allocate)
	huma.Register(s.api, op("deallocate", http.MethodPost, "/api/gpu/memory/deallocate", "End such a lease"), s.deallocate)
	huma.Register(s.api, op("leases", http.MethodGet, "/api/leases", "Who holds what, and who waits"), s.leases)
	huma.Register(s.api, op("acquire", http.MethodPost, "/api/leases", "Ask for slots and memory on one or more devices, and wait for it"), s.acquire)
	huma.Register(s.api, op("lease", http.MethodGet, "/api/leases/{id}", "One lease, or the request of that name that waits"), s.lease)
	huma.Register(s.api, op("release", http.MethodDelete, "/api/leases/{id}", "End a lease, or withdraw a request that waits"), s.release)
	huma.Register(s.api, op("renew", http.MethodPost, "/api/leases/{id}/renew", "Make a lease last for another while"), s.renew)
	huma.Register(s.api, op("bind", http.MethodPost, "/api/leases/{id}/bind", "Hand a lease that is bound to a process to another process"), s.bind)
	huma.Register(s.api, op("explain-waiting", http.MethodGet, "/api/leases/{id}/explain", "What a waiting request waits for"), s.explainWaiting)
	huma.Register(s.api, op("adopt", http.MethodPost, "/api/leases/adopt", "Put a process that already runs under a lease"), s.adopt)
	huma.Register(s.api, op("explain", http.MethodPost, "/api/leases/explain", "What would become of a request, without making it"), s.explain)
	s.describePolicies()
}

// describePolicies says which policies there are, as placement lists them.
func (s *server) describePolicies() {
	policy := s.api.OpenAPI().Components.Schemas.Map()["LeaseRequest"].Properties["policy"]
	for _, name := range placement.PolicyNames() {
		policy.Enum = append(policy.Enum, name)
	}
	policy.PrecomputeMessages()
}

func (s *server) allocate(ctx context.Context, in *body[api.Allocate]) (*answer[api.Lease], error) {
	b := in.Body
	wait := b.Timeout
	if !wait.Known() {
		wait = gpu.Some(0.0)
	}
	return s.grant(ctx, api.LeaseRequest{
		ID: b.ID, Service: b.Service, Memory: b.Memory, Slots: gpu.Some(0), GPU: b.GPU,
		TTL: b.TTL, Timeout: wait, Priority: b.Priority,
	})
}

func (s *server) acquire(ctx context.Context, in *body[api.LeaseRequest]) (*answer[api.Lease], error) {
	granted, err := s.grant(ctx, in.Body)
	return granted, asID(err)
}

func (s *server) grant(ctx context.Context, b api.LeaseRequest) (*answer[api.Lease], error) {
	request, err := s.request(ctx, withID(b))
	if err != nil {
		return nil, err
	}
	granted, err := outOfTurn(ctx, func() (*lease.Lease, error) { return s.Ledger.Acquire(ctx, request) })
	if err != nil {
		return nil, refused(err)
	}
	s.took(b, request)
	if ctx.Err() != nil { // whoever asked left in the very moment: nobody would ever release it
		_, err := s.Ledger.Release(context.WithoutCancel(ctx), granted.ID, granted.Fence, lease.Daemon())
		return nil, errors.Join(ctx.Err(), err)
	}
	if b.Enforce == "" {
		return ok(leaseOf(ledger.Held{Lease: granted}))
	}
	l, err := s.outfit(ctx, granted)
	if err != nil {
		return nil, err
	}
	return ok(l)
}

// withID makes an id up for a request that has none.
func withID(b api.LeaseRequest) api.LeaseRequest {
	if b.ID == "" {
		b.ID = "lease-" + strings.ToLower(rand.Text()[:10])
	}
	return b
}

// request translates what was asked for; who asks comes from the connection.
func (s *server) request(ctx context.Context, b api.LeaseRequest) (lease.Request, error) {
	caller := callerOf(ctx)
	r := lease.Request{ID: b.ID, Holder: caller.Holder, AskedPriority: b.Priority, Administrator: caller.Any}
	r.Holder.Service = b.Service
	if b.Name != "" {
		r.Holder.Name = b.Name
	}
	var errs lease.FieldErrors
	wrong := func(field, detail string) { errs = append(errs, lease.FieldError{Field: field, Detail: detail}) }
	if bad := (lease.FieldError{}); b.Name != "" && errors.As(lease.ValidName(b.Name), &bad) {
		errs = append(errs, bad)
	}
	r.TTL = lease.Seconds(b.TTL.Or(0))
	if wait, given := b.Timeout.Get(); given {
		r.Wait = gpu.Some(lease.Seconds(wait))
	}
	r.Binding = binding(b)
	where, err := gpu.ParseWhere(b.Where)
	if err != nil {
		wrong("where", err.Error())
	}
	if err := placement.CheckPolicy(b.Policy); err != nil {
		wrong("policy", err.Error())
	}
	if b.GPU != "" {
		found, err := s.find(b.GPU)
		if err != nil {
			return r, err
		}
		if !where.Allows(found.Device.UUID, found.Device.Index) {
			wrong("where", fmt.Sprintf("asks for %s, and gpu for %s: no device is both", where.GPU, found.Device.UUID))
		}
		where.GPU = found.Device.UUID
	}
	if errs != nil {
		return r, wrongFields(errs)
	}
	r.Note = s.learn(&b, r.Holder)
	r.GPUs, r.Memory, r.Slots, r.Where, r.Policy = b.GPUs, b.Memory, b.Slots.Or(1), where, b.Policy
	if b.PID != 0 {
		pid, err := pidOf(ctx, b.PID)
		if err != nil {
			return r, err
		}
		if r.Holder, err = s.Ledger.HolderOf(pid, caller, r.Holder); err != nil {
			return r, refused(err)
		}
	}
	r.EnforcedBy, err = s.rung(b, r.Binding == lease.ByProcess)
	return r, err
}

// binding is what ends the lease, if the request does not say.
func binding(b api.LeaseRequest) lease.Binding {
	switch {
	case b.Binding != "":
		return lease.Binding(b.Binding)
	case b.TTL.Known():
		return lease.ByTTL
	case b.PID != 0:
		return lease.ByProcess
	}
	return lease.ByName
}

func (s *server) deallocate(ctx context.Context, in *body[api.Deallocate]) (*answer[api.Ended], error) {
	return s.endLease(ctx, in.Body.ID, 0)
}

// The id is named again here and below: the framework does not fill in fields
// of an embedded type that is not exported.
type releaseQuery struct {
	ID    string `path:"id" doc:"Id of the lease." maxLength:"512"`
	Fence uint64 `query:"fence" doc:"Only if the lease still has this fence."`
}

func (s *server) release(ctx context.Context, in *releaseQuery) (*answer[api.Ended], error) {
	return s.endLease(ctx, in.ID, in.Fence)
}

func (s *server) endLease(ctx context.Context, id string, fence uint64) (*answer[api.Ended], error) {
	ended, err := outOfTurn(ctx, func() (*lease.Lease, error) { return s.Ledger.Release(ctx, id, fence, callerOf(ctx)) })
	if err != nil {
		return nil, refused(err)
	}
	result := api.Ended{ID: id}
	if ended != nil {
		held := leaseOf(ledger.Held{Lease: ended})
		held.State = "released"
		result.Lease = &held
	}
	return ok(result)
}

type renewQuery struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	Body api.Renew
}

func (s *server) renew(ctx context.Context, in *renewQuery) (*answer[api.Lease], error) {
	return s.extend(ctx, in.ID, in.Body)
}

func (s *server) extend(ctx context.Context, id string, b api.Renew) (*answer[api.Lease], error) {
	ttl := lease.Seconds(b.TTL.Or(0))
	if bad := (lease.FieldError{}); b.TTL.Known() && errors.As(lease.ValidTTL(ttl), &bad) {
		return nil, wrongFields(lease.FieldErrors{bad})
	}
	renewed, err := outOfTurn(ctx, func() (*lease.Lease, error) { return s.Ledger.Renew(ctx, id, b.Fence, ttl, callerOf(ctx)) })
	if err != nil {
		return nil, refused(err)
	}
	return ok(leaseOf(ledger.Held{Lease: renewed}))
}

type bindQuery struct {
	ID   string `path:"id" doc:"Id of the lease." maxLength:"512"`
	Body api.Bind
}

func (s *server) bind(ctx context.Context, in *bindQuery) (*answer[api.Lease], error) {
	pid, err := pidOf(ctx, in.Body.PID)
	if err != nil {
		return nil, err
	}
	bound, err := outOfTurn(ctx, func() (*lease.Lease, error) {
		return s.Ledger.Bind(ctx, in.ID, in.Body.Fence, pid, callerOf(ctx))
	})
	if err != nil {
		return nil, refused(err)
	}
	return ok(leaseOf(ledger.Held{Lease: bound}))
}

func (s *server) leases(ctx context.Context, _ *struct{}) (*answer[api.Leases], error) {
	view, sight := s.Ledger.View(), sightOf(ctx)
	all := api.Leases{Leases: []api.Lease{}, Waiting: []api.Waiting{}}
	for _, held := range view.Leases {
		all.Leases = append(all.Leases, sight.lease(held))
	}
	for i, r := range view.Waiting {
		all.Waiting = append(all.Waiting, sight.waiting(r, i+1))
	}
	return ok(all)
}

func (s *server) lease(ctx context.Context, in *named) (*answer[api.Lease], error) {
	sight := sightOf(ctx)
	held, found := s.Ledger.Find(in.ID)
	if !found {
		if r, position, waits := s.Ledger.FindWaiting(in.ID); waits {
			return ok(asked(r, sight.waiting(r, position)))
		}
		held, found = s.Ledger.Find(in.ID) // it may have been granted between the two looks
	}
	if !found {
		return nil, refused(lease.ErrUnknown)
	}
	return ok(sight.lease(held))
}

// asked is a request in the queue in the form of a lease.
func asked(r *lease.Request, w api.Waiting) api.Lease {
	l := api.Lease{
		ID: r.ID, State: "waiting", Holder: w.Holder, Binding: string(r.Binding), TTL: r.TTL.Seconds(),
		Parts: []api.LeasePart{}, Priority: r.Priority, EnforcedBy: "none", Waiting: &w,
	}
	if w.Holder == holderOf(r.Holder) { // the caller sees it whole
		l.Note = r.Note
	}
	return l
}

// waitingOf is a request in the queue as it travels.
func waitingOf(r *lease.Request, position int) api.Waiting {
	return api.Waiting{
		ID: r.ID, Position: position, Since: r.Requested, Deadline: &r.Deadline, Holder: holderOf(r.Holder),
		GPUs: r.GPUs, Memory: r.Memory, Slots: r.Slots, Priority: r.Priority,
	}
}

func (s *server) adopt(ctx context.Context, in *body[api.Adopt]) (*answer[api.Lease], error) {
	b := in.Body
	if b.ID == "" {
		b.ID = "adopted-" + strings.ToLower(rand.Text()[:10])
	}
	uuid := ""
	if b.GPU != "" {
		found, err := s.find(b.GPU)
		if err != nil {
			return nil, err
		}
		uuid = found.Device.UUID
	}
	if bad := (lease.FieldError{}); b.Service != "" && errors.As(lease.ValidService(b.Service), &bad) {
		return nil, wrongFields(lease.FieldErrors{bad})
	}
	pid, err := pidOf(ctx, b.PID)
	if err != nil {
		return nil, err
	}
	holder, err := s.Ledger.HolderOf(pid, callerOf(ctx), lease.Holder{Service: b.Service})
	if err != nil {
		return nil, refused(err)
	}
	adopted, err := outOfTurn(ctx, func() (*lease.Lease, error) {
		return s.Ledger.Adopt(ctx, ledger.Adoption{ID: b.ID, Holder: holder, GPU: uuid, Memory: b.Memory, By: callerOf(ctx)})
	})
	if err != nil {
		return nil, asID(refused(err))
	}
	return ok(leaseOf(ledger.Held{Lease: adopted}))
}

// leaseOf is a lease as it travels.
func leaseOf(h ledger.Held) api.Lease {
	l := api.Lease{
		ID: h.ID, Fence: h.Fence, State: string(h.State), Holder: holderOf(h.Holder), Binding: string(h.Binding),
		Granted: h.Granted, TTL: h.TTL.Seconds(), Parts: make([]api.LeasePart, len(h.Parts)),
		Priority: h.Priority, EnforcedBy: h.EnforcedBy, Note: h.Note, Heir: h.KeptBy,
	}
	if !h.Expires.IsZero() {
		l.Expires = &h.Expires
	}
	for i, p := range h.Parts {
		l.Parts[i] = api.LeasePart{GPU: p.GPU, Memory: p.Memory, Slots: p.Slots}
		if h.Measured != nil {
			l.Parts[i].Measured = h.Measured[i]
		}
	}
	return l
}

func holderOf(h lease.Holder) api.Holder {
	out := api.Holder{Service: h.Service, Name: h.Name, User: h.User, PID: h.PID}
	if h.UID != lease.NoUID {
		out.UID = gpu.Some(h.UID)
	}
	return out
}
