package peercred

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/berth-gpu/berth/internal/access"
)

// Limits limits the number of connections. Connections of administrators and of others
// count separately.
type Limits struct {
	User    int // of one user, if Of is nil; and of those who show one credential from elsewhere
	Unknown int // of all callers together whose user is not known
	All     int // of all users together, except administrators
	Admin   int // of all administrators together

	// First is how many connections beyond All are reserved for users with fewer than
	// Few, so that a person with many user ids, such as a range for containers, does
	// not lock others out.
	First, Few int

	// Of returns how many connections a caller with a known user may have.
	Of func(*access.Caller) int
}

// room reports whether there is room for another connection of a user, given how many
// they have.
func (l Limits) room(has, most, all int) bool {
	return has < most && (all < l.All || has < l.Few && all < l.All+l.First)
}

// Guests counts the connections to all doors of one daemon.
type Guests struct {
	limits Limits
	rules  func() *access.Rules
	answer *rate.Limiter // of answers to callers that are turned away

	mu     sync.Mutex // guards what follows
	byUser map[int]guest
	all    int
	admins int

	// strangers are the connections whose user is not known and that have shown no
	// credential: they give way to others. The rest of those without a user count by
	// what they have shown.
	strangers map[*Conn]struct{}
	shown     map[string]int
	arrived   uint64 // number of strangers so far
}

// guest is one user with connections.
type guest struct {
	has    int
	groups []int // of the connection that came last
}

// NewGuests returns a counter for a daemon with these rules.
func NewGuests(l Limits, rules func() *access.Rules) *Guests {
	return &Guests{limits: l, rules: rules, answer: rate.NewLimiter(1000, 256), byUser: map[int]guest{}, strangers: map[*Conn]struct{}{}, shown: map[string]int{}}
}

// full reports whether another connection of a user would be too many, administrator or
// not. The listener calls it before it knows much about a caller; groups returns those of
// the caller.
func (g *Guests) full(uid int, groups func() []int) bool {
	rules := g.rules()
	own, given := rules.Users[uid]
	if uid == 0 || uid == rules.Daemon || own.Role == access.Admin || g.hasRoom(uid) { // the user may be an administrator
		return false
	}
	return given || !slices.ContainsFunc(groups(), func(gid int) bool { return rules.Groups[gid].Role == access.Admin })
}

// hasRoom reports whether there is room for another connection of a user, or a stranger who
// gives way.
func (g *Guests) hasRoom(uid int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	user := g.byUser[uid]
	most := g.limits.most(uid, user.groups)
	return g.limits.room(user.has, most, g.all) || len(g.strangers) > 0 && (uid == unknown || user.has < most)
}

// most returns how many connections a user may have.
func (l *Limits) most(uid int, groups []int) int {
	switch {
	case uid == unknown:
		return l.Unknown
	case l.Of == nil:
		return l.User
	}
	return l.Of(&access.Caller{UID: access.KnownUID(uid), Groups: groups})
}

// unknown stands for callers with an unknown user.
const unknown = -1

// enter lets a connection in, or returns false if there are too many. A stranger gives
// way to it if that makes room.
func (g *Guests) enter(c *Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.admin {
		if g.admins >= g.limits.Admin {
			return false
		}
		g.admins++
		return true
	}
	uid, groups := c.peer.UID.Or(unknown), c.peer.Groups
	most := g.limits.most(uid, groups)
	for !g.limits.room(g.byUser[uid].has, most, g.all) {
		last := g.mostOfOne()
		if last == nil || uid != unknown && g.byUser[uid].has >= most {
			return false
		}
		g.mu.Unlock()
		_ = last.Close()
		g.mu.Lock()
	}
	g.byUser[uid] = guest{g.byUser[uid].has + 1, groups}
	g.all++
	if uid == unknown {
		g.arrived++
		c.arrived = g.arrived
		g.strangers[c] = struct{}{}
	}
	return true
}

// mostOfOne returns the oldest stranger from the address that has the most, or nil if there
// is none: whoever opens many connections loses their own. The caller holds mu.
func (g *Guests) mostOfOne() (oldest *Conn) {
	from := map[string]int{}
	for c := range g.strangers {
		from[c.from]++
	}
	for c := range g.strangers {
		if oldest == nil || from[c.from] > from[oldest.from] || from[c.from] == from[oldest.from] && c.arrived < oldest.arrived {
			oldest = c
		}
	}
	return oldest
}

func (g *Guests) leave(c *Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.admin {
		g.admins--
		return
	}
	g.all--
	delete(g.strangers, c)
	if c.shown == "" {
		g.forget(c.peer.UID.Or(unknown))
	} else if g.shown[c.shown]--; g.shown[c.shown] == 0 {
		delete(g.shown, c.shown)
	}
}

