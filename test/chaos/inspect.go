package main

import (
	"context"
	"net/http"
	"time"

	"github.com/berth-gpu/berth/api"
)

// inspect asks the daemon again and again who holds what, and holds that
// against what clients rely on.
func (c *client) inspect(ctx context.Context) {
	defer c.http.CloseIdleConnections()
	for ctx.Err() == nil {
		asked, before := time.Now(), c.record.relied()
		var list api.Leases
		if status, err := c.call("GET", "/api/leases", nil, &list); err == nil && status == http.StatusOK {
			c.record.compare(asked, before, list)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// inspectTheEnd checks that when everybody has gone, nothing is left.
func (c *client) inspectTheEnd() {
	defer c.http.CloseIdleConnections()
	var list api.Leases
	var available api.Available
	_, err := c.call("GET", "/api/leases", nil, &list)
	for since := time.Now(); err == nil && len(list.Waiting) > 0 && time.Since(since) < longest; time.Sleep(10 * time.Millisecond) {
		list = api.Leases{} // a daemon that has just started keeps the places of those who do not return for 10 s
		_, err = c.call("GET", "/api/leases", nil, &list)
	}
	_, err2 := c.call("GET", "/api/gpu/memory/available", nil, &available)
	if err != nil || err2 != nil {
		c.record.complain("at the end the daemon does not answer: %v, %v", err, err2)
		return
	}
	for _, l := range list.Leases {
		c.record.complain("at the end %s with fence %d of a %s lease stands", l.ID, l.Fence, l.Binding)
	}
	for _, r := range list.Waiting {
		c.record.complain("at the end %s waits", r.ID)
	}
	for _, g := range available.GPUs {
		if g.Leased != 0 {
			c.record.complain("at the end %s of %s are leased to nobody", g.Leased, g.GPU)
		}
	}
}
