// Package ways lets only so many things of one user through at a time.
package ways

import "sync"

// Keeper counts what is under way by user. The zero value has to be given Most.
type Keeper struct {
	Most int // of one user

	mu     sync.Mutex
	byUser map[int]*Way
}

// Way is the way of one user through the gate.
type Way struct {
	Free  chan struct{} // has room for each thing that may be under way
	users int           // how many goroutines use this; guarded by Keeper.mu
}

// Of returns the way of a user. The caller calls Done when it needs it no more.
func (g *Keeper) Of(uid int) *Way {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.byUser[uid]
	if w == nil {
		w = &Way{Free: make(chan struct{}, g.Most)}
		if g.byUser == nil {
			g.byUser = map[int]*Way{}
		}
		g.byUser[uid] = w
	}
	w.users++
	return w
}

// Done lets go of a way. The gate forgets the user when nobody uses it.
func (g *Keeper) Done(uid int, w *Way) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.users--; w.users == 0 {
		delete(g.byUser, uid)
	}
}

// Len returns how many users have a way.
func (g *Keeper) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.byUser)
}
