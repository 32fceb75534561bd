package exam

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// Process is the helper process: it proves a device, or moves the memory of other
// processes.
type Process struct {
	In   io.Reader // has the ask as its first line, and ends with whoever asked
	Out  io.Writer // gets a line for each thing that happens
	Gone func()    // is called when In ends

	Open   func() (Card, error)     // opens the device
	Gauges func(uuid string) Gauges // reads the device; it may return nil
	Mover  func() (Mover, error)    // opens the driver to move memory of other processes
	Limit  func() error             // gives up what the process does not need
}

// Serve does what the first line of its input asks. Its error is for an ask that it
// cannot read, and for an output that it cannot write.
func (p Process) Serve() error {
	runtime.LockOSThread() // the driver keeps its context per thread
	defer runtime.UnlockOSThread()
	in := bufio.NewReaderSize(p.In, proof.MostLine)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read what is asked: %w", err)
	}
	var ask proof.Ask
	if err := json.Unmarshal(line, &ask); err != nil {
		return fmt.Errorf("read what is asked: %w", err)
	}
	w := &writer{out: json.NewEncoder(p.Out)}
	moves := ask.Verb == proof.Park
	if !moves {
		go func() {
			_, _ = io.Copy(io.Discard, in)
			p.Gone()
		}()
	}
	if !moves && !slices.Contains(proof.Verbs(), ask.Verb) {
		w.write(proof.Line{Unable: fmt.Sprintf("this version of berth does not know how to %s", gpu.Printable(string(ask.Verb), 40))})
		return w.err
	}
	if p.Limit != nil {
		if err := p.Limit(); err != nil {
			w.write(proof.Line{Unable: err.Error()})
			return w.err
		}
	}
	if moves {
		return p.park(in, w)
	}
	card, err := p.Open()
	if err != nil {
		w.write(proof.Line{Unable: gpu.Printable(err.Error(), mostText)})
		return w.err
	}
	w.write(proof.Line{Opened: true})
	e := &examiner{card: card, gauges: p.Gauges(ask.GPU), ask: ask, tell: w.step}
	e.run()
	w.write(proof.Line{Done: true})
	return w.err
}

// mostText is how long the text of a line may be.
const mostText = 2000

// writer writes lines, until it cannot.
type writer struct {
	out  *json.Encoder
	last proof.Step
	err  error
}

func (w *writer) write(l proof.Line) {
	if w.err == nil {
		w.err = w.out.Encode(l)
	}
}

// step writes a step, unless it says the same as the line before.
func (w *writer) step(s proof.Step) {
	s.Detail = gpu.Printable(s.Detail, mostText)
	if s != w.last {
		w.write(proof.Line{Step: &s})
	}
	w.last = s
}
