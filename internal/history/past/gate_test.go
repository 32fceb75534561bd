package past

import (
	"testing"
	"testing/synctest"
)

// Closing waits for the readers that are there, and those that come meanwhile are
// turned away at once.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		if g.enter() {
			t.Error("a reader got in before it was open")
		}
		g.unlock()
		if !g.enter() || !g.enter() {
			t.Error("a reader did not get in")
		}
		closed := false
		go func() {
			g.lock()
			closed = true
		}()
		synctest.Wait()
		if closed || g.enter() {
			t.Errorf("with readers inside: closed %v, or another one got in", closed)
		}
		g.leave()
		synctest.Wait()
		if closed {
			t.Error("closed before the last reader left")
		}
		g.leave()
		synctest.Wait()
		if !closed || g.enter() {
			t.Errorf("after the last one left: closed %v", closed)
		}
		g.unlock()
		if !g.enter() {
			t.Error("a reader did not get in again")
		}
		g.leave()
		g.lock() // nobody is there: it waits for nothing
	})
}
