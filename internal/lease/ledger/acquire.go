package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// waiter connects a waiting request with the goroutine that waits for its
// outcome.
type waiter struct {
	request *lease.Request
	done    chan outcome // has room for one
	refusal *placement.NoFitError
	quota   error
}

type outcome struct {
	lease *lease.Lease
	err   error
}

// Acquire grants a request, now or when there is room. It refuses at once a request that
// this machine can never grant, and at its deadline a request that found no room until
// then. If ctx ends while the request waits, Acquire withdraws the request, and releases
// a lease that was granted in the same moment.
func (l *Ledger) Acquire(ctx context.Context, r lease.Request) (*lease.Lease, error) {
	found, err := l.AcquireAgain(ctx, r, Once)
	return found.Lease, err
}

func status(err error) string {
	timeout := (*TimeoutError)(nil)
	switch {
	case err == nil:
		return "granted"
	case errors.As(err, &timeout):
		return "timeout"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "withdrawn"
	}
	return "refused"
}

func (l *Ledger) acquire(ctx context.Context, r lease.Request, again Again) (Found, error) {
	var granted *lease.Lease
	var found Found
	var w *waiter
	err := l.submitFor(ctx, r.By, func(now time.Time) error {
		granted, found, w = nil, Found{}, nil // the errand may run twice
		request, standing, err := l.admit(r, again, now)
		if err != nil {
			return err
		}
		if standing != nil {
			found, err = l.adjust(standing, request, now)
			return err
		}
		if request.Parent == "" { // no device is chosen for a child
			l.usual.Add(request)
		}
		if granted, err = l.decide(request, now); granted != nil || err != nil {
			return err
		}
		if limits := l.limitsOf(request); limits != nil {
			if err := quota.TooManyWait(l.book, request.Holder, limits); err != nil { // the error undoes the Ask
				return fmt.Errorf("wait for %s: %w", r.ID, err)
			}
		}
		w = l.expect(request)
		return nil
	})
	if err == nil && w != nil {
		granted, err = l.await(ctx, w)
	}
	if err != nil || found.Stood {
		return found, err
	}
	granted, err = l.deliver(ctx, granted)
	return Found{Lease: granted}, err
}

// admit fills in and checks a request by the settings of its service, and returns the
// request that goes into the book. If the request finds a lease that it was granted
// before, admit returns that lease too. The caller holds mu.
func (s *state) admit(r lease.Request, again Again, now time.Time) (request *lease.Request, standing *lease.Lease, err error) {
	if request, err = s.prepare(r, now); err != nil {
		return nil, nil, err
	}
	if standing, err = s.find(request, again); err != nil {
		return nil, nil, err
	}
	if standing == nil {
		if err := s.vacant(request); err != nil {
			return nil, nil, err
		}
	}
	request, err = s.admitted(request)
	return request, standing, err
}

// prepare fills in defaults, validates the request, and applies the limits of its user
// that are about one request.
func (s *state) prepare(r lease.Request, now time.Time) (*lease.Request, error) {
	request := r
	if request.GPUs == 0 {
		request.GPUs = 1
	}
	request.Priority, request.Imposed = r.AskedPriority.Or(0), r.TimeLimit != 0 && kinship.MandateOf(r.By).All
	request.Requested, request.Deadline = now, now.Add(r.Wait.Or(s.settings.Wait))
	if err := request.Validate(); err != nil {
		return nil, err
	}
	if limits := s.limitsOf(&request); limits != nil {
		if err := quota.Apply(limits, &request); err != nil {
			return nil, fmt.Errorf("ask for %s: %w", r.ID, err)
		}
		request.Groups = quota.GroupNames(limits)
	}
	return &request, s.besideParent(&request)
}

// vacant returns an error if the user has the id in use. The caller holds mu.
func (s *state) vacant(r *lease.Request) error {
	if s.book.Lease(r.Key()) != nil || s.book.Request(r.Key()) != nil {
		return fmt.Errorf("ask for %s: %w", r.ID, lease.ErrDuplicate)
	}
	return nil
}

// admitted applies the settings of its service to a request. The caller holds mu.
func (s *state) admitted(r *lease.Request) (*lease.Request, error) {
	request := *r
	if err := s.settings.Knows(r.Holder.Service); err != nil {
		return nil, err
	}
	if service, known := s.settings.Services[r.Holder.Service]; known {
		admitted, err := quota.Admit(service.Service, request, s.book.ServiceUsage(r.Holder.Service))
		if err != nil && !quota.Later(err) {
			return nil, err
		}
		request = admitted
		if request.Preferred == "" {
			request.Preferred = s.snapshot.UUIDOf(service.Preferred)
		}
	} else if access.May(r.By, access.Precede, access.Object{}) != nil {
		request = quota.WithoutPrecedence(request)
	}
	if err := s.overLimit(&request, nil); err != nil && !quota.Later(err) { // as it was raised
		return nil, fmt.Errorf("ask for %s: %w", r.ID, err)
	}
	return &request, nil
}

