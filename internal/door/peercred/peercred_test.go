package peercred

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process"
)

// listen accepts one connection and hands it to the test.
func listen(t *testing.T, network, address string) (net.Listener, func() net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skip(err) // a machine without IPv6
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, func() net.Conn {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

func self(t *testing.T) process.ID {
	t.Helper()
	id, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func processOf(p access.Peer) process.ID { return process.ID{PID: p.PID, Start: p.Start} }

func TestUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, accept := listen(t, "unix", path)
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := New(process.Proc()).Unix(accept().(*net.UnixConn))
	if p.Door != access.Socket || p.UID != access.KnownUID(os.Getuid()) || processOf(p) != self(t) || p.Place != access.Here || p.Name == "" {
		t.Errorf("it is %+v", p)
	}
	want, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if want = append(want, os.Getgid()); len(p.Groups) == 0 || !sameSet(p.Groups, want) {
		t.Errorf("its groups are %v, want %v", p.Groups, want)
	}
}

func sameSet(a, b []int) bool {
	sorted := func(list []int) []int { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return slices.Equal(sorted(a), sorted(b))
}

// A user may be in more groups than the first question has room for.
func TestManyGroups(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be in any group")
	}
	path := filepath.Join(t.TempDir(), "s")
	_, accept := listen(t, "unix", path)
	cmd := exec.Command("python3", "-c", "import os,socket,sys\nos.setgroups(range(1000, 1300))\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := New(process.Proc()).Unix(accept().(*net.UnixConn))
	if len(p.Groups) != 301 || !slices.Contains(p.Groups, 1299) || !slices.Contains(p.Groups, 0) {
		t.Errorf("its groups are %v", p.Groups)
	}
}

// A process that has ended is not known, and neither is one that has its number
// now; its user is.
func TestUnixPeerThatHasEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	_, accept := listen(t, "unix", path)
	cmd := exec.Command("python3", "-c", "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := New(process.Proc()).Unix(accept().(*net.UnixConn))
	if p.UID != access.KnownUID(os.Getuid()) || processOf(p) != (process.ID{}) || p.Place != access.Unknown {
		t.Errorf("it is %+v", p)
	}
}

func TestTCP(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		t.Run(address, func(t *testing.T) {
			l, accept := listen(t, "tcp", address)
			_, port, _ := net.SplitHostPort(l.Addr().String())
			host := "127.0.0.1"
			if address == "[::1]:0" {
				host = "::1"
			}
			c, err := net.Dial("tcp", net.JoinHostPort(host, port))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			k := New(process.Proc())
			p := k.TCP(accept())
			if p.UID != access.KnownUID(os.Getuid()) || processOf(p) != (process.ID{}) {
				t.Errorf("it is %+v", p)
			}
			if p = k.Find(p); processOf(p) != self(t) || p.Place != access.Here {
				t.Errorf("its process is %+v", p)
			}
		})
	}
}

// A caller that has reset, closed or half closed its connection is nobody: the
// kernel lists what is left of the socket under uid 0, or not at all.
func TestTCPThatIsNotEstablished(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn) error{
		"reset":       func(c *net.TCPConn) error { _ = c.SetLinger(0); return c.Close() },
		"closed":      func(c *net.TCPConn) error { return c.Close() },
		"half closed": func(c *net.TCPConn) error { return c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			l, accept := listen(t, "tcp", "127.0.0.1:0")
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "PUT /api/gpu/config HTTP/1.1\r\n"); err != nil {
				t.Fatal(err)
			}
			if err := end(c.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			k := New(process.Proc())
			p := k.TCP(accept())
			if p.UID.Known() || processOf(k.Find(p)) != (process.ID{}) {
				t.Errorf("it is %+v", p)
			}
		})
	}
}

// A caller in another PID namespace is told from one that is not, also where
// both are root.
func TestUnixFromAContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make namespaces for sure")
	}
	path := filepath.Join(t.TempDir(), "s")
	_, accept := listen(t, "unix", path)
	cmd := exec.Command("unshare", "-pf", "--mount-proc", "python3", "-c",
		"import os,socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nprint(os.getpid(), flush=True)\ns.recv(1)", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	c := accept()
	defer c.Close()
	line := make([]byte, 16)
	n, _ := out.Read(line)
	inside, _ := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	p := New(process.Proc()).Unix(c.(*net.UnixConn))
	if p.UID != access.KnownUID(0) || p.Place != access.Elsewhere || p.Namespace == "" || p.PID == inside {
		t.Errorf("process %d of the namespace is %+v", inside, p)
	}
	role := new(access.Rules).Standing(&p.Caller).Role
	if role != access.Viewer {
		t.Errorf("root in a container is %v", role)
	}
}

