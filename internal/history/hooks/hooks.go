// Package hooks delivers events to web addresses and commands.
//
// Every hook has a queue of the events that it wants and works through it at its own
// pace, in order. A hook that does not answer delays neither the daemon nor the other
// hooks. A queue drops and counts events that it has no room for, and an event with the
// code gap tells the hook how many were dropped.
//
// Hooks tries for an hour to deliver an event, and then gives up. An event with the code
// hook reports that once, until a delivery succeeds. Hooks do not get these events, so
// that they cannot keep each other busy.
//
// A file keeps the undelivered events for the next start of the daemon. A daemon that is
// killed with -9 loses the last second of that, or a little more if many events are
// waiting.
package hooks

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/history/events"
)

// Hook says which events go where: to URL or to Command.
type Hook struct {
	Name     string
	URL      string
	Secret   string // signs what is sent to URL; if empty, nothing is signed
	Command  []string
	Codes    []gpu.EventCode // empty means all
	Severity gpu.Severity    // the least severity
	Timeout  time.Duration   // of one delivery
}

// Call makes one attempt to deliver an event, which body holds as JSON. A failure is
// final, unless it is a passing one.
type Call func(ctx context.Context, e gpu.Event, body []byte) error

// wants reports whether a hook gets an event. A gap may stand for any event. Nobody needs
// an event about an acknowledged alert, or a second one about the same fact.
func (h *Hook) wants(e *gpu.Event) bool {
	switch {
	case e.Code == gpu.EventHook:
		return false
	case e.Code == gpu.EventGap:
		return true
	case e.Code == gpu.EventAlert && e.Data["acknowledged"] == true:
		return false
	case e.Code == gpu.EventAlert && e.Data["told"] == true && (len(h.Codes) == 0 || slices.Contains(h.Codes, gpu.EventStateChange)):
		return false // it got the change of state
	}
	return e.Severity.AtLeast(h.Severity) && (len(h.Codes) == 0 || e.Is(h.Codes...))
}

// Status is how an attempt to deliver an event ended.
type Status string

// The ways an attempt ends.
const (
	Delivered Status = "delivered"
	Retried   Status = "retried" // it failed, and is made again
	Failed    Status = "failed"  // the event is not delivered
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{Delivered, Retried, Failed} }

// Options are the parts that Hooks work with.
type Options struct {
	Hooks []Hook
	Queue int    // most notes, and most warnings, that wait for one hook; 0 means 1024
	File  string // keeps undelivered events across restarts; if empty, nothing does

	Call    func(Hook) Call             // returns the function that calls a hook
	Event   func(gpu.Event)             // publishes that a hook does not work
	Count   func(hook string, s Status) // counts attempts
	Dropped func(hook string)           // counts events that a queue had no room for; must return at once
	// Complain reports that File cannot be written, once until it can.
	Complain func(error)
}

// Hooks keeps the queues of all hooks.
type Hooks struct {
	Options
	file    *file.State[document]
	written document // content of the file; owned by Recall, and then by the writer of file

	mu     sync.RWMutex // guards what follows; held only for moments
	queues []*queue
	at     *delivering // nil unless Run runs
}

// delivering is one call of Run.
type delivering struct {
	ctx     context.Context // ends when the daemon stops
	sending context.Context // ends a moment later
	group   sync.WaitGroup
}

// New returns hooks that accept events at once. Only Run delivers them.
func New(o Options) *Hooks {
	hs := &Hooks{Options: o, file: newState(o.File)}
	hs.Configure(o.Hooks)
	return hs
}

// Configure replaces the hooks. A hook that stays keeps its queue, even if its
// way of delivery changes. A hook that is gone gets nothing more.
func (hs *Hooks) Configure(list []Hook) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	before := hs.queues
	hs.queues = nil
	for _, h := range list {
		i := slices.IndexFunc(before, func(q *queue) bool { return q.name == h.Name })
		if i < 0 {
			q := newQueue(h, hs, len(list))
			hs.queues = append(hs.queues, q)
			hs.start(q)
			continue
		}
		before[i].configure(h, hs.Call(h))
		hs.queues = append(hs.queues, before[i])
		before = slices.Delete(before, i, i+1)
	}
	for _, q := range before {
		q.remove()
	}
	hs.file.Change(writeAfter)
}

// start makes a queue deliver, if Run runs. The caller holds mu.
func (hs *Hooks) start(q *queue) {
	if r := hs.at; r != nil && r.ctx.Err() == nil {
		r.group.Go(func() { q.run(r.ctx, r.sending) })
	}
}

// list returns the current queues.
func (hs *Hooks) list() []*queue {
	hs.mu.RLock()
	defer hs.mu.RUnlock()
	return slices.Clone(hs.queues)
}

// Offer puts e into the queue of every hook that wants it. It does not wait.
// Events must be offered in the order of their ids, by one caller at a time.
func (hs *Hooks) Offer(e *events.Entry) {
	hs.mu.RLock()
	defer hs.mu.RUnlock()
	for _, q := range hs.queues {
		q.offer(e)
	}
}

// farewell is how long Run may take to deliver the last events after ctx ends.
const farewell = 3 * time.Second

// Run delivers events until ctx ends, and then tries the remaining ones once.
// The file keeps what is left.
func (hs *Hooks) Run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, cancel) })()
	keeping, delivered := context.WithCancel(context.WithoutCancel(ctx))
	defer delivered()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		_ = hs.file.Run(keeping, hs.write, hs.Complain) // nobody waits: a disk that hangs or is full costs only the file
	}()
	r := &delivering{ctx: ctx, sending: sending}
	hs.mu.Lock()
	hs.at = r
	for _, q := range hs.queues {
		hs.start(q)
	}
	hs.mu.Unlock()
	<-ctx.Done()
	hs.mu.Lock()
	hs.at = nil // no new queues from here on
	hs.mu.Unlock()
	r.group.Wait()
	delivered()
	<-kept
}
