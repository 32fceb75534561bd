package outcome

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Pipe writes outcomes to a reader as they come, as JSON lines. It keeps nothing, so a
// run that writes to a Pipe cannot be resumed. Only one goroutine may use it.
type Pipe struct {
	to       io.Writer
	numbered bool
	done     *set
	fails    int64
	buf      bytes.Buffer
}

// NewPipe returns a Pipe that writes to w. It returns ErrShape for a shape that
// needs a file.
func NewPipe(w io.Writer, shape Shape) (*Pipe, error) {
	switch {
	case shape.Ordered:
		return nil, fmt.Errorf("%w: standard output gets outcomes as they come: name a file to have them in the order of the input", ErrShape)
	case shape.Format != Auto && shape.Format != JSONL && shape.Format != Numbered, len(shape.Columns) > 0, shape.Packing != ByName && shape.Packing != None:
		return nil, fmt.Errorf("%w: standard output gets JSON lines: name a file to have another format", ErrShape)
	}
	return &Pipe{to: w, numbered: shape.Format == Numbered, done: newSet()}, nil
}

// Commit writes a group of outcomes. After an error the caller can only close
// the pipe.
func (p *Pipe) Commit(group []Outcome) error {
	if len(group) == 0 {
		return nil
	}
	p.buf.Reset()
	for _, o := range group {
		if !p.done.add(o.Index) {
			return fmt.Errorf("output: record %d has two outcomes: this is a mistake in berth", o.Index)
		}
		if o.Failed {
			p.fails++
		}
		p.write(o)
	}
	_, err := p.to.Write(p.buf.Bytes())
	return writeError("write", "standard output", err)
}

// write adds the line of an outcome to the buffer.
func (p *Pipe) write(o Outcome) {
	if !p.numbered {
		p.buf.Write(o.Data)
		p.buf.WriteByte('\n')
		return
	}
	p.buf.WriteByte('[')
	p.buf.Write(strconv.AppendInt(p.buf.AvailableBuffer(), o.Index, 10))
	p.buf.WriteByte(',')
	p.buf.Write(o.Data)
	p.buf.WriteString("]\n")
}

// Done returns false: a Pipe has no outcomes of earlier runs.
func (p *Pipe) Done(int64) bool { return false }

// Counts returns how many outcomes were written, and how many of them failed.
func (p *Pipe) Counts() (done, failed int64) { return p.done.count, p.fails }

// Complete returns false: a Pipe has no earlier run.
func (p *Pipe) Complete() bool { return false }

// Finish checks that each record of the input has its outcome.
func (p *Pipe) Finish(total int64) error {
	if p.done.count != total {
		return fmt.Errorf("output: %d outcomes for %d records: this is a mistake in berth", p.done.count, total)
	}
	return nil
}

// Close does nothing: the writer belongs to the caller.
func (p *Pipe) Close() error { return nil }
