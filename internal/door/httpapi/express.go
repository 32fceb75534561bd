package httpapi

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/wire"
)

const (
	// expressIdle is the longest that a connection may be idle, and expressIdle/2 the
	// shortest.
	expressIdle = 2 * time.Minute
	// expressHeader is how long the rest of a request may take to arrive once net/http
	// has its beginning.
	expressHeader = 5 * time.Second
)

// Express is a listener whose connections answer acquire and release in their usual form
// themselves, as long as nothing else comes. They hand such a request to Handler as
// net/http does, which takes longer for it than the rest of the daemon: it watches
// whether the caller leaves, in a goroutine of each request, and sets many deadlines.
//
// A connection answers a request only if one read returns exactly that request, in the
// form that usual describes, and if the request cannot wait. From the first other byte
// on, net/http reads the connection. So no byte is read by both, and net/http judges
// whatever is not plain.
type Express struct {
	net.Listener
	Handler http.Handler
}

// Accept returns the next connection.
func (x *Express) Accept() (net.Conn, error) {
	c, err := x.Listener.Accept()
	if known, is := c.(knownConn); is && err == nil {
		return &expressConn{knownConn: known, handler: x.Handler}, nil
	}
	return c, err
}

// ConnContext returns a function for http.Server.ConnContext that calls next. The
// connections make their requests in the context that next returns, and close when it
// ends.
func (x *Express) ConnContext(next func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, c net.Conn) context.Context {
		ctx = next(ctx, c)
		if express, is := c.(*expressConn); is {
			express.request = (&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: c.RemoteAddr().String()}).WithContext(ctx)
		}
		return ctx
	}
}

// knownConn is a connection whose other end is known.
type knownConn interface {
	net.Conn
	Peer() access.Peer
}

// expressConn is a connection of an Express. The goroutine of net/http that serves the
// connection calls Read, and Close may be called by another.
type expressConn struct {
	knownConn
	handler http.Handler
	request *http.Request // what all requests have in common

	passed bool          // net/http reads the connection from here on
	spent  time.Duration // how long net/http waited for the first byte; zero once it is allowed for
	until  time.Time     // the deadline for reading; zero before the first answer
	out    []byte

	answering sync.Mutex // held from a request to its answer
}

// Read answers usual requests, and returns the first bytes that are none.
func (c *expressConn) Read(into []byte) (int, error) {
	if c.passed || c.request == nil {
		return c.knownConn.Read(into)
	}
	c.passed = true // this call is the only one that answers requests
	ctx, began := c.request.Context(), time.Now()
	stop := func() bool { return true }
	defer func() { stop() }()
	for {
		n, err := c.knownConn.Read(into)
		if err != nil {
			return n, err
		}
		r := *c.request
		if !usual(into[:n], &r) {
			if !c.until.IsZero() {
				c.spent = time.Since(began)
				err = c.knownConn.SetReadDeadline(time.Now().Add(expressHeader))
			}
			return n, err
		}
		now, err := c.answer(&r)
		if err != nil {
			return 0, io.EOF // net/http would answer any other error
		}
		if c.until.IsZero() {
			stop = context.AfterFunc(ctx, c.hurry)
		}
		if c.until.Sub(now) < expressIdle/2 {
			c.until = now.Add(expressIdle)
			_ = c.knownConn.SetReadDeadline(c.until) // fails only if it is closed
		}
		if ctx.Err() != nil { // hurry may have come before the deadline
			return 0, io.EOF
		}
	}
}

// hurry makes Read return, and gives an answer that is being written a moment.
func (c *expressConn) hurry() {
	_ = c.knownConn.SetReadDeadline(time.Now())
	_ = c.knownConn.SetWriteDeadline(time.Now().Add(farewell))
}

// SetReadDeadline sets the deadline for reading. The first one after Read has returned
// the beginning of a request is that of this request, which net/http counts from before
// it called Read.
func (c *expressConn) SetReadDeadline(t time.Time) error {
	if c.spent > 0 && !t.IsZero() {
		t, c.spent = t.Add(c.spent), 0
	}
	return c.knownConn.SetReadDeadline(t)
}

// Close closes the connection after it has sent the answer to a request under way.
func (c *expressConn) Close() error {
	c.answering.Lock()
	defer c.answering.Unlock()
	return c.knownConn.Close()
}

// answer has the handler answer a request, and returns when that was.
func (c *expressConn) answer(r *http.Request) (time.Time, error) {
	c.answering.Lock()
	defer c.answering.Unlock()
	w := expressReply{header: make(http.Header, 4)}
	c.handler.ServeHTTP(&w, r)
	now := time.Now()
	c.out = w.append(c.out[:0], now)
	_, err := c.knownConn.Write(c.out)
	return now, err
}

