package check

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// Process is the helper process. It proves a device, or moves the memory of other
// processes.
type Process struct {
	In   io.Reader // has the ask as its first line, and ends when the daemon does
	Out  io.Writer // receives a Line for each thing that happens
	Gone func()    // called when In ends

	Open        func() (Card, error)        // opens the device
	Gauges      func(uuid string) Gauges    // returns a reader of the device, or nil
	Checkpoints func() (Checkpoints, error) // opens the driver to move memory of other processes
	Limit       func() error                // gives up what the process does not need
}

// Serve carries out the first line of its input. It returns an error for an ask that it
// cannot read, and for an output that it cannot write.
func (p Process) Serve() error {
	runtime.LockOSThread() // the driver keeps its context per thread
	defer runtime.UnlockOSThread()
	in := bufio.NewReaderSize(p.In, mostLine)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read what is asked: %w", err)
	}
	var ask proof.Ask
	if err := json.Unmarshal(line, &ask); err != nil {
		return fmt.Errorf("read what is asked: %w", err)
	}
	w := &writer{out: json.NewEncoder(p.Out)}
	moves := ask.Verb == Park
	if !moves {
		go func() {
			_, _ = io.Copy(io.Discard, in)
			p.Gone()
		}()
	}
	if !moves && !slices.Contains(proof.Verbs(), ask.Verb) {
		return w.unable(fmt.Errorf("this version of berth does not know how to %s", gpu.Printable(string(ask.Verb), 40)))
	}
	if p.Limit != nil {
		if err := p.Limit(); err != nil {
			return w.unable(err)
		}
	}
	if moves {
		return p.park(in, w)
	}
	card, err := p.Open()
	if err != nil {
		return w.unable(err)
	}
	w.write(Line{Opened: true})
	e := &examiner{card: card, gauges: p.Gauges(ask.GPU), ask: ask, tell: w.step}
	e.run()
	w.write(Line{Done: true})
	return w.err
}

// mostWritten is the longest text that the helper process writes, in bytes.
const mostWritten = 2000

// writer writes lines until a write fails.
type writer struct {
	out  *json.Encoder
	last proof.Step
	err  error
}

func (w *writer) write(l Line) {
	if w.err == nil {
		w.err = w.out.Encode(l)
	}
}

// unable writes why the device cannot be asked.
func (w *writer) unable(why error) error {
	w.write(Line{Unable: gpu.Printable(why.Error(), mostWritten)})
	return w.err
}

// step writes a step, unless it says the same as the line before.
func (w *writer) step(s proof.Step) {
	s.Detail = gpu.Printable(s.Detail, mostWritten)
	if s != w.last {
		w.write(Line{Step: &s})
	}
	w.last = s
}

// mostCPU is the CPU limit of an exam in seconds: more than any exam takes.
const mostCPU = 30 * 60

// Confine gives up what an exam does not need: this process leaves no core dump if it
// crashes, does not compute for ever, and is the first to go when the machine runs out of
// memory. It keeps the right to start setuid programs, because the driver's library loads
// parts of the driver that way.
func Confine() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: mostCPU, Max: mostCPU}); err != nil {
		return fmt.Errorf("limit the time of the processor: %w", err)
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // a kernel may not have it
	return nil
}
