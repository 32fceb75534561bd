// Package doorkeeper finds out who makes a request: from what the kernel says about the
// connection, and from what the caller shows.
//
// It refuses callers who show nothing where a credential is required, and slows down
// callers who guess. Package access decides what a caller may do, and the doors ask it.
package doorkeeper

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/user"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/bound"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/when/later"
)

// Doorkeeper turns what the kernel says about a connection into a caller.
type Doorkeeper struct {
	Kernel    Kernel
	Processes process.Table
	Names     Names                // of users; nil to use their numbers, and to refuse tokens that are bound to users
	Rules     func() *access.Rules // the rules in force, which give a caller its role
	Tokens    *tokens.Tokens
	Sessions  *sessions.Sessions // nil if the daemon keeps none
	Tries     *sessions.Tries    // failed tries to show a token, or to sign in

	// Named reports whether the certificate of the daemon is for a host. It is nil if
	// the certificate is for no host.
	Named func(host string) bool

	// Trusts returns a context that lasts until an authority is taken away, if one of those
	// in force has signed the client certificate of a connection, and else nil. If it is nil,
	// those of the handshake stay in force.
	Trusts func(*tls.ConnectionState) context.Context

	// Issued checks a token that a cluster issued for its driver on this machine, and
	// returns when it expires. The errors are those of package bound. It is nil if the
	// daemon takes no such token.
	Issued func(token string, now time.Time) (time.Time, error)

	Limits func() *quota.Rules // the limits of users in force; nil means the built-in ones
}

// Kernel finds the processes of callers.
type Kernel interface {
	// Find adds to a TCP peer its process and the place of that process. It returns the
	// peer unchanged if the process is not certain. It looks through all processes, so
	// the doorkeeper calls it only for callers who need it.
	Find(access.Peer) access.Peer
}

// Names finds the login names of users.
type Names interface {
	// Of returns the name of a user, or the number if it finds no name in time.
	Of(uid int) string
	// Settled reports whether that is what the user database has said, and not a number for
	// want of an answer.
	Settled(uid int) bool
	// AccountOf returns the id and the groups of a user. The error passes if the user
	// database does not answer; else nobody has the name.
	AccountOf(name string) (uid int, groups []int, err error)
}

// ForTCP wraps the API for a TCP port. Callers from other machines must show a token or
// a certificate, and so must all callers if the configuration says so or has a token; a session
// counts as the credential that it began with. All others are users of this machine,
// and no web page may make a browser call for one of them.
func (d Doorkeeper) ForTCP(h http.Handler) http.Handler {
	refuse, note := refuser(h), noter(h)
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, problems.New(http.StatusForbidden, "cross_origin", "A page of another site may not do this. Call the API directly."))
	}))
	h = sameOrigin.Handler(h)
	local := d.localOnly(h, refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := Of(r.Context())
		shield(w.Header())
		if c != nil {
			c.askedFor(r.Host)
		}
		inside := h
		if !d.NeedsCredential(c) {
			inside = local
		}
		switch {
		case d.withToken(w, r, c, h, refuse), d.withSession(w, r, c, inside, refuse, note), d.withCertificate(w, r, c, h, refuse):
		case (probes(r) || signsIn(r)) && d.NeedsCredential(c):
			h.ServeHTTP(w, r)
		case d.NeedsCredential(c):
			refuse(w, r, Unauthorized(w, "unauthorized", "This daemon requires a token or a client certificate"))
		default:
			local.ServeHTTP(w, r)
		}
	})
}

// shield sets the headers by which browsers keep answers from pages of other sites: a
// page of another site can neither show an answer in a frame nor use it as a script or
// a picture.
func shield(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// ForSocket wraps the API for the Unix socket, where the kernel says who calls. A
// caller may also send a token there: in a container, that is the only way to be more
// than a guest.
func (d Doorkeeper) ForSocket(h http.Handler) http.Handler {
	refuse := refuser(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := Of(r.Context())
		if !d.withToken(w, r, c, h, refuse) {
			h.ServeHTTP(w, r)
		}
	})
}

