package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// BackupQuery says what a backup has.
type BackupQuery struct {
	Secrets bool // environments of jobs, hashes of tokens, and what settings hide
	NoPast  bool // nothing that was measured
}

// Backup copies the state of the daemon to w, as a gzipped tar file. After an error, what
// was written is not a backup.
func (c *Client) Backup(ctx context.Context, q BackupQuery, w io.Writer) error {
	query := url.Values{}
	if q.Secrets {
		query.Set("secrets", "true")
	}
	if q.NoPast {
		query.Set("past", "false")
	}
	return c.unhurried().exchange(ctx, http.MethodPost, "/api/backup", query, nil, func(resp *http.Response) error {
		if err := check(resp); err != nil {
			return err
		}
		_, err := io.Copy(w, resp.Body)
		return err
	})
}
