package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// door is an address of a daemon.
type door struct {
	Network, Address string
	From             string // for TCP: the address of the caller; empty: the kernel chooses
}

func (d door) String() string {
	if d.Network == "unix" {
		return "the socket"
	}
	if d.From != "" {
		return "TCP from " + d.From
	}
	return "TCP"
}

func (d door) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	if d.From != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(d.From)}
	}
	return dialer.DialContext(ctx, d.Network, d.Address)
}

// client returns a client for a door with a time limit for each call.
func (d door) client(limit time.Duration) *http.Client {
	return &http.Client{Timeout: limit, Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx) },
		MaxIdleConnsPerHost: 16,
	}}
}

// call is one request, and how the caller ends it.
type call struct {
	Method, Path, Body string

	Token  string // to show; empty: none. $N is the number of the call
	Times  int    // how many times; 0: once
	Finish finish // zero: the caller reads the answer
}

// finish is how a caller ends a call after it sent the request.
type finish string

const (
	answered finish = ""      // the caller reads the answer
	reset    finish = "reset" // it resets the connection
	closed   finish = "close" // it closes the connection
	half     finish = "half"  // it closes the sending half, and reads the answer
	killed   finish = "exit"  // its process is killed
)

// reply is the answer to a call. Without an answer, Status is 0.
type reply struct {
	Status int
	Body   string
}

// send sends a call without net/http, and ends it as the call says.
func (c call) send(ctx context.Context, d door) (reply, error) {
	conn, err := d.dial(ctx)
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		c.Method, c.Path, len(c.Body), c.Body); err != nil {
		return reply{}, err
	}
	switch c.Finish {
	case reset:
		if tcp, is := conn.(*net.TCPConn); is {
			_ = tcp.SetLinger(0)
		}
		return reply{}, nil
	case closed:
		return reply{}, nil
	case killed:
		return reply{}, syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	}
	if one, is := conn.(interface{ CloseWrite() error }); is {
		_ = one.CloseWrite()
	}
	text, err := io.ReadAll(conn)
	status := 0
	_, _ = fmt.Sscanf(string(text), "HTTP/1.1 %d", &status)
	return reply{status, string(text)}, err
}

// make makes a call and reads up to 64 MiB of the answer.
func (c call) make(ctx context.Context, d door, client *http.Client) (reply, error) {
	if c.Finish != answered {
		return c.send(ctx, d)
	}
	r, err := http.NewRequestWithContext(ctx, c.Method, "http://localhost"+c.Path, strings.NewReader(c.Body))
	if err != nil {
		return reply{}, err
	}
	if c.Body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	answer, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	return reply{answer.StatusCode, string(text)}, err
}

// root makes a call as root over the socket, within 10 seconds. An answer that
// is not 2xx is an error.
func (d *daemon) root(ctx context.Context, method, path, body string, into any) error {
	return d.rootWithin(ctx, 10*time.Second, method, path, body, into)
}

func (d *daemon) rootWithin(ctx context.Context, limit time.Duration, method, path, body string, into any) error {
	client := d.socket.client(limit)
	defer client.CloseIdleConnections()
	got, err := call{Method: method, Path: path, Body: body}.make(ctx, d.socket, client)
	switch {
	case err != nil:
		return fmt.Errorf("root's %s %s: %w", method, path, err)
	case got.Status/100 != 2:
		return fmt.Errorf("root's %s %s: the daemon answered %d %s", method, path, got.Status, got.Body)
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *string:
		*into = got.Body
		return nil
	}
	return json.Unmarshal([]byte(got.Body), into)
}

// leases returns the leases by id, as root sees them.
func (d *daemon) leases(ctx context.Context) (map[string]api.Lease, error) {
	var all api.Leases
	err := d.root(ctx, "GET", "/api/leases", "", &all)
	byID := map[string]api.Lease{}
	for _, l := range all.Leases {
		byID[l.ID] = l
	}
	return byID, err
}

// events returns the events that root can read, and the length of the longest.
// It counts an event that is longer than a megabyte, and does not keep it.
func (d *daemon) events(ctx context.Context) (all []gpu.Event, longest int, err error) {
	client := d.socket.client(30 * time.Second)
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/api/events?follow=false", nil)
	if err != nil {
		return nil, 0, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, 0, fmt.Errorf("read the events as root: %w", err)
	}
	defer answer.Body.Close()
	in := bufio.NewReaderSize(answer.Body, 1<<20)
	for {
		line, err := in.ReadSlice('\n')
		data, is := bytes.CutPrefix(line, []byte("data: "))
		if is {
			longest = max(longest, len(data))
		}
		switch {
		case errors.Is(err, io.EOF):
			return all, longest, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if rest, err := in.ReadBytes('\n'); err == nil && is {
				longest = max(longest, len(data)+len(rest))
			}
		case err != nil:
			return all, longest, fmt.Errorf("read the events as root: %w", err)
		case is:
			var e gpu.Event
			if err := json.Unmarshal(data, &e); err != nil {
				return nil, 0, fmt.Errorf("read an event: %w", err)
			}
			all = append(all, e)
		}
	}
}
