// Package client talks to a berth daemon: over its Unix socket on the same
// machine, or over HTTP.
//
// It has one method per route, answers in the types of package api, and returns
// errors that a program can tell apart:
//
//   - [*NoDaemonError]: no daemon listens; Hint says how to start one;
//   - [*StrangerError]: somebody else than the daemon listens on its socket;
//   - [*AwayError]: the daemon went away while a request waited, and did not come back;
//   - [*api.Problem]: the daemon refused the request; Code says why;
//   - any other error: the connection broke, or the answer was not complete.
//
// Every method takes a context and gives up when it ends.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Options say where the daemon is. Set one of Socket, URL and Transport, or use
// [Find] to let the environment decide.
type Options struct {
	// Socket is the path of the daemon's Unix socket.
	Socket string

	// PeerUID is the user who must listen on the socket: a connection to anybody else is
	// closed before anything is sent. If it is absent, a process of root trusts root and the
	// user whose folder the socket is in, because anybody may put a socket into a folder
	// such as /tmp; others trust whoever listens.
	PeerUID gpu.Opt[int]

	// URL is the address of a daemon that listens on TCP, such as
	// http://127.0.0.1:8000 or https://gpu-box:8000. A missing scheme means http.
	URL string

	// Token is the bearer token. It replaces the identity by which the daemon would know
	// the caller, also on a socket.
	Token string

	// TokenFile is a file with the bearer token, in place of Token. The client reads it
	// again for every request, because tokens of clusters are replaced every hour.
	TokenFile string

	// CA is a file with certificates that the client trusts beside those of the
	// system. Cert and Key are files with the certificate that the client shows.
	// They are for an https address.
	CA, Cert, Key string

	// Transport carries the requests instead of the network; see [Through].
	Transport http.RoundTripper

	// Timeout limits every call except Events. It does not count while a request for a
	// lease waits. Zero means that only the context limits calls.
	Timeout time.Duration

	// Patience is how long a call is made again where no daemon listens on the socket, but
	// one did a moment ago: it is being replaced. So is one that finds too many connections
	// open, and one that changes nothing, where the daemon ended before it answered. Zero
	// means that such calls fail at once.
	Patience time.Duration

	// Retry, if set, is called by Events before it connects again, and before a request
	// that waits for a lease is made again, with the reason ([*AwayError] for a request, or
	// the daemon's refusal, after a second, while too many connections are open),
	// and before a call that has Patience is made again after a second or more,
	// and with the time that passes first. Several goroutines may call it.
	Retry func(err error, wait time.Duration)
}

// Client talks to a daemon. It keeps no state of the daemon, and several
// goroutines may use it.
type Client struct {
	http     *http.Client
	base     string        // scheme and host, and the path in front of the routes, without a slash at the end
	token    func() string // returns "" if there is none
	timeout  time.Duration
	patience time.Duration // see Options.Patience
	retry    func(error, time.Duration)
	local    bool     // over a socket, where the daemon sees which process this is
	streams  *streams // for calls about leases; nil if they go over HTTP like all others
	user     string   // the user whose leases ids name; see Of
	agent    string   // the program for which the client acts; see For

	reach func(context.Context) error // see Reach
	drop  func()                      // closes the connection that Reach left; nil if it leaves none
}

// New returns a client. It does not connect: the first call does.
func New(o Options) (*Client, error) {
	places := 0
	for _, set := range []bool{o.Socket != "", o.URL != "", o.Transport != nil} {
		if set {
			places++
		}
	}
	if places != 1 {
		return nil, errors.New("set exactly one of Socket, URL and Transport")
	}
	switch {
	case o.Socket != "":
		return overSockets(o, []string{o.Socket}), nil
	case o.URL != "":
		return overTCP(o)
	}
	return o.client("http://localhost", o.Transport), nil
}

// Close closes idle connections. Later calls open new ones.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	if c.drop != nil {
		c.drop()
	}
	if c.streams != nil {
		c.streams.close()
	}
}

func (o Options) client(base string, transport http.RoundTripper) *Client {
	return &Client{
		http: &http.Client{Transport: transport}, base: base,
		timeout: o.Timeout, patience: o.Patience, retry: o.Retry, token: func() string { return "" },
	}
}

// shown returns a function that returns the token to show. A file that cannot be read
// leaves the last token in place.
func (o Options) shown() func() string {
	if o.TokenFile == "" {
		return func() string { return o.Token }
	}
	var last atomic.Pointer[string]
	return func() string {
		if now, err := ReadToken(o.TokenFile); err == nil {
			last.Store(&now)
		}
		if token := last.Load(); token != nil {
			return *token
		}
		return o.Token
	}
}

// reachedFor is how long the connection that Reach leaves is used: the daemon closes one
// without a request soon after that.
const reachedFor = 2 * time.Second

// overSockets returns a client that connects to the first socket with a daemon
// behind it, and stays with that socket: leases are of one daemon, which may restart.
func overSockets(o Options, paths []string) *Client {
	var chosen atomic.Pointer[string]
	dial := func(ctx context.Context) (net.Conn, error) {
		if path := chosen.Load(); path != nil {
			return o.dialSocket(ctx, []string{*path})
		}
		conn, err := o.dialSocket(ctx, paths)
		if err == nil {
			path := conn.RemoteAddr().String()
			chosen.CompareAndSwap(nil, &path)
		}
		return conn, err
	}
	type reachedConn struct {
		net.Conn
		at time.Time
	}
	var reached atomic.Pointer[reachedConn] // by Reach, for the first request
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if conn := reached.Swap(nil); conn != nil {
				if time.Since(conn.at) < reachedFor {
					return newHeardConn(conn.Conn, nil)
				}
				_ = conn.Close()
			}
			return newHeardConn(dial(ctx))
		},
		DisableCompression: true,
		IdleConnTimeout:    90 * time.Second,
	}
	c := o.client("http://localhost", transport)
	c.local, c.token = true, o.shown()
	c.streams = newStreams(dial, c.token)
	c.drop = func() {
		if conn := reached.Swap(nil); conn != nil {
			_ = conn.Close()
		}
	}
	c.reach = func(ctx context.Context) error {
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		c.drop()
		reached.Store(&reachedConn{conn, time.Now()})
		return nil
	}
	return c
}

func overTCP(o Options) (*Client, error) {
	text := o.URL
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%q is not the address of a daemon: write it like http://127.0.0.1:8000", o.URL)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
		return dialFirst(ctx, "tcp", []string{address})
	}
	if u.Scheme == "https" {
		if transport.TLSClientConfig, err = o.secure(); err != nil {
			return nil, err
		}
	}
	base := url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}
	c := o.client(base.String(), transport)
	c.token = o.shown()
	return c, nil
}