// expressReply is the answer to a request.
type expressReply struct {
	header http.Header
	status int
	body   []byte
}

func (w *expressReply) Header() http.Header { return w.header }

func (w *expressReply) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *expressReply) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, b...)
	return len(b), nil
}

// append appends the answer as HTTP/1.1 has it.
func (w *expressReply) append(dst []byte, now time.Time) []byte {
	w.WriteHeader(http.StatusOK)
	dst = strconv.AppendInt(append(dst, "HTTP/1.1 "...), int64(w.status), 10)
	dst = append(append(append(dst, ' '), http.StatusText(w.status)...), "\r\n"...)
	for name, values := range w.header {
		for _, value := range values {
			dst = append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
		}
	}
	dst = append(now.UTC().AppendFormat(append(dst, "Date: "...), http.TimeFormat), "\r\nContent-Length: "...)
	dst = append(strconv.AppendInt(dst, int64(len(w.body)), 10), "\r\n\r\n"...)
	return append(dst, w.body...)
}

// usual fills in a request from its text, and returns false unless the text is one whole
// request in the usual form: an acquire that does not wait, or a release of an id that
// needs no escaping; in HTTP/1.1, with headers that clients send by themselves, each at
// most once and spelled as usual. It takes nothing that net/http would refuse or read in
// another way.
func usual(text []byte, r *http.Request) bool {
	rest, isAcquire := bytes.CutPrefix(text, []byte("POST /api/leases HTTP/1.1\r\n"))
	if isAcquire {
		r.Method, r.URL, r.Header = http.MethodPost, &url.URL{Path: "/api/leases"}, withJSON
	} else {
		line, after, whole := bytes.Cut(text, []byte(" HTTP/1.1\r\n"))
		id, isRelease := bytes.CutPrefix(line, []byte("DELETE /api/leases/"))
		if !whole || !isRelease || !consistsOf(id, isPlain) || id[0] == '.' { // a dot alone is no id but a folder
			return false
		}
		r.Method, r.URL, r.Header, rest = http.MethodDelete, &url.URL{Path: string(line[len("DELETE "):])}, withNothing, after
	}
	body, given, usual := readHeaders(rest, r)
	if !usual || !given.has(host) {
		return false
	}
	if !isAcquire {
		r.Body = http.NoBody
		return len(body) == 0 && !given.has(contentLength) && !given.has(contentType)
	}
	asked := new(api.LeaseRequest)
	into := (*wire.RequestBody)(asked)
	if !given.has(contentType) || r.ContentLength != int64(len(body)) || !into.Read(body) || !knownPolicy(into) || mayWait(into) {
		return false
	}
	r.Body = &arrivedBody{*bytes.NewReader(body), body, asked}
	return true
}

// The headers of the two kinds of requests. Nobody changes them.
var (
	withJSON    = http.Header{"Content-Type": {"application/json"}}
	withNothing = http.Header{}
)

// headers is a set of headers that a request has.
type headers uint

const (
	host headers = 1 << iota
	contentType
	contentLength
	accept
	connection
	userAgent
	acceptEncoding
)

func (h headers) has(one headers) bool { return h&one != 0 }

// readHeaders reads the headers of a request, and returns the text after them.
func readHeaders(text []byte, r *http.Request) (body []byte, given headers, usual bool) {
	for {
		line, rest, whole := bytes.Cut(text, []byte("\r\n"))
		if !whole {
			return nil, 0, false
		}
		if text = rest; len(line) == 0 {
			return text, given, true
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		if !consistsOf(value, isPrintable) || value[0] == ' ' || value[len(value)-1] == ' ' {
			return nil, 0, false
		}
		var one headers
		right := true
		switch string(name) {
		case "Host":
			one, right, r.Host = host, consistsOf(value, isPlain), string(value)
		case "Content-Type":
			one, right = contentType, string(value) == "application/json"
		case "Content-Length":
			n, err := strconv.ParseUint(string(value), 10, 16)
			one, right, r.ContentLength = contentLength, err == nil && n > 0, int64(n)
		case "Accept":
			one, right = accept, wantsJSON([]string{string(value)})
		case "Connection":
			one, right = connection, string(value) == "keep-alive"
		case "User-Agent":
			one = userAgent
		case "Accept-Encoding":
			one = acceptEncoding // an answer this short is never compressed
		}
		if one == 0 || !right || given.has(one) {
			return nil, 0, false
		}
		given |= one
	}
}

// consistsOf reports whether text has at least one byte and only such bytes.
func consistsOf(text []byte, such func(byte) bool) bool {
	for _, b := range text {
		if !such(b) {
			return false
		}
	}
	return len(text) > 0
}

func isPlain(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '.'
}

func isPrintable(b byte) bool { return ' ' <= b && b <= '~' }
