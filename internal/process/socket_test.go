package process

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
)

func TestSocketOwner(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // a machine without IPv6
			continue
		}
		defer l.Close()
		caller, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer caller.Close()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		local, remote := netip.MustParseAddrPort(conn.LocalAddr().String()), netip.MustParseAddrPort(conn.RemoteAddr().String())
		if uid, err := SocketOwner(local, remote); err != nil || uid != os.Getuid() {
			t.Errorf("%s: the caller is user %d, %v; want %d", address, uid, err, os.Getuid())
		}
		if _, err := SocketOwner(remote, netip.AddrPortFrom(local.Addr(), 1)); !errors.Is(err, ErrNoSocket) {
			t.Errorf("%s: a connection that is not there: %v", address, err)
		}
	}
}
