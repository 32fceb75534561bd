package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

func registerLeases(s *server) {
	const missing, conflict, down = http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable // every route but the first names a lease or a device
	on := func(pattern, id, summary, description string, errors ...int) huma.Operation {
		return on(pattern, "leases", id, summary, description, errors...)
	}
	serve(s, on("GET /api/leases", "leases", "All leases and all waiting requests", ""), s.leases)
	serve(s, creating(on("POST /api/gpu/memory/allocate", "allocate", "Lease memory under an id of your own", "", missing, conflict)), s.allocate)
	serve(s, creating(on("POST /api/leases", "acquire", "Ask for slots and memory on one or more devices, and wait for them", "", missing, conflict)), s.acquire)
	request(s, creating(on("POST /api/leases/adopt", "adopt", "Put a process that already runs under a lease", "", missing, conflict)), func(ctx context.Context, by desk.Caller, b api.Adopt) (api.Lease, error) {
		adopted, err := s.Desk.Leases.Adopt(ctx, by, b)
		return adopted, asID(err)
	})
	serve(s, on("POST /api/leases/id", "new-id", "Make an id for a lease: a name, and a number that is given out once",
		"For a program that has to know the id of its request while that waits. The id is not reserved: ask for a lease with it."), s.newID)
	serve(s, on("POST /api/leases/explain", "explain", "Say whether a request would be granted and what is in its way, without making it", "", missing, conflict), s.explain)
	serve(s, on("GET /api/leases/{id}", "lease", "One lease, or the waiting request with that id", "", missing, conflict), s.lease)
	serve(s, on("GET /api/leases/{id}/explain", "explain-waiting", "What a waiting request waits for", "", missing, conflict), s.explainWaiting)
	serve(s, on("DELETE /api/leases/{id}", "release", "End a lease, or withdraw a waiting request", "", missing, conflict), s.release)
	request(s, on("POST /api/gpu/memory/deallocate", "deallocate", "End a lease, or withdraw a waiting request", "", missing, conflict), func(ctx context.Context, by desk.Caller, b api.Deallocate) (api.Ended, error) {
		return s.Desk.Leases.Release(ctx, by, lease.Name{User: b.User, ID: b.ID}, 0, true)
	})
	changeWith(s, on("POST /api/leases/{id}/cancel", "cancel-lease", "End the programs of a lease, and the lease with them",
		"The processes of the lease get SIGTERM, and after deallocation_timeout SIGKILL; those of a parked lease get SIGKILL at once. Then the lease ends. The answer comes when the daemon has written that down, and a restart of the daemon changes nothing about it. "+
			"For the user of the lease and operators. What a user asks for reaches only processes that this user could signal; the event names the others. A request that waits is withdrawn. A lease of a batch means the runner of the batch.", missing, conflict), s.Desk.Leases.Cancel)
	change(s, on("POST /api/leases/{id}/renew", "renew", "Extend a lease that has a time to live", "", missing, conflict), s.Desk.Leases.Renew)
	change(s, on("POST /api/leases/{id}/bind", "bind", "Bind a lease of one process to another process", "", missing, conflict), s.Desk.Leases.Bind)
	change(s, on("POST /api/leases/{id}/scope", "rescope", "Change which control groups the processes of a lease are told by", "", missing, conflict), s.Desk.Leases.Rescope)
	change(s, on("POST /api/leases/{id}/resize", "resize", "Give a lease another amount of memory", "", missing, conflict), s.Desk.Leases.Resize)
	serve(s, on("POST /api/leases/{id}/trim", "trim", "Ask the holder of a lease to free the memory that its libraries cache",
		"The daemon sends the holder an event with the code reclaim. Programs that use the Python package with trim_on_request then free the "+
			"caches of PyTorch and CuPy; other programs may ignore it. The measured memory of the lease shows the result.", missing, conflict), s.trim)
	change(s, on("POST /api/leases/{id}/libraries", "report-libraries", "Say what the libraries of a program hold",
		"For programs of the user of the lease. Each process speaks for itself; the lease shows their sum until they end. Nothing is decided by it: what counts is measured.", missing, conflict), s.Desk.Leases.Libraries)
	change(s, on("POST /api/leases/{id}/pace", "pace", "Hold a lease to a share of its devices",
		"berth stops and continues the processes of the lease in short cycles, so that it gets this share of what it would get otherwise. The share survives "+
			"a restart of the daemon. 1 ends it. An owner cannot undo what an operator set; the least share counts.", missing, conflict), func(_ context.Context, by desk.Caller, name lease.Name, b api.Pace) (api.Lease, error) {
		return s.Desk.Leases.Pace(by, name, b)
	})
	changeWith(s, on("POST /api/leases/{id}/park", "park", "Move the memory of a lease to the memory of the machine",
		"The driver moves the memory of all processes of the lease, without their help; they wait in their next call to it. The answer comes when the memory has moved: after seconds, or a minute for a full card. "+
			"All processes of the lease are parked, or none. A parked lease holds neither memory nor slots on its device, and stays parked until it is resumed. A caller who disconnects does not stop it.",
		missing, conflict, down), s.Desk.Leases.Park)
	changeWith(s, on("POST /api/leases/{id}/resume", "resume", "Move the memory of a parked lease back to its device",
		"The lease waits for room like any request, as long as timeout_seconds says. The answer comes when the memory has moved and its programs run. A caller who disconnects while it waits leaves it parked.",
		missing, conflict, down), s.Desk.Leases.Resume)
	changeWith(s, on("POST /api/leases/{id}/wake", "wake", "Resume a lease because its program needs it",
		"For the program that holds the lease: a parked lease is resumed at its turn, however long that takes, and nothing happens to one that is not parked. The answer comes when the lease is active.",
		missing, conflict, down), s.Desk.Leases.Wake)
	serve(s, on("POST /api/optimize", "optimize", "Get memory back",
		"Tries one way after the other on the leases that the caller may change: ends what the dead hold, names orphans, asks programs to free caches, shrinks leases that use less than they asked for, parks idle ones, and proposes moves. "+
			"Every amount is measured. The answer comes when that is done; events with the code optimized say meanwhile how far it is.",
		missing, conflict, down), s.optimize)
	limitNames(s.api.OpenAPI(), lease.MaxIDLength)
	answerStanding(s.api.OpenAPI(), "POST /api/gpu/memory/allocate", "POST /api/leases")
	listPolicies(s.api.OpenAPI(), placement.PolicyNames())
}

