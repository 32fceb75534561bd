package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// slowHook floods the events while a hook waits for its receiver. The hook must
// still deliver a warning from that time.
func slowHook(ctx context.Context, a *arena) (v verdict, err error) {
	r, err := newReceiver()
	if err != nil {
		return v, err
	}
	defer r.close()
	d, err := a.serve(ctx, setup{config: fmt.Sprintf(`
gpu: {max_pipelines: 1000}
hooks: {slow: {url: "http://%s/", timeout_seconds: 60}}`, r.address())})
	if err != nil {
		return v, err
	}
	if err := d.expire(ctx, "first"); err != nil {
		return v, err
	}
	select {
	case <-r.busy:
	case <-time.After(10 * time.Second):
		return v, fmt.Errorf("the hook does not deliver")
	}
	if err := d.expire(ctx, "roots"); err != nil {
		return v, err
	}
	var done int
	if err := a.do(ctx, attacker, 0, "cycles", askCycles{Door: d.socket, Count: a.size(2200, 25000), Side: 16}, &done); err != nil {
		return v, err
	}
	if err := a.do(ctx, attacker, 0, "batches", askBatches{Door: d.socket, Count: a.size(800, 10000)}, nil); err != nil {
		return v, err
	}
	r.goOn()
	if !eventually(10*time.Second, func() bool { return r.has("roots") }) {
		v.gain("the hook never delivered the warning about root's lease, after %d leases", done)
	}
	v.noting("after %d leases", done)
	return v, nil
}

// receiver receives the deliveries of a hook, and delays the first one.
type receiver struct {
	server   *http.Server
	listener net.Listener
	busy     chan struct{} // closed when the first delivery arrives
	open     chan struct{} // closed when deliveries are answered
	goOn     func()

	mu   sync.Mutex // guards what follows
	seen map[string]bool
}

func newReceiver() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{listener: l, busy: make(chan struct{}), open: make(chan struct{}), seen: map[string]bool{}}
	r.goOn = sync.OnceFunc(func() { close(r.open) })
	first := sync.OnceFunc(func() { close(r.busy) })
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var e gpu.Event
		if json.NewDecoder(q.Body).Decode(&e) != nil {
			return
		}
		first()
		<-r.open
		r.mu.Lock()
		defer r.mu.Unlock()
		if e.Code == gpu.EventExpired {
			r.seen[e.Lease] = true
		}
	})}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *receiver) address() string { return r.listener.Addr().String() }

func (r *receiver) has(lease string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[lease]
}

func (r *receiver) close() {
	r.goOn()
	_ = r.server.Close()
}
