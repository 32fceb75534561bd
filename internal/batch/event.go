package batch

// Event is something that happened in a run.
type Event struct {
	Code   EventCode
	GPU    GPU    // zero if the event is about no GPU
	Worker string // empty if the event is about no worker
	Text   string // one sentence for people
}

// EventCode names a kind of event.
type EventCode string

// The codes.
const (
	EventKeeping   EventCode = "keeping"   // a stream is read to its end before the run begins
	EventResumed   EventCode = "resumed"   // a run goes on where it was stopped
	EventStarted   EventCode = "started"   // the process of a worker was started
	EventReady     EventCode = "ready"     // a worker takes records
	EventFailed    EventCode = "failed"    // a worker died, hung or answered nonsense
	EventMemory    EventCode = "memory"    // a worker ran out of memory; its batches get smaller
	EventLost      EventCode = "lost"      // a lease ended under a worker
	EventRecalled  EventCode = "recalled"  // somebody else wants a place
	EventGivenUp   EventCode = "given_up"  // workers kept failing on a GPU
	EventMarked    EventCode = "marked"    // a record was found to break workers
	EventWaiting   EventCode = "waiting"   // there is no place for a worker
	EventCommitted EventCode = "committed" // outcomes are on disk, or in the pipe
)
