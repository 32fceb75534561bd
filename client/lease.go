package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/gpu"
)

const leasesPath = "/api/leases"

// Allocate leases memory on one device under an id of the caller's choice. It waits for
// room for r.Timeout; without one, it waits only if r.Wait is set. When ctx ends first,
// Allocate withdraws the request.
//
// Unless r says otherwise, the lease ends with the calling process, if the daemon can
// tell which one that is.
//
// If the daemon goes away while the request waits, Allocate makes it again, as
// [Client.Acquire] does.
//
// A refusal is an [*api.Problem]: duplicate_allocation, insufficient_memory,
// allocation_timeout, and others; its Extra has the numbers.
func (c *Client) Allocate(ctx context.Context, r api.Allocate) (api.Lease, error) {
	patient := c.patient(r.Timeout.Or(0))
	if r.Wait && !r.Timeout.Known() {
		patient.timeout = 0 // only the daemon knows how long it will wait
	}
	return persist(ctx, patient, r.Timeout, func(timeout gpu.Opt[float64], query url.Values) (api.Lease, error) {
		r.Timeout = timeout
		return send[api.Lease](ctx, patient, http.MethodPost, "/api/gpu/memory/allocate", query, r)
	})
}

// Of returns a client whose methods that take an id, such as Lease, Release and Renew,
// mean the leases and requests of a user. The user is a login name, a uid, token:NAME or
// cert:NAME. Without a user, an id means the caller's own lease, or else the only one
// that the caller may choose.
//
// Both clients share their connections; close the first one.
func (c *Client) Of(user string) *Client {
	of := *c
	of.user = user
	return &of
}

// For returns a client that tells the daemon for which program it acts, as that program
// calls itself. The daemon gives it no rights by that name, and notes it with acts.
//
// Both clients share their connections; close the first one.
func (c *Client) For(agent string) *Client {
	acting := *c
	acting.agent, acting.streams = agent, nil // a stream says nobody's name
	return &acting
}

// WithoutStream returns a client for a process that asks for one lease: it goes the way of
// the other calls, because a stream takes less time only from the second call on.
//
// Both clients share their connections; close the first one.
func (c *Client) WithoutStream() *Client {
	plain := *c
	plain.streams = nil
	return &plain
}

// Deallocate ends a lease, or withdraws a waiting request.
func (c *Client) Deallocate(ctx context.Context, id string) (api.Ended, error) {
	return post[api.Ended](ctx, c, "/api/gpu/memory/deallocate", api.Deallocate{ID: id, User: c.user})
}

// Leases returns all leases and waiting requests. It asks for as many pages as there are;
// [Client.LeasePages] yields them one by one.
func (c *Client) Leases(ctx context.Context) (api.Leases, error) {
	all, err := whole(ctx, c, leasesPath, nextLeases, func(all *api.Leases, page api.Leases) {
		type name struct {
			holder api.Holder
			id     string
		}
		if len(all.Waiting) > 0 {
			granted := map[name]bool{} // leases of this page, which may have been requests on an earlier one
			for _, l := range page.Leases {
				granted[name{l.Holder, l.ID}] = true
			}
			all.Waiting = slices.DeleteFunc(all.Waiting, func(w api.Waiting) bool { return w.For == "" && granted[name{w.Holder, w.ID}] })
		}
		if len(all.Leases)+len(page.Leases) > cap(all.Leases) {
			all.Leases = slices.Grow(all.Leases, max(len(all.Leases), len(page.Leases)))
		}
		all.Leases, all.Waiting, all.More = append(all.Leases, page.Leases...), append(all.Waiting, page.Waiting...), page.More
	})
	slices.SortStableFunc(all.Waiting, func(a, b api.Waiting) int { return cmp.Compare(a.Position, b.Position) })
	return all, err
}

func nextLeases(page api.Leases) string { return page.Next }

// LeasePages yields all leases and waiting requests, in pages of at most limit; 0 lets
// the daemon choose. An error is the last thing that it yields. A lease or request that
// exists from the first page to the last is on exactly one. A request that is granted
// meanwhile may be on one page as a request and on a later one as a lease.
func (c *Client) LeasePages(ctx context.Context, limit int) iter.Seq2[api.Leases, error] {
	return pages(ctx, c, leasesPath, limited(nil, limit), nextLeases)
}

