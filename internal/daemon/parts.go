package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// stopLimit is how long the parts of a daemon may take to end. A driver that hangs is
	// given up after 4 s, hooks and open requests after 3 s.
	stopLimit = 5 * time.Second
	// quietLimit is how long callers wait for a ledger that does not stop.
	quietLimit = 2 * time.Second
	// leaveLimit is how long parts may take that the daemon no longer waits for.
	leaveLimit = 500 * time.Millisecond
	// closeLimit is how long closing the devices and the journal may take.
	closeLimit = time.Second
)

// part is a part of a daemon that runs until its context ends.
type part struct {
	name string
	do   func(context.Context)
	last bool // it runs until the monitor has ended: until then something may change
}

// run adds a part that runs as long as the daemon.
func (d *Daemon) run(name string, do func(context.Context)) {
	d.parts = append(d.parts, part{name: name, do: do})
}

// runLast adds a part that runs until nothing can change any more.
func (d *Daemon) runLast(name string, do func(context.Context)) {
	d.parts = append(d.parts, part{name: name, do: do, last: true})
}

// parts runs the parts of a daemon, and knows which of them have not ended.
type parts struct {
	mu      sync.Mutex // guards what follows
	running map[string]bool
	idle    chan struct{} // closed when nothing runs; nil if nobody waits
}

// run runs a part in a goroutine. Only one part at a time may have a name.
func (p *parts) run(name string, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		p.running = map[string]bool{}
	}
	p.running[name] = true
	go func() {
		defer p.ended(name)
		do()
	}()
}

func (p *parts) ended(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, name)
	if len(p.running) == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// wait waits until all parts have ended, but at most limit, and returns the names of
// those that have not.
func (p *parts) wait(limit time.Duration) []string {
	p.mu.Lock()
	idle := make(chan struct{})
	if len(p.running) == 0 {
		close(idle)
	} else {
		p.idle = idle
	}
	p.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(limit):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.running))
}
