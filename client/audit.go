package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
)

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