// PastQuery selects leases that have ended. An empty field selects all.
type PastQuery struct {
	Service string    // or several, with commas between them
	User    string    // or several
	GPU     string    // index or UUID, or several
	Since   time.Time // only leases that ended later
	Limit   int       // maximum number of leases; zero lets the daemon choose
	After   string    // the Next of an answer to the same query; empty means from the newest
}

// PastLeases returns leases that have ended, the newest end first. If there are more, the
// answer has a Next.
func (c *Client) PastLeases(ctx context.Context, q PastQuery) (api.PastLeases, error) {
	query := ofGPU(q.GPU)
	for name, value := range map[string]string{"service": q.Service, "user": q.User} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if !q.Since.IsZero() {
		query.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if q.After != "" {
		query.Set("after", q.After)
	}
	return get[api.PastLeases](ctx, c, "/api/past/leases", limited(query, q.Limit))
}

// Lease returns one lease as it is now. For a waiting request with that id, the state is
// waiting and there are no parts; an unused id is an [*api.Problem] with the code
// unknown_allocation. [WithLaunch] adds what a launcher needs.
func (c *Client) Lease(ctx context.Context, id string, options ...LeaseOption) (api.Lease, error) {
	query := whose(c)
	for _, option := range options {
		option(query)
	}
	return get[api.Lease](ctx, c, leasePath(id), query)
}

// LeaseOption changes what [Client.Lease] asks for.
type LeaseOption func(url.Values)

// WithLaunch asks for the Launch of a lease, with the environment of a program under it.
// The environment limits the libraries in caps to the memory of the lease: cupy, jax and
// torch, or all of them if caps is empty. Only the user of the lease and operators may
// ask.
func WithLaunch(caps ...string) LeaseOption {
	return func(query url.Values) {
		query.Set("launch", "true")
		if len(caps) > 0 {
			query.Set("caps", strings.Join(caps, ","))
		}
	}
}

// Acquire asks for slots and memory on one or more devices and waits for them, for
// r.Timeout or else for the daemon's allocation_timeout. When ctx ends first, Acquire
// withdraws the request. Options.Timeout does not count while it waits.
//
// If the daemon goes away while the request waits, Acquire makes it again for a minute,
// and the request keeps its place in the queue; then Acquire returns an [*AwayError].
// While too many connections are open, it asks again until r.Timeout is over, if there is one.
//
// The lease lasts until it is released or ends by its binding; see [Client.Hold] for a
// lease that renews itself.
func (c *Client) Acquire(ctx context.Context, r api.LeaseRequest) (api.Lease, error) {
	patient := c.patient(r.Timeout.Or(0))
	if !r.Timeout.Known() {
		patient.timeout = 0 // only the daemon knows how long it will wait
	}
	if r.ID == "" && len(r.Parts) == 0 {
		r.ID = madeUp() // to ask for it again
	}
	return persist(ctx, patient, r.Timeout, func(timeout gpu.Opt[float64], query url.Values) (api.Lease, error) {
		var granted api.Lease
		if r.Timeout = timeout; query == nil {
			if used, err := overStream(ctx, patient, wire.Acquire, http.MethodPost, leasesPath, (*wire.RequestBody)(&r), (*wire.LeaseBody)(&granted)); used {
				return granted, err
			}
		}
		return call[api.Lease](ctx, patient, http.MethodPost, leasesPath, query, (*wire.RequestBody)(&r).Append(nil))
	})
}

// madeUp returns an id for a request that has none.
func madeUp() string { return "lease-" + strings.ToLower(rand.Text()[:10]) }

// NewID returns an id for a lease that the caller is going to ask for: the name, a dash,
// and a number that the daemon gives out once.
func (c *Client) NewID(ctx context.Context, name string) (string, error) {
	made, err := persist(ctx, c, gpu.Opt[float64]{}, func(gpu.Opt[float64], url.Values) (api.MadeID, error) {
		return post[api.MadeID](ctx, c, leasesPath+"/id", api.NewID{Name: name}) // an id that was lost is never used
	})
	return made.ID, err
}

// Release ends a lease, or withdraws a waiting request. With a fence, it ends only the
// grant with that fence: if the id has been granted again meanwhile, the daemon refuses
// with stale_fence. A fence of 0 means any grant.
func (c *Client) Release(ctx context.Context, id string, fence uint64) (api.Ended, error) {
	var ended api.Ended
	if used, err := overStream(ctx, c, wire.Release, http.MethodDelete, leasePath(id), &wire.ReleaseBody{ID: id, User: c.user, Fence: fence}, (*wire.EndedBody)(&ended)); used {
		return ended, err
	}
	query := whose(c)
	if fence != 0 {
		query.Set("fence", strconv.FormatUint(fence, 10))
	}
	return call[api.Ended](ctx, c, http.MethodDelete, leasePath(id), query, nil)
}

// ReleaseKeepRunning ends a lease as Release does, and lets its program run on without it.
// Without that, a release with a fence of 0 is refused with program_runs while the process
// of the lease lives, unless it, one of its ancestors or one of its descendants asks.
func (c *Client) ReleaseKeepRunning(ctx context.Context, id string) (api.Ended, error) {
	query := whose(c)
	query.Set("keep_running", "true")
	return call[api.Ended](ctx, c, http.MethodDelete, leasePath(id), query, nil)
}

// Cancel ends the programs of a lease, and the lease with them, or withdraws a waiting
// request. The daemon has written down what it is going to do when Cancel returns; the
// programs get SIGTERM, and SIGKILL after deallocation_timeout. The lease in the answer is
// the one that ends: for a lease of a batch, that of its runner.
//
// A refusal is an [*api.Problem]: scoped_lease, job_lease, not_yours, and others.
func (c *Client) Cancel(ctx context.Context, id string, b api.Cancel) (api.Ended, error) {
	return postTo[api.Ended](ctx, c, leasePath(id)+"/cancel", b)
}

// Renew extends a lease that has a time to live.
func (c *Client) Renew(ctx context.Context, id string, r api.Renew) (api.Lease, error) {
	var renewed api.Lease
	renewal := &wire.RenewalBody{ID: id, User: c.user, Fence: r.Fence, TTL: r.TTL}
	if used, err := overStream(ctx, c, wire.Renew, http.MethodPost, leasePath(id)+"/renew", renewal, (*wire.LeaseBody)(&renewed)); used {
		return renewed, err
	}
	return postTo[api.Lease](ctx, c, leasePath(id)+"/renew", r)
}

// Bind hands a lease that is bound to a process to another process of the same user,
// which holds it from then on. A launcher hands the lease to the program that it has
// started. The lease keeps its fence.
func (c *Client) Bind(ctx context.Context, id string, b api.Bind) (api.Lease, error) {
	return postTo[api.Lease](ctx, c, leasePath(id)+"/bind", b)
}

// Rescope changes the control groups by which the daemon recognizes the processes of a
// lease. Only operators may do that.
func (c *Client) Rescope(ctx context.Context, id string, r api.Rescope) (api.Lease, error) {
	return postTo[api.Lease](ctx, c, leasePath(id)+"/scope", r)
}

// Resize gives a lease another amount of memory on each of its devices. Less takes effect
// at once; for more, Resize waits for room for r.Timeout. When ctx ends first, the lease
// keeps its size.
func (c *Client) Resize(ctx context.Context, id string, r api.Resize) (api.Lease, error) {
	return postTo[api.Lease](ctx, c.patient(r.Timeout.Or(0)), leasePath(id)+"/resize", r)
}

// Pace holds a lease to a share of what it would get of its devices. A share of 1 ends
// the pacing.
func (c *Client) Pace(ctx context.Context, id string, p api.Pace) (api.Lease, error) {
	return postTo[api.Lease](ctx, c, leasePath(id)+"/pace", p)
}

// Libraries says what the libraries of this program hold under a lease.
func (c *Client) Libraries(ctx context.Context, id string, l api.Libraries) (api.Lease, error) {
	return postTo[api.Lease](ctx, c, leasePath(id)+"/libraries", l)
}

// Trim asks the holder of a lease to give back the memory that its libraries cache. Only
// programs that listen for the request do so.
func (c *Client) Trim(ctx context.Context, id string) (api.Lease, error) {
	return postTo[api.Lease](ctx, c, leasePath(id)+"/trim", struct{}{})
}

// Adopt puts a process that already runs under a lease. The lease ends with the process.
func (c *Client) Adopt(ctx context.Context, a api.Adopt) (api.Lease, error) {
	return post[api.Lease](ctx, c, leasesPath+"/adopt", a)
}

// Explain says how the daemon would decide a request, without making it.
func (c *Client) Explain(ctx context.Context, r api.LeaseRequest) (api.Explanation, error) {
	return post[api.Explanation](ctx, c, leasesPath+"/explain", r)
}

// ExplainWaiting says what a waiting request waits for.
func (c *Client) ExplainWaiting(ctx context.Context, id string) (api.Explanation, error) {
	return get[api.Explanation](ctx, c, leasePath(id)+"/explain", whose(c))
}

// post sends a JSON body and reads the answer into a T.
func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return send[T](ctx, c, http.MethodPost, path, nil, body)
}

