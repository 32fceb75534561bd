package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/peercred"
)

const (
	// connectLimit is how long the kernel may take to connect to a server of this machine.
	connectLimit = 5 * time.Second
	// headerLimit is how many bytes the header of an answer may have.
	headerLimit = 1 << 20
	// idleLimit is how long a connection to a server is kept for the next request. It is
	// less than servers usually wait before they close it.
	idleLimit = 2 * time.Second
	// mostIdle is how many such connections are kept.
	mostIdle = 64
	// mostInterim is how many answers with a status below 200 may precede an answer.
	mostInterim = 8
)

// owner returns the user whose socket listens on a port of this machine.
type owner func(port int) (access.UID, error)

// server reaches the server of one stay. It is an http.RoundTripper that needs no other
// goroutine for a request whose body is at hand, which takes half the time of
// http.Transport.
type server struct {
	port  int
	uid   int
	owner owner

	mu     sync.Mutex // guards what follows
	idle   []*line    // the one used last is at the end
	busy   map[*line]struct{}
	sweep  *time.Timer
	closed bool
	cut    string // why its requests are broken off; empty: they are not
}

// unreachedError says that a server got no byte of a request.
type unreachedError struct{ err error }

func (e *unreachedError) Error() string { return e.err.Error() }
func (e *unreachedError) Unwrap() error { return e.err }

// strangerError says that a port does not belong to the user of its service.
type strangerError struct {
	port int
	uid  access.UID
	want int
}

func (e *strangerError) Error() string {
	who := "a user who is not known"
	if uid, known := e.uid.Get(); known {
		who = "user " + strconv.Itoa(uid)
	}
	return fmt.Sprintf("port %d belongs to %s, and not to user %d, as whom the service runs", e.port, who, e.want)
}

// dial connects to the server. It asks before and after whose socket listens: somebody
// else may have taken the port before the server did, or after it ended.
func (s *server) dial(ctx context.Context) (net.Conn, error) {
	if err := s.checkOwner(); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: connectLimit}
	c, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
	if err != nil {
		return nil, err
	}
	if err := s.checkOwner(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (s *server) checkOwner() error {
	uid, err := s.owner(s.port)
	if errors.Is(err, peercred.ErrNotListening) {
		return fmt.Errorf("its port is %d, and %w", s.port, err)
	}
	if err != nil {
		return fmt.Errorf("look whose port %d is: %w", s.port, err)
	}
	if uid != access.KnownUID(s.uid) {
		return &strangerError{s.port, uid, s.uid}
	}
	return nil
}

// line is a connection to a server, for one request at a time.
type line struct {
	net.Conn
	in    *bufio.Reader
	out   *bufio.Writer
	room  int       // how many bytes of a header may still come; negative: no limit
	got   int       // how many bytes of the answer's headers came
	since time.Time // it is idle, or was last; zero if it is new
}

var errLongHeader = errors.New("the header of the answer is too long")

// Read limits the length of headers.
func (l *line) Read(b []byte) (int, error) {
	if l.room < 0 {
		return l.Conn.Read(b)
	}
	if l.room == 0 {
		return 0, errLongHeader
	}
	n, err := l.Conn.Read(b[:min(len(b), l.room)])
	l.room -= n
	l.got += n
	return n, err
}

// alive reports whether the server has neither closed an idle connection nor sent
// anything on it.
func (l *line) alive() bool {
	raw, err := l.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = err == unix.EAGAIN
		return true
	})
	return err == nil && quiet
}

// take returns an idle connection, unless fresh, or a new one.
func (s *server) take(ctx context.Context, fresh bool) (*line, error) {
	for !fresh {
		l := s.pop()
		if l == nil {
			break
		}
		if l.alive() {
			return l, nil
		}
		s.drop(l)
	}
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: c}
	l.in, l.out = bufio.NewReaderSize(l, 8<<10), bufio.NewWriterSize(c, 8<<10)
	if s.add(l); s.cutOff() != "" { // it came too late
		s.drop(l)
		return nil, errCut
	}
	return l, nil
}

var errCut = errors.New("the service goes")

func (s *server) pop() *line {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 || s.cut != "" { // nobody would break off what comes after breakOff
		return nil
	}
	last := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	s.busy[last] = struct{}{}
	return last
}

// add notes a new connection.
func (s *server) add(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy == nil {
		s.busy = map[*line]struct{}{}
	}
	s.busy[l] = struct{}{}
}

// drop closes a connection for good.
func (s *server) drop(l *line) {
	s.mu.Lock()
	delete(s.busy, l)
	s.mu.Unlock()
	_ = l.Close()
}

// breakOff ends the requests that are under way. Their callers are told why.
func (s *server) breakOff(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != "" {
		return
	}
	s.cut = why
	for l := range s.busy {
		_ = l.Close()
	}
}

// cutOff returns why requests were broken off, or "" if they were not.
func (s *server) cutOff() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}

// put keeps a connection for the next request.
func (s *server) put(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, l)
	if s.closed || len(s.idle) >= mostIdle || l.in.Buffered() > 0 {
		_ = l.Close()
		return
	}
	l.since = time.Now()
	s.idle = append(s.idle, l)
	if s.sweep == nil {
		s.sweep = time.AfterFunc(idleLimit, s.closeOld)
	}
}

