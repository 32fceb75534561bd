package client

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
)

const servicesPath = "/api/services"

// Services returns the services whose programs the daemon runs, by name.
func (c *Client) Services(ctx context.Context) (api.Services, error) {
	return get[api.Services](ctx, c, servicesPath, nil)
}

// Service returns a service whose program the daemon runs.
func (c *Client) Service(ctx context.Context, name string) (api.Service, error) {
	return get[api.Service](ctx, c, servicePath(name), nil)
}

// StartService starts a service, or lets one start again that was stopped. Like the methods
// below it returns when the daemon has written that down; the service follows. Whoever
// reads the events, or is refused, reads why, which may be empty.
func (c *Client) StartService(ctx context.Context, name, why string) (api.Service, error) {
	return post[api.Service](ctx, c, servicePath(name)+"/start", api.ServiceOrder{Why: why})
}

// StopService stops a service until StartService, also over restarts of the daemon.
func (c *Client) StopService(ctx context.Context, name, why string) (api.Service, error) {
	return post[api.Service](ctx, c, servicePath(name)+"/stop", api.ServiceOrder{Why: why})
}

// RestartService stops the program of a service and starts it again. Requests for the
// service wait meanwhile.
func (c *Client) RestartService(ctx context.Context, name, why string) (api.Service, error) {
	return post[api.Service](ctx, c, servicePath(name)+"/restart", api.ServiceOrder{Why: why})
}

// MoveService moves a service to another device, given by index or UUID.
func (c *Client) MoveService(ctx context.Context, name, gpu, why string) (api.Service, error) {
	return post[api.Service](ctx, c, servicePath(name)+"/move", api.ServiceOrder{GPU: gpu, Why: why})
}

// ServiceLog copies the log of a service to w. The daemon reads it with the rights of the
// user of the service. With q.Follow it goes on until ctx ends.
func (c *Client) ServiceLog(ctx context.Context, name string, q LogQuery, w io.Writer) error {
	query := url.Values{}
	if q.Lines > 0 {
		query.Set("lines", strconv.Itoa(q.Lines))
	}
	if q.Follow {
		query.Set("follow", "true")
	}
	return c.log(ctx, servicePath(name)+"/log", query, w)
}

// servicePath returns the path of one service.
func servicePath(name string) string {
	return servicesPath + "/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
}