func TestUnmappedUsersAreUnknown(t *testing.T) {
	mapped, unmapped := &Kernel{mapped: true}, &Kernel{}
	if mapped.user(overflowUID) != access.KnownUID(overflowUID) || unmapped.user(overflowUID).Known() || unmapped.user(7) != access.KnownUID(7) || mapped.user(^uint32(0)).Known() {
		t.Error("the id for users that are not mapped is taken for a user, or another one is not")
	}
}

func TestGuests(t *testing.T) {
	g := NewGuests(Limits{User: 2, Unknown: 1, All: 4, Admin: 1}, of(0))
	enter := func(uid int, admin, want bool) {
		t.Helper()
		if got := g.enter(uid, admin, []int{uid}); got != want {
			t.Errorf("user %d (administrator: %v) was let in: %v", uid, admin, got)
		}
	}
	enter(1, false, true)
	enter(1, false, true)
	enter(1, false, false) // as many as one user may have
	enter(unknown, false, true)
	enter(unknown, false, false)
	enter(2, false, true)
	enter(3, false, false) // as many as all may have
	enter(0, true, true)   // which is no concern of root's
	enter(0, true, false)
	g.limits.First, g.limits.Few = 1, 1
	enter(2, false, false) // has one already
	enter(3, false, true)  // a newcomer
	enter(4, false, false)
	g.leave(3, false)
	g.leave(1, false)
	enter(3, false, true)
	g.leave(0, true)
	enter(0, true, true)
}

// Users may have limits of their own, which may change while they are connected.
func TestGuestsWithLimitsOfTheirOwn(t *testing.T) {
	most := map[int]int{1: 1, 2: 3}
	g := NewGuests(Limits{User: 9, Unknown: 1, All: 99, Admin: 1, Of: func(c *access.Caller) int {
		if len(c.Groups) == 0 {
			return 5
		}
		return most[c.Groups[0]]
	}}, of(0))
	if !g.enter(1, false, []int{1}) || g.enter(1, false, []int{1}) || !g.full(1) {
		t.Error("a user with a limit of 1 has not exactly one connection")
	}
	for range 2 {
		if !g.enter(2, false, []int{2}) || g.full(2) {
			t.Error("a user with a limit of 3 has less than two")
		}
	}
	if most[1], most[2] = 2, 1; g.full(1) || !g.enter(1, false, []int{1}) || !g.full(2) || g.enter(2, false, []int{2}) {
		t.Error("a changed limit does not hold")
	}
	if g.enter(unknown, false, nil); g.enter(unknown, false, nil) {
		t.Error("callers whose user is not known have the limit of one who is")
	}
}

// A connection makes room when it is closed, once.
func TestListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	inner, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	away := make(chan struct{}, 1)
	// The daemon is somebody else, so that this user is nobody special.
	l := &Listener{
		Listener: inner, Kernel: New(process.Proc()), Guests: NewGuests(Limits{User: 1, Unknown: 1, All: 9, Admin: 1}, of(os.Getuid()+1)),
		TurnedAway: func() { away <- struct{}{} },
	}
	defer l.Close()
	dial := func() net.Conn {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second := dial()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	<-away
	answer, err := io.ReadAll(second)
	if err != nil || !strings.Contains(string(answer), "too_many_connections") {
		t.Errorf("it was told %q, %v", answer, err)
	}
	_, _ = first.Close(), first.Close()
	dial()
	c := <-accepted
	if c == nil || processOf(c.(*Conn).Peer()) != self(t) {
		t.Errorf("the next one is %+v", c)
	}
	_ = c.Close()
	if l.Guests.all+l.Guests.admins != 0 || len(l.Guests.byUser) != 0 {
		t.Errorf("left behind: %+v", l.Guests)
	}
}

// A reader that leaves its answers alone is let go; deadlines that somebody set
// hold.
func TestConnHasPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		c := &Conn{Conn: near, guests: NewGuests(Limits{}, nil)}
		defer c.Close()
		wrote := func() time.Duration {
			begun := time.Now()
			if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("nobody reads, and the error is %v", err)
			}
			return time.Since(begun)
		}
		if took := wrote(); took < patience/2 || took > patience {
			t.Errorf("it was waited %v for", took)
		}
		if took := wrote(); took < patience/2 || took > patience {
			t.Errorf("then it was waited %v for", took)
		}
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		if took := wrote(); took != time.Second {
			t.Errorf("with a deadline of a second it was waited %v for", took)
		}
		_ = c.SetWriteDeadline(time.Time{})
		if took := wrote(); took < patience/2 || took > patience {
			t.Errorf("without one it was waited %v for", took)
		}
	})
}

// of returns the rules of a daemon that runs as a user.
func of(daemon int) func() *access.Rules {
	return func() *access.Rules { return &access.Rules{Daemon: daemon} }
}
