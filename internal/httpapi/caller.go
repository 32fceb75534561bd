package httpapi

import (
	"context"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// callerKey is where a connection's caller is kept in the context.
type callerKey struct{}

// Identify is for http.Server.ConnContext: it notes who is at the other end of
// a Unix socket, as the kernel says, once for the whole connection.
func Identify(processes process.Table) func(context.Context, net.Conn) context.Context {
	boot, _ := processes.Boot() // without one, no lease can be bound to a process, and that is said then
	return func(ctx context.Context, c net.Conn) context.Context {
		socket, ok := c.(*net.UnixConn)
		if !ok {
			if over, tcp := endsOf(c); tcp {
				ctx = context.WithValue(ctx, endsKey{}, over)
			}
			return ctx
		}
		peer, err := credentials(socket)
		if err != nil {
			return ctx
		}
		h := lease.Holder{UID: int(peer.Uid), User: process.UserName(int(peer.Uid))}
		if id, err := processes.Identify(int(peer.Pid)); err == nil {
			h.PID, h.Start, h.Boot, h.Name = id.PID, id.Start, boot, processes.Name(id.PID)
		}
		own := os.Geteuid()
		return context.WithValue(ctx, callerKey{}, lease.Actor{Holder: h, Any: h.UID == 0 || h.UID == own})
	}
}

func credentials(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return peer, failed
}

// callerOf is who makes a request. Over TCP nobody knows; whoever has the
// token is trusted with everything, and without one all share a name.
func callerOf(ctx context.Context) lease.Actor {
	if a, known := knownCaller(ctx); known {
		return a
	}
	return lease.Actor{Holder: lease.Holder{UID: lease.NoUID, User: "tcp"}}
}

// knownCaller is who makes a request, if that is known.
func knownCaller(ctx context.Context) (by lease.Actor, known bool) {
	by, known = ctx.Value(callerKey{}).(lease.Actor)
	return by, known
}

// withAdministrator marks a request as made by somebody who showed the token.
func withAdministrator(ctx context.Context) context.Context {
	return context.WithValue(ctx, callerKey{}, lease.Actor{Holder: lease.Holder{UID: lease.NoUID, User: "token"}, Any: true})
}