// refusing answers a request with a problem.
type refusing func(http.ResponseWriter, *http.Request, *api.Problem)

// refuser returns the function that refuses a request in front of the API. The API
// records the refusal.
func refuser(h http.Handler) refusing {
	if s, is := h.(interface {
		Refuse(http.ResponseWriter, *http.Request, *api.Problem)
	}); is {
		return s.Refuse
	}
	return func(w http.ResponseWriter, _ *http.Request, p *api.Problem) { problems.Write(w, p) }
}

// noter returns the function that records a refusal for a request that goes on.
func noter(h http.Handler) func(*http.Request, *api.Problem) {
	if s, is := h.(interface {
		Refused(*http.Request, *api.Problem)
	}); is {
		return s.Refused
	}
	return func(*http.Request, *api.Problem) {}
}

// NeedsCredential reports whether a TCP caller must show a token or a certificate.
func (d Doorkeeper) NeedsCredential(c *Caller) bool {
	return d.Tokens.HasDaemon() || c == nil || !isLoopback(c.address) || d.Rules().TCPNeedsToken
}

// probes reports whether a request asks for the health of the daemon, or for a file of
// the page or of the manual. Everybody may ask for those, and the answer does not depend on a token.
func probes(r *http.Request) bool {
	switch path := r.URL.Path; {
	case path == "/healthz", path == "/readyz":
		return true
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return false
	case path == "/", path == "/favicon.svg", path == "/help":
		return true
	default:
		for _, folder := range []string{"/assets/", "/help/pictures/", "/help/"} {
			if file, is := strings.CutPrefix(path, folder); is {
				return file != "" && file != "." && file != ".." && !strings.Contains(file, "/")
			}
		}
		return false
	}
}

// tokenShown is a token or a certificate that a caller showed, and the caller as its holder.
type tokenShown struct {
	tokens.Shown
	remembered
}

// remembered is a secret that a caller showed, and whom it makes of the caller.
type remembered struct {
	secret string
	minute int64 // when it was checked
	caller *Caller
}

// again reports whether a caller shows the same secret in the same minute.
func (r *remembered) again(shown string, now time.Time) bool {
	return r.minute == now.Unix()/60 && subtle.ConstantTimeCompare([]byte(r.secret), []byte(shown)) == 1
}

// withToken serves or refuses a request that shows a token. It returns false for a
// request that shows none.
func (d Doorkeeper) withToken(w http.ResponseWriter, r *http.Request, c *Caller, h http.Handler, refuse refusing) bool {
	header := r.Header["Authorization"]
	if len(header) == 0 || probes(r) {
		return false
	}
	s, err := d.check(c, header, time.Now())
	if lost := (*api.Problem)(nil); errors.As(err, &lost) {
		refuse(w, r, lost)
		return true
	}
	if err != nil {
		d.refuseTry(w, r, c, err, refuse)
		return true
	}
	c.showed(s.caller)
	ctx, stop := s.until(r.Context())
	defer stop()
	h.ServeHTTP(w, r.WithContext(With(ctx, s.caller)))
	return true
}

// check returns the token in the header of a request. A caller shows the same one
// in every request, so check remembers it for a minute. The error is an *api.Problem for
// a valid token whose user is gone, or that is for another node.
func (d Doorkeeper) check(c *Caller, header []string, now time.Time) (*tokenShown, error) {
	text, err := bearer(header)
	if err != nil {
		return nil, err
	}
	if c != nil {
		if last := c.shown.Load(); last != nil && last.stands(now) && last.again(text, now) {
			return last, nil
		}
	}
	found, err := d.find(text, now)
	if err != nil {
		return nil, err
	}
	if found.Weak && d.Tries.Crowded(keyOf(c)) {
		return nil, tokens.ErrUnknown // a caller could guess it by trying often
	}
	holder, err := d.holding(c, found.Credential)
	if err != nil {
		return nil, err
	}
	s := &tokenShown{found, remembered{text, now.Unix() / 60, holder}}
	if c != nil {
		c.shown.Store(s)
	}
	return s, nil
}

