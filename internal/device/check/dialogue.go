package check

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// dialogue is a session with a helper process.
type dialogue struct {
	mover *Mover
	awake bool // the processes run on while their memory is away
	*launched
	lines chan []byte   // from the helper process; closed at the end of its output
	over  chan struct{} // closed when nobody reads lines any more

	ending sync.Once

	turn   chan struct{} // holds a token during an order; guards the fields below
	number int           // of the last order
	failed error         // why the session is over
}

func newDialogue(m *Mover, l *launched, awake bool) *dialogue {
	s := &dialogue{mover: m, awake: awake, launched: l, lines: make(chan []byte), over: make(chan struct{}), turn: make(chan struct{}, 1)}
	go s.read()
	go func() {
		<-l.child.Gone()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.helpers, l.id)
	}()
	return s
}

// read reads lines until the output ends, or a line is too long. It closes the
// output.
func (s *dialogue) read() {
	defer s.output.Close()
	defer close(s.lines)
	in := bufio.NewReaderSize(s.output, move.MostLine)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return
		}
		select {
		case s.lines <- slices.Clone(line):
		case <-s.over:
			return
		}
		if err != nil {
			return
		}
	}
}

// opened waits until the helper process has loaded the driver.
func (s *dialogue) opened(ctx context.Context) error {
	var line Line
	text, err := s.next(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("load the driver: %w", err)
	case json.Unmarshal(text, &line) != nil || line.Unable == "" && !line.Opened:
		return fmt.Errorf("%w: %w", ErrBroken, nonsense(text))
	case line.Unable != "":
		return fmt.Errorf("%w: %s", ErrNoParking, gpu.Printable(line.Unable, mostText))
	}
	return nil
}

// next returns the next line of the helper process.
func (s *dialogue) next(ctx context.Context) ([]byte, error) {
	select {
	case line, more := <-s.lines:
		if more {
			return line, nil
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("%w in time: %w", ErrBroken, context.Cause(ctx))
	}
	select {
	case <-s.child.Gone():
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: it closed its output: %w", ErrBroken, context.Cause(ctx))
	}
	return nil, fmt.Errorf("%w: it %s", ErrBroken, s.ended(s.child.State()))
}

func nonsense(text []byte) error {
	return fmt.Errorf("it wrote what is no answer: %s", gpu.Printable(string(text[:min(len(text), 80)]), mostText))
}

// Do takes a step with all processes at once. If they are too many for one order, it
// takes the step with one group after the other.
func (s *dialogue) Do(ctx context.Context, step move.Step, ids []move.Process) ([]move.Outcome, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	fault := s.mover.fault(step)
	var all []move.Outcome
	for some := range slices.Chunk(ids, move.MostProcesses) {
		if s.failed != nil {
			return nil, s.failed
		}
		s.number++
		outcomes, err := s.ask(ctx, move.Order{Number: s.number, Step: step, Processes: some, Awake: s.awake, Fault: fault})
		if err != nil {
			s.failed = fmt.Errorf("%s: %w", step, err)
			_ = s.Close()
			return nil, s.failed
		}
		all = append(all, outcomes...)
	}
	return all, nil
}

// ask gives an order, and returns the answer.
func (s *dialogue) ask(ctx context.Context, o move.Order) ([]move.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if _, err := move.ReadOrder(text); err != nil {
		return nil, err
	}
	// A helper process that does not read must not block the daemon.
	go func() { _, _ = s.input.Write(append(text, '\n')) }()
	line, err := s.next(ctx)
	if err != nil {
		return nil, err
	}
	outcomes, err := move.ReadAnswer(line, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, nonsense(line))
	}
	return outcomes, nil
}

// Close ends the helper process. It does not wait for a step that is going on.
func (s *dialogue) Close() error {
	s.ending.Do(func() {
		s.child.Kill() // it has nothing to lose
		close(s.over)
		_ = s.input.Close()
	})
	return nil
}

// Park is the verb of a helper process that proves nothing: it moves the memory of other
// processes off their devices and back, as the lines after the first say. See package
// move.
const Park proof.Verb = "park"

// Line is one line that the helper process writes, as JSON. It reads its Ask as
// one line from its standard input, and ends when that input ends.
type Line struct {
	// Opened means that the driver has opened the device. From here on, a crash or a hang
	// of the helper process counts against the device.
	Opened bool `json:"opened,omitempty"`
	// Step is a finished step, or the progress of one.
	Step *proof.Step `json:"step,omitempty"`
	// Unable says why the device cannot be asked. It is the last line.
	Unable string `json:"unable,omitempty"`
	// Done is the last line of a helper process that has taken every step.
	Done bool `json:"done,omitempty"`
}

const (
	mostLine  = 4096   // bytes of a line
	mostLines = 10_000 // most lines of a helper process
)
