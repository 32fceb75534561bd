// Package fault confines a panic to the work of one user.
//
// A request, a look at a user's processes, or a step of a job or a service may panic: it is
// a bug, and one user must not be able to end the daemon with it. Whoever does such work
// defers Confine, and the work alone fails. Work on what everybody shares is not confined:
// a round of the ledger, the journal, replay, the book of jobs and the list of services may
// have changed in part, so there a panic ends the daemon, and the next one begins with what
// is on disk.
package fault

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Error says that work failed because of a bug in berth.
type Error struct{ Work string }

func (e *Error) Error() string {
	return e.Work + " failed inside the daemon. This is a bug in berth; the log of the daemon has the details, please report it"
}

// Faults tells panics that were confined: the log has the stack, an event says whose work
// failed, and Text says how many there were. A nil *Faults confines nothing.
type Faults struct {
	Log     *slog.Logger
	Publish func(gpu.Event)

	mu    sync.Mutex
	count int
	last  time.Time
}

// Confine turns a panic of the function that defers it into an error. Work names what is
// being done, with a verb, and user for whom.
func (f *Faults) Confine(err *error, user, work string) {
	if f == nil {
		return
	}
	if cause := recover(); cause != nil {
		*err = f.Tell(cause, user, work)
	}
}

// Catch is Confine for work that returns no error: it calls then after a panic.
func (f *Faults) Catch(user, work string, then func(error)) {
	if f == nil {
		return
	}
	if cause := recover(); cause != nil {
		then(f.Tell(cause, user, work))
	}
}

// Shared ends the daemon if the function that defers it panics, although a caller recovers:
// that function changes what everybody shares, and holds locks that nobody would release.
func Shared() {
	if cause := recover(); cause != nil {
		stack := debug.Stack()
		go func() { panic(fmt.Sprintf("%v, met by a request:\n%s", cause, stack)) }()
		select {}
	}
}

// Tell tells a panic that somebody has recovered from, and returns it as an error. It must
// be called while the stack of the panic stands, from the deferred function.
func (f *Faults) Tell(cause any, user, work string) error {
	now := time.Now()
	f.Log.Error("a bug in berth: work for a user failed", "work", work, "user", user, "cause", cause, "stack", string(debug.Stack()))
	f.mu.Lock()
	f.count++
	f.last = now
	f.mu.Unlock()
	e := &Error{Work: work}
	f.Publish(gpu.Event{Time: now, Code: gpu.EventInternalFault, Severity: gpu.Serious, User: user, Text: e.Error() + ".", Public: "Something failed inside the daemon. This is a bug in berth; its log has the details."})
	return e
}

// Text says how many panics were confined since the daemon started, and when the last one
// was; "" if there was none. It is for everybody, and names nobody's work.
func (f *Faults) Text() string {
	if f == nil {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == 0 {
		return ""
	}
	return fmt.Sprintf("%d times since the daemon started, something failed inside it because of a bug in berth, the last time at %s; its log has the details, please report them", f.count, f.last.UTC().Format("2006-01-02 15:04:05 MST"))
}
