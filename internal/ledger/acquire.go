package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/words"
)

// TimeoutError is a request that waited as long as it wanted to.
type TimeoutError struct {
	Request *lease.Request
	Waited  time.Duration
	Refusal *placement.NoFitError // what stood in its way at the end; nil: it would have fitted
	Quota   error                 // the service was over its quota at the end; nil: it was not
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("waited %s for %s in vain", e.Lasted(), e.Request.ID)
	if why := e.Why(); why != nil {
		text += ": " + why.Error()
	}
	return text
}

// Why is what stood in its way at the end; nil: nothing did.
func (e *TimeoutError) Why() error {
	switch {
	case e.Quota != nil:
		return e.Quota
	case e.Refusal != nil:
		return e.Refusal
	}
	return nil
}

// Lasted returns how long the request waited, as people say it.
func (e *TimeoutError) Lasted() string { return words.Duration(e.Waited) }

// ErrWithdrawn is a request that nobody waits for any more. It is a
// context.Canceled too, in words for people.
var ErrWithdrawn error = withdrawnError{}

type withdrawnError struct{}

func (withdrawnError) Error() string        { return "the request was withdrawn" }
func (withdrawnError) Is(target error) bool { return target == context.Canceled }

// waiter is somebody who waits for a request to be decided.
type waiter struct {
	request *lease.Request
	done    chan outcome // has room for it
	refusal *placement.NoFitError
	quota   error
}

type outcome struct {
	lease *lease.Lease
	err   error
}

