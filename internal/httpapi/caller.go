package httpapi

import (
	"context"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// Doorkeeper turns what the kernel says about a connection into a caller.
type Doorkeeper struct {
	Kernel    Kernel
	Processes process.Table
	Names     Names // of users; nil: their numbers
	Daemon    int   // the user that the daemon runs as
}

// Kernel finds the processes of callers.
type Kernel interface {
	// Find adds to a peer on TCP which process it is, and where that lives. It
	// returns the peer as it is where that is not certain. It looks through all
	// processes, so it is asked only for callers who need it.
	Find(access.Peer) access.Peer
}

// identified is a connection whose other end is known.
type identified interface{ Peer() access.Peer }

// Names knows what users are called.
type Names interface {
	// Of is the name of a user, or the number if no name is found in time.
	Of(uid int) string
}

// callerKey is where a connection's caller is kept in the context.
type callerKey struct{}

// ConnContext is for http.Server.ConnContext: it notes who is at the other end
// of a connection that has a method Peer. It asks nobody: the server calls it
// before it accepts the next connection. The first request looks up the name of
// the user.
func (d Doorkeeper) ConnContext() func(context.Context, net.Conn) context.Context {
	boot, _ := d.Processes.Boot() // without one, no lease can be bound to a process, and that is said then
	return func(ctx context.Context, c net.Conn) context.Context {
		known, ok := c.(identified)
		if !ok {
			return ctx
		}
		return context.WithValue(ctx, callerKey{}, d.caller(known.Peer(), boot))
	}
}

func (d Doorkeeper) caller(p access.Peer, boot string) *caller {
	settled := sync.OnceValue(func() access.Peer {
		// Root in a container is not root, so it matters which process it is.
		if p.Door == access.TCP && p.UID == gpu.Some(0) {
			return d.Kernel.Find(p)
		}
		return p
	})
	return &caller{
		standing: func() standing { return d.standing(settled()) },
		resolve:  sync.OnceValue(func() identity { return d.identity(settled(), boot) }),
		locate: sync.OnceValue(func() access.Peer {
			if p := settled(); p.PID != 0 {
				return p
			}
			return d.Kernel.Find(p)
		}),
	}
}

// caller is who makes the requests of one connection.
type caller struct {
	token    bool
	standing func() standing    // what it may do
	resolve  func() identity    // who it is, with its name; looked up once
	locate   func() access.Peer // which process it is and where, as far as that can be found out
}

// standing is what a caller may do, and the user whose turn it takes. It needs
// no name, so it waits for no user database.
type standing struct {
	role access.Role
	uid  int
}

func (d Doorkeeper) standing(p access.Peer) standing {
	role := p.Role(d.Daemon)
	if role < access.User {
		return standing{role, lease.NoUID}
	}
	return standing{role, p.UID.Or(lease.NoUID)}
}

// standingOf is what whoever makes a request may do. A request that came through
// no door of ours is a stranger's.
func standingOf(ctx context.Context) standing {
	c, known := ctx.Value(callerKey{}).(*caller)
	switch {
	case !known:
		return standing{access.Stranger, lease.NoUID}
	case c.token:
		return standing{access.Admin, lease.NoUID}
	}
	return c.standing()
}

// identity is who a caller is and what it may do.
type identity struct {
	lease.Actor
	role access.Role
}

// identity names a peer. One who may only look is nobody in particular: uid 0
// in a container is not the user root of this machine.
func (d Doorkeeper) identity(p access.Peer, boot string) identity {
	at := d.standing(p)
	if at.role < access.User {
		return identity{Actor: nobody(), role: at.role}
	}
	h := lease.Holder{UID: at.uid, User: strconv.Itoa(at.uid)}
	if d.Names != nil {
		h.User = d.Names.Of(at.uid)
	}
	if p.PID != 0 && p.Door == access.Socket {
		h.PID, h.Start, h.Boot, h.Name = p.PID, p.Start, boot, p.Name
	}
	return identity{Actor: lease.Actor{Holder: h, Any: at.role == access.Admin}, role: at.role}
}

func nobody() lease.Actor {
	return lease.Actor{Holder: lease.Holder{UID: lease.NoUID, User: "unknown"}}
}

// identityOf returns who makes a request. It may wait a moment for the name of
// the user.
func identityOf(ctx context.Context) identity {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c.identity()
}

// identity returns who a caller is; nil is nobody.
func (c *caller) identity() identity {
	switch {
	case c == nil:
		return identity{Actor: nobody(), role: access.Stranger}
	case c.token:
		return identity{Actor: lease.Actor{Holder: lease.Holder{UID: lease.NoUID, User: "token"}, Any: true}, role: access.Admin}
	}
	return c.resolve()
}

// callerOf is who makes a request, as the ledger takes it.
func callerOf(ctx context.Context) lease.Actor { return identityOf(ctx).Actor }

// withToken marks a request as made by somebody who showed the token. Where it
// came from stays known.
func withToken(ctx context.Context) context.Context {
	c := &caller{token: true, locate: func() access.Peer { return access.Peer{} }} // nothing else is asked of it
	if came, known := ctx.Value(callerKey{}).(*caller); known {
		c.locate = came.locate
	}
	return context.WithValue(ctx, callerKey{}, c)
}

// fromHere returns a user of this machine as its socket would know them.
func fromHere(uid int) access.Peer {
	return access.Peer{Caller: access.Caller{Door: access.Socket, UID: gpu.Some(uid), Place: access.Here}}
}

// InProcess serves requests that come from this very process, which may do
// everything.
func InProcess(h http.Handler) http.Handler {
	self := fromHere(os.Geteuid())
	c := &caller{
		standing: func() standing { return standing{access.Admin, os.Geteuid()} },
		resolve: func() identity {
			return identity{Actor: lease.Actor{Holder: lease.Holder{UID: os.Geteuid(), User: strconv.Itoa(os.Geteuid())}, Any: true}, role: access.Admin}
		},
		locate: func() access.Peer { return self },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// askerOf returns who makes a request, as the desk takes it.
func askerOf(ctx context.Context) desk.Caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	by := desk.Caller{Actor: c.identity().Actor, PIDs: c}
	if t, has := ctx.Value(turnKey{}).(*turn); has {
		by.Turn = t
	}
	return by
}

// Here translates the number of a process that the caller wrote down. In a
// container it means another process than here, so where the caller's PID
// namespace is not known, the number means nothing.
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
			return 0, desk.Refuse(desk.Conflict, "process_gone", "There is no process %d in the PID namespace of the caller that the daemon can see. Let the process ask for its lease itself, over the Unix socket.", pid)
		}
		return here, nil
	}
	return 0, desk.Refuse(desk.Forbidden, "process_not_known",
		"The daemon cannot tell which process %d is: it does not know the PID namespace of the caller. Ask over the Unix socket, or let the process ask for its lease itself.", pid)
}
