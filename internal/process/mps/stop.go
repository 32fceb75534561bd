package mps

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// stopIdle stops the daemons that have been unused for linger, each in a goroutine that
// stops counts. It returns how long to wait until the next look; 0 means that there is
// nothing to wait for.
func (p *Pool) stopIdle(linger time.Duration, stops *sync.WaitGroup) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := time.Duration(0)
	for k, d := range p.daemons {
		switch left := linger - time.Since(d.idle); {
		case len(d.uses) > 0 || d.stopping:
		case left <= 0:
			stops.Go(func() { p.retire(k) })
		case next == 0 || left < next:
			next = left
		}
	}
	return next
}

// retire stops an unused daemon. If another goroutine has locked it, the daemon
// is about to be used, and the unlock makes Run look again.
func (p *Pool) retire(k key) {
	unlock, ours := p.tryLock(k)
	if !ours {
		return
	}
	defer unlock()
	p.mu.Lock()
	d := p.daemons[k]
	idle := d != nil && len(d.uses) == 0
	p.mu.Unlock()
	if idle {
		p.end(d)
	}
}

// end stops a daemon and forgets it. The caller has locked it.
func (p *Pool) end(d *daemon) {
	p.mu.Lock()
	d.stopping = true
	p.mu.Unlock()
	d.watch()
	p.stop(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.daemons[d.key] == d {
		delete(p.daemons, d.key)
	}
}

// stop asks a daemon to quit, and kills it if it does not. It takes a few seconds at
// most, whatever the daemon does.
func (p *Pool) stop(d *daemon) {
	ctx := context.Background()
	var err error
	if d.as == nil {
		d.as, err = p.credential(ctx, d.uid)
	}
	if err == nil { // otherwise the client would not run as the user
		_ = p.ask(ctx, d, "quit")
		p.awaitEnd(d.id, time.Second)
	}
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if !p.isControl(d.id, d.uid) {
			break
		}
		_ = p.Processes.Signal(kinship.OfUser(d.uid), d.id, signal)
		p.awaitEnd(d.id, time.Second)
	}
	if !p.Processes.Alive(d.id) {
		_ = os.Remove(filepath.Join(d.dir, pidFile))
	}
}

func (p *Pool) awaitEnd(id process.ID, within time.Duration) {
	ended := make(chan struct{})
	stop, err := p.Processes.Watch(id, func() { close(ended) })
	if err != nil {
		return
	}
	defer stop()
	select {
	case <-ended:
	case <-time.After(within):
	}
}
