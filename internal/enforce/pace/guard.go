package pace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// silence is how long the daemon may send nothing before the guardian continues
// everything and ends. The daemon sends something every beat.
const (
	silence = time.Second
	beat    = 250 * time.Millisecond
)

// Guard runs the guardian, a separate process that stops and continues processes on the
// orders of the daemon. It reads orders from in and writes reports to out. If the daemon
// ends, hangs, or is killed, Guard continues everything that it stopped, and returns.
//
// The guardian knows the end of each pause, so a late daemon makes no pause longer.
func Guard(in io.Reader, out io.Writer) error {
	g := &guardian{table: process.Proc(), out: json.NewEncoder(out), stopped: map[uint64]*pause{}}
	defer g.freeAll()
	orders := make(chan order)
	failed := make(chan error, 1)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			var o order
			if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
				failed <- fmt.Errorf("read an order of the daemon: %w", err)
				return
			}
			select {
			case orders <- o:
			case <-ended:
				return
			}
		}
		failed <- lines.Err() // nil means that the daemon is gone
	}()
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(stops)
	signal.Ignore(syscall.SIGPIPE) // a report that nobody reads must not end this process
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		g.freeDue(time.Now())
		due.Reset(g.untilNext(time.Now()))
		select {
		case o := <-orders:
			quiet.Reset(silence)
			g.obey(o)
		case <-due.C: // a pause is over
		case err := <-failed:
			return err
		case <-quiet.C:
			return errors.New("the daemon is silent")
		case <-stops:
			return nil
		}
		if g.failed != nil {
			return g.failed
		}
	}
}

type guardian struct {
	table   process.Table
	out     *json.Encoder
	stopped map[uint64]*pause // by the fence of the lease
	failed  error             // set when the daemon does not read
}

// pause is the set of stopped processes of one lease.
type pause struct {
	// The pidfd of a process stays open while it is stopped, so that no other process can
	// take its place.
	files []int
	from  time.Time
	until time.Time
}

func (g *guardian) say(r report) {
	if err := g.out.Encode(r); err != nil && g.failed == nil {
		g.failed = fmt.Errorf("report to the daemon: %w", err)
	}
}

func (g *guardian) obey(o order) {
	switch {
	case o.Free && o.Lease == 0:
		g.freeAll()
	case o.Free:
		g.free(o.Lease)
	case o.Lease != 0:
		g.stop(o)
	}
}

// stop stops processes of a lease, all or none. If one of them cannot be stopped, it also
// continues those of the lease that were stopped before.
func (g *guardian) stop(o order) {
	p := g.stopped[o.Lease]
	if p == nil {
		if o.Again { // the pause is over
			g.say(report{Lease: o.Lease, Answer: true})
			return
		}
		p = &pause{from: time.Now()}
		p.until = p.from.Add(min(time.Duration(o.Millis)*time.Millisecond, LongestPause))
		g.stopped[o.Lease] = p
	}
	before := len(p.files)
	for _, id := range o.Stop {
		fd, err := g.halt(o.In, id)
		if errors.Is(err, errLeave) {
			continue
		}
		if err != nil {
			g.free(o.Lease)
			g.say(report{Lease: o.Lease, Answer: true, Refused: err.Error()})
			return
		}
		p.files = append(p.files, fd)
	}
	stopped := len(p.files) - before
	if len(p.files) == 0 {
		delete(g.stopped, o.Lease)
	}
	g.say(report{Lease: o.Lease, Answer: true, Stopped: stopped})
}

// halt stops exactly this process, if the mandate covers it, and returns its pidfd.
func (g *guardian) halt(in kinship.Mandate, id process.ID) (int, error) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return -1, errLeave
	}
	if err != nil {
		return -1, fmt.Errorf("stop process %d: %w", id.PID, err)
	}
	err = stoppable(g.table, id) // after the pidfd is open, so that it checks the process of the pidfd
	if err == nil {
		err = g.table.Reaches(in, id)
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0)
	}
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ESRCH), errors.Is(err, process.ErrSpared), errors.Is(err, process.ErrGone):
		err = errLeave
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("process %d: %w", id.PID, ErrDenied)
	}
	_ = unix.Close(fd)
	return -1, err
}

// free continues the stopped processes of a lease, and reports how long the pause was.
func (g *guardian) free(fence uint64) {
	p := g.stopped[fence]
	if p == nil {
		return
	}
	delete(g.stopped, fence)
	p.end()
	g.say(p.report(fence))
}

// freeAll continues everything before it reports anything.
func (g *guardian) freeAll() {
	ended := g.stopped
	g.stopped = map[uint64]*pause{}
	for _, p := range ended {
		p.end()
	}
	for fence, p := range ended {
		g.say(p.report(fence))
	}
}

// report says when the pause was, which ends now, by the clock of the wall as it is now:
// that of the measurements of drivers.
func (p *pause) report(fence uint64) report {
	now := time.Now()
	return report{Lease: fence, From: now.Add(-now.Sub(p.from)).UnixNano(), Until: now.UnixNano()}
}

// end continues the processes of a pause.
func (p *pause) end() {
	for _, fd := range p.files {
		// Only a process that has ended makes it fail.
		_ = unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
		_ = unix.Close(fd)
	}
}

func (g *guardian) freeDue(now time.Time) {
	for fence, p := range g.stopped {
		if !now.Before(p.until) {
			g.free(fence)
		}
	}
}

// untilNext returns the time until the next pause ends.
func (g *guardian) untilNext(now time.Time) time.Duration {
	next := time.Hour
	for _, p := range g.stopped {
		next = min(next, p.until.Sub(now))
	}
	return max(next, 0)
}