// find returns the token with this secret: one that the daemon keeps, or one that a
// cluster issued.
func (d Doorkeeper) find(secret string, now time.Time) (tokens.Shown, error) {
	found, err := d.Tokens.Check(secret, now)
	if !errors.Is(err, tokens.ErrUnknown) || d.Issued == nil || !bound.Looks(secret) {
		return found, err
	}
	expires, err := d.Issued(secret, now)
	switch {
	case errors.Is(err, bound.ErrExpired):
		return tokens.Shown{}, tokens.ErrExpired
	case errors.Is(err, bound.ErrOther): // the cluster has signed it, so it tells no stranger anything
		return tokens.Shown{}, problems.New(http.StatusForbidden, "token_elsewhere",
			"The cluster issued this token for another node, another account or another audience than this daemon takes. Compare daemon.cluster_node and daemon.cluster_account with the pod of the driver, whose token needs the audience %s. Nothing was changed.", bound.Audience)
	case err != nil:
		return tokens.Shown{}, tokens.ErrUnknown
	}
	return tokens.Shown{Credential: access.Credential{Kind: access.Token, Name: access.ClusterToken, Role: access.Operator}, Expires: expires, Standing: context.Background()}, nil
}

// stands reports whether the token, or the certificate, is still valid.
func (s *tokenShown) stands(now time.Time) bool {
	return s.Standing.Err() == nil && (s.Expires.IsZero() || now.Before(s.Expires))
}

// until returns a context that also ends when the token or the certificate is revoked or
// expires. The streams and the waiting requests of its holder end with it.
func (s *tokenShown) until(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	revoked := context.AfterFunc(s.Standing, func() { cancel(tokens.ErrRevoked) })
	stop := func() { revoked(); cancel(nil) }
	if s.Expires.IsZero() {
		return ctx, stop
	}
	expired := time.AfterFunc(time.Until(s.Expires), func() { cancel(tokens.ErrExpired) })
	return ctx, func() { expired.Stop(); stop() }
}

// noRules returns rules that give nobody a role, because a token has its own role.
func noRules() *access.Rules { return none }

var none = new(access.Rules)

// showing returns the caller as the holder of a credential, with a role under
// rules. It keeps the door and the process of the caller.
func (c *Caller) showing(credential access.Credential, rules func() *access.Rules) *Caller {
	from := access.Caller{Shown: credential}
	holder := &Caller{locate: func() access.Peer { return access.Peer{} }}
	if c != nil {
		from.Door, holder.door, holder.boot, holder.locate, holder.uid, holder.address = c.door, c.door, c.boot, c.locate, c.uid, c.address
		holder.rules, holder.secure = c.rules, c.secure
		holder.port.Store(c.port.Load())
	}
	holder.known = func() (access.Caller, *access.Rules) { return from, rules() }
	holder.standing = underRules(rules, func(r *access.Rules) (access.Actor, bool) { return r.Actor(&from), true })
	holder.resolve = underRules(rules, func(r *access.Rules) (Identity, bool) {
		who := IdentityFor(r.Actor(&from))
		who.Address = holder.address
		return who, true
	})
	return holder
}

// holding returns the caller as the holder of a token. If the token is bound to a user,
// holding looks up that user again, and refuses the token if the user is gone or has
// another uid: somebody else may have the old one. The error passes if the user database
// does not answer, and has not for long. The groups, which matter only to limits, are those
// of the user database.
func (d Doorkeeper) holding(c *Caller, token access.Credential) (*Caller, error) {
	holder := c.showing(token, noRules)
	want, bound := token.UID.Get()
	if !bound {
		return holder, nil
	}
	uid, groups, err := 0, []int(nil), error(user.UnknownUserError(token.As))
	if d.Names != nil {
		uid, groups, err = d.Names.AccountOf(token.As)
	}
	if later.Passes(err) {
		return nil, later.Because(problems.New(http.StatusServiceUnavailable, "user_database_away",
			"The token %s is bound to the user %s, and the user database does not answer, which it has not for a day or since the daemon started. Nothing was changed: send the request again.", token.Name, token.As), later.After(err, 0))
	}
	if err != nil || uid != want {
		now := "and this machine has no user of that name now"
		if err == nil {
			now = fmt.Sprintf("who has the uid %d now", uid)
		}
		return nil, problems.New(http.StatusForbidden, "token_user_gone",
			"The token %s is bound to the user %s with the uid %d, %s. So nothing is done in that name. An administrator makes another token with berth token create --as. Nothing was changed.", token.Name, token.As, want, now)
	}
	holder.groups = func(func() access.Peer) []int { return groups }
	return holder, nil
}

