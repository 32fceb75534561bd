package peercred

import (
	"errors"
	"net"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process"
)

// A connection that was reset before it was accepted is nobody's, also when
// somebody else has connected from the same port meanwhile: what the kernel says
// about that port is about the later one.
func TestTCPPortThatIsUsedAgain(t *testing.T) {
	l, accept := listen(t, "tcp", "127.0.0.1:0")
	first, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Write([]byte("DELETE /api/leases/x HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = first.SetLinger(0)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := net.DialTCP("tcp", first.LocalAddr().(*net.TCPAddr), l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Skip(err) // another program has got the port
	}
	defer second.Close()
	k := New(process.Proc())
	if p := k.TCP(accept()); p.UID.Known() {
		t.Errorf("the one that was reset is %+v", p)
	}
	if p := k.TCP(accept()); p.UID != access.KnownUID(unix.Getuid()) {
		t.Errorf("the one that came after it is %+v", p)
	}
}

// A socket that is bound to the loopback interface is found like any other.
func TestTCPBoundToAnInterface(t *testing.T) {
	l, accept := listen(t, "tcp", "127.0.0.1:0")
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.BindToDevice(fd, "lo"); err != nil {
		t.Skip(err) // a kernel before 5.7 lets only root do that
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if p := New(process.Proc()).TCP(accept()); p.UID != access.KnownUID(unix.Getuid()) {
		t.Errorf("it is %+v", p)
	}
}

func TestListeningNamesTheUserOfAPort(t *testing.T) {
	kernel := New(process.Proc())
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		if uid, err := kernel.Listening(port); err != nil || uid != access.KnownUID(os.Getuid()) {
			t.Errorf("%s: %v %v, want the user of this test", address, uid, err)
		}
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		if uid, err := kernel.Listening(port); err != nil || uid != access.KnownUID(os.Getuid()) {
			t.Errorf("%s with a connection: %v %v, want the user of this test", address, uid, err)
		}
		_ = l.Close()
		if uid, err := kernel.Listening(port); !errors.Is(err, ErrNotListening) {
			t.Errorf("%s after its end: %v %v, want that nothing listens", address, uid, err)
		}
		_ = c.Close()
	}
}
