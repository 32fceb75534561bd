package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

func registerSessions(s *server) {
	op := func(pattern, id, summary, description string, errors ...int) huma.Operation {
		op := on(pattern, "access", id, summary, description, errors...)
		op.MaxBodyBytes = 4 << 10
		return op
	}
	serve(s, creating(op("POST /api/session", "sign-in", "Begin a session on the page",
		"With the code of a link that berth open made, or with a token. The answer sets a cookie that scripts cannot read. berth help access says what a session is worth.",
		http.StatusUnauthorized, http.StatusTooManyRequests)), s.signIn)
	serve(s, op("DELETE /api/session", "sign-out", "End the session that the request is made with", "", http.StatusNotFound), s.signOut)
	serve(s, creating(op("POST /api/session/link", "session-link", "Make a link for signing in on the page",
		"The link works once, within a minute, and only for the user who asked for it. It is made over the Unix socket alone.", http.StatusConflict)), s.sessionLink)
	serve(s, op("GET /api/sessions", "sessions", "The sessions of the caller; those of all, for administrators", ""), s.listSessions)
	serve(s, op("DELETE /api/sessions/{id}", "end-session", "End a session at once",
		"Its event streams and waiting requests end. Leases stand.", http.StatusNotFound), s.endSession)
}

// withCookie is an answer that sets the cookie of a session.
type withCookie struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      api.Session
}

func (s *server) signIn(ctx context.Context, in *body[api.SignIn]) (*withCookie, error) {
	done, err := s.Door.SignIn(ctx, doorkeeper.Of(ctx), in.Body.Code, in.Body.Token, func(c *doorkeeper.Caller, begun sessions.Session) error {
		who := c.Identity().Actor
		if who.Role < access.Operator {
			return nil
		}
		return s.recordSession(who, access.SignIn, who.User, begun.ID)
	})
	if err != nil {
		return nil, err
	}
	return &withCookie{*done.Cookie, s.sessionOf(&done.Session, done.Caller)}, nil
}

// recordSession records an act on a session. It does nothing without an audit log.
func (s *server) recordSession(who access.Actor, verb access.Verb, owner, id string) error {
	if s.Audit == nil {
		return nil
	}
	return s.Audit.Record(api.AuditEntry{Who: audit.Who(who), What: verb.String(), Outcome: audit.Done, Object: api.AuditObject{Kind: "session", Owner: owner, ID: id}})
}

func (s *server) signOut(ctx context.Context, _ *struct{}) (*withCookie, error) {
	c := doorkeeper.Of(ctx)
	own := c.Session()
	if own == nil {
		return nil, problems.New(http.StatusNotFound, "no_session", "This request was made with no session, so there is none to end.")
	}
	ended, err := s.endAs(c, own)
	if err != nil {
		return nil, err
	}
	return &withCookie{*c.SignOut(), ended}, nil
}

type sessionNamed struct {
	ID string `path:"id" maxLength:"64" doc:"Id of the session."`
}

func (s *server) endSession(ctx context.Context, in *sessionNamed) (*answer[api.Session], error) {
	c := doorkeeper.Of(ctx)
	found, err := s.Door.Sessions.Find(in.ID, time.Now())
	if err != nil || !s.seesSession(c, &found) { // nobody learns about the sessions of others
		return nil, problems.New(http.StatusNotFound, "unknown_session", "You have no session %s: GET /api/sessions lists those you have.", in.ID)
	}
	ended, err := s.endAs(c, &found)
	if err != nil {
		return nil, err
	}
	return ok(ended)
}

// endAs ends a session for a caller. It first records the end of another user's
// session, and does not end the session if that fails. It also records the end of a
// session whose owner is an operator or more.
func (s *server) endAs(c *doorkeeper.Caller, found *sessions.Session) (api.Session, error) {
	who, owner := c.Identity().Actor, s.Door.ActorOf(found)
	theirs := !access.Owns(who, s.Door.ObjectOf(found))
	if theirs || owner.Role >= access.Operator {
		if err := s.recordSession(who, access.SignOut, owner.User, found.ID); err != nil && theirs {
			return api.Session{}, err
		}
	}
	shown := s.sessionOf(found, c)
	_, err := s.Door.Sessions.End(found.ID)
	if err != nil && !errors.Is(err, sessions.ErrMissing) {
		return api.Session{}, problems.New(http.StatusServiceUnavailable, "sessions_not_written", "%v. Look at the disk of the state folder.", err)
	}
	return shown, nil
}

func (s *server) sessionLink(ctx context.Context, _ *struct{}) (*answer[api.SessionLink], error) {
	address := ""
	if s.PageURL != nil {
		address = s.PageURL()
	}
	if address == "" {
		return nil, problems.New(http.StatusConflict, "no_address", "The daemon listens on no TCP address, so no browser can reach it. Set daemon.listen in berth.yaml, as in listen: 127.0.0.1:8000, and restart the daemon.")
	}
	code, ends, err := s.Door.Link(doorkeeper.Of(ctx), time.Now())
	if err != nil {
		return nil, err
	}
	return ok(api.SessionLink{URL: address + "/#login=" + code, Expires: ends.UTC().Truncate(time.Second)})
}

func (s *server) listSessions(ctx context.Context, in *Page) (*listed[api.Sessions], error) {
	c := doorkeeper.Of(ctx)
	all := []api.Session{}
	for _, each := range s.Door.Sessions.List(time.Now()) {
		if s.seesSession(c, &each) && s.Door.ActorOf(&each).Role > access.Stranger {
			all = append(all, s.sessionOf(&each, c))
		}
	}
	page, more, err := cut(in, sessionsList, in.most(), all, func(each api.Session) string { return each.ID }, strings.Compare)
	if err != nil {
		return nil, err
	}
	return answerPage(in, more, api.Sessions{Sessions: page, More: more})
}

// seesSession reports whether a caller may see and end a session.
func (s *server) seesSession(c *doorkeeper.Caller, found *sessions.Session) bool {
	return access.May(c.Standing(), access.SignOut, s.Door.ObjectOf(found)) == nil
}

// sessionOf returns a session as its owner and administrators see it.
func (s *server) sessionOf(found *sessions.Session, by *doorkeeper.Caller) api.Session {
	owner := s.Door.ActorOf(found)
	out := api.Session{
		ID: found.ID, User: owner.User, Token: found.Token, Role: owner.Role.String(),
		Begun: found.Begun, Used: found.Used, Expires: s.Door.Until(found),
		Current: by.Session() != nil && by.Session().ID == found.ID,
	}
	if uid, known := found.UID.Get(); known {
		out.UID = gpu.Some(uid)
	}
	return out
}
