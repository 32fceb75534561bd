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
// worker starts real ones.
type Process interface {
	PID() int
	// Alive reports whether the process has not ended, even if Gone is not
	// closed yet.
	Alive() bool
	// Rested returns for how long the process was stopped since a moment, as by
	// berth pace.
	Rested(since time.Time) time.Duration
	// Send writes to the worker. It returns os.ErrDeadlineExceeded if the
	// worker does not take all of it in time.
	Send(data []byte, timeout time.Duration) error
	// Read reads what the worker writes. It fails soon after the process is gone.
	io.Reader

	// End asks the worker to end: it sends last, and kills the process if it is
	// still alive after the grace. End returns when the process is gone, or
	// cannot be killed.
	End(last []byte, grace time.Duration)
	// Kill kills the process and all that it started, and does not wait.
	Kill()
	// Destroy kills the process and returns when it is gone, or cannot be killed.
	Destroy()
	// Gone is closed when the process is gone.
	Gone() <-chan struct{}

	// ExitStatus says how the process ended, and whether a signal ended it. The
	// process must be gone.
	ExitStatus() (text string, signalled bool)
	// LastOutput returns the last lines that the worker printed, or "".
	LastOutput() string
}

// process is a worker process and the messages that it sends.
type process struct {
	Process
	messages chan answer  // from the worker; closed at the end
	heard    atomic.Value // a time.Time, when it last reported progress; none if it has not
}

// answer is a message, or the reason why there are no more.
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
	begin := r.opt.Start
	if g.Start != nil {
		begin = g.Start
	}
	if begin == nil {
		return nil, errors.New("nothing starts workers: this is a mistake in berth")
	}
	started, err := begin(fmt.Sprintf("[%s, %s] ", name, g.GPU), env)
	if err != nil {
		return nil, err
	}
	p := &process{Process: started, messages: make(chan answer, mostDepth+2)}
	go p.listen(r.opt.AnswerBytes)
	return p, nil
}

// listen reads messages until the worker ends or sends nonsense.
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
			p.heard.Store(time.Now())
			continue
		}
		p.messages <- answer{m, err, time.Now()}
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
	}
}

// nonsenseError says what a worker sent instead of a message.
type nonsenseError struct{ text string }

func (e *nonsenseError) Error() string { return "it answered " + e.text }

// end lets the worker end by itself, and ignores what it still sends.
func (p *process) end(grace time.Duration) {
	listened := p.ignore()
	p.End([]byte(byeMessage), grace)
	<-listened
}

// destroy kills the worker, and ignores what it still sends.
func (p *process) destroy() {
	listened := p.ignore()
	p.Destroy()
	<-listened
}

// ignore drops the messages of the worker, so that listen can end. It returns a
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

// isGone waits for the end of the process, and reports whether it has ended in
// time.
func (p *process) isGone(within time.Duration) bool {
	p.ignore()
	select {
	case <-p.Gone():
		return true
	case <-time.After(within):
		return false
	}
}

// exitText says how the process ended, and what it last printed. why is the Why
// of the grant; it may be nil.
func (p *process) exitText(why func(signalled bool) string) string {
	text := "it cannot be killed: the driver of its GPU may hang"
	select {
	case <-p.Gone():
		end, signalled := p.ExitStatus()
		text = end
		if why == nil {
			break
		}
		if reason := why(signalled); reason != "" {
			text += ", because " + reason
		}
	default:
	}
	return text + p.lastPrinted()
}

// lastPrinted returns the last lines that the worker printed, as the end of a
// sentence.
func (p *process) lastPrinted() string {
	if text := p.LastOutput(); text != "" {
		return "; it last printed: " + text
	}
	return ""
}
