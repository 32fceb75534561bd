package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
	"github.com/berth-gpu/berth/internal/process"
)

// Request is what somebody asks for.
type Request struct {
	ID      string
	Holder  lease.Holder // who asks; the door has found out, it was not told
	Binding lease.Binding
	TTL     time.Duration

	Place    placement.Request // where and how much
	Priority gpu.Opt[int]      // absent: that of the service

	// Wait is how long to wait for room; absent: as configured.
	Wait gpu.Opt[time.Duration]

	EnforcedBy string
	Note       string
}

// TimeoutError is a request that waited as long as it wanted to.
type TimeoutError struct {
	Request *lease.Request
	Waited  time.Duration
	Refusal *placement.NoFitError // what stood in its way at the end; nil: it would have fitted
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("waited %v for %s in vain", e.Waited.Round(time.Millisecond), e.Request.ID)
	if e.Refusal != nil {
		text += ": " + e.Refusal.Error()
	}
	return text
}

// waiter is somebody who waits for a request to be decided.
type waiter struct {
	done    chan outcome // has room for it
	refusal *placement.NoFitError
}

type outcome struct {
	lease *lease.Lease
	err   error
}

// Acquire grants a request, now or when there is room. It is refused at once
// if it can never be granted here, and after its wait if there is no room
// until then. When ctx ends while it waits, the request is withdrawn; a lease
// that was granted in the same moment is given back.
func (l *Ledger) Acquire(ctx context.Context, r Request) (*lease.Lease, error) {
	asked := time.Now()
	granted, err := l.acquire(ctx, r)
	l.decided(status(err), time.Since(asked))
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

func (l *Ledger) acquire(ctx context.Context, r Request) (*lease.Lease, error) {
	var granted *lease.Lease
	var w *waiter
	var waiting *lease.Request
	err := l.submit(ctx, func(now time.Time) error {
		granted, w, waiting = nil, nil, nil // it may be tried twice
		request, err := l.admit(r, now)
		if err != nil {
			return err
		}
		if granted, err = l.grantNow(request, now); granted != nil || err != nil {
			return err
		}
		if never := placement.Explain(l.snapshot, &wishOf(request).Request); never != nil && !never.Ever {
			return never
		}
		if !request.Deadline.After(now) {
			return l.whyNot(request)
		}
		if _, err := l.apply(lease.Ask{Request: request}, now); err != nil {
			return err
		}
		w, waiting = &waiter{done: make(chan outcome, 1)}, request
		l.waiters[r.ID] = w
		return nil
	})
	if err != nil {
		return nil, err
	}
	if w != nil {
		if granted, err = l.await(ctx, w, waiting); err != nil {
			return nil, err
		}
	}
	return granted, l.attend(granted)
}

// admit makes a request fit for the book, by the settings of its service. The
// caller holds mu.
func (l *Ledger) admit(r Request, now time.Time) (*lease.Request, error) {
	place := r.Place
	if place.GPUs == 0 {
		place.GPUs = 1
	}
	request := lease.Request{
		ID: r.ID, Holder: r.Holder, Binding: r.Binding, TTL: r.TTL,
		GPUs: place.GPUs, Memory: place.Memory, Slots: place.Slots, Priority: r.Priority.Or(0),
		Requested: now, Deadline: now.Add(r.Wait.Or(l.settings.Wait)), Note: r.Note,
	}
	if err := request.Validate(); err != nil {
		return nil, err
	}
	if l.book.Lease(r.ID) != nil || l.book.Request(r.ID) != nil {
		return nil, fmt.Errorf("ask for %s: %w", r.ID, lease.ErrDuplicate)
	}
	if service, known := l.settings.Services[r.Holder.Service]; known {
		admitted, err := lease.Admit(service.Service, request, l.book.ServiceUsage(r.Holder.Service))
		if err != nil && !isLater(err) {
			return nil, err
		}
		request = admitted
		if place.Preferred == "" {
			place.Preferred = service.Preferred
		}
	}
	place.Memory, place.Service = request.Memory, r.Holder.Service
	request.Constraints = &wish{Request: place, enforcedBy: r.EnforcedBy}
	return &request, nil
}

// wish is what the book carries along for the ledger.
type wish struct {
	placement.Request
	enforcedBy string
}

func wishOf(r *lease.Request) *wish { return r.Constraints.(*wish) }

// isLater reports whether a refusal may be over once something is given back.
func isLater(err error) bool {
	refused := (*lease.AdmitError)(nil)
	return errors.As(err, &refused) && refused.Later
}

// grantNow grants a request that nobody is ahead of. The caller holds mu.
func (l *Ledger) grantNow(r *lease.Request, now time.Time) (*lease.Lease, error) {
	if _, waiting := l.book.Len(); waiting > 0 {
		return nil, nil // its turn is found out in the queue
	}
	return l.place(r, nil, now)
}

// place grants a request if it fits, behind those who are ahead of it. It
// returns nil if it does not. The caller holds mu.
func (l *Ledger) place(r *lease.Request, ahead []*lease.Request, now time.Time) (*lease.Lease, error) {
	if l.overQuota(r) != nil {
		return nil, nil
	}
	wish := l.behind(r, ahead)
	var fits bool
	if l.chosen, fits = placement.Choose(l.snapshot, &wish, l.chosen[:0]); !fits {
		return nil, nil
	}
	granted := r.Lease(l.chosen...)
	granted.EnforcedBy = wishOf(r).enforcedBy
	_, err := l.apply(lease.Grant{Lease: granted}, now)
	if err != nil {
		return nil, err
	}
	return granted, nil
}

// behind is the wish of a request that must not delay those ahead of it. The
// caller holds mu.
func (l *Ledger) behind(r *lease.Request, ahead []*lease.Request) placement.Request {
	wish := wishOf(r).Request
	if len(ahead) > 0 {
		wish.Refuse = func(uuid string) string {
			eligible := func(other *lease.Request) bool { return l.snapshot.Could(uuid, &wishOf(other).Request) }
			if first := l.book.Delayed(uuid, r, ahead, eligible); first != nil {
				return "it would delay " + first.ID + ", which is ahead in the queue"
			}
			return ""
		}
	}
	return wish
}

func (l *Ledger) overQuota(r *lease.Request) error {
	service, known := l.settings.Services[r.Holder.Service]
	if !known {
		return nil
	}
	return lease.WithinQuota(service.Service, r, l.book.ServiceUsage(r.Holder.Service))
}

// whyNot is the refusal of a request that does not want to wait. The caller
// holds mu.
func (l *Ledger) whyNot(r *lease.Request) error {
	if err := l.overQuota(r); err != nil {
		return err
	}
	if refusal := l.refusal(r); refusal != nil {
		return refusal
	}
	// It fits by itself, so it is the queue that is in its way.
	return &QueuedError{Waiting: len(l.book.Waiting())}
}

// QueuedError refuses a request that would fit, but for those who wait already
// and do not want to wait itself.
type QueuedError struct{ Waiting int }

func (e *QueuedError) Error() string {
	return fmt.Sprintf("%d requests wait already, and it would delay one of them: wait in turn", e.Waiting)
}

// refusal is what stands in the way of a request now, those ahead of it
// included; nil if nothing does. The caller holds mu.
func (l *Ledger) refusal(r *lease.Request) *placement.NoFitError {
	wish := l.behind(r, l.ahead(r))
	return placement.Explain(l.snapshot, &wish)
}

// ahead lists who is before a request in the queue: everybody, if it is not in
// it. The caller holds mu.
func (l *Ledger) ahead(r *lease.Request) []*lease.Request {
	waiting := l.book.Waiting()
	for i, other := range waiting {
		if other.ID == r.ID {
			return waiting[:i]
		}
	}
	return waiting
}

// serve grants what can be granted to those who wait, in their order. The
// caller holds mu.
func (l *Ledger) serve(now time.Time) {
	if _, waiting := l.book.Len(); waiting == 0 || !l.dirty && !l.asked() {
		return
	}
	l.dirty = false
	for again := true; again; {
		again = false
		// The order changes with every grant, because shares do.
		for i, r := range l.book.Waiting() {
			granted, err := l.place(r, l.book.Waiting()[:i], now)
			if err == nil && granted != nil {
				again = true
				break
			}
		}
	}
}

// asked reports whether this batch put somebody into the queue.
func (l *Ledger) asked() bool {
	for i := range l.effects {
		if l.effects[i].Kind == lease.Asked {
			return true
		}
	}
	return false
}

// await waits for a request to be decided.
func (l *Ledger) await(ctx context.Context, w *waiter, r *lease.Request) (*lease.Lease, error) {
	select {
	case o := <-w.done:
		return o.lease, o.err
	case <-l.finished:
		return nil, ErrStopped
	case <-ctx.Done():
	}
	// Whoever asked has left. The errand runs even so: a lease that nobody
	// knows of must not stay behind.
	var late outcome
	err := l.submit(context.WithoutCancel(ctx), func(now time.Time) error {
		if l.book.Request(r.ID) == r {
			_, err := l.apply(lease.Withdraw{ID: r.ID, By: lease.Daemon(), Why: "whoever asked has left"}, now)
			return err
		}
		select {
		case late = <-w.done:
		default: // it was taken out at the first try of this errand
		}
		if late.lease == nil {
			return nil
		}
		_, err := l.apply(lease.Release{ID: r.ID, Fence: late.lease.Fence, By: lease.Daemon(), Why: "whoever asked has left"}, now)
		return err
	})
	return nil, errors.Join(fmt.Errorf("wait for %s: %w", r.ID, context.Cause(ctx)), err)
}

// attend watches the process that a new lease is bound to. If it has died
// already, so has the lease.
func (l *Ledger) attend(granted *lease.Lease) error {
	if granted.Binding != lease.ByProcess {
		return nil
	}
	if err := l.watch(granted); err != nil {
		id := process.ID{PID: granted.Holder.PID, Start: granted.Holder.Start}
		l.endOf(id)
		return fmt.Errorf("bind %s to its process: %w", granted.ID, err)
	}
	return nil
}
