package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/api/wire"
)

// askHold asks for a number of open connections of each kind.
type askHold struct {
	Door    door
	Halves  int // half-sent requests
	Events  int // event streams
	Streams int // lease streams
	Waits   int // requests that wait for more memory than is free
	Idle    int // connections that asked for something once
	Name    string
}

// opened counts the connections that an actor opened.
type opened struct{ Halves, Events, Streams, Waits int }

func (o opened) sum() int { return o.Halves + o.Events + o.Streams + o.Waits }

// holdConnections opens connections, says how many the daemon accepted, and keeps
// them open.
func holdConnections(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askHold
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	var got opened
	h := holder{door: asked.Door}
	got.Halves = h.open(ctx, asked.Halves, "POST /api/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx", "")
	got.Events = h.open(ctx, asked.Events, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n", "200")
	got.Streams = h.open(ctx, asked.Streams, "POST "+wire.Path+" HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: "+wire.Protocol+"\r\nContent-Length: 0\r\n\r\n", "101")
	body := fmt.Sprintf(`{"name":%q,"gpus":2,"memory_mb":100000,"slots":0,"timeout_seconds":300}`, strings.TrimSpace(asked.Name+" "))
	if asked.Name == "" {
		body = `{"gpus":2,"memory_mb":100000,"slots":0,"timeout_seconds":300}`
	}
	got.Waits = h.open(ctx, asked.Waits, fmt.Sprintf("POST /api/leases HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body), "")
	h.open(ctx, asked.Idle, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200")
	say(got)
	<-ctx.Done()
	h.close()
	return nil
}

// holder keeps connections.
type holder struct {
	door door
	mu   sync.Mutex // guards what follows
	all  []net.Conn
}

// open opens connections, sends a text on each, and returns how many the daemon
// accepted: the answer begins with the wanted status or, if none is wanted, the
// daemon did not refuse the connection.
func (h *holder) open(ctx context.Context, n int, text, status string) int {
	var all sync.WaitGroup
	var taken atomic.Int64
	busy := make(chan struct{}, 16)
	for range n {
		busy <- struct{}{}
		all.Go(func() {
			defer func() { <-busy }()
			if h.openOne(ctx, text, status) {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	return int(taken.Load())
}

func (h *holder) openOne(ctx context.Context, text, status string) bool {
	conn, err := h.door.dial(ctx)
	if err != nil {
		return false
	}
	h.mu.Lock()
	h.all = append(h.all, conn)
	h.mu.Unlock()
	if _, err := conn.Write([]byte(text)); err != nil {
		return false
	}
	if status == "" {
		return true
	}
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, " "+status+" ") {
		_ = conn.Close()
		return false
	}
	return true
}

func (h *holder) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, conn := range h.all {
		_ = conn.Close()
	}
}