// decide grants a request, refuses it, or puts it into the queue. It returns nil and nil
// if it put the request into the queue. The caller holds mu.
func (l *Ledger) decide(r *lease.Request, now time.Time) (*lease.Lease, error) {
	_, waiting := l.book.Len()
	if waiting == 0 {
		if granted, err := l.place(r, nil, now); granted != nil || err != nil {
			return granted, err
		}
	}
	if !l.snapshot.Ever(r) && r.Into == 0 { // a parked lease had it before
		return nil, placement.Explain(l.snapshot, r, nil)
	}
	patient := r.Deadline.After(now)
	if waiting == 0 && !patient {
		return nil, l.whyNot(r)
	}
	if _, err := l.apply(lease.Ask{Request: r}, now); err != nil || patient {
		return nil, err
	}
	granted, err := l.place(r, l.aheadOf(r), now)
	if granted == nil && err == nil {
		err = l.whyNot(r) // the error undoes the errand, which takes the request out of the queue
	}
	return granted, err
}

// expect registers a waiter for the outcome of a request. The caller holds mu.
func (s *state) expect(r *lease.Request) *waiter {
	w := &waiter{request: r, done: make(chan outcome, 1)}
	s.waiters[r.Key()] = w
	return w
}

// await waits until a request is decided.
func (l *Ledger) await(ctx context.Context, w *waiter) (*lease.Lease, error) {
	select {
	case o := <-w.done:
		return o.lease, o.err
	case <-ctx.Done():
	case <-l.finished:
	}
	// Nobody waits for the request any more: withdraw it, unless it is decided already. A
	// withdrawal is not written to the journal, so the journal cannot refuse it.
	stopped := l.submit(context.WithoutCancel(ctx), func(now time.Time) error {
		if l.book.Request(w.request.Key()) != w.request {
			return nil
		}
		_, err := l.apply(lease.Withdraw{Key: w.request.Key(), By: access.Daemon(), Why: clientGone}, now)
		return err
	})
	select {
	case o := <-w.done:
		return o.lease, o.err
	default:
		return nil, stopped
	}
}

// clientGone is why the ledger releases a lease that the client cannot receive.
const clientGone = "the client disconnected before it received the lease"

// deliver returns a new lease to the caller, or releases it if its process has
// ended or the caller has left.
func (l *Ledger) deliver(ctx context.Context, granted *lease.Lease) (*lease.Lease, error) {
	if err := l.attend(granted); err != nil {
		return nil, err
	}
	if ctx.Err() == nil {
		return granted, nil
	}
	// The client has left, and a lease that nobody knows of must not stay. If the
	// ledger has stopped, it stays: the answer may still get through, and if not,
	// the client finds the lease by its id.
	if errors.Is(l.GiveBack(granted.Key(), granted.Fence, clientGone), ErrStopped) {
		return granted, nil
	}
	return nil, fmt.Errorf("wait for %s: %w", granted.ID, ErrWithdrawn)
}

// attend watches the process that a new lease is bound to. If that process has
// ended already, attend ends the lease.
func (l *Ledger) attend(granted *lease.Lease) error {
	if granted.Binding != lease.ByProcess {
		return nil
	}
	err := l.holders.watch(granted)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, process.ErrGone):
		if granted.Implied { // nobody has the answer
			_ = l.GiveBack(granted.Key(), granted.Fence, "its process ended before it had the answer")
		}
		l.holders.exited(processOf(granted))
	default: // release this lease alone: the process may hold others, which are watched
		_ = l.GiveBack(granted.Key(), granted.Fence, "the daemon cannot watch its process")
	}
	return fmt.Errorf("bind %s to its process: %w", granted.ID, err)
}

// GiveBack releases a lease that must not stay; the lease may have ended already.
// If the journal refuses the release now, the clerk tries again until it
// succeeds. GiveBack fails only with ErrStopped.
func (l *Ledger) GiveBack(k lease.Key, fence uint64, why string) error {
	err := l.submit(context.Background(), func(now time.Time) error {
		_, err := l.apply(lease.Release{Key: k, Fence: fence, By: access.Daemon(), Why: why}, now)
		if errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrStaleFence) {
			return nil
		}
		return err
	})
	if err == nil || errors.Is(err, ErrStopped) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders.backlog.unwanted(k, fence, why)
	return nil
}
