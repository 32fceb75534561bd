package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/when"
)

const eventsPath = "/api/events"

// Events yields the events after the id, oldest first; 0 means from the oldest event that
// the daemon keeps. Without follow it ends after the newest event. With follow it goes on
// until ctx ends: when a connection breaks, it connects again and continues after the
// last event, so that it loses none and repeats none.
//
// An error is the last thing that Events yields. It fails if there is no daemon at the
// start, and waits for a daemon that goes away later. An event with the code
// [gpu.EventGap] stands for events that the daemon does not keep any more.
func (c *Client) Events(ctx context.Context, after uint64, follow bool) iter.Seq2[gpu.Event, error] {
	return c.EventsWhere(ctx, EventQuery{After: after, Follow: follow})
}

// EventQuery says which events a reader wants.
type EventQuery struct {
	After  uint64 // only events after this id; 0 means from the oldest that the daemon keeps
	Follow bool   // go on until the context ends

	// Filter chooses among the events. Its GPUs are indexes or UUIDs. A gap always
	// passes.
	Filter gpu.EventFilter
}

// EventsWhere does what Events does, for the events that a query chooses. The daemon
// filters them, so that it sends only those.
func (c *Client) EventsWhere(ctx context.Context, q EventQuery) iter.Seq2[gpu.Event, error] {
	return func(yield func(gpu.Event, error) bool) {
		r := &reader{client: c, last: q.After, follow: q.Follow, filter: q.Filter, yield: yield}
		if err := r.read(ctx); err != nil {
			yield(gpu.Event{}, err)
		}
	}
}

// reader is one loop over Events.
type reader struct {
	client    *Client
	follow    bool
	filter    gpu.EventFilter
	yield     func(gpu.Event, error) bool
	last      uint64 // id of the newest event yielded or skipped
	connected bool   // at least one connection succeeded
	failures  int    // broken connections since the last event
}

// errStopped says that the loop has ended early.
var errStopped = errors.New("stopped")

// read returns nil when the loop stopped or all events were yielded, and otherwise the
// reason for the early end.
func (r *reader) read(ctx context.Context) error {
	for {
		err := r.connection(ctx)
		switch {
		case errors.Is(err, errStopped):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !r.follow, !r.connected, isPermanent(err):
			return r.client.explain(ctx, http.MethodGet, eventsPath, err)
		case err == nil:
			err = errors.New("the daemon ended the stream")
		}
		if err := r.client.backOff(ctx, r.failures, err); err != nil {
			return err
		}
		r.failures++
	}
}

// connection reads one connection to its end. It returns nil if the daemon ended it in
// good order.
func (r *reader) connection(ctx context.Context) error {
	query := url.Values{"follow": {strconv.FormatBool(r.follow)}, "gpu": r.filter.GPUs, "lease": r.filter.Leases}
	for _, code := range r.filter.Codes {
		query.Add("code", string(code))
	}
	if r.filter.Severity != "" {
		query.Set("severity", string(r.filter.Severity))
	}
	req, err := r.client.request(ctx, http.MethodGet, eventsPath, query, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if r.last > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatUint(r.last, 10))
	}
	resp, err := r.client.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := check(resp); err != nil {
		return err
	}
	r.connected = true
	return r.give(resp.Body)
}

// give yields the new events of a stream.
func (r *reader) give(body io.Reader) error {
	for f, err := range messages(body) {
		if err != nil {
			return err
		}
		if len(f.data) == 0 { // the query excludes the events up to this one
			r.last, r.failures = f.id, 0
			continue
		}
		var e gpu.Event
		if err := json.Unmarshal(f.data, &e); err != nil {
			return &badEventError{err}
		}
		// After a gap the ids may start again at a lower number, so a gap is never old.
		if e.ID <= r.last && e.Code != gpu.EventGap {
			continue
		}
		r.last, r.failures = e.ID, 0
		if !r.yield(e, nil) {
			return errStopped
		}
	}
	return nil
}

// backOff waits before the next attempt after some that failed, longer each time. The time
// is random, so that many clients of a daemon that restarts come back one by one.
func (c *Client) backOff(ctx context.Context, failures int, why error) error {
	const shortest, longest = 100 * time.Millisecond, 5 * time.Second
	wait := min(shortest<<min(failures, 10), longest)
	wait += rand.N(wait / 2)
	if c.retry != nil {
		c.retry(why, wait)
	}
	if !when.Pause(ctx, wait) {
		return context.Cause(ctx)
	}
	return nil
}

// isPermanent reports whether another attempt would fail in the same way.
func isPermanent(err error) bool {
	bad := (*badEventError)(nil)
	return isRefusal(err) || errors.As(err, &bad)
}

// badEventError is an event that arrived complete and cannot be decoded.
type badEventError struct{ err error }

func (e *badEventError) Error() string { return fmt.Sprintf("read an event: %v", e.err) }
func (e *badEventError) Unwrap() error { return e.err }

// maxLine is far more than an event takes.
const maxLine = 1 << 20

// message is one message of a stream. A message without data only says how far the stream
// has come; in a message with data, the id repeats what is in the data.
type message struct {
	id   uint64 // 0 means none
	data []byte
}

// messages reads a stream of server-sent events and yields each message. It leaves out a
// message without the blank line after it, because a broken connection cut that one off.
// Only a stream that breaks ends with an error.
func messages(r io.Reader) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		var next message
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) > 0 {
				next.add(line)
				continue
			}
			if (len(next.data) > 0 || next.id != 0) && !yield(next, nil) {
				return
			}
			next = message{}
		}
		err := lines.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = &badEventError{err}
		}
		if err != nil {
			yield(message{}, err)
		}
	}
}

// add takes one line: name, colon, an optional space, value. Lines that begin
// with a colon are comments that keep the connection alive.
func (f *message) add(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		f.id, _ = strconv.ParseUint(string(value), 10, 64)
	case "data":
		if len(f.data) > 0 {
			f.data = append(f.data, '\n')
		}
		f.data = append(f.data, value...)
	}
}