// forget takes a connection out of those of a user. The caller holds mu.
func (g *Guests) forget(uid int) {
	user := g.byUser[uid]
	if user.has--; user.has == 0 {
		delete(g.byUser, uid)
		return
	}
	g.byUser[uid] = user
}

// Conn is a connection whose other end is known.
type Conn struct {
	net.Conn
	peer   access.Peer
	guests *Guests // counts it
	admin  bool    // as an administrator
	once   sync.Once

	from    string // address or network of another machine
	arrived uint64 // as which of the strangers; guarded by guests.mu
	shown   string // credential by which it counts; guarded by guests.mu

	mu    sync.Mutex // guards what follows
	limit time.Time  // the deadline set for writing; zero if none
	until time.Time  // the deadline in force
}

// Peer returns what the kernel says about the other end.
func (c *Conn) Peer() access.Peer { return c.peer }

// Shows records that a connection whose user is not known has shown a valid credential: it
// is no stranger any more, and counts with the others that have shown the same.
func (c *Conn) Shows(credential string) {
	g := c.guests
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, stranger := g.strangers[c]; !stranger || g.shown[credential] >= g.limits.User {
		return
	}
	delete(g.strangers, c)
	g.forget(unknown)
	c.shown = credential
	g.shown[credential]++
}

// Close closes the connection and makes room for another one.
func (c *Conn) Close() error {
	c.once.Do(func() { c.guests.leave(c) })
	return c.Conn.Close()
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline sets how long writes may take in all. Each write takes no longer
// than patience in any case.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit, c.until = t, t
	if most := time.Now().Add(patience); t.After(most) {
		c.until = most
	}
	return c.Conn.SetWriteDeadline(c.until)
}

// patience is the longest that a reader may leave an answer in its socket before the
// daemon closes the connection, and patience/2 the shortest. Unread data takes memory.
const patience = 10 * time.Second

func (c *Conn) Write(b []byte) (int, error) {
	if err := c.extend(time.Now()); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// extend postpones the deadline if it is near. Most writes need no change.
func (c *Conn) extend(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until.Sub(now) > patience/2 || !c.limit.IsZero() && c.until.Equal(c.limit) {
		return nil // it is far enough, or as far as it may be
	}
	if c.until = now.Add(patience); !c.limit.IsZero() && c.limit.Before(c.until) {
		c.until = c.limit
	}
	return c.Conn.SetWriteDeadline(c.until)
}

// Listener identifies callers as they connect, and turns them away if there are
// too many.
type Listener struct {
	net.Listener
	Kernel *Kernel
	Guests *Guests
	// TurnedAway is called for each caller that is turned away; it must not block.
	TurnedAway func()
}

// Accept returns the next caller that there is room for, as a *Conn. It reads nothing
// from the connection.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
	}
}

func (l *Listener) admit(raw net.Conn) *Conn {
	var p access.Peer
	if socket, ok := raw.(*net.UnixConn); ok {
		p = l.Kernel.User(socket)
		if l.Guests.full(p.UID.Or(unknown), func() []int { return l.Kernel.Groups(socket) }) {
			l.turnAway(raw)
			return nil
		}
		p = l.Kernel.Unix(socket)
	} else {
		p = l.Kernel.TCP(raw)
	}
	admin := access.May(l.Guests.rules().Actor(&p.Caller), access.Exceed, access.Object{}) == nil
	c := &Conn{Conn: raw, peer: p, guests: l.Guests, admin: admin, from: fromWhere(raw)}
	if !l.Guests.enter(c) {
		l.turnAway(raw)
		return nil
	}
	return c
}

// fromWhere returns the address that a TCP connection comes from.
func fromWhere(c net.Conn) string {
	from, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return access.From(from.Addr())
}

// turnAway closes a connection. A caller may connect again and again, so this must cost
// little, and only some callers get an answer that says why.
func (l *Listener) turnAway(raw net.Conn) {
	if l.Guests.answer.Allow() {
		_ = raw.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = raw.Write(busy) // as a courtesy; it may not get through
	}
	_ = raw.Close()
	if l.TurnedAway != nil {
		l.TurnedAway()
	}
}

// busy is the whole answer to a caller that is turned away. It says how long it is: if the
// caller has written a request, which nobody reads, an error follows in place of an end.
var busy = []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nConnection: close\r\n" +
	"Content-Length: " + strconv.Itoa(len(busyText)) + "\r\n\r\n" + busyText)

const busyText = `{"type":"about:blank","title":"Service Unavailable","status":503,"code":"too_many_connections","detail":"You have too many connections to the daemon open, or all users together have. Close some, or use one for several requests."}` + "\n"
