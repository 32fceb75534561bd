package past

import "sync"

// gate counts the queries that read the stores, so that the stores close only when no
// query reads them. A query never waits: either it enters, or there is nothing to read
// now.
type gate struct {
	mu      sync.Mutex // guards what follows; never held while something waits
	open    bool
	readers int
	empty   chan struct{} // closed by the last reader after close; nil if nobody waits for it
}

// enter lets a reader in. It returns false if the gate is closed.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		g.readers++
	}
	return g.open
}

// leave ends what enter began.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.readers--; g.readers == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// unlock opens the gate.
func (g *gate) unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
}

// lock closes the gate, and waits until every reader has left. Queries end by
// themselves within their limits.
func (g *gate) lock() {
	g.mu.Lock()
	g.open = false
	var empty chan struct{}
	if g.readers > 0 {
		empty = make(chan struct{})
		g.empty = empty
	}
	g.mu.Unlock()
	if empty != nil {
		<-empty
	}
}
