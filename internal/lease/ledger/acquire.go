package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/when"
)

// waiter connects a waiting request with the goroutine that waits for its
// outcome. It belongs to that one request: a later request may have the same key.
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

// Found is a lease that was granted or existed already.
type Found struct {
	*lease.Lease
	Stood bool
	Was   gpu.MiB // former size on each device; zero if the request did not resize the lease
}

// Acquire grants a request, now or when there is room. It refuses at once a request that
// this machine can never grant, and at its deadline a request that found no room until
// then. If ctx ends while the request waits, Acquire withdraws the request, and releases
// a lease that was granted in the same moment.
//
// A request that was granted before and is made again finds its lease, as its Again says.
// Acquire resizes the lease if the request asks for another size, and renews it if it has
// a time to live. A lease counts only if it has what the request asks for: the same
// service, the required device, the same binding.
func (l *Ledger) Acquire(ctx context.Context, r lease.Request) (Found, error) {
	asked := time.Now()
	found, err := l.acquire(ctx, &r)
	l.hooks.decided(status(err), time.Since(asked))
	return found, err
}

func status(err error) string {
	timeout := (*placement.TimeoutError)(nil)
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

// acquiring is a request on its way through Acquire. Requests are large, so the ledger
// uses it again.
type acquiring struct {
	asked   lease.Request // as the caller made it, because the call may run twice
	request lease.Request // as the ledger admits it
	found   Found
	waiter  *waiter
}

func (l *Ledger) acquire(ctx context.Context, r *lease.Request) (Found, error) {
	a, used := l.passed.Get().(*acquiring)
	if !used {
		a = &acquiring{}
	}
	a.asked = *r
	err := l.submitFor(ctx, r.By, func(now time.Time) (err error) {
		a.request = a.asked
		a.found, a.waiter, err = l.answer(&a.request, now)
		return err
	})
	if err != nil {
		return Found{}, err
	}
	found, w := a.found, a.waiter
	*a = acquiring{}
	l.passed.Put(a)
	if w != nil {
		found.Lease, err = l.await(ctx, w)
	}
	if err == nil && !found.Stood && r.Exact == nil {
		found.Lease, err = l.deliver(ctx, found.Lease)
	}
	if err != nil {
		return Found{}, err
	}
	return found, nil
}

// answer finds the lease of a request that was made before, grants the request, refuses
// it, or puts a copy of it into the queue and returns the waiter. It fills in the request
// as it admits it. The caller holds mu.
func (l *Ledger) answer(r *lease.Request, now time.Time) (Found, *waiter, error) {
	if r.Exact != nil {
		found, err := l.exactly(r, now)
		return found, nil, err
	}
	if err := l.takePlace(r, now); err != nil {
		return Found{}, nil, err
	}
	left, err := l.takeOver(r, now)
	if err != nil {
		return Found{}, nil, err
	}
	held, err := l.admit(r, now)
	if err != nil {
		return Found{}, nil, err
	}
	if held != nil {
		found, err := l.adjust(held, r, now)
		if err == nil {
			l.regained = append(l.regained, held)
		}
		return found, nil, err
	}
	if left != nil {
		if granted, err := l.placeAsBefore(left, r, now); granted != nil || err != nil {
			return Found{Lease: granted}, nil, err
		}
	}
	granted, waits, err := l.decide(r, now)
	if err != nil || granted != nil {
		return Found{Lease: granted}, nil, err
	}
	w, err := l.expect(waits)
	return Found{}, w, err
}

// admit fills in and checks a request by the settings of its service. If the request
// finds a lease that it was granted before, admit returns that lease. The caller holds
// mu.
func (s *state) admit(r *lease.Request, now time.Time) (held *lease.Lease, err error) {
	if err = s.prepare(r, now); err != nil {
		return nil, err
	}
	if held, err = s.find(r, now); err != nil {
		return nil, err
	}
	if held == nil {
		if err := s.vacant(r); err != nil {
			return nil, err
		}
	}
	return held, s.applySettings(r)
}

// prepare fills in defaults, validates the request, and applies the limits of its user
// that are about one request.
func (s *state) prepare(r *lease.Request, now time.Time) error {
	if r.GPUs == 0 {
		r.GPUs = 1
	}
	r.Priority, r.Imposed = r.AskedPriority.Or(0), r.TimeLimit != 0 && kinship.MandateOf(r.By).All
	r.Unchosen = false
	r.Requested, r.Deadline = now, now.Add(r.Wait.Or(s.settings.Wait))
	if err := r.Validate(); err != nil {
		return err
	}
	if limits := s.limitsOf(r); limits != nil {
		if err := quota.Apply(limits, r); err != nil {
			return fmt.Errorf("ask for %s: %w", named(r.ID), err)
		}
		r.Groups = quota.GroupNames(limits)
	}
	if !r.Since.IsZero() && r.Since.Before(now) {
		r.Requested = when.Stored(r.Since) // after the limits, which bound how long it waits from now on
	}
	if r.Exclusive {
		s.whole(r)
	}
	return s.besideParent(r, now)
}

// whole sets what an exclusive request counts for before anybody knows its devices: the
// most memory that a device which suits it could ever lease. It gets no more, and needs
// what it asked for. The caller holds mu.
func (s *state) whole(r *lease.Request) {
	most := placement.LargestEver(s.snapshot, r)
	r.Least = max(r.Memory, min(most, 1)) // a device that reports no memory leases none
	r.Memory = max(r.Memory, most)
}

// find returns the lease that a request finds, or nil if there is none. The caller holds
// mu.
func (s *state) find(r *lease.Request, now time.Time) (*lease.Lease, error) {
	if r.Again == lease.Once && !r.Repeated {
		return nil, nil
	}
	if waits := s.book.Request(r.Key()); waits != nil && waits.Into == 0 {
		return nil, fmt.Errorf("ask for %s again: %w", r.ID, lease.ErrWaiting)
	}
	lasts := func(held *lease.Lease) error {
		if r.Run != (lease.Run{}) { // berth's own program gets it, and ends with it
			return nil
		}
		return s.lasting(held, now)
	}
	var refusal error
	if held := s.book.Lease(r.Key()); held != nil && quota.Answers(held, r) {
		if refusal = lasts(held); refusal == nil {
			return held, nil
		}
		refusal = fmt.Errorf("ask for %s again: %w", r.ID, refusal)
	}
	if r.Again != lease.SameService {
		return nil, refusal
	}
	for _, held := range s.book.Leases() {
		if quota.Answers(held, r) && quota.NamedAfter(held.ID, r.Holder.Service) && lasts(held) == nil {
			return held, nil
		}
	}
	return nil, refusal
}

// lasting returns an error for a lease that nobody who asks now may count on: it is about to
// end, or its memory is not on its devices. The caller holds mu.
func (s *state) lasting(held *lease.Lease, now time.Time) error {
	ends, revoking := s.revoking[held.Fence]
	switch {
	case revoking:
		return fmt.Errorf("%w: it is about to be revoked: %s", lease.ErrState, ends.why)
	case held.Over(now):
		return fmt.Errorf("%w: %s", lease.ErrState, held.OverrunText())
	case held.State == lease.Parked:
		return lease.ErrParked
	}
	return nil
}

// adjust resizes and renews an existing lease as a request asks. The caller holds mu.
func (s *state) adjust(held *lease.Lease, r *lease.Request, now time.Time) (Found, error) {
	found := Found{Lease: held, Stood: true}
	if had := held.Parts[0].Memory; had != r.Memory && r.Again != lease.Once && !held.Exclusive {
		resized, err := s.resize(lease.Resize{Key: held.Key(), Fence: held.Fence, Memory: r.Memory, By: r.By}, r.Limits, now)
		switch {
		case err == nil:
			found.Lease, found.Was = resized, had
		case r.Memory != held.Asked: // otherwise berth has shrunk it, and gives that back when its programs need it
			return Found{}, err
		}
	}
	if held.Binding == lease.ByTTL {
		e, err := s.apply(lease.Renew{Key: held.Key(), Fence: held.Fence, TTL: r.TTL, By: r.By}, now)
		if err != nil {
			return Found{}, err
		}
		found.Lease = e.After
	}
	s.answered[held.Fence] = true // even if the journal refuses the call: it may be asked again
	return found, nil
}

// vacant returns an error if the user has the id in use. The user's leases keep no run
// from having its own. The caller holds mu.
func (s *state) vacant(r *lease.Request) error {
	held := s.book.Lease(r.Key())
	if r.Run == (lease.Run{}) {
		held = s.book.Standing(r.Key(), 0)
	}
	switch {
	case held != nil && s.left(held):
		return fmt.Errorf("ask for %s: %w: %w", r.ID, lease.ErrDuplicate, lease.ErrLeft)
	case held != nil && held.Holder.Name != "":
		return fmt.Errorf("ask for %s: %w: %s asked for the lease that has it", r.ID, lease.ErrDuplicate, held.Holder.Name)
	case held != nil || s.book.Request(r.Key()) != nil || r.Run == (lease.Run{}) && s.book.InUse(r.Holder.Owner(), r.ID):
		return fmt.Errorf("ask for %s: %w", r.ID, lease.ErrDuplicate)
	}
	return nil
}

// applySettings applies the settings of its service to a request. The caller holds mu.
func (s *state) applySettings(r *lease.Request) error {
	if err := s.settings.Knows(r.Holder.Service); err != nil {
		return err
	}
	if service, known := s.settings.Services[r.Holder.Service]; known {
		admitted, err := quota.Admit(service.Service, *r, s.book.ServiceUsage(r.Holder.Service))
		if err != nil && !quota.Later(err) {
			return shareAdvice(r, err)
		}
		if *r = admitted; r.Preferred == "" {
			r.Preferred = s.snapshot.UUIDOf(service.Preferred)
		}
	} else if !r.Precedes && access.May(r.By, access.Precede, access.Object{}) != nil {
		*r = quota.WithoutPrecedence(*r)
	}
	if err := s.overLimit(r, nil); err != nil && !quota.Later(err) { // as it was raised
		return shareAdvice(r, fmt.Errorf("ask for %s: %w", named(r.ID), err))
	}
	return nil
}

// shareAdvice adds to a refusal by the limits of a user or a service what else a request
// for a whole device can do.
func shareAdvice(r *lease.Request, err error) error {
	if r.Exclusive && (errors.Is(err, quota.ErrLimit) || errors.Is(err, quota.ErrMaxMemory) || errors.Is(err, quota.ErrQuota)) {
		return fmt.Errorf("%w; it asks for a whole device (exclusive): say how much it needs with --memory (memory_mb)", err)
	}
	return err
}

// decide grants a request, refuses it, or puts a copy of it into the queue and returns
// that. The caller holds mu.
func (l *Ledger) decide(r *lease.Request, now time.Time) (granted *lease.Lease, waits *lease.Request, err error) {
	if pool := l.poolOf(r); pool != nil {
		granted, err = l.draw(r, pool, now)
		return granted, nil, err
	}
	_, waiting := l.book.Len()
	if waiting == 0 {
		if granted, err := l.place(r, nil, now); granted != nil || err != nil {
			return granted, nil, err
		}
	}
	if !l.snapshot.Ever(r) && r.Into == 0 { // a parked lease had it before
		if refusal := placement.Explain(l.snapshot, r, nil); refusal != nil {
			return nil, nil, refusal
		}
	}
	patient := r.Deadline.After(now)
	if waiting == 0 && !patient {
		return nil, nil, l.whyNot(r)
	}
	waits = new(lease.Request)
	*waits = *r
	if _, err := l.apply(lease.Ask{Request: waits}, now); err != nil || patient {
		return nil, waits, err
	}
	granted, err = l.place(waits, l.aheadOf(waits), now)
	if granted == nil && err == nil {
		err = l.whyNot(waits) // the error undoes the call, which takes the request out of the queue
	}
	return granted, nil, err
}

// expect registers a waiter for the outcome of a request that was put into the queue. It
// refuses a request that its user may not wait with; the error undoes the Ask. The caller
// holds mu.
func (s *state) expect(r *lease.Request) (*waiter, error) {
	if limits := s.limitsOf(r); limits != nil && r.By.Door != access.Itself {
		if err := quota.TooManyWait(s.book, r.Holder, limits); err != nil {
			return nil, fmt.Errorf("wait for %s: %w", r.ID, err)
		}
	}
	w := &waiter{request: r, done: make(chan outcome, 1)}
	s.waiters[r] = w
	return w, nil
}

// await waits until a request is decided.
func (l *Ledger) await(ctx context.Context, w *waiter) (*lease.Lease, error) {
	select {
	case o := <-w.done:
		return o.lease, o.err
	case <-l.quiet:
		select {
		case o := <-w.done:
			return o.lease, o.err
		default:
			return nil, ErrStopped // the request keeps its place for the next daemon
		}
	case <-ctx.Done():
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
	default: // the ledger has stopped: every other way out of the queue sends an outcome
		return nil, cmp.Or(stopped, ErrWithdrawn)
	}
}

// clientGone is why the ledger releases a lease that the client cannot receive.
const clientGone = "the client disconnected before it received the lease"

// deliver returns a new lease to the caller, or gives it back if nobody can have it.
func (l *Ledger) deliver(ctx context.Context, granted *lease.Lease) (*lease.Lease, error) {
	why, err := l.undelivered(ctx, granted)
	if err == nil {
		return granted, nil
	}
	if why != "" {
		_, failed := l.TakeBack(granted.Key(), granted.Fence, why)
		if errors.Is(failed, ErrStopped) && errors.Is(err, ErrWithdrawn) {
			// The lease stays: the answer may still get through, and if not, the client
			// finds the lease by its id.
			return granted, nil
		}
	}
	if errors.Is(err, process.ErrGone) {
		l.holders.exited(processOf(granted), false)
	}
	return nil, err
}

// undelivered watches the process that a new lease is bound to, now or as soon as that can be
// done. It returns an error if that process has ended, or if the caller has left and would
// never release the lease, and why the lease must be given back. It returns no reason if the
// lease ends with its process.
func (l *Ledger) undelivered(ctx context.Context, granted *lease.Lease) (why string, err error) {
	if granted.Binding == lease.ByProcess {
		if err = l.holders.watch(granted); err != nil {
			err = fmt.Errorf("bind %s to its process: %w", granted.ID, err)
		}
	}
	gone := errors.Is(err, process.ErrGone)
	if err != nil && !gone { // for example too many open files
		l.holders.watchLater(granted)
	}
	switch {
	case gone && granted.Implied: // nobody has the answer
		return "its process ended before it had the answer", err
	case gone:
		return "", err
	case ctx.Err() != nil:
		return clientGone, fmt.Errorf("wait for %s: %w", granted.ID, ErrWithdrawn)
	}
	return "", nil
}

// GiveBack releases a lease that must not stay; the lease may have ended already.
// If the journal refuses the release now, the clerk tries again until it
// succeeds. GiveBack fails only with ErrStopped.
func (l *Ledger) GiveBack(k lease.Key, fence uint64, why string) error {
	_, err := l.end(overdue{lease: k, fence: fence, why: why})
	return err
}

// TakeBack does what GiveBack does for a lease that the request for it does not get. If the
// same request was made again and answered with the lease, the lease stays, and TakeBack
// returns true.
func (l *Ledger) TakeBack(k lease.Key, fence uint64, why string) (kept bool, err error) {
	return l.end(overdue{lease: k, fence: fence, why: why, unanswered: true})
}

func (l *Ledger) end(o overdue) (kept bool, err error) {
	err = l.submit(context.Background(), func(now time.Time) error {
		if kept = l.keeps(&o); kept {
			return nil
		}
		_, err := l.apply(lease.Release{Key: o.lease, Fence: o.fence, By: access.Daemon(), Why: o.why}, now)
		if errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrStaleFence) {
			return nil
		}
		return err
	})
	if err == nil || errors.Is(err, ErrStopped) {
		return kept, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders.endLater(o)
	return false, nil
}

// keeps reports whether a lease has to stay, because another request has it as its answer.
// The caller holds mu.
func (s *state) keeps(o *overdue) bool { return o.unanswered && s.answered[o.fence] }

// ErrWithdrawn reports a request that was withdrawn while it waited. It matches
// context.Canceled, and its text is for people.
var ErrWithdrawn error = withdrawnError{}

type withdrawnError struct{}

func (withdrawnError) Error() string        { return "the request was withdrawn" }
func (withdrawnError) Is(target error) bool { return target == context.Canceled }
