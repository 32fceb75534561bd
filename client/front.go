package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	"github.com/berth-gpu/berth/api"
)

// FrontOrders yields the orders to the front with this name, until the stream or ctx ends.
// An error is the last thing that it yields. Only the front gets orders.
func (c *Client) FrontOrders(ctx context.Context, front string) iter.Seq2[api.FrontOrder, error] {
	const path = "/api/front/orders"
	return func(yield func(api.FrontOrder, error) bool) {
		resp, err := c.send(ctx, http.MethodGet, path, url.Values{"front": {front}}, nil)
		if err == nil {
			defer resp.Body.Close()
			err = check(resp)
		}
		if err == nil {
			for lines := json.NewDecoder(resp.Body); ; {
				var order api.FrontOrder
				if err = lines.Decode(&order); err != nil {
					break
				}
				if !yield(order, nil) {
					return
				}
			}
		}
		if errors.Is(err, io.EOF) {
			err = &cutError{err}
		}
		yield(api.FrontOrder{}, c.explain(ctx, http.MethodGet, path, err))
	}
}

// FrontReport tells the daemon what a front did and saw.
func (c *Client) FrontReport(ctx context.Context, reports api.FrontReports) error {
	const path = "/api/front/reports"
	text, err := json.Marshal(reports)
	if err != nil {
		return fmt.Errorf("POST %s: write the request: %w", path, err)
	}
	return c.exchange(ctx, http.MethodPost, path, nil, text, check)
}

// FrontBring asks for a service, and waits until it is open or the daemon says why it does
// not come. Only ctx limits it.
func (c *Client) FrontBring(ctx context.Context, asked api.FrontBring) (api.FrontBrought, error) {
	patient := *c
	patient.timeout = 0
	return post[api.FrontBrought](ctx, &patient, "/api/front/bring", asked)
}

// FrontCaller asks who a caller of the front is.
func (c *Client) FrontCaller(ctx context.Context, who api.FrontWho) (api.FrontCaller, error) {
	return post[api.FrontCaller](ctx, c, "/api/front/caller", who)
}