// bearer returns the secret of an Authorization header. The error is errMalformed.
func bearer(header []string) (string, error) {
	if len(header) != 1 {
		return "", errMalformed
	}
	scheme, secret, found := strings.Cut(header[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || !tokens.Sound(secret) && !bound.Looks(secret) {
		return "", errMalformed
	}
	return secret, nil
}

// Unauthorized returns the problem of a request without a valid token, and sets
// the header that goes with it.
func Unauthorized(w http.ResponseWriter, code, why string) *api.Problem {
	w.Header().Set("WWW-Authenticate", `Bearer realm="berth"`)
	return problems.New(http.StatusUnauthorized, code, "%s: send Authorization: Bearer TOKEN (the command line takes it from BERTH_TOKEN). An administrator makes one with berth token create. Nothing was changed.", why)
}

// localOnly refuses requests for the name of another host: otherwise a web page whose
// name resolves to this machine could pass as this machine. A name in the certificate
// of the daemon is a name of this machine.
func (d Doorkeeper) localOnly(h http.Handler, refuse refusing) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) && !(r.TLS != nil && d.Named != nil && d.Named(hostOf(r.Host))) {
			refuse(w, r, problems.New(http.StatusForbidden, "foreign_host", "Without a token this daemon answers only to localhost and 127.0.0.1, not to %q.", r.Host))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hostOf returns the host of hostport, which may lack the port.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}

func isLoopback(hostport string) bool {
	host := hostOf(hostport)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}

// withCertificate serves or refuses a request over a connection on which the caller
// showed a client certificate. It returns false if the caller showed none. The server
// has checked who signed the certificate; a connection can outlive it, and the trust in
// its authority.
func (d Doorkeeper) withCertificate(w http.ResponseWriter, r *http.Request, c *Caller, h http.Handler, refuse refusing) bool {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || c == nil {
		return false
	}
	shown := r.TLS.PeerCertificates[0]
	name := shown.Subject.CommonName
	switch {
	case time.Now().After(shown.NotAfter):
		refuse(w, r, problems.New(http.StatusUnauthorized, "certificate_expired", "The client certificate has ended: connect again with a new one. Nothing was changed."))
		return true
	case !isName(name):
		refuse(w, r, problems.New(http.StatusUnauthorized, "certificate_without_name",
			"The client certificate names nobody: its common name must have 1 to 64 printable characters. Nothing was changed."))
		return true
	}
	s := c.certificate.Load()
	if s == nil || s.Standing.Err() != nil { // all requests of a connection show the same one
		standing := context.Background()
		if d.Trusts != nil {
			standing = d.Trusts(r.TLS)
		}
		if standing == nil {
			refuse(w, r, problems.New(http.StatusUnauthorized, "certificate_not_trusted", "The daemon no longer trusts the authority of this client certificate: connect again with another one. Nothing was changed."))
			return true
		}
		given := access.Credential{Kind: access.Certificate, Name: name}
		s = &tokenShown{tokens.Shown{Credential: given, Expires: shown.NotAfter, Standing: standing}, remembered{caller: c.showing(given, d.Rules)}}
		c.certificate.Store(s)
		c.showed(s.caller)
	}
	ctx, stop := s.until(r.Context())
	defer stop()
	h.ServeHTTP(w, r.WithContext(With(ctx, s.caller)))
	return true
}

// isName reports whether a common name can be the name of a caller.
func isName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= 64 && gpu.Printable(name, gpu.Whole) == name && strings.TrimSpace(name) == name && !strings.ContainsAny(name, "/:")
}
