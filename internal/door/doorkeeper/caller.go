package doorkeeper

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// identified is a connection whose other end is known.
type identified interface{ Peer() access.Peer }

// callerKey is the context key of the caller of a connection.
type callerKey struct{}

// ConnContext returns a function for http.Server.ConnContext. The function stores
// the caller of a connection that has a method Peer. It looks nothing up, because
// the server calls it before it accepts the next connection; the first request
// looks up the name of the user.
func (d Doorkeeper) ConnContext() func(context.Context, net.Conn) context.Context {
	boot, _ := d.Processes.Boot() // if it is unknown, a lease that is bound to a process is refused
	return func(ctx context.Context, c net.Conn) context.Context {
		secured, secure := c.(interface{ NetConn() net.Conn }) // TLS
		if secure {
			c = secured.NetConn()
		}
		known, ok := c.(identified)
		if !ok {
			return ctx
		}
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String()) // empty for a Unix socket
		who := d.caller(known.Peer(), host, boot)
		who.secure = secure
		if counted, is := c.(interface{ Shows(credential string) }); is && !known.Peer().UID.Known() {
			who.shows = counted.Shows
		}
		return With(ctx, who)
	}
}

// With returns a context for the requests of a caller.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Of returns the caller who makes a request, or nil if the caller is not known. A nil
// caller is a stranger.
func Of(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// Caller returns the caller at the other end of a connection from address.
func (d Doorkeeper) Caller(p access.Peer, address string) *Caller { return d.caller(p, address, "") }

func (d Doorkeeper) caller(p access.Peer, address, boot string) *Caller {
	find := sync.OnceValue(func() access.Peer { return d.Kernel.Find(p) })
	settled := func() access.Peer {
		// Root in a container is not root, so the process matters. Where containers
		// need a token, which may change while the connection is open, the process
		// matters for every user.
		if p.Door == access.TCP && (p.UID == access.KnownUID(0) || d.Rules().ContainersNeedToken) {
			return find()
		}
		return p
	}
	return &Caller{
		door:     p.Door,
		boot:     boot,
		uid:      p.UID,
		address:  address,
		rules:    d.Limits,
		groups:   func(locate func() access.Peer) []int { return d.groups(settled(), locate) },
		known:    func() (access.Caller, *access.Rules) { return settled().Caller, d.Rules() },
		standing: underRules(d.Rules, func(r *access.Rules) (access.Actor, bool) { p := settled(); return r.Actor(&p.Caller), true }),
		resolve: underRules(d.Rules, func(r *access.Rules) (Identity, bool) {
			who, named := d.identity(r, settled(), boot)
			who.Address = address
			return who, named
		}),
		locate: sync.OnceValue(func() access.Peer {
			if p := settled(); p.PID != 0 {
				return p
			}
			return d.Kernel.Find(p)
		}),
	}
}

// underRules returns a function that calls compute again only if the rules have changed
// since the last call, or if the last answer was not to be kept.
func underRules[T any](rules func() *access.Rules, compute func(*access.Rules) (found T, keep bool)) func() T {
	type kept struct {
		rules *access.Rules
		value T
	}
	var last atomic.Pointer[kept]
	return func() T {
		now := rules()
		if k := last.Load(); k != nil && k.rules == now {
			return k.value
		}
		found, keep := compute(now)
		if keep {
			last.Store(&kept{now, found})
		}
		return found
	}
}

// Caller makes the requests of one connection.
type Caller struct {
	door     access.Door
	boot     string              // boot of the machine in which its process runs; empty if not known
	uid      access.UID          // the user that the kernel names, whatever the caller shows
	address  string              // address of a TCP caller, without the port; empty if not known
	shows    func(string)        // tells the connection which credential it has shown; nil if the kernel names its user
	standing func() access.Actor // its role and user id; the name may be missing
	resolve  func() Identity     // its identity with the name
	locate   func() access.Peer  // its process and the place of the process, as far as they can be found

	// known returns what decides the role of the caller. It is nil if the role is
	// given.
	known func() (access.Caller, *access.Rules)

	shown       atomic.Pointer[tokenShown] // the last token that it showed; nil if none
	certificate atomic.Pointer[tokenShown] // its certificate; nil until it shows one

	secure  bool                         // the connection has TLS
	port    atomic.Pointer[string]       // the port that the browser last asked for; nil if none
	session atomic.Pointer[sessionShown] // the last session that it showed; nil if none
	renewed atomic.Int64                 // the hour in which it last got the cookie again
	signed  *sessions.Session            // the session that identifies it; nil if none does

	rules  func() *quota.Rules                   // see Doorkeeper.Limits
	groups func(locate func() access.Peer) []int // groups of its process; nil if not known
	limits atomic.Pointer[quota.Limits]          // as of the last call of Limits
}

// Standing returns the caller as an actor, without waiting for a name. A nil caller
// is a stranger.
func (c *Caller) Standing() access.Actor {
	if c == nil {
		return stranger()
	}
	return c.standing()
}

// showed tells the connection of a caller whose credential it has shown.
func (c *Caller) showed(holder *Caller) {
	if c != nil && c.shows != nil {
		c.shows(holder.Standing().User)
	}
}

// Known returns what decides the role of the caller, and the rules that apply. It
// returns false if the role is given.
func (c *Caller) Known() (access.Caller, *access.Rules, bool) {
	if c == nil || c.known == nil {
		return access.Caller{}, nil, false
	}
	known, rules := c.known()
	return known, rules, true
}

// Certain reports whether the kernel has named the user of the caller in a way in which
// programs may be run for it: on the Unix socket, from the namespaces of the machine, or
// by a session that began so; a session of root does not count. An administrator names
// the user of a token that is bound to one, wherever it is shown.
func (c *Caller) Certain() bool {
	known, _, is := c.Known()
	if is && known.Shown.Kind == access.Token {
		return known.Shown.UID.Known()
	}
	uid, named := known.UID.Get()
	if !is || !named || known.Place != access.Here {
		return false
	}
	switch known.Shown.Kind {
	case access.NoCredential:
		return known.Door == access.Socket
	case access.Session:
		return uid != 0
	}
	return false
}

// NeedsToken reports whether the caller is turned away only because it shows no token.
func (c *Caller) NeedsToken() bool {
	known, rules, is := c.Known()
	return is && rules.Standing(&known).Cause == access.NeedsToken
}

// Located returns the process of the caller and its place, as far as they can be
// found. Over TCP it looks through all processes.
func (c *Caller) Located() access.Peer {
	if c == nil {
		return access.Peer{}
	}
	return c.locate()
}

// Identity is a caller as an actor and as the holder of a lease.
type Identity struct {
	access.Actor
	Holder lease.Holder
}

// IdentityFor returns the identity of an actor whose process is not known.
func IdentityFor(a access.Actor) Identity {
	return Identity{a, lease.Holder{UID: a.UID, User: a.User}}
}

// identity returns the identity of a peer, and whether its name is settled: a number for
// want of an answer of the user database is not.
func (d Doorkeeper) identity(r *access.Rules, p access.Peer, boot string) (who Identity, named bool) {
	a := r.Actor(&p.Caller)
	named = true
	if a.User == "" {
		number := strconv.Itoa(a.UID)
		a.User = number
		if d.Names != nil {
			named = d.Names.Settled(a.UID) // first: the answer may come in between
			a.User = d.Names.Of(a.UID)
			named = named || a.User != number
		}
	}
	who = IdentityFor(a)
	if p.PID != 0 && p.Door == access.Socket && a.Role >= access.User {
		h := &who.Holder
		h.PID, h.Start, h.Boot, h.Name = p.PID, p.Start, boot, p.Name
	}
	return who, named
}

// stranger returns the actor for an unknown caller.
func stranger() access.Actor { return access.Actor{UID: access.NoUID, User: "unknown"} }

// Identity returns the identity of a caller. It may wait a moment for the name of
// the user. A nil caller is a stranger.
func (c *Caller) Identity() Identity {
	if c == nil {
		return IdentityFor(stranger())
	}
	return c.resolve()
}

// fromHere returns the peer of a user of this machine, as on the Unix socket.
func fromHere(uid int) access.Peer {
	return access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(uid), Place: access.Here}}
}

