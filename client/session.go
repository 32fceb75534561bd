package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/berth-gpu/berth/api"
)

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
