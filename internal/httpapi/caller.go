package httpapi

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/quota"
	"github.com/berth-gpu/berth/internal/tokens"
	"github.com/berth-gpu/berth/internal/tries"
	"github.com/berth-gpu/berth/internal/turns"
)

// Doorkeeper turns what the kernel says about a connection into a caller.
type Doorkeeper struct {
	Kernel    Kernel
	Processes process.Table
	Names     Names                // of users; nil: their numbers
	Rules     func() *access.Rules // which role a caller has, now
	Tokens    *tokens.Keeper
	Tries     *tries.Keeper // failed tries to show a token

	Limits func() *quota.Rules // what users may have, now; nil: what berth has by itself
}

// Kernel finds the processes of callers.
type Kernel interface {
	// Find adds to a TCP peer its process and the place of that process. It returns
	// the peer unchanged if that is not certain. It looks through all processes, so
	// it is called only for callers who need it.
	Find(access.Peer) access.Peer
}

// identified is a connection whose other end is known.
type identified interface{ Peer() access.Peer }

// Names finds the login names of users.
type Names interface {
	// Of returns the name of a user, or the number if it finds no name in time.
	Of(uid int) string
}

// callerKey is the context key of the caller of a connection.
type callerKey struct{}

// ConnContext returns a function for http.Server.ConnContext. The function stores
// the caller of a connection that has a method Peer. It looks nothing up, because
// the server calls it before it accepts the next connection; the first request
// looks up the name of the user.
func (d Doorkeeper) ConnContext() func(context.Context, net.Conn) context.Context {
	boot, _ := d.Processes.Boot() // without one, a lease that is bound to a process is refused
	return func(ctx context.Context, c net.Conn) context.Context {
		if secured, is := c.(interface{ NetConn() net.Conn }); is { // TLS
			c = secured.NetConn()
		}
		known, ok := c.(identified)
		if !ok {
			return ctx
		}
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String()) // a Unix socket has none
		return context.WithValue(ctx, callerKey{}, d.caller(known.Peer(), host, boot))
	}
}

func (d Doorkeeper) caller(p access.Peer, address, boot string) *caller {
	settled := sync.OnceValue(func() access.Peer {
		// Root in a container is not root, so it matters which process it is; and
		// where containers need a token, it matters for everybody.
		if p.Door == access.TCP && (p.UID == access.KnownUID(0) || d.Rules().ContainersNeedToken) {
			return d.Kernel.Find(p)
		}
		return p
	})
	return &caller{
		door:     p.Door,
		boot:     boot,
		uid:      p.UID,
		address:  address,
		rules:    d.Limits,
		groups:   func(locate func() access.Peer) []int { return d.groups(settled(), locate) },
		known:    func() (access.Caller, *access.Rules) { return settled().Caller, d.Rules() },
		standing: underRules(d.Rules, func(r *access.Rules) access.Actor { p := settled(); return r.Actor(&p.Caller) }),
		resolve: underRules(d.Rules, func(r *access.Rules) identity {
			who := d.identity(r, settled(), boot)
			who.Address = address
			return who
		}),
		locate: sync.OnceValue(func() access.Peer {
			if p := settled(); p.PID != 0 {
				return p
			}
			return d.Kernel.Find(p)
		}),
	}
}

// underRules returns a function that computes a value again only if the rules have
// changed since the last call.
func underRules[T any](rules func() *access.Rules, compute func(*access.Rules) T) func() T {
	type kept struct {
		rules *access.Rules
		value T
	}
	var last atomic.Pointer[kept]
	return func() T {
		now := rules()
		if k := last.Load(); k != nil && k.rules == now {
			return k.value
		}
		k := &kept{now, compute(now)}
		last.Store(k)
		return k.value
	}
}

// caller makes the requests of one connection.
type caller struct {
	door     access.Door
	boot     string              // which boot of the machine its process is of; empty: not known
	uid      access.UID          // that the kernel names, whatever the caller shows
	address  string              // of a TCP caller, without the port; empty: not known
	standing func() access.Actor // its role and user id; the name may be missing
	resolve  func() identity     // its identity with the name
	locate   func() access.Peer  // its process and the place of that, as far as they can be found

	// known returns what decides the role of the caller; nil: nothing has to.
	known func() (access.Caller, *access.Rules)

	shown       atomic.Pointer[tokenShown] // the token that it showed last; nil: none
	certificate atomic.Pointer[caller]     // the caller as the holder of its certificate; nil: it showed none yet

	rules  func() *quota.Rules                   // see Doorkeeper.Limits
	groups func(locate func() access.Peer) []int // of its process; nil: not known
	limits atomic.Pointer[quota.Limits]          // as of the last time that somebody asked
}

