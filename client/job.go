package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/when"
)

const jobsPath = "/api/jobs"

// Submit asks the daemon to run a command under a lease, as the calling user, and returns
// the job as soon as the daemon has written it down. From then on the job needs neither
// the caller nor this daemon: it survives the end of both.
//
// Only a caller on the socket can submit, where the kernel says who it is, and the holder
// of a token that is bound to a user. A refusal is an [*api.Problem].
func (c *Client) Submit(ctx context.Context, r api.JobRequest) (api.Job, error) {
	return post[api.Job](ctx, c, jobsPath, r)
}

// JobQuery selects jobs. An empty field selects all.
type JobQuery struct {
	User   string    // login name or user id; several with commas between them
	States []string  // any of these; a job with tasks has every state that one of them has
	Since  time.Time // only jobs that have not ended, or ended later
	Limit  int       // the most jobs on a page; zero lets the daemon choose
}

// Jobs returns the jobs that a query selects, the newest first. It asks for as many pages
// as there are, or for one if q.Limit is set; [Client.JobPages] yields them one by one.
func (c *Client) Jobs(ctx context.Context, q JobQuery) (api.Jobs, error) {
	all := api.Jobs{Jobs: []api.Job{}}
	for page, err := range c.JobPages(ctx, q) {
		if err != nil {
			return api.Jobs{}, err
		}
		all.Jobs, all.More = append(all.Jobs, page.Jobs...), page.More
		if q.Limit > 0 {
			break
		}
	}
	return all, nil
}

// JobPages yields the jobs that a query selects, in pages. An error is the last thing that
// it yields.
func (c *Client) JobPages(ctx context.Context, q JobQuery) iter.Seq2[api.Jobs, error] {
	query := url.Values{}
	if q.User != "" {
		query.Set("user", q.User)
	}
	if len(q.States) > 0 {
		query.Set("state", strings.Join(q.States, ","))
	}
	if !q.Since.IsZero() {
		query.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	return pages(ctx, c, jobsPath, limited(query, q.Limit), func(page api.Jobs) string { return page.Next })
}

// Job returns a job with its tasks, or one task, also after its end.
func (c *Client) Job(ctx context.Context, id string) (api.Job, error) {
	return get[api.Job](ctx, c, jobPath(id), nil)
}

// longWait is how long one request of WaitJob waits for the end of a job.
const longWait = 30 * time.Second

// WaitJob returns a job or a task when it has ended: for a job with tasks, when all of
// them have. It waits without a limit, and for a daemon that goes away meanwhile too.
// The answer has no list of tasks.
func (c *Client) WaitJob(ctx context.Context, id string) (api.Job, error) {
	query := url.Values{"wait_seconds": {strconv.FormatFloat(longWait.Seconds(), 'f', -1, 64)}}
	patient := c.patient(longWait.Seconds())
	seen, failures := false, 0 // whether a daemon was there, and calls that failed since
	for {
		asked := time.Now()
		job, err := get[api.Job](ctx, patient, jobPath(id), query)
		seen = seen || err == nil || wentAway(err)
		switch {
		case err == nil && job.Over():
			return job, nil
		case err == nil:
			failures = 0
			if time.Since(asked) < time.Second && !when.Pause(ctx, time.Second) { // a daemon that does not wait
				return job, context.Cause(ctx)
			}
		case ctx.Err() != nil:
			return job, context.Cause(ctx)
		case !seen, isRefusal(err):
			return job, err
		default:
			if err := c.backOff(ctx, failures, err); err != nil {
				return job, err
			}
			failures++
		}
	}
}

// CancelJob cancels a job or a task. What waits never starts. What runs gets SIGTERM, and
// SIGKILL after the daemon's deallocation_timeout; CancelJob does not wait for that. Its
// owner reads why, which may be empty.
func (c *Client) CancelJob(ctx context.Context, id, why string) (api.Job, error) {
	return post[api.Job](ctx, c, jobPath(id)+"/cancel", api.Cancel{Why: why})
}

// HoldJob keeps a job or a task that waits from starting until UnholdJob.
func (c *Client) HoldJob(ctx context.Context, id string) (api.Job, error) {
	return post[api.Job](ctx, c, jobPath(id)+"/hold", struct{}{})
}

// UnholdJob lets a job or a task that is held start at its turn.
func (c *Client) UnholdJob(ctx context.Context, id string) (api.Job, error) {
	return post[api.Job](ctx, c, jobPath(id)+"/unhold", struct{}{})
}

// RedoJob submits a job again as it was, under a new id, or only the tasks that did not end
// well.
func (c *Client) RedoJob(ctx context.Context, id string, r api.JobRedo) (api.Job, error) {
	return post[api.Job](ctx, c, jobPath(id)+"/redo", r)
}

// ChangeJob changes the priority of a job or a task that waits. Owners lower it, operators
// set it.
func (c *Client) ChangeJob(ctx context.Context, id string, change api.JobChange) (api.Job, error) {
	return post[api.Job](ctx, c, jobPath(id)+"/priority", change)
}

// LogQuery says which part of a log a reader wants.
type LogQuery struct {
	Errors bool // the log of errors, if the job has one of its own
	Lines  int  // only the last so many lines; 0 means all, of the last 64 MiB
	Follow bool // go on until the job has ended; for a service, without end
}

// JobLog copies the log of a job or a task to w. The daemon reads it with the rights of the
// user whose job it is. A connection that breaks while JobLog follows is an error: what
// came of the log stands in w.
func (c *Client) JobLog(ctx context.Context, id string, q LogQuery, w io.Writer) error {
	return c.log(ctx, jobPath(id)+"/log", q, w)
}

// log copies the log at a path to w.
func (c *Client) log(ctx context.Context, path string, q LogQuery, w io.Writer) error {
	query := url.Values{}
	if q.Errors {
		query.Set("errors", "true")
	}
	if q.Lines > 0 {
		query.Set("lines", strconv.Itoa(q.Lines))
	}
	if q.Follow {
		query.Set("follow", "true")
	}
	c = c.unhurried()
	err := c.exchange(ctx, http.MethodGet, path, query, nil, func(resp *http.Response) error {
		if err := check(resp); err != nil {
			return err
		}
		c.patience = 0 // what comes now stands in w, and is not asked for again
		_, err := io.Copy(w, resp.Body)
		return err
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// jobPath returns the path of one job.
func jobPath(id string) string {
	return jobsPath + "/" + strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
}
