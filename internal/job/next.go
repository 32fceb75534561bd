package job

// State is the state of a task.
type State string

// The states.
const (
	Held      State = "held"      // waits until somebody lets it go
	Waiting   State = "waiting"   // for its time, for other jobs or for its turn
	Starting  State = "starting"  // has its lease; its minder is on its way
	Running   State = "running"   // its minder has its order
	Stopping  State = "stopping"  // was cancelled, and its programs are about to end
	Done      State = "done"      // ended with exit code 0
	Failed    State = "failed"    // ended otherwise
	Cancelled State = "cancelled" // somebody ended it, or it can never begin
	TimedOut  State = "timed_out" // reached its time limit
	Lost      State = "lost"      // nobody knows how it ended
)

// States returns every state, in the order above.
func States() []State {
	return []State{Held, Waiting, Starting, Running, Stopping, Done, Failed, Cancelled, TimedOut, Lost}
}

// Over reports whether a task in this state has ended for good.
func (s State) Over() bool {
	switch s {
	case Done, Failed, Cancelled, TimedOut, Lost:
		return true
	}
	return false
}

// Busy reports whether a task in this state has a lease, or is about to give one back.
func (s State) Busy() bool { return s == Starting || s == Running || s == Stopping }

// Together returns the state of a job whose tasks are in these states: what goes on comes
// before what waits, and that before how it ended, the worst first.
func Together(counts map[State]int) State {
	for _, s := range []State{Running, Stopping, Starting, Waiting, Held, Lost, Failed, TimedOut, Cancelled} {
		if counts[s] > 0 {
			return s
		}
	}
	return Done
}

// Shown returns the state as the API calls it.
func (s State) Shown() State {
	if s == Stopping {
		return Running
	}
	return s
}

// Event is something that happens to a task.
type Event string

// The events. Hold, Unhold and Cancel come from people; Judge decides which of those from
// Succeed on the end of a run is.
const (
	Hold    Event = "hold"
	Unhold  Event = "unhold"
	Cancel  Event = "cancel"
	Prevent Event = "prevent" // what it waits for can no longer come true
	Grant   Event = "grant"   // the ledger granted its lease
	Order   Event = "order"   // its minder got its order
	Succeed Event = "succeed"
	Fail    Event = "fail"
	Retry   Event = "retry"   // it failed and runs again
	Requeue Event = "requeue" // the machine ended it, and it runs again
	Exhaust Event = "exhaust" // the machine ended it too often
	Expire  Event = "expire"  // its time limit ended it
	Lose    Event = "lose"    // its minder is gone and left no exit code
	Again   Event = "again"   // its command was not reached, and is tried again
)

// Act is something that the keeper does after it has written the new state.
type Act string

// The acts.
const (
	Feed     Act = "feed"     // let it into the queue when its time comes
	Withdraw Act = "withdraw" // take its request out of the queue, or give back what it was granted
	Launch   Act = "launch"   // start a minder
	Kill     Act = "kill"     // end the programs of its lease
	Release  Act = "release"  // give its lease back, and forget the run
	Tell     Act = "tell"     // tell those who wait for its end
)

// step is what an event does in a state.
type step struct {
	to   State
	acts []Act
}

// table is the life of a task. An event that is not listed for a state cannot happen
// there, or changes nothing.
var table = map[State]map[Event]step{
	Held: {
		Unhold:  {Waiting, []Act{Feed}},
		Cancel:  {Cancelled, []Act{Tell}},
		Prevent: {Cancelled, []Act{Tell}},
	},
	Waiting: {
		Hold:    {Held, []Act{Withdraw}},
		Cancel:  {Cancelled, []Act{Withdraw, Tell}},
		Prevent: {Cancelled, []Act{Withdraw, Tell}},
		Grant:   {Starting, []Act{Launch}},
	},
	Starting: running(Running),
	Running:  running(Running),
	Stopping: {
		Cancel: {Stopping, []Act{Kill}},
		Fail:   {Cancelled, []Act{Release, Tell}},
	},
}

// running returns what can happen to a task that has a lease. A daemon that was away may
// learn the end of a run before it learns that it began, so that both states take the
// same events.
func running(ordered State) map[Event]step {
	return map[Event]step{
		Order:   {ordered, nil},
		Cancel:  {Stopping, []Act{Kill}},
		Succeed: {Done, []Act{Release, Tell}},
		Fail:    {Failed, []Act{Release, Tell}},
		Retry:   {Waiting, []Act{Release, Feed}},
		Requeue: {Waiting, []Act{Release, Feed}},
		Exhaust: {Held, []Act{Release}},
		Expire:  {TimedOut, []Act{Release, Tell}},
		Lose:    {Lost, []Act{Release, Tell}},
		Again:   {Waiting, []Act{Release, Feed}},
	}
}

// Next returns the state of a task after an event, and what there is to do about it. It
// returns false if the event changes nothing in this state.
func Next(s State, e Event) (to State, acts []Act, changes bool) {
	next, changes := table[s][e]
	if !changes {
		return s, nil, false
	}
	return next.to, next.acts, true
}
