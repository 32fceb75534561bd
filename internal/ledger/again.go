package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/words"
)

// Again says which lease a request finds that was made before.
type Again int

// What a request finds.
const (
	Once        Again = iota // none: an id that the user has in use is refused
	SameID                   // the lease of the same user with its id
	SameService              // the oldest lease of the same user for the same service, if it is named after that
)

// Found is a lease that was granted, or that stood already.
type Found struct {
	*lease.Lease
	Stood bool
	Was   gpu.MiB // on each device, if the request resized it; zero: it did not
}

// AcquireAgain does what Acquire does, but a request that was granted before and
// is made again finds its lease. The lease is resized if another size is asked
// for, and renewed if it has a time to live. Only a lease that has what is asked
// for counts: for the same service, on the device that must be, with the same
// binding.
func (l *Ledger) AcquireAgain(ctx context.Context, r lease.Request, again Again) (Found, error) {
	asked := time.Now()
	found, err := l.acquire(ctx, r, again)
	l.hooks.decided(status(err), time.Since(asked))
	return found, err
}

// find returns the lease that a request finds; nil: there is none. The caller
// holds mu.
func (m *machine) find(r *lease.Request, again Again) (*lease.Lease, error) {
	if again == Once {
		return nil, nil
	}
	if m.book.Request(r.Key()) != nil {
		return nil, fmt.Errorf("ask for %s again: %w", r.ID, lease.ErrWaiting)
	}
	if again == SameID {
		if held := m.book.Lease(r.Key()); held != nil && grants(held, r) {
			return held, nil
		}
		return nil, nil
	}
	for _, held := range m.book.Leases() {
		if grants(held, r) && namedAfter(held.ID, r.Holder.Service) {
			return held, nil
		}
	}
	return nil, nil
}

// namedAfter reports whether a lease has the name of its service, or that and a
// number. A lease with another name was asked for under that name.
func namedAfter(id, service string) bool {
	id = words.Service(id)
	number, numbered := strings.CutPrefix(id, service+"-")
	_, err := strconv.ParseUint(number, 10, 32)
	return id == service || numbered && err == nil
}

// grants reports whether a lease is what a request asks for, whatever its size
// and its id.
func grants(held *lease.Lease, r *lease.Request) bool {
	switch {
	case !held.Holder.Same(r.Holder), held.Holder.Service != r.Holder.Service, held.Binding != r.Binding, held.Unit != r.Unit, len(held.Scope) > 0:
		return false
	case r.Binding == lease.ByProcess && (held.Holder.Boot != r.Holder.Boot || processOf(held) != processOf(&lease.Lease{Holder: r.Holder})):
		return false
	case len(held.Parts) != r.GPUs || held.Parts[0].Slots != r.Slots:
		return false
	}
	return r.Where.GPU == "" || held.Parts[0].GPU == r.Where.GPU
}

// adjust makes a lease that stands what a request asks for. The caller holds mu.
func (l *Ledger) adjust(held *lease.Lease, r *lease.Request, now time.Time) (Found, error) {
	found := Found{Lease: held, Stood: true}
	if had := held.Parts[0].Memory; had != r.Memory {
		resized, err := l.resize(lease.Resize{Key: held.Key(), Fence: held.Fence, Memory: r.Memory, By: r.By}, r.Limits, now)
		if err != nil {
			return Found{}, err
		}
		found.Lease, found.Was = resized, had
	}
	if held.Binding == lease.ByTTL {
		e, err := l.apply(lease.Renew{Key: held.Key(), Fence: held.Fence, TTL: r.TTL, By: r.By}, now)
		if err != nil {
			return Found{}, err
		}
		found.Lease = e.After
	}
	return found, nil
}
