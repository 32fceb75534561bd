package doorkeeper

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/secret"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/when"
)

// Link returns the code of a link with which the caller can sign in on the page, and
// when the code ends. Only a user of this machine who calls over the Unix socket gets a
// code, because the session gets the role that the user has there.
func (d Doorkeeper) Link(c *Caller, now time.Time) (code string, ends time.Time, err error) {
	known, _, is := c.Known()
	who := c.Standing()
	switch {
	case !is || known.Door != access.Socket:
		return "", time.Time{}, problems.New(http.StatusForbidden, "socket_only",
			"A link for signing in is made over the Unix socket alone. Run berth open on the machine of the daemon, or sign in on the page with a token.")
	case known.Shown.Kind != access.NoCredential:
		return "", time.Time{}, problems.New(http.StatusForbidden, "token_instead", "Sign in on the page with the token itself, or run berth open without it.")
	case who.UID == access.NoUID:
		return "", time.Time{}, problems.New(http.StatusForbidden, "caller_not_known", "The daemon cannot tell which user you are, so it makes no link for you: run berth open outside of a container, or sign in on the page with a token.")
	}
	code, ends, err = d.Sessions.Issue(sessions.Owner{UID: known.UID, Groups: known.Groups, Place: known.Place}, now)
	if err != nil {
		return "", time.Time{}, problems.New(http.StatusTooManyRequests, "too_many_links", "Too many links for signing in were made within a minute. Wait a minute.")
	}
	return code, ends, nil
}

// SignedIn is a session that has just begun.
type SignedIn struct {
	Session sessions.Session
	Caller  *Caller // the caller as the owner of the session
	Cookie  *http.Cookie
}

// SignIn begins a session for a caller who shows the code of a link, or a token. It
// calls confirm before the session is valid. It delays the answer to a failed try as it
// does for a wrong token.
func (d Doorkeeper) SignIn(ctx context.Context, c *Caller, code, token string, confirm func(*Caller, sessions.Session) error) (*SignedIn, error) {
	now := time.Now()
	switch {
	case (code == "") == (token == ""):
		return nil, problems.New(http.StatusUnprocessableEntity, "invalid_request", "Send either the code of a link or a token.")
	case c == nil || c.door != access.TCP:
		return nil, problems.New(http.StatusForbidden, "tcp_only", "Sessions are for browsers, which call over TCP. On the Unix socket the kernel says who you are.")
	}
	owner, shown, err := d.ownerOf(c, code, token, now)
	if err != nil {
		return nil, d.slowed(ctx, c, err)
	}
	found := sessions.Shown{Session: sessions.Session{Owner: owner}}
	who, err := d.signedIn(c, &found, shown.Credential)
	if err != nil {
		return nil, err
	}
	if err := access.May(who.Standing(), access.Look, access.Object{}); err != nil {
		return nil, problems.New(http.StatusForbidden, "not_allowed", "The page needs the role viewer, and this gives the role %s. Nothing was changed.", who.Standing().Role)
	}
	cookie, s, err := d.Sessions.Begin(owner, now, func(s sessions.Session) error { return confirm(who, s) })
	if err != nil {
		return nil, err
	}
	found.Session = s
	return &SignedIn{Session: s, Caller: who, Cookie: c.cookie(cookie)}, nil
}

// ownerOf returns the owner of a session that begins. A session that begins on this
// machine is bound to the user of the connection.
func (d Doorkeeper) ownerOf(c *Caller, code, token string, now time.Time) (sessions.Owner, tokens.Shown, error) {
	if code != "" {
		o, err := d.Sessions.Redeem(code, now)
		if err == nil && !c.holds(&o) {
			err = errElsewhere
		}
		return o, tokens.Shown{}, err
	}
	if !tokens.Sound(token) {
		return sessions.Owner{}, tokens.Shown{}, errMalformed
	}
	shown, err := d.Tokens.Check(token, now)
	if err == nil && shown.Weak && d.Tries.Crowded(keyOf(c)) {
		err = tokens.ErrUnknown // a caller could guess it by trying often
	}
	if err != nil {
		return sessions.Owner{}, tokens.Shown{}, err
	}
	o := sessions.Owner{UID: c.uid, Token: shown.Name, Proof: secret.Of(token).String()}
	if !c.holds(&o) {
		err = errNobody
	}
	return o, shown, err
}

// errNobody means that the kernel does not name the user of the connection.
var errNobody = errors.New("the connection is nobody's")

// slowed waits, and then returns the refusal of a failed try to sign in.
func (d Doorkeeper) slowed(ctx context.Context, c *Caller, err error) *api.Problem {
	if errors.Is(err, errNobody) {
		return problems.New(http.StatusForbidden, "caller_not_known", "The daemon cannot tell which user of this machine the connection belongs to, so it binds no session to it. Load the page again.")
	}
	reason, refusal := sessions.TokenUnknown, problems.New(http.StatusUnauthorized, "link_not_valid",
		"This link was used before, is older than a minute, or is another user's. Make a new one with berth open. Nothing was changed.")
	switch {
	case errors.Is(err, tokens.ErrExpired):
		reason, refusal = sessions.TokenExpired, problems.New(http.StatusUnauthorized, "token_expired", "The token has expired. An administrator makes another one with berth token create.")
	case errors.Is(err, tokens.ErrRevoked):
		reason, refusal = sessions.TokenRevoked, problems.New(http.StatusUnauthorized, "token_revoked", "The token was revoked. An administrator makes another one with berth token create.")
	case errors.Is(err, tokens.ErrUnknown), errors.Is(err, errMalformed):
		refusal = problems.New(http.StatusUnauthorized, "unauthorized", "The daemon does not know this token. An administrator makes one with berth token create.")
	}
	who, delay := d.Tries.Fail(keyOf(c), reason, time.Now())
	if who == nil {
		return problems.New(http.StatusTooManyRequests, "too_many_tries", "Too many tries to sign in came from this user or address. Wait a second, and try again.")
	}
	when.Pause(ctx, delay)
	d.Tries.LetGo(who)
	return refusal
}

// Until returns when an unused session ends: with its token at the latest.
func (d Doorkeeper) Until(s *sessions.Session) time.Time {
	until := s.Until()
	if !s.ByToken() {
		return until
	}
	if token, err := d.Tokens.Recall(s.Proof, time.Now()); err == nil && !token.Expires.IsZero() && token.Expires.Before(until) {
		return token.Expires
	}
	return until
}

// ObjectOf returns a session as an object of access. A session that began with a bound
// token belongs to the user of that token.
func (d Doorkeeper) ObjectOf(s *sessions.Session) access.Object {
	if owner := d.ActorOf(s); s.ByToken() && owner.UID != access.NoUID {
		return access.Of(access.SignedIn, owner.UID, owner.User)
	}
	return s.Object()
}

// ActorOf returns the owner of a session with their present role. The role is Stranger
// if the session is no longer valid.
func (d Doorkeeper) ActorOf(s *sessions.Session) access.Actor {
	from := access.Caller{Door: access.TCP, UID: s.UID, Groups: s.Groups, Place: s.Place, Shown: access.Credential{Kind: access.Session}}
	if s.ByToken() {
		from = access.Caller{Door: access.TCP, Shown: access.Credential{Kind: access.Token, Name: s.Token}}
		if shown, err := d.Tokens.Recall(s.Proof, time.Now()); err == nil {
			from.Shown = shown.Credential
		}
	}
	who, _ := d.identity(d.Rules(), access.Peer{Caller: from}, "")
	return who.Actor
}
