package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
)

const tokensPath = "/api/tokens"

// Whoami returns who the daemon takes the caller for, and why.
func (c *Client) Whoami(ctx context.Context) (api.Whoami, error) {
	return get[api.Whoami](ctx, c, "/api/whoami", nil)
}

// Version returns the version of the daemon.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	return get[api.Version](ctx, c, "/api/version", nil)
}

// Quota returns the limits of a user and what the user has of them. An empty user means
// the caller.
func (c *Client) Quota(ctx context.Context, user string) (api.Quota, error) {
	query := url.Values{}
	if user != "" {
		query.Set("user", user)
	}
	return get[api.Quota](ctx, c, "/api/quota", query)
}

// Users returns what each user holds, waits for and has used.
func (c *Client) Users(ctx context.Context) (api.Users, error) {
	return whole(ctx, c, "/api/users", func(page api.Users) string { return page.Next },
		func(all *api.Users, page api.Users) {
			all.Users, all.More = append(all.Users, page.Users...), page.More
		})
}

// Tokens returns the tokens that the daemon accepts, without their secrets.
func (c *Client) Tokens(ctx context.Context) (api.Tokens, error) {
	return whole(ctx, c, tokensPath, func(page api.Tokens) string { return page.Next },
		func(all *api.Tokens, page api.Tokens) {
			all.Tokens, all.More = append(all.Tokens, page.Tokens...), page.More
		})
}

// CreateToken makes a token. The answer has its secret, which the daemon does
// not show again.
func (c *Client) CreateToken(ctx context.Context, r api.TokenRequest) (api.NewToken, error) {
	return post[api.NewToken](ctx, c, tokensPath, r)
}

// RevokeToken makes the daemon refuse a token from now on, and returns it.
func (c *Client) RevokeToken(ctx context.Context, name string) (api.Token, error) {
	return call[api.Token](ctx, c, http.MethodDelete, tokenPath(name), nil, nil)
}

// tokenPath returns the path of a token. It escapes dots too, because a path with the
// segment .. leads elsewhere.
func tokenPath(name string) string {
	return tokensPath + "/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
}

// AuditQuery says which entries of the audit log to return.
type AuditQuery struct {
	Since time.Time // only entries that are not older
	User  string    // only acts and refusals of this user, and acts on what this user owns; empty means everybody
	What  string    // only this verb; empty means all
	Limit int       // maximum number of entries; 0 means 100

	// After asks for the entries that follow the one with this number, the oldest first.
	// Set Page to ask for the first page, with After 0; otherwise the answer has the
	// newest entries.
	After uint64
	Page  bool
}

// Audit returns entries of the audit log, the oldest first. Only administrators
// may read it.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (api.AuditLog, error) {
	query := url.Values{}
	for name, value := range map[string]string{"user": q.User, "what": q.What} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if !q.Since.IsZero() {
		query.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Page || q.After != 0 {
		query.Set("after", strconv.FormatUint(q.After, 10))
	}
	return get[api.AuditLog](ctx, c, "/api/audit", query)
}

// Sessions asks a daemon about the sessions on its page.
type Sessions struct{ c *Client }

// Sessions returns a Sessions for the daemon of the client.
func (c *Client) Sessions() Sessions { return Sessions{c} }

const sessionsPath = "/api/sessions"

// Link makes a link with which the caller can sign in. The daemon makes links only over
// its Unix socket.
func (s Sessions) Link(ctx context.Context) (api.SessionLink, error) {
	return call[api.SessionLink](ctx, s.c, http.MethodPost, "/api/session/link", nil, nil)
}

// List returns the sessions of the caller, or of everybody if the caller is an
// administrator.
func (s Sessions) List(ctx context.Context) (api.Sessions, error) {
	return whole(ctx, s.c, sessionsPath, func(page api.Sessions) string { return page.Next },
		func(all *api.Sessions, page api.Sessions) {
			all.Sessions, all.More = append(all.Sessions, page.Sessions...), page.More
		})
}

// End ends a session at once, and returns it.
func (s Sessions) End(ctx context.Context, id string) (api.Session, error) {
	return call[api.Session](ctx, s.c, http.MethodDelete, sessionsPath+"/"+strings.ReplaceAll(url.PathEscape(id), ".", "%2E"), nil, nil)
}