// postTo posts to the path of a lease, which belongs to the user of the client.
func postTo[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return send[T](ctx, c, http.MethodPost, path, whose(c), body)
}

func send[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (T, error) {
	text, err := json.Marshal(body)
	if err != nil {
		var none T
		return none, fmt.Errorf("%s %s: write the request: %w", method, path, err)
	}
	return call[T](ctx, c, method, path, query, text)
}

// whose returns the query parameter that names the owner of a lease.
func whose(c *Client) url.Values {
	query := url.Values{}
	if c.user != "" {
		query.Set("user", c.user)
	}
	return query
}

// patient returns a client that adds seconds to its timeout, for a call that the daemon
// may take so long to answer.
func (c *Client) patient(seconds float64) *Client {
	patient := *c
	switch {
	case c.timeout == 0 || !(seconds > 0):
	case seconds > (1000 * time.Hour).Seconds():
		patient.timeout = 0
	default:
		patient.timeout += time.Duration(seconds * float64(time.Second))
	}
	return &patient
}

// leasePath returns the path of one lease. Ids are the caller's choice and may hold
// anything printable; a dot alone would mean the folder.
func leasePath(id string) string {
	return leasesPath + "/" + strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
}

// seconds returns d in the form that the API takes.
func seconds(d time.Duration) gpu.Opt[float64] { return gpu.Some(d.Seconds()) }

// Park moves the memory of a lease to the memory of the machine, and returns when that is
// done: after seconds, or a minute for a full card. Options.Timeout does not count
// meanwhile. If ctx ends, the parking goes on.
//
// A refusal is an [*api.Problem]: cannot_park, no_host_memory, parking_failed,
// wrong_state, and others; the lease then stays where it was.
func (c *Client) Park(ctx context.Context, id string, p api.Park) (api.Lease, error) {
	return postTo[api.Lease](ctx, c.unhurried(), leasePath(id)+"/park", p)
}

// Resume moves the memory of a parked lease back to its device, and returns when its
// programs run. It waits for room for r.Timeout or else for the daemon's
// allocation_timeout. When ctx ends meanwhile, the lease stays parked.
func (c *Client) Resume(ctx context.Context, id string, r api.Resume) (api.Lease, error) {
	return postTo[api.Lease](ctx, c.unhurried(), leasePath(id)+"/resume", r)
}

// Wake resumes a lease of the calling program if it is parked, and returns when it is
// active. It waits for its turn without a limit. A fence of 0 means any lease with the
// id.
func (c *Client) Wake(ctx context.Context, id string, fence uint64) (api.Lease, error) {
	return postTo[api.Lease](ctx, c.unhurried(), leasePath(id)+"/wake", api.Park{Fence: fence})
}

// Optimize gets memory back from the leases that the caller may change, and returns when
// that is done. Meanwhile, events with the code optimized report the progress.
func (c *Client) Optimize(ctx context.Context, o api.Optimize) (api.Optimization, error) {
	return post[api.Optimization](ctx, c.unhurried(), "/api/optimize", o)
}

// unhurried returns a client without a timeout.
func (c *Client) unhurried() *Client {
	unhurried := *c
	unhurried.timeout = 0
	return &unhurried
}
