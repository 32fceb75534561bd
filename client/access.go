package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/berth-gpu/berth/api"
)

const tokensPath = "/api/tokens"

// Whoami returns who the daemon takes the caller for, and why.
func (c *Client) Whoami(ctx context.Context) (api.Whoami, error) {
	return get[api.Whoami](ctx, c, "/api/whoami", nil)
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
