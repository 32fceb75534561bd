package batch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// Process is the process of a worker, with a pipe in each direction. Package
// worker has real ones.
type Process interface {
	PID() int
	// Alive reports whether the process has not ended, even if nobody has
	// noticed its end yet.
	Alive() bool
	// Send writes to the worker. The error is os.ErrDeadlineExceeded if the
	// worker does not take all of it in time.
	Send(data []byte, timeout time.Duration) error
	// Read reads what the worker says. It fails soon after the process is gone.
	io.Reader

	// End asks the worker to end: it sends the last words, and kills the process
	// if it lives on after the grace. End returns when the process is gone, or
	// cannot be killed.
	End(last []byte, grace time.Duration)
	// Kill kills the process and what it has started, without waiting.
	Kill()
	// Destroy kills the process and returns when it is gone, or cannot be killed.
	Destroy()
	// Gone is closed when the process is gone.
	Gone() <-chan struct{}

	// Fate says how a process that is gone has ended, and whether a signal
	// ended it.
	Fate() (text string, signalled bool)
	// LastWords returns the last that the worker printed; empty: nothing.
	LastWords() string
}

// process is a worker process and what it says.
type process struct {
	Process
	messages chan answer  // what it says; closed at the end
	heard    atomic.Int64 // when it last reported progress, in nanoseconds
}

// answer is a message, or why there will be no more.
type answer struct {
	message
	err error
	at  time.Time
}

// start starts a worker under a grant.
func (r *Run) start(name string, g *Grant) (*process, error) {
	env := append(slices.Clone(g.Env),
		envIn+"="+strconv.Itoa(workerIn), envOut+"="+strconv.Itoa(workerOut),
		envProtocol+"="+strconv.Itoa(ProtocolVersion), envName+"="+name)
	started, err := r.opt.Start(fmt.Sprintf("[%s, GPU %d] ", name, g.GPU.Index), env)
	if err != nil {
		return nil, err
	}
	p := &process{Process: started, messages: make(chan answer, 4)}
	go p.listen(r.opt.AnswerBytes)
	return p, nil
}

// listen reads what the worker says until it ends or talks nonsense.
func (p *process) listen(most int) {
	defer close(p.messages)
	r := bufio.NewReaderSize(p, 256<<10)
	likely := 0
	for {
		line, err := readLine(r, likely, most)
		likely = len(line) + len(line)/8
		var m message
		if err == nil {
			m, err = parseMessage(line)
			if err != nil {
				err = &nonsenseError{err.Error()}
			}
		}
		if m.kind == messageProgress {
			p.heard.Store(time.Now().UnixNano())
			continue
		}
		p.messages <- answer{m, err, time.Now()}
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
	}
}

// nonsenseError is an answer that is none.
type nonsenseError struct{ text string }

func (e *nonsenseError) Error() string { return "it answered " + e.text }

// end lets the worker end by itself, and passes over what it still says.
func (p *process) end(grace time.Duration) {
	listened := p.ignore()
	p.End([]byte(byeMessage), grace)
	<-listened
}

// destroy kills the worker, and passes over what it still says.
func (p *process) destroy() {
	listened := p.ignore()
	p.Destroy()
	<-listened
}

// ignore passes over what the worker says, so that listen can end. It returns a
// channel that is closed when listen has ended.
func (p *process) ignore() <-chan struct{} {
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		for range p.messages {
		}
	}()
	return listened
}

// isGone waits for the end of the process, and reports whether it came.
func (p *process) isGone(within time.Duration) bool {
	p.ignore()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.Gone():
		return true
	case <-timer.C:
		return false
	}
}

// fate says how the process ended, with the last that it printed. why is that
// of the grant; it may be nil.
func (p *process) fate(why func(signalled bool) string) string {
	text := "it cannot be killed: the driver of its GPU may hang"
	select {
	case <-p.Gone():
		end, signalled := p.Fate()
		text = "it ended: " + end
		if why == nil {
			break
		}
		if reason := why(signalled); reason != "" {
			text += ", because " + reason
		}
	default:
	}
	return text + p.saying()
}

// saying is the last that the worker printed, as the end of a sentence.
func (p *process) saying() string {
	if words := p.LastWords(); words != "" {
		return "; it last printed: " + words
	}
	return ""
}
