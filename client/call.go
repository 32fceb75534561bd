package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
)

// get asks for path and reads the answer into a T.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return call[T](ctx, c, http.MethodGet, path, query, nil)
}

// call sends a request and reads the answer into a T.
func call[T any](ctx context.Context, c *Client, method, path string, query url.Values, body []byte) (T, error) {
	var answer T
	err := c.exchange(ctx, method, path, query, body, func(resp *http.Response) error {
		if err := check(resp); err != nil {
			return err
		}
		return decode(resp.Body, &answer)
	})
	return answer, err
}

// exchange sends a request and hands the answer to read, all within the
// client's time limit, again if the daemon is being replaced.
func (c *Client) exchange(ctx context.Context, method, path string, query url.Values, body []byte,
	read func(*http.Response) error) error {
	if err := unnamed(path); err != nil {
		return err
	}
	return c.endure(ctx, method == http.MethodGet, func() error { return c.exchangeOnce(ctx, method, path, query, body, read) })
}

func (c *Client) exchangeOnce(ctx context.Context, method, path string, query url.Values, body []byte,
	read func(*http.Response) error) error {
	limited, cancel := c.limit(ctx)
	defer cancel()
	resp, err := c.send(limited, method, path, query, body)
	if err == nil {
		err = read(resp)
		if err == nil || isProblem(err) {
			// Read the rest too, up to a limit: only then does the transport
			// use the connection again. After any other failure there may be no end.
			_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
		}
		_ = resp.Body.Close()
	}
	return c.explain(ctx, method, path, err)
}

// unnamed returns what a daemon would say about a path with an empty id or name in it,
// which is the path of something else.
func unnamed(path string) error {
	if !strings.HasSuffix(path, "/") && !strings.Contains(path, "//") {
		return nil
	}
	for _, kind := range []struct{ path, code, text string }{
		{jobsPath, "unknown_job", "There is no such job: the id is empty. berth jobs --all (GET /api/jobs) lists them."},
		{leasesPath, "unknown_allocation", "There is no such lease: the id is empty. berth leases (GET /api/leases) lists them."},
		{servicesPath, "unknown_service", "There is no such service: the name is empty. berth services (GET /api/services) lists them."},
	} {
		if strings.HasPrefix(path, kind.path+"/") {
			return &api.Problem{Status: http.StatusNotFound, Code: kind.code, Detail: kind.text}
		}
	}
	return &api.Problem{Status: http.StatusUnprocessableEntity, Code: "invalid_request", Detail: "The name is empty: give one."}
}

// isProblem reports whether the daemon answered with a problem.
func isProblem(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem)
}

// limit returns ctx with the client's time limit, if there is one.
func (c *Client) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout > 0 {
		return context.WithTimeout(ctx, c.timeout)
	}
	return ctx, func() {}
}

// explain says which call failed. Problems and a missing daemon speak for
// themselves.
func (c *Client) explain(ctx context.Context, method, path string, err error) error {
	if err == nil {
		return nil
	}
	if missing := (*NoDaemonError)(nil); errors.As(err, &missing) {
		return missing
	}
	if stranger := (*StrangerError)(nil); errors.As(err, &stranger) {
		return stranger
	}
	if problem := (*api.Problem)(nil); errors.As(err, &problem) {
		return problem
	}
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		err = inner.Err // the URL of a socket is made up
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
			err = &cutError{err}
		}
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return &NoAnswerError{Call: method + " " + path, Within: c.timeout, Err: err}
	}
	return fmt.Errorf("%s %s: %w", method, path, insecure(err))
}

func (c *Client) send(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	return c.http.Do(req)
}

// cutError reports that the daemon ended while a request was under way.
type cutError struct{ err error }

func (*cutError) Error() string   { return "the daemon closed the connection before it answered" }
func (e *cutError) Unwrap() error { return e.err }

// Hint returns the next step.
func (*cutError) Hint() string {
	return "look whether it runs, and what it did before: berth doctor, berth leases, berth events"
}

func (c *Client) request(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Request, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token := c.token(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if c.agent != "" {
		req.Header.Set("Berth-Agent", url.QueryEscape(c.agent))
	}
	return req, nil
}

// check returns the error that an answer reports.
func check(resp *http.Response) error {
	if resp.StatusCode < 300 {
		return nil
	}
	if mediaType(resp) == "application/problem+json" {
		problem := new(api.Problem)
		if err := decode(io.LimitReader(resp.Body, 1<<20), problem); err != nil {
			return err
		}
		problem.Status = resp.StatusCode
		return problem
	}
	if text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)); resp.StatusCode == http.StatusBadRequest && bytes.Contains(text, []byte("HTTPS server")) {
		return &InsecureError{errors.New("the daemon speaks TLS there"), "use https:// in the address"}
	}
	return fmt.Errorf("the answer %s is not from a berth daemon: check which program listens there", resp.Status)
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

func decode(r io.Reader, into any) error {
	if read := quickly(into); read != nil {
		var text bytes.Buffer
		if _, err := text.ReadFrom(r); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if read(bytes.TrimSuffix(text.Bytes(), []byte("\n"))) {
			return nil
		}
		r = &text
	}
	if err := json.NewDecoder(r).Decode(into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// quickly returns a function that reads an answer in less time than encoding/json takes, or
// nil if there is none. It returns false if encoding/json must read the answer.
func quickly(into any) func(text []byte) bool {
	switch into := into.(type) {
	case *api.Lease:
		return (*wire.LeaseBody)(into).Read
	case *api.Leases:
		return (*wire.LeasesBody)(into).Read
	case *api.StatusAll:
		return (*wire.StatusBody)(into).Read
	case *api.Available:
		return (*wire.AvailableBody)(into).Read
	}
	return nil
}

// pages asks for a list, page after page. The first request has no parameters except
// those of the query, so that daemons without pages answer it too. next returns where the
// list goes on after a page.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values, next func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(query)
		for after := ""; ; {
			page, err := get[T](ctx, c, path, query)
			if !yield(page, err) || err != nil {
				return
			}
			last := after
			if after = next(page); after == "" {
				return
			}
			if after == last {
				var none T
				yield(none, fmt.Errorf("GET %s: the daemon answers with the same page over and over", path))
				return
			}
			if query == nil {
				query = url.Values{}
			}
			query.Set("after", after)
		}
	}
}

// whole returns all pages of a list as one. add appends a page to the list.
func whole[T any](ctx context.Context, c *Client, path string, next func(T) string, add func(all *T, page T)) (T, error) {
	var all T
	first := true
	for page, err := range pages(ctx, c, path, nil, next) {
		switch {
		case err != nil:
			var none T
			return none, err
		case first:
			all, first = page, false
		default:
			add(&all, page)
		}
	}
	return all, nil
}

// limited returns a query with a limit, or without one if limit is 0.
func limited(query url.Values, limit int) url.Values {
	if limit == 0 {
		return query
	}
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(limit))
	return query
}
