package job

import (
	"cmp"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Code is the kind of a cause. Codes never change.
type Code string

// The causes of ends.
const (
	ByExitCode    Code = "exit_code"
	BySignal      Code = "signal"
	OutOfMemory   Code = "out_of_memory"      // of a device
	OutOfHost     Code = "out_of_host_memory" // of the machine
	OverLimit     Code = "over_limit"         // used more memory of a device than it had leased
	ByBerth       Code = "revoked"            // berth ended it by another policy
	DeviceFault   Code = "device_fault"
	ByTimeLimit   Code = "time_limit"
	ByReboot      Code = "reboot"
	ByShutdown    Code = "shutdown"
	NotStarted    Code = "not_started"
	MinderGone    Code = "minder_gone"
	ByCancel      Code = "cancelled"
	Impossible    Code = "dependency_failed"
	TooManyFaults Code = "requeued_too_often"
	WaitedTooLong Code = "waited_too_long"
	ByRestore     Code = "restored" // the state was restored from a backup, without its program
)

// The causes of waiting.
const (
	OnHold        Code = "hold"
	NoEnvironment Code = "no_environment" // it was restored from a backup without secrets
	ForBegin      Code = "begin"
	ForJobs       Code = "dependency"
	ForPause      Code = "pause"
	ForTasks      Code = "array_limit"
	ForQuota      Code = "quota"
	ForTurn       Code = "queue"        // it stands in the queue of leases
	BeforeTurn    Code = "before_queue" // others of its user stand there before it
	Refused       Code = "refused"      // the ledger refuses it at present
)

// The most that the daemon tries by itself.
const (
	MostRequeues = 10
	MostVain     = 5

	// LongestPause limits how long a task waits before it is tried again.
	LongestPause = 10 * time.Minute
)

// Outcome is what is known of the end of a run.
type Outcome struct {
	Time    time.Time // when it ended, as far as known
	Known   bool      // its minder wrote down how it ended
	Began   bool      // its command was started
	Exit    gpu.Opt[int]
	Signal  string // that ended the command, as in KILL; may be empty
	Failure string // why the minder could not start the command; may be empty
	Trouble string // why no minder could be started, or got no order; may be empty

	Rebooted bool // the machine was started again since
	Shutdown bool // the machine was shutting down

	OutOfMemory string // that the memory of a device had run out, in words; may be empty
	OverLimit   string // that it used more than its lease, so that berth ended it, in words; may be empty. Its end may not be known then
	Revoked     string // why else berth ended it, in words; may be empty. Likewise
	OutOfHost   bool   // the kernel ended it because it used too much memory of the machine
	Fault       string // what is wrong with its device, in words; may be empty
}

// Judge returns the event that the end of a run is for its task, and the task with what
// is known of the end. The state of that task is still the old one.
func Judge(s *Spec, t Task, o Outcome) (Event, Task) {
	t.Ended, t.PID = o.Time, 0
	if o.Known {
		t.Exit = o.Exit
	}
	if t.State == Stopping { // whoever wanted that is the cause
		return Fail, t
	}
	switch {
	case o.Began:
		t.Vain = 0
	case t.Overran: // the machine was not able to start it in time, and nothing is known against it
		t.Overran, o = false, Outcome{Time: o.Time, Trouble: "its time limit was over before its command could begin"}
	}
	t.Code, t.Cause = cause(s, &t, &o)
	event := verdict(s, &t, &o)
	switch event {
	case Retry:
		if !o.blameless() {
			t.Failures++
			t.Cause = fmt.Sprintf("%s; retry %d of %d", t.Cause, t.Failures, s.Retry)
		} else {
			t.Requeues++
		}
		t.NotBefore = o.Time.Add(pause(time.Second, 5*time.Minute, t.Failures+t.Requeues))
	case Requeue:
		t.Requeues++
		t.NotBefore = o.Time.Add(pause(10*time.Second, LongestPause, t.Requeues))
		t.Cause = fmt.Sprintf("%s; queued again, %d of %d", t.Cause, t.Requeues, MostRequeues)
	case Exhaust:
		if !o.Began && !o.Known {
			t.Cause += "; it is held: let it go with berth unhold"
			break
		}
		t.Code = TooManyFaults
		t.Cause = fmt.Sprintf("%s; it was queued again %d times, so it is held; let it go with berth unhold", t.Cause, t.Requeues)
	case Again:
		t.Vain++
		t.NotBefore = o.Time.Add(pause(time.Second, time.Minute, t.Vain))
	}
	switch event {
	case Retry, Requeue, Again, Exhaust: // a new run begins from nothing
		t.Since, t.Ended, t.Overran, t.Warned, t.Fence, t.Devices = time.Time{}, time.Time{}, false, false, 0, nil
	}
	return event, t
}

// pause returns how long to wait before the n-th repetition.
func pause(first, most time.Duration, n int) time.Duration {
	for ; n > 1 && first < most; n-- {
		first *= 2
	}
	return min(first, most)
}

// blameless reports whether a device or a policy about devices ended the run, so that it
// does not count as a try.
func (o *Outcome) blameless() bool { return o.Fault != "" || o.Revoked != "" }

// verdict returns the event that the end of a run is.
func verdict(s *Spec, t *Task, o *Outcome) Event {
	again := func(event, otherwise Event) Event {
		switch {
		case s.Requeue == "":
			return otherwise
		case t.Requeues >= MostRequeues:
			return Exhaust
		}
		return event
	}
	succeeded := o.Known && o.Exit == gpu.Some(0) && o.Failure == ""
	switch {
	case t.Overran && s.Requeue == OnTime:
		return again(Requeue, Expire)
	case t.Overran:
		return Expire
	case succeeded:
		return Succeed
	case !o.Began && !o.Known && (o.Rebooted || t.Vain < MostVain):
		return Again
	case !o.Began && !o.Known: // the machine is not able to, and nothing is known against the job
		return Exhaust
	case o.Rebooted && !o.Known:
		return again(Requeue, Lose)
	case !o.Known && o.Revoked == "" && o.OverLimit == "":
		return Lose
	case o.Failure != "" && o.Shutdown:
		return Again
	case o.Failure != "":
		return Fail
	case o.Shutdown:
		return again(Requeue, Fail)
	case o.blameless() && s.Requeue != "":
		return again(Requeue, Fail)
	case o.blameless() && s.Retry > 0 && t.Requeues < MostRequeues:
		return Retry
	case !o.blameless() && t.Failures < s.Retry:
		return Retry
	}
	return Fail
}

// cause returns why a run ended, as a code and in words. It is empty for one that
// succeeded.
func cause(s *Spec, t *Task, o *Outcome) (Code, string) {
	after := ""
	if !t.Started.IsZero() && o.Time.After(t.Started) {
		after = " after " + words.Duration(o.Time.Sub(t.Started))
	}
	switch {
	case t.Overran:
		limit := ""
		if seconds, limited := s.Lease.TimeLimit.Get(); limited {
			limit = " of " + words.Duration(time.Duration(seconds*float64(time.Second)))
		}
		return ByTimeLimit, "it reached its time limit" + limit
	case o.Known && o.Exit == gpu.Some(0) && o.Failure == "":
		return "", ""
	case !o.Began && !o.Known && o.Rebooted:
		return ByReboot, "the machine was started again before its command was"
	case !o.Began && !o.Known && o.Trouble != "" && t.Vain < MostVain:
		return NotStarted, o.Trouble
	case !o.Began && !o.Known && o.Trouble != "":
		return NotStarted, fmt.Sprintf("tried %d times: %s", t.Vain+1, o.Trouble)
	case !o.Began && !o.Known && t.Vain < MostVain:
		return NotStarted, "the process that was to start its command ended before that"
	case !o.Began && !o.Known:
		return NotStarted, fmt.Sprintf("the process that was to start its command ended %d times before that; berth doctor may know why", t.Vain+1)
	case o.Rebooted && !o.Known:
		return ByReboot, "the machine was started again while it ran"
	case !o.Known && o.Revoked == "" && o.OverLimit == "":
		return MinderGone, "the process that minded it was ended" + after + ", and its programs with it; nobody knows their exit code"
	case o.Failure != "":
		return NotStarted, "its command could not be started: " + o.Failure
	case o.Shutdown:
		return ByShutdown, "the machine was shut down" + after
	case o.Fault != "":
		return DeviceFault, "its device failed" + after + ": " + o.Fault
	case o.Revoked != "":
		return ByBerth, "berth ended it" + after + ": " + o.Revoked
	case o.OverLimit != "":
		return OverLimit, "berth ended it" + after + ": " + o.OverLimit
	case o.OutOfMemory != "": // nobody but the program knows that this was why
		return OutOfMemory, "probably out of GPU memory" + after + ": " + o.ended() + " while " + o.OutOfMemory
	case o.OutOfHost:
		return OutOfHost, "out of memory of the machine" + after + hostLimit(s)
	case o.Signal != "":
		return BySignal, o.ended() + after
	}
	return ByExitCode, o.ended() + after
}

// ended says by what the command ended.
func (o *Outcome) ended() string {
	if o.Signal != "" {
		return "ended by signal " + o.Signal
	}
	return fmt.Sprintf("exit code %d", o.Exit.Or(-1))
}

func hostLimit(s *Spec) string {
	if s.Host == 0 {
		return ""
	}
	return "; its limit was " + s.Host.String()
}

// Condition says whether jobs that another one waits for let it begin.
type Condition int

// The values.
const (
	Open  Condition = iota // that is not decided yet
	Met                    // they do
	Never                  // they never will
)

// Ending is what a job looks like to those who wait for it. An array counts as one.
type Ending int

// The endings.
const (
	NotYet Ending = iota
	Well          // every task is done
	Badly         // every task has ended, and one of them not well
)

// Depend decides whether a job may begin, by what it waits for. If it never may, Depend
// returns the job that is the reason; the zero Ref means that all ended well.
func Depend(s *Spec, of func(Ref) Ending) (Condition, Ref) {
	open, failed := false, len(s.AfterFailed) == 0
	for _, r := range s.After {
		switch of(r) {
		case Badly:
			return Never, r
		case NotYet:
			open = true
		}
	}
	for _, r := range s.AfterAny {
		open = open || of(r) == NotYet
	}
	pending := false
	for _, r := range s.AfterFailed {
		ending := of(r)
		pending, failed = pending || ending == NotYet, failed || ending == Badly
	}
	switch {
	case !pending && !failed:
		return Never, Ref{}
	case open || pending:
		return Open, Ref{}
	}
	return Met, Ref{}
}

// Exit returns the exit code of a whole job from those of its tasks: 0 if all are done,
// else the first that is not 0, and 1 where nobody knows one.
func Exit(of func(index int) *Task, tasks int) gpu.Opt[int] {
	code := 0
	for i := range tasks {
		t := of(i)
		if !t.State.Over() {
			return gpu.Opt[int]{}
		}
		if t.State != Done && code == 0 {
			code = cmp.Or(t.Exit.Or(1), 1)
		}
	}
	return gpu.Some(code)
}
