package check

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/text/words"
)

const (
	quiet    = time.Minute      // longest silence of a helper process, unless the Prover says otherwise
	teardown = 10 * time.Second // longest time for the driver to free the memory of a helper process
	mostText = 400              // longest text from a helper process that berth believes, in bytes
	mostSaid = 300              // longest standard error that berth keeps, in bytes
)

// helper is one helper process and its output.
type helper struct {
	ask proof.Ask
	*launched
	lines  chan Line // closed at the end of its output
	broken error     // why its output was not read to its end; valid when lines is closed

	opened, nonsense bool
	steps            []proof.Step // finished steps
	last             *Line        // its last line; nil if it did not finish
}

// help lets a helper process carry out an Ask.
func (p *Prover) help(ctx context.Context, a proof.Ask, told func(proof.Step), started time.Time) (proof.Result, error) {
	h, err := p.start(a)
	if err != nil {
		p.end(a.GPU)
		return proof.Unable(a, nil, fmt.Sprintf("the helper process cannot be started: %v", err), time.Since(started)), nil
	}
	why := p.listen(ctx, h, told)
	_ = h.input.Close()
	if why != "" {
		h.child.Kill()
	}
	gone := func() {
		<-h.child.Gone()
		_ = h.output.Close()
		p.end(a.GPU)
	}
	select {
	case <-h.child.Gone():
		gone()
	case <-p.timer(teardown):
		h.child.Kill()
		go gone() // until then the device is busy
		why = cmp.Or(why, "it did not end")
	}
	return h.judge(why, time.Since(started)), nil
}

// start starts a helper process and sends it the Ask.
func (p *Prover) start(a proof.Ask) (*helper, error) {
	l, err := launch(p.Command, append(environ(a), p.Environ...), a)
	if err != nil {
		return nil, err
	}
	h := &helper{ask: a, launched: l, lines: make(chan Line)}
	p.mu.Lock()
	p.running[a.GPU] = l.id
	p.mu.Unlock()
	go h.read()
	return h, nil
}

// read reads the lines of the helper process, up to mostLines.
func (h *helper) read() {
	defer close(h.lines)
	in := bufio.NewReaderSize(h.output, mostLine)
	for range mostLines {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return
		}
		var line Line
		if err != nil || json.Unmarshal(text, &line) != nil {
			h.broken = nonsense(text)
			return
		}
		h.lines <- line
		if line.Done || line.Unable != "" {
			return
		}
	}
	h.broken = errors.New("it wrote without end")
}

// listen follows the helper process to its last line. It returns why it stopped listening
// before that, or the empty string.
func (p *Prover) listen(ctx context.Context, h *helper, told func(proof.Step)) string {
	quiet, limit := cmp.Or(p.Quiet, quiet), p.timer(h.ask.Limit())
	defer func() {
		go func() { // drains lines, so that the reader ends
			for range h.lines {
			}
		}()
	}()
	for {
		select {
		case line, more := <-h.lines:
			if !more {
				if h.broken != nil {
					h.nonsense = true
					return h.broken.Error()
				}
				return ""
			}
			h.note(line, told)
		case <-p.timer(quiet):
			return "it said nothing for " + words.Duration(quiet)
		case <-limit:
			return "it was not done after " + words.Duration(h.ask.Limit())
		case <-ctx.Done():
			return stopped
		}
	}
}

// timer returns a channel that receives after a time.
func (p *Prover) timer(d time.Duration) <-chan time.Time {
	if p.after != nil {
		return p.after(d)
	}
	return time.After(d)
}

// stopped is the reason when listen ends with its context.
const stopped = "it was stopped"

// note keeps a line if it makes sense.
func (h *helper) note(line Line, told func(proof.Step)) {
	h.opened = h.opened || line.Opened
	if line.Done || line.Unable != "" {
		line.Unable = gpu.Printable(line.Unable, mostText)
		h.last = &line
	}
	s := line.Step
	if s == nil || !slices.Contains(proof.Steps(h.ask.Verb), s.Name) {
		return
	}
	s.Detail = gpu.Printable(s.Detail, mostText)
	switch s.Verdict {
	case proof.Passed, proof.Failed, proof.Unasked:
		h.steps = append(h.steps, *s)
	case "":
	default:
		return
	}
	told(*s)
}

// judge returns the result of the helper process. A crash or a hang counts against the
// device once the device was open; before that, the device could not be asked.
func (h *helper) judge(why string, took time.Duration) proof.Result {
	ended := h.child.State()
	switch {
	case why == stopped:
		return proof.Unable(h.ask, h.steps, why, took)
	case h.last != nil && h.last.Unable != "":
		return proof.Unable(h.ask, h.steps, h.last.Unable, took)
	case h.last != nil:
		return proof.Judge(h.ask, h.steps, took)
	case h.nonsense:
		return proof.Unable(h.ask, h.steps, "the helper process failed: "+why, took)
	case why == "" && ended != nil:
		return h.crashed(ended, took)
	}
	why = "the helper process hung: " + cmp.Or(why, "it did not end")
	if h.opened {
		return proof.Broke(h.ask, h.steps, why, took)
	}
	return proof.Unable(h.ask, h.steps, why, took)
}

// crashed judges a helper process that ended before its last line.
func (h *helper) crashed(ended *os.ProcessState, took time.Duration) proof.Result {
	why := "the helper process " + h.ended(ended)
	status, _ := ended.Sys().(syscall.WaitStatus)
	byOthers := status.Signaled() && slices.Contains([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}, status.Signal())
	if h.opened && !byOthers {
		return proof.Broke(h.ask, h.steps, why, took)
	}
	return proof.Unable(h.ask, h.steps, why, took)
}
