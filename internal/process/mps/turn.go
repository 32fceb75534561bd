package mps

import "context"

// begin waits for the turn of a device and a user. The caller ends the turn
// with done.
func (p *Pool) begin(ctx context.Context, k key) (done func(), err error) {
	turn := p.turnOf(k)
	select {
	case turn <- struct{}{}:
		return func() { <-turn; p.nudge() }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tryBegin does the same as begin, but does not wait.
func (p *Pool) tryBegin(k key) (done func(), ours bool) {
	turn := p.turnOf(k)
	select {
	case turn <- struct{}{}:
		return func() { <-turn; p.nudge() }, true
	default:
		return nil, false
	}
}

func (p *Pool) turnOf(k key) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	turn := p.turns[k]
	if turn == nil {
		turn = make(chan struct{}, 1)
		p.turns[k] = turn
	}
	return turn
}
