package batch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// Options configures a run. The zero value of a field means its default.
type Options struct {
	Input record.Spec // input to read; Done and Skip are not used
	Spool bool        // keep a stream in a file first, so that the run can be resumed

	Output string        // the file to write, or the name of a run that writes to Pipe
	Shape  outcome.Shape // form of the output
	Force  bool          // replace an output, and forget an unfinished run
	Pipe   io.Writer     // gets the outcomes as they come, instead of a file; nil if there is a file
	Expect int64         // records of an input that cannot tell, for the progress; 0 if unknown

	Command []string // of the workers: a run goes on with the one that it began with

	// Start starts the process of a worker whose grant does not. Each line that the worker prints
	// gets the prefix in the log. In env, KEY=VALUE sets a variable of the
	// worker, and KEY removes it.
	Start  func(prefix string, env []string) (Process, error)
	Leases Leaser
	// Expecting reports whether GPUs may come on which no worker was tried yet: a machine
	// that is not connected may have them. Nil means never.
	Expecting func() bool

	Workers      int           // most workers at a time; 0 means one for each place
	HeadStart    time.Duration // how long the first worker is the only one, so that few records start no others; 0 means not at all
	Batch        int           // most records in a batch; default 128
	MinBatch     int           // fewest records in a batch, unless fewer are left; default 1
	BatchTime    time.Duration // approximate duration of a batch; default 1 s
	BatchBytes   int           // most bytes of records in a batch, unless it is a single record; default 4 MiB
	Window       int           // bytes of records that are read ahead and put in order of cost; default 16 MiB
	FlightBytes  int           // most bytes of records that a worker of another machine has, unless it is one batch; default 8 MiB
	AnswerBytes  int           // longest answer to a batch; default 64 MiB
	Timeout      time.Duration // limit for a batch; default 300 s
	ReadyTimeout time.Duration // limit for a worker to say that it is ready; default 300 s
	StopGrace    time.Duration // limit for a worker to end by itself; default 5 s
	IdleGrace    time.Duration // time after which a worker without work gives its place back; default 5 s
	Tries        int           // failures of a single record before it is marked, if its workers died; default 3
	Restarts     int           // failures of workers on one GPU, in a row and without an outcome, before it is given up; default 16
	Backoff      time.Duration // wait before a worker is started again after a failure; it doubles; default 100 ms
	CommitEvery  time.Duration // longest wait of outcomes for the disk; default 500 ms, and 20 ms for a pipe
	CommitBytes  int           // bytes of outcomes that end this wait; default 4 MiB

	Notify func(Event) // called for each event; must not block; may be nil
}

func (o Options) withDefaults() Options {
	o.Batch = cmp.Or(o.Batch, 128)
	o.MinBatch = cmp.Or(o.MinBatch, 1)
	o.BatchTime = cmp.Or(o.BatchTime, time.Second)
	o.BatchBytes = cmp.Or(o.BatchBytes, 4<<20)
	o.Window = cmp.Or(o.Window, 16<<20)
	o.FlightBytes = cmp.Or(o.FlightBytes, 8<<20)
	o.AnswerBytes = cmp.Or(o.AnswerBytes, 64<<20)
	o.Timeout = cmp.Or(o.Timeout, 300*time.Second)
	o.ReadyTimeout = cmp.Or(o.ReadyTimeout, 300*time.Second)
	o.StopGrace = cmp.Or(o.StopGrace, 5*time.Second)
	o.IdleGrace = cmp.Or(o.IdleGrace, 5*time.Second)
	o.Tries = cmp.Or(o.Tries, 3)
	o.Restarts = cmp.Or(o.Restarts, 16)
	o.Backoff = cmp.Or(o.Backoff, 100*time.Millisecond)
	if o.Pipe != nil {
		o.CommitEvery = cmp.Or(o.CommitEvery, 20*time.Millisecond)
	}
	o.CommitEvery = cmp.Or(o.CommitEvery, 500*time.Millisecond)
	o.CommitBytes = cmp.Or(o.CommitBytes, 4<<20)
	if o.Expecting == nil {
		o.Expecting = func() bool { return false }
	}
	if o.Notify == nil {
		o.Notify = func(Event) {}
	}
	return o
}

// validate returns all complaints at once.
func (o Options) validate() error {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	complain(o.Output == "", "no output: name a file")
	complain(o.Pipe != nil && o.Spool, "spool: a run without an output file cannot be resumed")
	complain(o.Expect < 0, "expect: %d must be 0 or more", o.Expect)
	complain(o.Leases == nil, "no leases: this is a mistake in berth")
	complain(o.Workers < 0, "workers: %d must be 0 or more", o.Workers)
	complain(o.HeadStart < 0, "head start: %s must be 0 or more", o.HeadStart)
	complain(o.Batch < 1, "batch: %d must be 1 or more", o.Batch)
	complain(o.MinBatch < 1 || o.MinBatch > o.Batch, "min batch: %d must be from 1 to batch (%d)", o.MinBatch, o.Batch)
	for _, d := range []struct {
		name string
		time.Duration
	}{
		{"batch time", o.BatchTime}, {"timeout", o.Timeout}, {"ready timeout", o.ReadyTimeout}, {"stop grace", o.StopGrace},
		{"idle grace", o.IdleGrace}, {"backoff", o.Backoff}, {"commit interval", o.CommitEvery},
	} {
		complain(d.Duration <= 0, "%s: %s must be more than 0", d.name, d.Duration)
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"batch bytes", o.BatchBytes}, {"window", o.Window}, {"flight bytes", o.FlightBytes}, {"answer bytes", o.AnswerBytes}, {"commit bytes", o.CommitBytes},
		{"tries", o.Tries}, {"restarts", o.Restarts},
	} {
		complain(n.value < 1, "%s: %d must be 1 or more", n.name, n.value)
	}
	return errors.Join(errs...)
}
