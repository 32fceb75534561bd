package pacer

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

// line is the connection to the guardian. The guardian is started with the first
// order, and again if it is gone.
type line struct {
	command []string
	lost    func() // called when the guardian is gone, before another one is started
	paused  func(fence uint64, from, until time.Time)

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

// answerLimit is how long the guardian may take for an answer. It takes
// microseconds, unless somebody has stopped it.
const answerLimit = time.Second

var errNoGuardian = errors.New("the guardian of stopped processes does not answer")

// ask sends an order to stop something, and returns the answer.
func (l *line) ask(o order) (report, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	g, err := l.guardian()
	if err == nil && l.send(g, o) != nil {
		if g, err = l.guardian(); err == nil { // it has ended since the last order
			err = l.send(g, o)
		}
	}
	if err != nil {
		return report{}, err
	}
	limit := time.NewTimer(answerLimit)
	defer limit.Stop()
	select {
	case r := <-g.answers:
		return r, nil
	case <-limit.C:
	case <-g.gone:
	}
	l.drop(g)
	return report{}, errNoGuardian
}

// tell sends an order that has no answer, if there is a guardian.
func (l *line) tell(o order) {
	l.mu.Lock()
	g := l.present
	l.mu.Unlock()
	if g != nil {
		_ = l.send(g, o) // if it fails, the guardian is gone, and has continued everything
	}
}

// beat tells the guardian that the daemon lives.
func (l *line) beat() { l.tell(order{}) }

func (l *line) send(g *guarding, o order) error {
	l.mu.Lock()
	err := g.orders.Encode(o)
	l.mu.Unlock()
	if err != nil {
		l.drop(g)
		return errNoGuardian
	}
	return nil
}

// guardian returns the guardian, and starts one if there is none.
func (l *line) guardian() (*guarding, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.present != nil {
		return l.present, nil
	}
	cmd := exec.Command(l.command[0], l.command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the group of the daemon must not reach it
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
	l.present = g
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
				l.paused(r.Lease, time.Unix(0, r.From), time.Unix(0, r.Until))
			}
		}
		_ = cmd.Wait() // how it ended does not matter
		close(g.gone)
		l.drop(g)
	}()
	return g, nil
}

// drop ends a guardian that does not answer, or is gone, and continues what it
// had stopped.
func (l *line) drop(g *guarding) {
	l.mu.Lock()
	present := l.present == g
	if present {
		l.present = nil
	}
	l.mu.Unlock()
	if present {
		_ = g.cmd.Process.Kill()
		_ = g.close()
		l.lost()
	}
}

// hung drops the guardian if it is the same as before.
func (l *line) hung() {
	l.mu.Lock()
	g := l.present
	l.mu.Unlock()
	if g != nil {
		l.drop(g)
	}
}

// close lets the guardian continue everything and end, and waits for that. It
// returns false if the guardian did not.
func (l *line) close() bool {
	l.mu.Lock()
	g := l.present
	l.present = nil
	l.mu.Unlock()
	if g == nil {
		return true
	}
	_ = g.close()
	select {
	case <-g.gone:
		return g.cmd.ProcessState.Success()
	case <-time.After(answerLimit):
		_ = g.cmd.Process.Kill()
		return false
	}
}
