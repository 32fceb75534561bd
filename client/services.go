package client

import (
	"context"
	"io"
	"net/url"
	"strings"

	"github.com/berth-gpu/berth/api"
)

const servicesPath = "/api/services"

// Services returns the services whose programs the daemon runs, in the order of their names.
func (c *Client) Services(ctx context.Context) (api.Services, error) {
	return get[api.Services](ctx, c, servicesPath, nil)
}

// Service returns a service whose program the daemon runs.
func (c *Client) Service(ctx context.Context, name string) (api.Service, error) {
	return get[api.Service](ctx, c, servicePath(name), nil)
}

// StartService starts a service, or lets one start again that was stopped. It does not wait
// until the service is ready; nor do the following wait for what they order. Those who read
// the events get why, which may be empty.
func (c *Client) StartService(ctx context.Context, name, why string) (api.Service, error) {
	return post[api.Service](ctx, c, servicePath(name)+"/start", api.ServiceOrder{Why: why})
}

// StopService stops a service until StartService. Requests for it are refused until then,
// and their callers read why.
func (c *Client) StopService(ctx context.Context, name, why string) (api.Service, error) {
	return post[api.Service](ctx, c, servicePath(name)+"/stop", api.ServiceOrder{Why: why})
}

// RestartService stops a service and starts it again, when its open requests have ended.
func (c *Client) RestartService(ctx context.Context, name, why string) (api.Service, error) {
	return post[api.Service](ctx, c, servicePath(name)+"/restart", api.ServiceOrder{Why: why})
}

// MoveService lets a service go from where it is, and come on another device, which order
// names.
func (c *Client) MoveService(ctx context.Context, name string, order api.ServiceOrder) (api.Service, error) {
	return post[api.Service](ctx, c, servicePath(name)+"/move", order)
}

// ServiceLog copies the log of a service to w, as JobLog does for a job. A service has no
// log of errors.
func (c *Client) ServiceLog(ctx context.Context, name string, q LogQuery, w io.Writer) error {
	return c.log(ctx, servicePath(name)+"/log", q, w)
}

// servicePath returns the path of one service.
func servicePath(name string) string {
	return servicesPath + "/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E")
}
