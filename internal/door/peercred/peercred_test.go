package peercred

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
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
	last := map[int]*Conn{} // of each user
	enter := func(uid int, admin, want bool) {
		t.Helper()
		c := let(g, uid, admin, "", uid)
		if got := c != nil; got != want {
			t.Errorf("user %d (administrator: %v) was let in: %v", uid, admin, got)
		}
		if c != nil {
			last[uid] = c
		}
	}
	enter(1, false, true)
	enter(1, false, true)
	enter(1, false, false) // as many as one user may have
	enter(2, false, true)
	enter(2, false, true)
	enter(3, false, false) // as many as all may have
	enter(0, true, true)   // which is no concern of root's
	enter(0, true, false)
	g.limits.First, g.limits.Few = 1, 1
	enter(2, false, false) // has one already
	enter(3, false, true)  // a newcomer
	enter(4, false, false)
	_, _ = last[3].Close(), last[1].Close()
	enter(3, false, true)
	_ = last[0].Close()
	enter(0, true, true)
}

// let lets a connection in, or returns nil.
func let(g *Guests, uid int, admin bool, from string, groups ...int) *Conn {
	near, _ := net.Pipe()
	c := &Conn{Conn: near, guests: g, admin: admin, from: from}
	if c.peer.Groups = groups; uid != unknown {
		c.peer.UID = access.KnownUID(uid)
	}
	if !g.enter(c) {
		return nil
	}
	return c
}

// isOpen reports whether a connection was not closed.
func isOpen(c *Conn) bool { return c.SetReadDeadline(time.Time{}) == nil }

// A connection that has shown no token gives way: those of an address with many first, and
// then the oldest.
func TestStrangersGiveWay(t *testing.T) {
	g := NewGuests(Limits{User: 2, Unknown: 4, All: 9, Admin: 1}, of(0))
	var many []*Conn
	for range 3 {
		many = append(many, let(g, unknown, false, "192.0.2.1"))
	}
	other := let(g, unknown, false, "192.0.2.2")
	next := let(g, unknown, false, "192.0.2.3")
	if next == nil || isOpen(many[0]) || !isOpen(many[1]) || !isOpen(other) {
		t.Error("another stranger does not take the place of the oldest of those from one address")
	}
	next.Shows("token:ci")
	for range 8 {
		if let(g, unknown, false, "192.0.2.1") == nil {
			t.Error("a stranger is turned away")
		}
	}
	if !isOpen(next) || !isOpen(other) || isOpen(many[1]) || isOpen(many[2]) {
		t.Error("a caller with a token, or from an address with one connection, gives way to many from one address")
	}
	two, three := let(g, unknown, false, "192.0.2.4"), let(g, unknown, false, "192.0.2.4")
	two.Shows("token:ci")
	three.Shows("token:ci") // as one too many, it stays a stranger
	if _, stranger := g.strangers[three]; !stranger || g.shown["token:ci"] != 2 {
		t.Errorf("one token has %v", g.shown)
	}

	// Users of this machine come before strangers, within their own limit.
	for uid := range 9 {
		if let(g, uid+1, false, "", uid+1) == nil && len(g.strangers) > 0 {
			t.Errorf("user %d is turned away while there are %d strangers", uid+1, len(g.strangers))
		}
	}
	if len(g.strangers) != 0 || !isOpen(next) || g.all != 9 {
		t.Errorf("there are %d strangers, and %d in all", len(g.strangers), g.all)
	}
	_, _ = next.Close(), two.Close()
	if len(g.shown) != 0 || g.all != 7 || g.byUser[unknown].has != 0 {
		t.Errorf("left behind: %+v", g)
	}
}

// Whoever is an administrator by a group is let in although others have all places.
func TestAdministratorsByGroupFindRoom(t *testing.T) {
	rules := &access.Rules{Daemon: 0, Groups: map[int]access.Given{27: {Role: access.Admin}}, Users: map[int]access.Given{5: {Role: access.User}}}
	g := NewGuests(Limits{User: 2, Unknown: 1, All: 1, Admin: 1}, func() *access.Rules { return rules })
	let(g, 1, false, "")
	for _, c := range []struct {
		uid    int
		groups []int
		full   bool
	}{{2, []int{27}, false}, {3, []int{28}, true}, {4, nil, true}, {5, []int{27}, true}} {
		if got := g.full(c.uid, func() []int { return c.groups }); got != c.full {
			t.Errorf("user %d of the groups %v: full is %v", c.uid, c.groups, got)
		}
	}
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
	enter := func(uid int) bool { return let(g, uid, false, "", uid) != nil }
	full := func(uid int) bool { return g.full(uid, func() []int { return nil }) }
	if !enter(1) || enter(1) || !full(1) {
		t.Error("a user with a limit of 1 has not exactly one connection")
	}
	for range 2 {
		if !enter(2) || full(2) {
			t.Error("a user with a limit of 3 has less than two")
		}
	}
	if most[1], most[2] = 2, 1; full(1) || !enter(1) || !full(2) || enter(2) {
		t.Error("a changed limit does not hold")
	}
	for range 3 {
		enter(unknown)
	}
	if len(g.strangers) != 1 {
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
	answer, err := http.ReadResponse(bufio.NewReader(second), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || int64(len(text)) != answer.ContentLength || !strings.Contains(string(text), "too_many_connections") {
		t.Errorf("it was told %q of %d bytes, %v", text, answer.ContentLength, err)
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
		for _, set := range []func(time.Time) error{c.SetWriteDeadline, c.SetDeadline} {
			begun := time.Now()
			_ = set(begun.Add(time.Minute))
			for time.Since(begun) < 55*time.Second {
				if took := wrote(); took < patience/2 || took > patience {
					t.Errorf("with a deadline of a minute it was waited %v for", took)
				}
			}
			_ = wrote()
			if took := time.Since(begun); took != time.Minute {
				t.Errorf("with a deadline of a minute all writes took %v", took)
			}
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
