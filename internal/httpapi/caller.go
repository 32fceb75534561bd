package httpapi

import (
	"context"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"

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
		if p.Door == access.TCP && p.UID == access.KnownUID(0) {
			return d.Kernel.Find(p)
		}
		return p
	})
	return &caller{
		door:     p.Door,
		standing: func() access.Actor { return settled().Actor(d.Daemon) },
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
	door     access.Door
	standing func() access.Actor // what it may do, and the user whose turn it takes; it may lack the name
	resolve  func() identity     // who it is, with its name; looked up once
	locate   func() access.Peer  // which process it is and where, as far as that can be found out
}

// standingOf returns who makes a request, without waiting for a name. A request
// that came through no door of ours is a stranger's.
func standingOf(ctx context.Context) access.Actor {
	c, known := ctx.Value(callerKey{}).(*caller)
	if !known {
		return stranger()
	}
	return c.standing()
}

// identity is who a caller is, and the caller as the holder of a lease.
type identity struct {
	access.Actor
	holder lease.Holder
}

// identityFor returns the identity of an actor whose process is not known.
func identityFor(a access.Actor) identity {
	return identity{a, lease.Holder{UID: a.UID, User: a.User}}
}

// identity names a peer.
func (d Doorkeeper) identity(p access.Peer, boot string) identity {
	a := p.Actor(d.Daemon)
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

// stranger returns the actor that nothing is known about.
func stranger() access.Actor { return access.Actor{UID: access.NoUID, User: "unknown"} }

// identityOf returns who makes a request. It may wait a moment for the name of
// the user.
func identityOf(ctx context.Context) identity {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c.identity()
}

// identity returns who a caller is; nil is nobody.
func (c *caller) identity() identity {
	if c == nil {
		return identityFor(stranger())
	}
	return c.resolve()
}

// withToken marks a request as made by somebody who showed the token. Where it
// came from stays known.
func withToken(ctx context.Context) context.Context {
	from := access.Caller{Token: true}
	c := &caller{locate: func() access.Peer { return access.Peer{} }}
	if came, known := ctx.Value(callerKey{}).(*caller); known {
		from.Door, c.door, c.locate = came.door, came.door, came.locate
	}
	a := from.Actor(0) // a token counts for the same, whoever the daemon runs as
	c.standing = func() access.Actor { return a }
	c.resolve = func() identity { return identityFor(a) }
	return context.WithValue(ctx, callerKey{}, c)
}

// fromHere returns a user of this machine as its socket would know them.
func fromHere(uid int) access.Peer {
	return access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(uid), Place: access.Here}}
}

// InProcess serves requests that come from this very process, which may do
// everything.
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

// askerOf returns who makes a request, as the desk takes it.
func askerOf(ctx context.Context) desk.Caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	who := c.identity()
	by := desk.Caller{Actor: who.Actor, Holder: who.holder, PIDs: c}
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
