package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
)

const (
	// heldTTL is the time to live of a held lease that cannot be bound to this
	// process.
	heldTTL = time.Minute
	// look is how often it is looked whether a lease still stands, at least.
	look = 5 * time.Second
	// tryAgain is how soon it is tried again after a call that got no answer.
	tryAgain = time.Second
)

// Lease is a lease that looks after itself, made by [Client.Hold]. It may be
// used by several goroutines.
type Lease struct {
	api.Lease // as it was granted; Expires moves on with every renewal

	client *Client
	lost   chan struct{}
	stop   context.CancelFunc
	kept   chan struct{} // closed when nobody looks after it any more

	once     sync.Once
	released error
}

// Hold asks for slots and memory as [Client.Acquire] does, and returns a lease
// that releases itself when closed. Until then it is renewed if it has a time
// to live, and Lost tells when it is gone. ctx is for the waiting only.
//
// A request that does not say what ends it is bound to this process over a
// socket: kill -9 frees it too. Over TCP the daemon cannot see the process, so
// there the lease gets a time to live of a minute.
func (c *Client) Hold(ctx context.Context, r api.LeaseRequest) (*Lease, error) {
	ownID := r.ID == ""
	if ownID {
		// Known here before it is asked for: a grant whose answer is lost on
		// the way can be given back.
		r.ID = "lease-" + strings.ToLower(rand.Text()[:10])
	}
	if r.Binding == "" && !r.TTL.Known() && r.PID == 0 {
		if r.Binding = "process"; !c.local {
			r.Binding, r.TTL = "ttl", seconds(heldTTL)
		}
	}
	granted, err := c.Acquire(ctx, r)
	if err != nil {
		if problem := (*api.Problem)(nil); ownID && !errors.As(err, &problem) {
			c.giveBack(ctx, r.ID)
		}
		return nil, err
	}
	return c.hold(granted), nil
}

// hold looks after a lease from now on.
func (c *Client) hold(granted api.Lease) *Lease {
	ctx, stop := context.WithCancel(context.Background())
	l := &Lease{Lease: granted, client: c, lost: make(chan struct{}), stop: stop, kept: make(chan struct{})}
	go l.keep(ctx, time.Now())
	return l
}

// giveBack releases what may or may not have been granted, if it can.
func (c *Client) giveBack(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), look)
	defer cancel()
	_, _ = c.Release(ctx, id, 0) // unknown is what is hoped for, and a daemon that is gone has withdrawn it
}

// Lost is closed when the lease has ended without being closed: it was released
// by somebody, revoked, or could not be renewed in time. Whatever uses the
// devices must stop then. It takes up to five seconds to be noticed.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Close releases the lease. One that has ended already is no error. If the
// daemon does not answer, that is one, and the lease ends by its binding: with
// this process, or when its time to live is over. Closing it again returns the
// same.
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

// keep renews the lease when a third of its time is over, and in between looks
// whether it still stands, until it is closed or lost.
func (l *Lease) keep(ctx context.Context, renewed time.Time) {
	defer close(l.kept)
	ttl := time.Duration(l.TTL * float64(time.Second))
	for wait := look; ; {
		if ttl > 0 {
			wait = min(wait, ttl/3, ttl-time.Since(renewed))
		}
		if !pause(ctx, wait) {
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
		case isRefusal(err), ttl > 0 && time.Since(renewed) >= ttl:
			close(l.lost)
			return
		default:
			wait = tryAgain
		}
	}
}

// touch renews the lease if that is due, and else looks whether it stands. A
// renewal after the end would be in vain, so it is not waited for.
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

// isRefusal reports whether the daemon answered, and will not answer otherwise
// next time.
func isRefusal(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && problem.Status < 500
}

// hasEnded reports whether the daemon says that there is no such lease any more.
func hasEnded(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && slices.Contains([]string{"unknown_allocation", "stale_fence", "lease_expired"}, problem.Code)
}

// pause waits, and reports whether it did so to the end.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
