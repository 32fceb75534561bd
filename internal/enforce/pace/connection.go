package pace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// connection is the way to the guardian. The guardian is started with the first
// order, and again if it is gone.
type connection struct {
	pacer  *Pacer
	asking sync.Mutex // held from an order to its answer

	mu      sync.Mutex // guards what follows
	present *guarding
}

// guarding is a guardian that runs.
type guarding struct {
	cmd     *exec.Cmd
	orders  *json.Encoder
	close   func() error
	answers chan report
	gone    chan struct{} // closed when it has ended
}

// answerLimit is how long the guardian may take to answer. It takes microseconds, unless
// somebody has stopped it.
const answerLimit = time.Second

var errNoGuardian = errors.New("the guardian of stopped processes does not answer")

// ask sends an order to stop something, and returns how many processes were stopped.
func (c *connection) ask(o order) (stopped int, err error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	g, err := c.guardian()
	if err == nil && c.send(g, o) != nil {
		if g, err = c.guardian(); err == nil { // it has ended since the last order
			err = c.send(g, o)
		}
	}
	if err != nil {
		return 0, err
	}
	select {
	case r := <-g.answers:
		if r.Refused != "" {
			return 0, errors.New(r.Refused)
		}
		return r.Stopped, nil
	case <-time.After(answerLimit):
	case <-g.gone:
	}
	c.drop(g)
	return 0, errNoGuardian
}

// running returns the guardian that runs, or nil.
func (c *connection) running() *guarding {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.present
}

// tell sends an order that has no answer, if there is a guardian.
func (c *connection) tell(o order) {
	if g := c.running(); g != nil {
		_ = c.send(g, o) // if it fails, the guardian is gone, and has continued everything
	}
}

func (c *connection) send(g *guarding, o order) error {
	c.mu.Lock()
	err := g.orders.Encode(o)
	c.mu.Unlock()
	if err != nil {
		c.drop(g)
		return errNoGuardian
	}
	return nil
}

// guardian returns the guardian, and starts one if there is none.
func (c *connection) guardian() (*guarding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.present != nil {
		return c.present, nil
	}
	cmd := exec.Command(c.pacer.Guardian[0], c.pacer.Guardian[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // keep signals to the daemon's process group from reaching it
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the guardian of stopped processes: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the guardian of stopped processes: %w", err)
	}
	g := &guarding{cmd: cmd, orders: json.NewEncoder(in), close: in.Close, answers: make(chan report), gone: make(chan struct{})}
	c.present = g
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var r report
			switch err := json.Unmarshal(lines.Bytes(), &r); {
			case err != nil:
			case r.Answer:
				select {
				case g.answers <- r:
				case <-time.After(answerLimit): // nobody waits for it any more
				}
			case r.Until != 0:
				c.pacer.paused(r.Lease, time.Unix(0, r.From), time.Unix(0, r.Until))
			}
		}
		_ = cmd.Wait() // its exit status does not matter
		close(g.gone)
		c.drop(g)
	}()
	return g, nil
}

// drop ends a guardian that does not answer, or is gone, and continues the processes that
// it had stopped. It does nothing if that was done before, or if g is nil.
func (c *connection) drop(g *guarding) {
	c.mu.Lock()
	present := g != nil && c.present == g
	if present {
		c.present = nil
	}
	c.mu.Unlock()
	if present {
		_ = g.close()
		c.kill(g)
	}
}

// kill ends a guardian, and continues the processes that it had stopped. It does so again
// when the guardian has ended, which may stop one more before.
func (c *connection) kill(g *guarding) {
	_ = g.cmd.Process.Kill()
	stopped := c.pacer.rescue()
	go func() {
		<-g.gone
		c.pacer.resume(stopped)
	}()
}

// close lets the guardian continue everything and end, and waits for that. If the
// guardian does not end, it continues everything itself.
func (c *connection) close() {
	c.mu.Lock()
	g := c.present
	c.present = nil
	c.mu.Unlock()
	if g == nil {
		return
	}
	_ = g.close()
	select {
	case <-g.gone:
		if g.cmd.ProcessState.Success() {
			return
		}
	case <-time.After(answerLimit):
	}
	c.kill(g)
}