// Acquire grants a request, now or when there is room. It is refused at once
// if it can never be granted here, and after its wait if there is no room
// until then. When ctx ends while it waits, the request is withdrawn; a lease
// that was granted in the same moment is given back.
func (l *Ledger) Acquire(ctx context.Context, r lease.Request) (*lease.Lease, error) {
	asked := time.Now()
	granted, err := l.acquire(ctx, r)
	l.hooks.decided(status(err), time.Since(asked))
	return granted, err
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

func (l *Ledger) acquire(ctx context.Context, r lease.Request) (*lease.Lease, error) {
	var granted *lease.Lease
	var w *waiter
	limited := access.May(r.By, access.Exceed, access.Object{}) != nil
	err := l.submitFor(ctx, r.By, func(now time.Time) error {
		granted, w = nil, nil // it may be tried twice
		request, err := l.admit(r, now)
		if err != nil {
			return err
		}
		l.usual.Add(request)
		if granted, err = l.decide(request, now); granted != nil || err != nil {
			return err
		}
		if limited {
			if err := l.book.Crowded(r.Holder.User, true); err != nil { // which undoes the asking
				return fmt.Errorf("wait for %s: %w", r.ID, err)
			}
		}
		w = &waiter{request: request, done: make(chan outcome, 1)}
		l.waiters[r.ID] = w
		return nil
	})
	if err == nil && w != nil {
		granted, err = l.await(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	return l.deliver(ctx, granted)
}

// admit makes a request fit for the book, by the settings of its service. The
// caller holds mu.
func (l *Ledger) admit(r lease.Request, now time.Time) (*lease.Request, error) {
	request := r
	if request.GPUs == 0 {
		request.GPUs = 1
	}
	request.Priority = r.AskedPriority.Or(0)
	request.Requested, request.Deadline = now, now.Add(r.Wait.Or(l.settings.Wait))
	if err := request.Validate(); err != nil {
		return nil, err
	}
	if l.book.Lease(r.ID) != nil || l.book.Request(r.ID) != nil {
		return nil, fmt.Errorf("ask for %s: %w", r.ID, lease.ErrDuplicate)
	}
	if access.May(r.By, access.Exceed, access.Object{}) != nil {
		if err := l.book.Crowded(r.Holder.User, false); err != nil {
			return nil, fmt.Errorf("ask for %s: %w", r.ID, err)
		}
	}
	if service, known := l.settings.Services[r.Holder.Service]; known {
		admitted, err := lease.Admit(service.Service, request, l.book.ServiceUsage(r.Holder.Service))
		if err != nil && !isLater(err) {
			return nil, err
		}
		request = admitted
		if request.Preferred == "" {
			request.Preferred = service.Preferred
		}
	} else if access.May(r.By, access.Precede, access.Object{}) != nil {
		request = lease.InLine(request)
	}
	return &request, nil
}

// isLater reports whether a refusal may be over once something is given back.
func isLater(err error) bool {
	refused := (*lease.AdmitError)(nil)
	return errors.As(err, &refused) && refused.Later
}

// decide grants a request, refuses it, or puts it into the queue, where its
// turn is found out: nil and nil. The caller holds mu.
func (l *Ledger) decide(r *lease.Request, now time.Time) (*lease.Lease, error) {
	_, waiting := l.book.Len()
	if waiting == 0 {
		if granted, err := l.place(r, nil, now); granted != nil || err != nil {
			return granted, err
		}
	}
	if !l.snapshot.Ever(r) {
		return nil, placement.Explain(l.snapshot, r, nil)
	}
	patient := r.Deadline.After(now)
	if waiting == 0 && !patient {
		return nil, l.whyNot(r)
	}
	if _, err := l.apply(lease.Ask{Request: r}, now); err != nil || patient {
		return nil, err
	}
	granted, err := l.place(r, l.lineBefore(r), now)
	if granted == nil && err == nil {
		err = l.whyNot(r) // takes it out of the queue again: an errand that fails is undone
	}
	return granted, err
}

// await waits for a request to be decided.
func (l *Ledger) await(ctx context.Context, w *waiter) (*lease.Lease, error) {
	select {
	case o := <-w.done:
		return o.lease, o.err
	case <-ctx.Done():
	case <-l.finished:
	}
	// Nobody waits any more. The request is withdrawn, or else it is decided
	// already. That needs nothing written down, so the journal cannot refuse it.
	stopped := l.submit(context.WithoutCancel(ctx), func(now time.Time) error {
		if l.book.Request(w.request.ID) != w.request {
			return nil
		}
		_, err := l.apply(lease.Withdraw{ID: w.request.ID, By: access.Daemon(), Why: "whoever asked has left"}, now)
		return err
	})
	select {
	case o := <-w.done:
		return o.lease, o.err
	default:
		return nil, stopped
	}
}

// deliver makes sure that a new lease has somebody who knows of it.
func (l *Ledger) deliver(ctx context.Context, granted *lease.Lease) (*lease.Lease, error) {
	if err := l.attend(granted); err != nil {
		return nil, err
	}
	if ctx.Err() == nil {
		return granted, nil
	}
	// Whoever asked has left, and a lease that nobody knows of must not stay
	// behind. Only where the ledger has stopped it does: then the answer may
	// still get through, and if not, the lease can be found by its id.
	if errors.Is(l.GiveBack(granted.ID, granted.Fence, "whoever asked has left"), ErrStopped) {
		return granted, nil
	}
	return nil, fmt.Errorf("wait for %s: %w", granted.ID, ErrWithdrawn)
}

// attend watches the process that a new lease is bound to. If it has died
// already, so has the lease.
func (l *Ledger) attend(granted *lease.Lease) error {
	if granted.Binding != lease.ByProcess {
		return nil
	}
	err := l.holders.watch(granted)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, process.ErrGone):
		l.holders.exited(processOf(granted))
	default: // its other leases are watched
		_ = l.GiveBack(granted.ID, granted.Fence, "its process cannot be watched")
	}
	return fmt.Errorf("bind %s to its process: %w", granted.ID, err)
}

// GiveBack ends a lease that must not stay; it may have ended already. If the
// journal refuses that now, the clerk goes on trying. It fails only with
// ErrStopped.
func (l *Ledger) GiveBack(id string, fence uint64, why string) error {
	err := l.submit(context.Background(), func(now time.Time) error {
		_, err := l.apply(lease.Release{ID: id, Fence: fence, By: access.Daemon(), Why: why}, now)
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
	l.holders.backlog.unwanted(id, fence, why)
	return nil
}
