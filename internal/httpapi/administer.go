package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"

	"github.com/berth-gpu/berth/internal/process"
)

// endsKey is where the ends of a TCP connection are kept in the context.
type endsKey struct{}

// ends are the addresses of a TCP connection.
type ends struct{ local, remote netip.AddrPort }

func endsOf(c net.Conn) (ends, bool) {
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	remote, err2 := netip.ParseAddrPort(c.RemoteAddr().String())
	return ends{local, remote}, err == nil && err2 == nil
}

// administrator refuses whoever may not change how the daemon works for
// everybody: that is for root, for the user that it runs as, and for whoever
// has the token. A caller over TCP is known by whose socket it is; where that
// cannot be found out, being on this machine is enough.
func administrator(ctx context.Context) error {
	allowed := true
	if by, known := knownCaller(ctx); known {
		allowed = by.Any
	} else if over, tcp := ctx.Value(endsKey{}).(ends); tcp {
		uid, err := process.SocketOwner(over.local, over.remote)
		allowed = err != nil || uid == 0 || uid == os.Geteuid()
	}
	if allowed {
		return nil
	}
	return problem(http.StatusForbidden, "not_allowed", "Only root, or the user that the daemon runs as, may change this for everybody. Nothing was changed.")
}
