package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

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

// askCalls asks for calls. In paths and bodies $N is the number of the call and
// $PID the process that makes it.
type askCalls struct {
	Door  door
	Calls []call
	Side  int  // how many calls at a time; 0: one
	Brief bool // keep only the last answer to each call
}

// makeCalls makes calls one after the other and says the answers.
func makeCalls(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askCalls
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	web := asked.Door.client(10 * time.Second)
	replies := []reply{}
	var mu sync.Mutex
	for _, each := range asked.Calls {
		var all sync.WaitGroup
		busy := make(chan struct{}, max(asked.Side, 1))
		for n := range max(each.Times, 1) {
			busy <- struct{}{}
			all.Go(func() {
				defer func() { <-busy }()
				c := each
				c.Path = fill(c.Path, n)
				c.Body = fill(c.Body, n)
				c.Token = fill(c.Token, n)
				got, _ := c.make(ctx, asked.Door, web) // a call that failed has status 0
				mu.Lock()
				defer mu.Unlock()
				if !asked.Brief || n == max(each.Times, 1)-1 {
					replies = append(replies, got)
				}
			})
		}
		all.Wait()
	}
	say(replies)
	<-ctx.Done()
	return nil
}

func fill(text string, n int) string {
	if !strings.Contains(text, "$") {
		return text
	}
	return strings.NewReplacer("$N", strconv.Itoa(n), "$PID", strconv.Itoa(os.Getpid())).Replace(text)
}

// calls makes calls as a user, from a process of its own, and returns the answers.
func (a *arena) calls(ctx context.Context, uid int, d door, calls ...call) ([]reply, error) {
	var got []reply
	err := a.do(ctx, uid, 0, "calls", askCalls{Door: d, Calls: calls}, &got)
	return got, err
}
