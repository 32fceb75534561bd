package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
)

// overStream makes a call over the lease stream, which costs a fraction of an HTTP call.
// If there is no stream, or the call is too large for it, overStream sends nothing and
// reports false. method and path are those of the same call over HTTP.
func overStream(ctx context.Context, c *Client, kind wire.Kind, method, path string, asked wire.Body, answer quick) (used bool, err error) {
	if c.streams == nil {
		return false, nil
	}
	if err := unnamed(path); err != nil {
		return true, err
	}
	err = c.endure(ctx, false, func() error {
		limited, cancel := c.limit(ctx)
		defer cancel()
		return c.streams.call(limited, kind, asked, answer)
	})
	if errors.Is(err, errNoStream) || errors.Is(err, errTooLarge) {
		return false, nil
	}
	return true, c.explain(ctx, method, path, err)
}

// quick is an answer with a fast decoder for its usual form.
type quick interface{ Read(data []byte) bool }

// errNoStream reports that the daemon opens no lease stream now, and errNeverStream that it
// does not speak the protocol.
var (
	errNoStream    = errors.New("the daemon opened no lease stream")
	errNeverStream = fmt.Errorf("%w: it has none", errNoStream)
)

// streams opens a stream when a call needs one, and again after it broke. All calls of a
// client share one stream.
type streams struct {
	dial    func(context.Context) (net.Conn, error)
	token   func() string          // returns "" if there is none
	current atomic.Pointer[stream] // nil until the first one was opened
	absent  atomic.Bool            // the daemon has no lease stream; do not ask again

	turn chan struct{} // has room for one: the goroutine that opens a stream
}

func newStreams(dial func(context.Context) (net.Conn, error), token func() string) *streams {
	return &streams{dial: dial, token: token, turn: make(chan struct{}, 1)}
}

// call sends a call and waits for its answer. If the stream breaks before the
// call is sent, call opens it again, once: the daemon may have restarted.
func (s *streams) call(ctx context.Context, kind wire.Kind, asked wire.Body, answer quick) error {
	for first := true; ; first = false {
		open, err := s.open(ctx)
		if err != nil {
			return err
		}
		err = open.call(ctx, kind, asked, answer)
		if unsent := (*unsentError)(nil); errors.As(err, &unsent) && first {
			continue
		}
		return err
	}
}

func (s *streams) open(ctx context.Context) (*stream, error) {
	if st := s.current.Load(); st != nil && st.usable() {
		return st, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.absent.Load() {
		return nil, errNoStream
	}
	if st := s.current.Load(); st != nil && st.usable() {
		return st, nil
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	in, err := upgrade(ctx, conn, s.token())
	if err != nil {
		s.absent.Store(errors.Is(err, errNeverStream))
		return nil, errors.Join(err, conn.Close())
	}
	st := newStream(conn, in)
	s.current.Store(st)
	return st, nil
}

// close closes the stream as soon as no call waits for an answer.
func (s *streams) close() {
	if st := s.current.Swap(nil); st != nil {
		st.retire()
	}
}

// upgrade turns a connection from HTTP into a stream.
func upgrade(ctx context.Context, conn net.Conn, token string) (*bufio.Reader, error) {
	giveUp := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer giveUp()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+wire.Path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", wire.Protocol)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if err := req.Write(conn); err != nil {
		return nil, ended(ctx, err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, ended(ctx, err)
	}
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code == http.StatusSwitchingProtocols && resp.Header.Get("Upgrade") == wire.Protocol:
	case code >= 500, slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests}, code):
		return nil, errNoStream // the call over HTTP hears why
	default:
		return nil, errNeverStream
	}
	if !giveUp() { // the context ended meanwhile and made the connection useless
		return nil, context.Cause(ctx)
	}
	return in, nil
}

// ended returns why the connection for a stream ended. No call was sent over it, so unless
// the context has ended, the call over HTTP hears why.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", errNoStream, err)
}

// read decodes an answer, or returns the problem in it.
func read(f wire.Frame, answer quick) error {
	if f.Kind == wire.Done {
		if answer.Read(f.Body) {
			return nil
		}
		return unmarshal(f.Body, answer)
	}
	problem := new(api.Problem)
	if err := unmarshal(f.Body, problem); err != nil {
		return err
	}
	return problem
}

func unmarshal(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
