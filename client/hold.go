package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/when"
)

const (
	// heldTTL is the time to live of a held lease that cannot be bound to this
	// process.
	heldTTL = time.Minute
	// look is how often the client checks, at least, that the lease still exists.
	look = 5 * time.Second
	// tryAgain is how soon the client repeats a call that got no answer.
	tryAgain = time.Second
)

// Lease is a lease that renews itself. [Client.Hold] returns one. Several
// goroutines may use it.
type Lease struct {
	api.Lease // as granted; Expires moves on with every renewal

	client *Client
	lost   chan struct{}
	stop   context.CancelFunc
	kept   chan struct{} // closed when keep has returned

	once     sync.Once
	released error
}

// Hold asks for slots and memory as [Client.Acquire] does, and returns a lease
// that Close releases. Until then, Hold renews the lease if it has a time to
// live, and closes Lost when the lease has ended. ctx limits the wait only.
//
// Over a socket, Hold binds a request without a binding to this process, so
// that kill -9 ends the lease too. Over TCP, the daemon cannot see the process,
// so the lease gets a time to live of a minute.
func (c *Client) Hold(ctx context.Context, r api.LeaseRequest) (*Lease, error) {
	ownID := r.ID == ""
	if ownID {
		// The client chooses the id, so that it can release a grant whose
		// answer is lost on the way.
		r.ID = madeUp()
	}
	if r.Binding == "" && !r.TTL.Known() && r.PID == 0 {
		if r.Binding = "process"; !c.local {
			r.Binding, r.TTL = "ttl", seconds(heldTTL)
		}
	}
	granted, err := c.Acquire(ctx, r)
	if err != nil {
		away := (*AwayError)(nil)
		if ownID && (!isProblem(err) || errors.As(err, &away) || ctx.Err() != nil) { // else the daemon has decided
			giveBack(ctx, c, r.ID)
		}
		return nil, err
	}
	if r.PID != 0 || r.Unit != "" {
		c = c.Of(granted.Holder.User) // the user of that process may be another one
	}
	return c.hold(granted), nil
}

// hold starts to keep a lease.
func (c *Client) hold(granted api.Lease) *Lease {
	ctx, stop := context.WithCancel(context.Background())
	l := &Lease{Lease: granted, client: c, lost: make(chan struct{}), stop: stop, kept: make(chan struct{})}
	renewed := time.Now()
	if c.local && granted.TTL > 0 && granted.Expires != nil { // the answer may have been long on its way
		at := granted.Expires.Add(-time.Duration(granted.TTL * float64(time.Second)))
		renewed = renewed.Add(-max(renewed.Sub(at), 0)) // from here on, no matter how somebody sets the clock
	}
	go l.keep(ctx, renewed)
	return l
}

// giveBack tries to release a lease that the daemon may have granted.
func giveBack(ctx context.Context, c *Client, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), look)
	defer cancel()
	_, _ = c.Release(ctx, id, 0) // usually there is no such lease, and a daemon that stopped has withdrawn the request
}

// Lost returns a channel that is closed when the lease ends before Close:
// somebody released it, the daemon revoked it, or it was not renewed in time.
// The program must then stop using the devices. The client notices the end
// within five seconds.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Close releases the lease. It returns no error for a lease that has ended
// already. If the daemon does not answer, Close returns an error, and the lease
// ends by its binding: with this process, or when its time to live is over. A
// second call returns the same.
func (l *Lease) Close() error {
	l.once.Do(func() {
		l.stop()
		<-l.kept
		ctx, cancel := context.WithTimeout(context.Background(), 2*look)
		defer cancel()
		if _, err := l.client.Release(ctx, l.ID, l.Fence); !hasEnded(err) {
			l.released = err
		}
	})
	return l.released
}

// keep renews the lease when a third of its time is over, and in between checks
// that the lease still exists, until it is closed or lost.
func (l *Lease) keep(ctx context.Context, renewed time.Time) {
	defer close(l.kept)
	ttl := time.Duration(l.TTL * float64(time.Second))
	for wait := look; ; {
		if ttl > 0 {
			wait = min(wait, ttl/3, ttl-time.Since(renewed))
		}
		if !when.Pause(ctx, wait) {
			return
		}
		asked := time.Now()
		due := ttl > 0 && asked.Sub(renewed) >= ttl/3
		err := l.touch(ctx, due, renewed.Add(ttl))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && due:
			renewed, wait = asked, look
		case err == nil:
			wait = look
		case hasEnded(err), ttl > 0 && time.Since(renewed) >= ttl:
			close(l.lost)
			return
		case isRefusal(err): // whoever asks may not, for now or for ever; the lease may stand
			wait = look
		default:
			wait = tryAgain
		}
	}
}

// touch renews the lease if that is due, and otherwise checks that it exists.
// It does not wait longer than the lease lasts.
func (l *Lease) touch(ctx context.Context, due bool, end time.Time) error {
	if due {
		ctx, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		_, err := l.client.Renew(ctx, l.ID, api.Renew{Fence: l.Fence})
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	current, err := l.client.Lease(ctx, l.ID)
	if err == nil && current.Fence != l.Fence {
		return &api.Problem{Status: http.StatusConflict, Code: "stale_fence", Detail: "The id was granted again."}
	}
	return err
}

// isRefusal reports whether the daemon refused, and would refuse again. One that stops,
// that did not get the whole request, or that has too many, does not.
func isRefusal(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && problem.Status < 500 && problem.Status != http.StatusTooManyRequests && problem.Status != http.StatusRequestTimeout
}

// hasEnded reports whether the daemon says that the lease has ended.
func hasEnded(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && slices.Contains([]string{"unknown_allocation", "stale_fence", "lease_expired"}, problem.Code)
}