// asking is the body of a request that may wait, and whether it was made before.
type asking[T any] struct {
	Repeated bool `query:"repeated" doc:"You asked for this before, and no answer came, because the daemon went away. If it was granted then, the answer is that lease. If it waited, it has its place in the queue again, for 10 s after the daemon started."`
	Body     T
}

// by returns who asks.
func (a *asking[T]) by(ctx context.Context) desk.Caller {
	by := askerOf(ctx)
	by.Repeated = a.Repeated
	return by
}

type newIDQuery struct {
	Repeated bool `query:"repeated" doc:"Your process asked for a lease with this name before, and no answer came, because the daemon went away. If it was granted then, the answer is its id."`
	Body     api.NewID
}

func (s *server) newID(ctx context.Context, in *newIDQuery) (*answer[api.MadeID], error) {
	by := askerOf(ctx)
	by.Repeated = in.Repeated
	made, err := s.Desk.Leases.NewID(ctx, by, in.Body)
	return &answer[api.MadeID]{made}, err
}

func (s *server) allocate(ctx context.Context, in *asking[api.Allocate]) (*allocated, error) {
	granted, err := s.Desk.Leases.Allocate(ctx, in.by(ctx), in.Body)
	if err != nil {
		return nil, err
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

func (s *server) acquire(ctx context.Context, in *asking[api.LeaseRequest]) (*allocated, error) {
	granted, err := s.Desk.Leases.Acquire(ctx, in.by(ctx), in.Body)
	if err != nil {
		return nil, asID(err)
	}
	return allocatedOf(granted), nil
}

type releaseQuery struct {
	Named
	Fence uint64 `query:"fence" doc:"Only if the lease still has this fence."`

	KeepRunning bool `query:"keep_running" doc:"The program of the lease may go on without it. Otherwise, without a fence, the release of a lease that is bound to a process is refused while that process lives, unless it, one of its ancestors or one of its descendants asks."`
	Waiting     bool `query:"waiting" doc:"Only withdraw a request that waits, also one that waits to change a lease. No lease ends: if nothing waits any more, that is refused with wrong_state."`
}

func (s *server) release(ctx context.Context, in *releaseQuery) (*answer[api.Ended], error) {
	if in.Waiting {
		ended, err := s.Desk.Leases.Withdraw(ctx, askerOf(ctx), in.name(), in.Fence)
		return &answer[api.Ended]{ended}, err
	}
	ended, err := s.Desk.Leases.Release(ctx, askerOf(ctx), in.name(), in.Fence, in.KeepRunning)
	return &answer[api.Ended]{ended}, err
}

func (s *server) trim(ctx context.Context, in *Named) (*answer[api.Lease], error) {
	trimmed, err := s.Desk.Leases.Trim(askerOf(ctx), in.name())
	return &answer[api.Lease]{trimmed}, err
}

func (s *server) leases(ctx context.Context, in *Page) (*listed[api.Leases], error) {
	var after placement.Mark
	if _, err := in.resume(leasesList, &after); err != nil {
		return nil, err
	}
	page, sight := s.Ledger.Page(after, in.most()), sightOf(ctx)
	all := api.Leases{Leases: make([]api.Lease, 0, len(page.Leases)), Waiting: make([]api.Waiting, 0, len(page.Waiting))}
	belonging := s.Ledger.Belonging()
	for _, held := range page.Leases {
		l := sight.lease(held, belonging[held.Fence])
		s.Desk.Leases.Complete(&l, held, sight.owns(held.Holder))
		all.Leases = append(all.Leases, l)
	}
	for _, w := range page.Waiting {
		shown := sight.waiting(w.Request, w.Position)
		shown.Estimate, shown.Limit = s.Desk.Foresight.Estimate(w.Request.Key()), quota.KindOf(s.Desk.Foresight.Limited(w.Request.Key()))
		all.Waiting = append(all.Waiting, shown)
	}
	if page.More {
		all.More = in.more(leasesList, page.Last)
	}
	return answerPage(in, all.More, all)
}

type leaseQuery struct {
	Named
	Launch bool     `query:"launch" doc:"Add launch, with the environment of a program under the lease. For the user of the lease and operators."`
	Caps   []string `query:"caps" doc:"The libraries that launch.environment limits, if enforced_by is framework. Default: all that the daemon knows." enum:"cupy,jax,torch"`
}

func (s *server) lease(ctx context.Context, in *leaseQuery) (*answer[api.Lease], error) {
	sight := sightOf(ctx)
	k, err := s.Desk.Leases.Seek(sight.Actor, in.name())
	if err != nil {
		return nil, err
	}
	held, found := s.Ledger.Find(k)
	if !found {
		if r, position, waits := s.Ledger.FindWaiting(k); waits {
			shown := sight.waiting(r, position)
			shown.Estimate, shown.Limit = s.Desk.Foresight.Estimate(k), quota.KindOf(s.Desk.Foresight.Limited(k))
			return ok(desk.Asked(r, shown))
		}
		held, found = s.Ledger.Find(k) // it may have been granted between the two calls
	}
	if !found {
		return nil, s.Ledger.Unknown(sight.Actor, access.Look, k)
	}
	l := sight.lease(held, s.Ledger.BelongingTo(held.Lease))
	s.Desk.Leases.Complete(&l, held, sight.owns(held.Holder))
	s.Desk.Leases.TraceDescent(&l)
	if in.Launch {
		if err := s.Desk.Leases.AddLaunch(ctx, sight.Actor, &l, held, in.Caps); err != nil {
			return nil, err
		}
	}
	if r, position, waits := s.Ledger.FindWaiting(k); waits { // to return, or to be larger
		w := sight.waiting(r, position)
		w.Estimate, w.Limit = s.Desk.Foresight.Estimate(k), quota.KindOf(s.Desk.Foresight.Limited(k))
		l.Waiting = &w
	}
	return ok(l)
}

type optimizeQuery struct{ Body *api.Optimize }

func (s *server) optimize(ctx context.Context, in *optimizeQuery) (*answer[api.Optimization], error) {
	found, err := s.Desk.Leases.Optimize(ctx, askerOf(ctx), given(in.Body))
	sight := sightOf(ctx)
	for i := range found.Rungs {
		sight.steps(found.Rungs[i].Done)
		sight.steps(found.Rungs[i].Left)
	}
	return &answer[api.Optimization]{found}, err
}

// steps hides the parts of other users' leases and processes that a caller may not see.
func (s sight) steps(all []api.RungStep) {
	for i := range all {
		if step := &all[i]; (step.User != "" || step.PID != 0) && !s.named(access.Held, step.User) {
			step.User, step.PID, step.Text = s.user(step.User), 0, "it belongs to another user"
		}
	}
}
