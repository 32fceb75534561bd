package doorkeeper

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/secret"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/when/later"
)

// The beginnings of the cookie's name. With TLS, the prefix makes a browser accept the
// cookie only from a page with TLS, for this host alone and for all of its paths.
const (
	plainName  = "berth_session"
	secureName = "__Host-" + plainName
)

// cookieName returns the name of the cookie. The name ends in the port that the browser
// asked for, because browsers keep cookies by host and not by port: a person may have
// the pages of several daemons open, through ssh for example.
func (c *Caller) cookieName() string {
	name := plainName
	if c.secure {
		name = secureName
	}
	if port := c.port.Load(); port != nil {
		name += "_" + *port
	}
	return name
}

// askedFor stores the port that a browser asked for.
func (c *Caller) askedFor(host string) {
	_, port, err := net.SplitHostPort(host)
	if number, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil {
		c.port.Store(nil)
	} else if last := c.port.Load(); last == nil || *last != port {
		port = strconv.FormatUint(number, 10)
		c.port.Store(&port)
	}
}

// mostCookies limits the cookies of one request that the doorkeeper checks. A server on
// another port of the same host can make a browser send more than one.
const mostCookies = 4

// errElsewhere means that a session is not valid for the connection that showed it.
var errElsewhere = errors.New("the session does not hold for this connection")

// sessionShown is a session that a caller showed, and the caller as its owner.
type sessionShown struct {
	sessions.Shown
	remembered
	token tokens.Shown // the token that the session began with; Standing is nil if it began with none
}

// withSession serves a request that shows a session. It returns false for a request
// that shows none. It ignores a cookie that is not valid here: it tells the browser to
// forget the cookie, and the request goes on without it.
func (d Doorkeeper) withSession(w http.ResponseWriter, r *http.Request, c *Caller, h http.Handler, refuse refusing, note func(*http.Request, *api.Problem)) bool {
	if d.Sessions == nil || c == nil || probes(r) || signsIn(r) {
		return false
	}
	secrets := cookies(r, c.cookieName())
	if len(secrets) == 0 {
		return false
	}
	s, err := d.session(c, secrets, time.Now())
	if unknown := (*api.Problem)(nil); later.Passes(err) && errors.As(err, &unknown) { // the session may stand, so nobody else makes the request
		refuse(w, r, unknown)
		return true
	}
	if err != nil {
		http.SetCookie(w, c.SignOut())
		if errors.Is(err, errElsewhere) {
			note(r, problems.New(http.StatusForbidden, "session_elsewhere", "A session was shown that another user began, or somebody on another machine."))
		}
		return false
	}
	if !fromOwnPage(r) {
		refuse(w, r, problems.New(http.StatusForbidden, "cross_origin", "A page of another site may not do this with the session of this one. Nothing was changed."))
		return true
	}
	c.showed(s.caller)
	w.Header().Set("Cache-Control", "no-store") // the answer is for one person
	if c.renews(time.Now()) {
		http.SetCookie(w, c.cookie(s.secret))
	}
	ctx, stop := s.until(r.Context(), d.Sessions)
	defer stop()
	h.ServeHTTP(w, r.WithContext(With(ctx, s.caller)))
	return true
}

// signsIn reports whether a request begins a session. Everybody may try to.
func signsIn(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == "/api/session"
}

// cookies returns the secrets that a request shows.
func cookies(r *http.Request, name string) (secrets []string) {
	if len(r.Header["Cookie"]) == 0 {
		return nil
	}
	for _, cookie := range r.CookiesNamed(name) {
		if len(secrets) < mostCookies && len(cookie.Value) == secret.Length {
			secrets = append(secrets, cookie.Value)
		}
	}
	return secrets
}

// fromOwnPage reports whether a browser made a request for the page of this daemon. A
// request that changes something must say so; a browser always does.
func fromOwnPage(r *http.Request) bool {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site != "":
		return site == "same-origin" || site == "none" && safe // the address that a person typed
	case safe:
		return true
	}
	_, host, found := strings.Cut(r.Header.Get("Origin"), "://") // a page without TLS on another machine
	return found && strings.EqualFold(host, r.Host)
}

// session returns the first session with one of these secrets that is valid for a
// caller. A browser shows the same secret in every request, so session remembers it for
// a minute.
func (d Doorkeeper) session(c *Caller, secrets []string, now time.Time) (found *sessionShown, err error) {
	err = sessions.ErrUnknown
	for _, secret := range secrets {
		s, failed := d.checkSession(c, secret, now)
		if failed == nil {
			return s, nil
		}
		if !errors.Is(err, errElsewhere) && !later.Passes(err) {
			err = failed
		}
	}
	return nil, err
}

func (d Doorkeeper) checkSession(c *Caller, text string, now time.Time) (*sessionShown, error) {
	if last := c.session.Load(); last != nil && last.stands(now) && last.again(text, now) {
		return last, nil
	}
	found, err := d.Sessions.Check(text, now)
	if err != nil {
		return nil, err
	}
	if !c.holds(&found.Owner) {
		return nil, errElsewhere
	}
	s := &sessionShown{Shown: found, remembered: remembered{secret: text, minute: now.Unix() / 60}}
	if found.ByToken() {
		if s.token, err = d.Tokens.Recall(found.Proof, now); err != nil {
			_, _ = d.Sessions.End(found.ID) // the token is worthless, whether or not the disk records the end
			return nil, sessions.ErrEnded
		}
	}
	if s.caller, err = d.signedIn(c, &s.Shown, s.token.Credential); err != nil {
		return nil, err
	}
	c.session.Store(s)
	return s, nil
}