// closeOld closes connections that were idle for too long.
func (s *server) closeOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep = nil
	now := time.Now()
	s.idle = slices.DeleteFunc(s.idle, func(l *line) bool {
		old := now.Sub(l.since) >= idleLimit
		if old {
			_ = l.Close()
		}
		return old
	})
	if len(s.idle) > 0 {
		s.sweep = time.AfterFunc(idleLimit, s.closeOld)
	}
}

// close closes idle connections, and the others when they become idle.
func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.idle {
		_ = l.Close()
	}
	s.idle = nil
}

// RoundTrip sends a request and returns the answer as soon as its header is there. It
// reads the body of the request to its end, or until Close of the answer's body returns.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.try(r, false)
	if lost := (*lostError)(nil); errors.As(err, &lost) && s.cutOff() == "" && r.Context().Err() == nil {
		return s.try(r, true)
	}
	return resp, err
}

// lostError says that the server closed an idle connection in the moment of its next
// request, of which it can get another copy without harm.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

// repeats reports whether a server may get a request twice.
func repeats(r *http.Request) bool {
	return r.ContentLength == 0 && slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method)
}

// try sends a request once, over a connection that is fresh or any.
func (s *server) try(r *http.Request, fresh bool) (*http.Response, error) {
	l, err := s.take(r.Context(), fresh)
	if err != nil {
		return nil, &unreachedError{err}
	}
	l.got = 0
	a := &answer{server: s, line: l}
	a.stop = context.AfterFunc(r.Context(), func() { s.drop(l) }) // nobody may close the body of a 101 that was not asked for
	if err = a.send(r); err == nil {
		var resp *http.Response
		if resp, err = a.receive(r); err == nil {
			return resp, nil
		}
		if cause := context.Cause(r.Context()); cause != nil {
			err = cause
		}
	}
	a.finish(false)
	if !l.since.IsZero() && l.got == 0 && repeats(r) {
		err = &lostError{err}
	}
	return nil, err
}

// answer is the body of an answer, and what is left to do for its request.
type answer struct {
	io.Reader
	server *server
	line   *line
	stop   func() bool // do not close the connection when the request is cancelled
	sent   chan error  // gets the outcome of sending the body; nil: it is sent
	keep   bool        // the connection can be used again
	done   bool
}

// send sends a request. A body that is not at hand is sent while the answer comes.
func (a *answer) send(r *http.Request) error {
	write := func() error {
		if err := r.Write(a.line.out); err != nil {
			return err
		}
		return a.line.out.Flush()
	}
	body, coming := r.Body.(*passing)
	if !coming || body.whole {
		return write()
	}
	a.sent, body.sent = make(chan error, 1), make(chan struct{})
	go func() {
		err := write()
		if body.cut.Load() { // the server waits for the rest in vain
			_ = a.line.Close()
		}
		a.sent <- err
		close(body.sent)
	}()
	return nil
}

// receive reads the header of the answer.
func (a *answer) receive(r *http.Request) (*http.Response, error) {
	a.line.room = headerLimit
	defer func() { a.line.room = -1 }()
	for range mostInterim {
		resp, err := http.ReadResponse(a.line.in, r)
		if err != nil {
			return nil, err
		}
		switch {
		case resp.StatusCode == http.StatusSwitchingProtocols:
			resp.Body = &tunnel{a}
			return resp, nil
		case resp.StatusCode < 200:
			trace := httptrace.ContextClientTrace(r.Context())
			if trace != nil && trace.Got1xxResponse != nil {
				if err := trace.Got1xxResponse(resp.StatusCode, map[string][]string{"Link": resp.Header["Link"]}); err != nil {
					return nil, err
				}
			}
		default:
			a.Reader, a.keep = resp.Body, !resp.Close
			resp.Body = a
			return resp, nil
		}
	}
	return nil, errors.New("the server sends one interim answer after the other")
}

func (a *answer) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	if err == io.EOF {
		a.finish(true)
	}
	return n, err
}

// Close gives the answer up, if it is not at its end.
func (a *answer) Close() error {
	a.finish(false)
	return nil
}

// finish puts the connection back if the whole answer was read and the whole request
// sent, and closes it otherwise.
func (a *answer) finish(whole bool) {
	if a.done {
		return
	}
	a.done = true
	whole = a.stop() && whole && a.keep
	if a.sent != nil {
		select {
		case err := <-a.sent:
			whole = whole && err == nil
		default:
			whole = false
		}
	}
	if whole {
		a.server.put(a.line)
		return
	}
	a.server.drop(a.line)
}

// tunnel is the connection after a change of protocols, as for a WebSocket.
type tunnel struct{ answer *answer }

func (t *tunnel) Read(b []byte) (int, error)  { return t.answer.line.in.Read(b) }
func (t *tunnel) Write(b []byte) (int, error) { return t.answer.line.Conn.Write(b) }

// Close closes the connection.
func (t *tunnel) Close() error {
	t.answer.stop()
	t.answer.server.drop(t.answer.line)
	return nil
}

// CloseWrite says that nothing more will be written.
func (t *tunnel) CloseWrite() error { return t.answer.line.Conn.(*net.TCPConn).CloseWrite() }