// As returns a caller on this machine whose identity is already known.
func As(who Identity) *Caller {
	return &Caller{
		door:     who.Door,
		standing: func() access.Actor { return who.Actor },
		resolve:  func() Identity { return who },
		locate:   func() access.Peer { return fromHere(max(who.UID, 0)) },
	}
}

// InProcess wraps the API for requests from this process, which may do everything.
func InProcess(h http.Handler) http.Handler {
	self := access.Actor{UID: os.Geteuid(), User: strconv.Itoa(os.Geteuid()), Door: access.Inside, Role: access.Admin}
	c := As(IdentityFor(self))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(With(r.Context(), c))) })
}

// Self adds the process of the caller to a holder, if that is certain.
func (c *Caller) Self(h lease.Holder) lease.Holder {
	if c == nil || c.boot == "" {
		return h
	}
	if p := c.locate(); p.PID != 0 {
		h.PID, h.Start, h.Boot = p.PID, p.Start, c.boot
		h.Name = cmp.Or(h.Name, p.Name)
	}
	return h
}

// builtinLimits are the rules of a daemon without configured limits.
var builtinLimits = &quota.Rules{}

// Limits returns the limits of the caller. It computes them once for each connection
// and configuration.
func (c *Caller) Limits() *quota.Limits {
	rules := builtinLimits
	if c != nil && c.rules != nil {
		rules = c.rules()
	}
	if c == nil {
		who := stranger()
		return rules.Of(quota.SubjectOf(&who, nil))
	}
	if found := c.limits.Load(); found != nil && found.Generation == rules.Generation {
		return found
	}
	who := c.standing() // without a name, which may take a while and is not needed here
	var groups []int
	if c.groups != nil && rules.Grouped() && who.UID != access.NoUID {
		groups = c.groups(c.locate)
	}
	found := rules.Of(quota.SubjectOf(&who, groups))
	c.limits.Store(found)
	return found
}

// groups returns the groups of a peer: those that the kernel named with the connection,
// or those of its process, if that can be found. It returns nil if they are not known.
func (d Doorkeeper) groups(p access.Peer, locate func() access.Peer) []int {
	if p.Groups != nil {
		return p.Groups
	}
	found := locate()
	groups, _ := d.Processes.Groups(process.ID{PID: found.PID, Start: found.Start}) // nil if not known
	return groups
}