// stands reports whether the session is still valid.
func (s *sessionShown) stands(now time.Time) bool {
	if s.token.Standing != nil && (s.token.Standing.Err() != nil || !s.token.Expires.IsZero() && !now.Before(s.token.Expires)) {
		return false
	}
	return s.Standing.Err() == nil && now.Before(s.Until())
}

// until returns a context that also ends with the session. The streams and the waiting
// requests of its owner end with it. A stream does not keep a session alive.
func (s *sessionShown) until(ctx context.Context, in *sessions.Sessions) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := context.AfterFunc(s.Standing, func() { cancel(sessions.ErrEnded) })
	var mu sync.Mutex // the timer may run before it is stored
	var timer *time.Timer
	var over func()
	over = func() {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil { // it was stopped as it fired
			return
		}
		now, err := in.Find(s.ID, time.Now()) // other requests may have used it meanwhile
		if err != nil {
			cancel(sessions.ErrEnded)
			return
		}
		timer.Reset(time.Until(now.Until()))
	}
	mu.Lock()
	timer = time.AfterFunc(time.Until(s.Until()), over)
	mu.Unlock()
	stop := func() { ended(); cancel(nil); mu.Lock(); timer.Stop(); mu.Unlock() }
	if s.token.Standing == nil {
		return ctx, stop
	}
	ctx, stopToken := (&tokenShown{Shown: s.token}).until(ctx)
	return ctx, func() { stopToken(); stop() }
}

// holds reports whether a session is valid for the connection of a caller: for a
// connection of the user who began it, or for one from another machine if it began
// there. So a cookie is worth nothing to another user of the machine who gets hold of
// it.
func (c *Caller) holds(o *sessions.Owner) bool {
	if !o.UID.Known() {
		return !c.uid.Known() && !c.fromThisMachine()
	}
	return c.uid == o.UID
}

// fromThisMachine reports whether a connection came from this machine, through any of
// its addresses. It returns true if that is not known.
func (c *Caller) fromThisMachine() bool {
	if c == nil || c.uid.Known() || isLoopback(c.address) {
		return true
	}
	from, err := netip.ParseAddr(c.address)
	own, err2 := net.InterfaceAddrs()
	if err != nil || err2 != nil {
		return true
	}
	from = from.Unmap().WithZone("")
	for _, each := range own {
		if network, err := netip.ParsePrefix(each.String()); err == nil && network.Addr().Unmap() == from {
			return true
		}
	}
	return false
}

// signedIn returns a caller as the owner of a session. It keeps the door and the
// process of the caller.
func (d Doorkeeper) signedIn(c *Caller, s *sessions.Shown, token access.Credential) (holder *Caller, err error) {
	if !s.ByToken() {
		holder = d.asUser(c, &s.Owner)
	} else if holder, err = d.holding(c, token); err != nil {
		return nil, err
	}
	holder.signed = &s.Session
	return holder, nil
}

// asUser returns a caller as the user of this machine who began a session. The caller
// has the role that the user has on the Unix socket under the rules in force, and less
// if the connection comes from a container, or if it may come from one and that
// matters.
func (d Doorkeeper) asUser(c *Caller, o *sessions.Owner) *Caller {
	known := func() access.Caller {
		from := access.Caller{Door: c.door, UID: o.UID, Groups: o.Groups, Place: o.Place, Shown: access.Credential{Kind: access.Session}}
		switch now := c.Located(); {
		case now.Place == access.Elsewhere:
			from.Place = access.Elsewhere
		case now.Place == access.Unknown && (o.UID == access.KnownUID(0) || d.Rules().ContainersNeedToken):
			from.Place = access.Unknown
		}
		return from
	}
	holder := &Caller{
		door: c.door, boot: c.boot, uid: c.uid, address: c.address, secure: c.secure, locate: c.locate, rules: c.rules,
		groups: func(func() access.Peer) []int { return o.Groups },
		known:  func() (access.Caller, *access.Rules) { return known(), d.Rules() },
		standing: underRules(d.Rules, func(r *access.Rules) (access.Actor, bool) {
			from := known()
			a := r.Actor(&from)
			a.Address = c.address
			return a, true
		}),
		resolve: underRules(d.Rules, func(r *access.Rules) (Identity, bool) {
			who, named := d.identity(r, access.Peer{Caller: known()}, c.boot)
			who.Address = c.address
			return who, named
		}),
	}
	holder.port.Store(c.port.Load())
	return holder
}

// Session returns the session that a caller shows, or nil if it shows none.
func (c *Caller) Session() *sessions.Session {
	if c == nil {
		return nil
	}
	return c.signed
}

// cookie returns the cookie with the secret of a session.
func (c *Caller) cookie(secret string) *http.Cookie {
	return &http.Cookie{
		Name: c.cookieName(), Value: secret, Path: "/", MaxAge: int(sessions.Idle / time.Second),
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteStrictMode,
	}
}

// SignOut returns a cookie that makes the browser of a caller forget its session.
func (c *Caller) SignOut() *http.Cookie {
	cookie := c.cookie("")
	cookie.MaxAge = -1
	return cookie
}

// renews reports whether it is time to send the cookie again, so that the browser
// keeps it for as long as the session is used: once an hour on each connection.
func (c *Caller) renews(now time.Time) bool {
	hour := now.Unix()/3600 + 1
	return c.renewed.Swap(hour) != hour
}
