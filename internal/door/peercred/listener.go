package peercred

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/berth-gpu/berth/internal/access"
)

// Limits limits the number of connections. Connections of administrators and of others
// count separately.
type Limits struct {
	User    int // of one user, if Of is nil
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
}

// guest is one user with connections.
type guest struct {
	has    int
	groups []int // of the connection that came last
}

// NewGuests returns a counter for a daemon with these rules.
func NewGuests(l Limits, rules func() *access.Rules) *Guests {
	return &Guests{limits: l, rules: rules, answer: rate.NewLimiter(100, 1), byUser: map[int]guest{}}
}

// full reports whether another connection of a user would be too many, administrator or
// not. The listener calls it before it knows much about a caller.
func (g *Guests) full(uid int) bool {
	if rules := g.rules(); uid == 0 || uid == rules.Daemon || rules.Users[uid].Role == access.Admin { // the user may be an administrator
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	user := g.byUser[uid]
	return !g.limits.room(user.has, g.limits.most(uid, user.groups), g.all)
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

// enter lets a connection in, or returns false if there are too many. The groups are
// those of the caller, or nil if they are not known.
func (g *Guests) enter(uid int, admin bool, groups []int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if admin {
		if g.admins >= g.limits.Admin {
			return false
		}
		g.admins++
		return true
	}
	user := g.byUser[uid]
	if !g.limits.room(user.has, g.limits.most(uid, groups), g.all) {
		return false
	}
	g.byUser[uid] = guest{user.has + 1, groups}
	g.all++
	return true
}

func (g *Guests) leave(uid int, admin bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if admin {
		g.admins--
		return
	}
	g.all--
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

	mu    sync.Mutex // guards what follows
	limit time.Time  // the deadline set for writing; zero if none
	until time.Time  // the deadline in force
}

// Peer returns what the kernel says about the other end.
func (c *Conn) Peer() access.Peer { return c.peer }

// Close closes the connection and makes room for another one.
func (c *Conn) Close() error {
	c.once.Do(func() { c.guests.leave(c.peer.UID.Or(unknown), c.admin) })
	return c.Conn.Close()
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit, c.until = t, t
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline sets how long writes may take in all. Each write takes no longer
// than patience in any case.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit, c.until = t, t
	return c.Conn.SetWriteDeadline(t)
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
	if !c.limit.IsZero() && c.limit.Before(now.Add(patience)) || c.until.Sub(now) > patience/2 {
		return nil // a nearer deadline is set, or it is far enough
	}
	c.until = now.Add(patience)
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
		if l.Guests.full(p.UID.Or(unknown)) {
			l.turnAway(raw)
			return nil
		}
		p = l.Kernel.Unix(socket)
	} else {
		p = l.Kernel.TCP(raw)
	}
	admin := access.May(l.Guests.rules().Actor(&p.Caller), access.Exceed, access.Object{}) == nil
	if !l.Guests.enter(p.UID.Or(unknown), admin, p.Groups) {
		l.turnAway(raw)
		return nil
	}
	return &Conn{Conn: raw, peer: p, guests: l.Guests, admin: admin}
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

// busy is the whole answer to a caller that is turned away.
var busy = []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" +
	`{"type":"about:blank","title":"Service Unavailable","status":503,"code":"too_many_connections","detail":"You have too many connections to the daemon open, or all users together have. Close some, or use one for several requests."}` + "\n")