// standingOf returns who makes a request, without waiting for a name. It returns
// a stranger for a request whose caller is not known.
func standingOf(ctx context.Context) access.Actor {
	c, known := ctx.Value(callerKey{}).(*caller)
	if !known {
		return stranger()
	}
	return c.standing()
}

// identity is a caller as an actor and as the holder of a lease.
type identity struct {
	access.Actor
	holder lease.Holder
}

// identityFor returns the identity of an actor whose process is not known.
func identityFor(a access.Actor) identity {
	return identity{a, lease.Holder{UID: a.UID, User: a.User}}
}

// identity returns the identity of a peer.
func (d Doorkeeper) identity(r *access.Rules, p access.Peer, boot string) identity {
	a := r.Actor(&p.Caller)
	if a.User == "" {
		a.User = strconv.Itoa(a.UID)
		if d.Names != nil {
			a.User = d.Names.Of(a.UID)
		}
	}
	who := identityFor(a)
	if p.PID != 0 && p.Door == access.Socket && a.Role >= access.User {
		h := &who.holder
		h.PID, h.Start, h.Boot, h.Name = p.PID, p.Start, boot, p.Name
	}
	return who
}

// stranger returns the actor for a caller who is not known.
func stranger() access.Actor { return access.Actor{UID: access.NoUID, User: "unknown"} }

// identityOf returns who makes a request. It may wait a moment for the name of
// the user.
func identityOf(ctx context.Context) identity {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c.identity()
}

// identity returns the identity of a caller. A nil caller is a stranger.
func (c *caller) identity() identity {
	if c == nil {
		return identityFor(stranger())
	}
	return c.resolve()
}

// fromHere returns the peer of a user of this machine, as on the Unix socket.
func fromHere(uid int) access.Peer {
	return access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(uid), Place: access.Here}}
}

// InProcess wraps the API for requests from this process, which may do everything.
func InProcess(h http.Handler) http.Handler {
	self := access.Actor{UID: os.Geteuid(), User: strconv.Itoa(os.Geteuid()), Door: access.Inside, Role: access.Admin}
	c := &caller{
		door:     self.Door,
		standing: func() access.Actor { return self },
		resolve:  func() identity { return identityFor(self) },
		locate:   func() access.Peer { return fromHere(self.UID) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// askerOf returns who makes a request, in the form that the desk takes.
func askerOf(ctx context.Context) desk.Caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	who := c.identity()
	by := desk.Caller{Actor: who.Actor, Holder: who.holder, PIDs: c}
	if !exceeds(who.Actor) {
		by.Limits = c.quota()
	}
	if t, has := ctx.Value(turnKey{}).(*turns.Turn); has {
		by.Turn = t
	}
	return by
}

// Self adds the process of the caller to a holder, if that is certain.
func (c *caller) Self(h lease.Holder) lease.Holder {
	if c == nil || c.boot == "" {
		return h
	}
	if p := c.locate(); p.PID != 0 {
		h.PID, h.Start, h.Boot = p.PID, p.Start, c.boot
		h.Name = cmp.Or(h.Name, p.Name)
	}
	return h
}

// Here returns the pid that a process has on this machine, from the pid that the
// caller sent. In a container that pid means another process, so Here refuses it
// if the PID namespace of the caller is not known.
func (c *caller) Here(pid int) (int, error) {
	var from access.Peer
	if c != nil {
		from = c.locate()
	}
	switch {
	case from.Place == access.Here:
		return pid, nil
	case from.Namespace != "":
		here, err := process.Proc().InNamespace(from.Namespace, pid)
		if err != nil {
			return 0, desk.Refuse(desk.Conflict, "process_gone", "The daemon sees no process %d in the PID namespace of the caller. Let the process ask for its lease itself, over the Unix socket.", pid)
		}
		return here, nil
	}
	return 0, desk.Refuse(desk.Forbidden, "process_not_known",
		"The daemon cannot tell which process %d is: it does not know the PID namespace of the caller. Ask over the Unix socket, or let the process ask for its lease itself.", pid)
}
