package service

import "slices"

// State is the state of a service.
type State string

// The states.
const (
	Away      State = "away"      // its program does not run
	Waiting   State = "waiting"   // it waits for its lease
	Starting  State = "starting"  // it has its lease, and its server is not ready
	Serving   State = "ready"     // it takes requests
	Closing   State = "closing"   // it takes no more, and ends those that it has
	Leaving   State = "leaving"   // it is parked, put to sleep or stopped
	Parked    State = "parked"    // its memory is in the memory of the machine
	Asleep    State = "asleep"    // its server has given its memory back by itself
	Returning State = "returning" // it comes back from there
	Failed    State = "failed"    // it failed, and its program does not run
)

// States returns every state, in the order above.
func States() []State {
	return []State{Away, Waiting, Starting, Serving, Closing, Leaving, Parked, Asleep, Returning, Failed}
}

// Leases reports whether a service in this state has a lease.
func (s State) Leases() bool { return s != Away && s != Waiting && s != Failed }

// Event is something that happens to a service.
type Event string

// The events.
const (
	Want      Event = "want"      // somebody asks for it
	Drop      Event = "drop"      // nobody asks for it any more
	Leave     Event = "leave"     // it has to go, see Reason
	Granted   Event = "granted"   // the ledger granted its lease
	Refused   Event = "refused"   // the ledger does not grant it
	Ordered   Event = "ordered"   // its minder got its order
	Opens     Event = "opens"     // its server is ready
	Fails     Event = "fails"     // its server does not get ready, or does not return
	Overdue   Event = "overdue"   // it takes no more requests, and those that it has do not end in time
	Closed    Event = "closed"    // no front has a request of it any more
	Gone      Event = "gone"      // it is parked, or asleep
	Unable    Event = "unable"    // it could not be parked or put to sleep
	Withdrawn Event = "withdrawn" // its return was given up before there was room
	Ended     Event = "ended"     // its program has ended
	Lost      Event = "lost"      // its lease has ended, and its program lives
)

// Guard says what must be so for a row of the table to count.
type Guard string

// The guards.
const (
	Stays    Guard = "there is no reason any more"
	ByPark   Guard = "by parking"
	BySleep  Guard = "by sleep"
	ByStop   Guard = "by stopping"
	Expected Guard = "it had to, or the machine was restarted"
)

// Act is something that the owner does after it has written the new state.
type Act string

// The acts.
const (
	Acquire  Act = "acquire"  // ask for its lease
	Launch   Act = "launch"   // start a minder
	Probe    Act = "probe"    // have a front find out when its server is ready
	Open     Act = "open"     // give it a new epoch, and answer those who wait
	Close    Act = "close"    // have the fronts close its epoch
	Cut      Act = "cut"      // have the fronts break off the requests of its epoch
	DoPark   Act = "park"     // move its memory to the memory of the machine
	DoSleep  Act = "sleep"    // have its server give its memory back, and measure it
	End      Act = "end"      // end the programs of its lease
	Resume   Act = "resume"   // wait for room, and move its memory back
	Wake     Act = "wake"     // wait for room, and have its server take its memory back
	Withdraw Act = "withdraw" // stop waiting for room
	Release  Act = "release"  // give its lease back, and forget the run
	Refuse   Act = "refuse"   // tell those who wait that it does not come
)

// row is a row of the table: what an event does in a state.
type row struct {
	in State
	on Event
	If Guard // empty: always
	to State
	do []Act
}

// table is the life of a service. The first row that fits counts. An event that no row
// names changes nothing.
var table = slices.Concat([]row{
	{Away, Want, "", Waiting, []Act{Acquire}},
	{Failed, Want, "", Waiting, []Act{Acquire}},

	{Waiting, Granted, "", Starting, []Act{Launch}},
	{Waiting, Refused, "", Failed, []Act{Release, Refuse}},
	{Waiting, Drop, "", Away, []Act{Release}},
	{Waiting, Leave, "", Away, []Act{Release}},

	{Starting, Ordered, "", Starting, []Act{Probe}},
	{Starting, Opens, "", Serving, []Act{Open}},
	{Starting, Fails, "", Leaving, []Act{End, Refuse}},
	{Starting, Drop, "", Leaving, []Act{End}},
	{Starting, Leave, "", Leaving, []Act{End}},

	{Serving, Leave, "", Closing, []Act{Close}},
	{Serving, Gone, ByPark, Parked, nil},

	{Closing, Overdue, "", Closing, []Act{Cut}},
	{Closing, Closed, Stays, Serving, []Act{Open}},
	{Closing, Closed, ByPark, Leaving, []Act{DoPark}},
	{Closing, Closed, BySleep, Leaving, []Act{DoSleep}},
	{Closing, Closed, ByStop, Leaving, []Act{End}},
	{Closing, Gone, ByPark, Parked, nil},

	{Leaving, Gone, ByPark, Parked, nil},
	{Leaving, Gone, BySleep, Asleep, nil},
	{Leaving, Unable, "", Leaving, []Act{End}},

	{Parked, Want, "", Returning, []Act{Resume}},
	{Parked, Leave, "", Leaving, []Act{End}},

	{Asleep, Want, "", Returning, []Act{Wake}},
	{Asleep, Leave, "", Leaving, []Act{End}},

	{Returning, Opens, "", Serving, []Act{Open}},
	{Returning, Fails, "", Leaving, []Act{End, Refuse}},
	{Returning, Drop, "", Returning, []Act{Withdraw}},
	{Returning, Withdrawn, ByPark, Parked, nil},
	{Returning, Withdrawn, BySleep, Asleep, nil},
	{Returning, Leave, "", Leaving, []Act{Withdraw, End}},
},
	ends(Starting), ends(Serving), ends(Closing), ends(Leaving), ends(Parked), ends(Asleep), ends(Returning),
)

// ends returns what follows in a state with a lease if the program or the lease ends.
func ends(s State) []row {
	return []row{
		{s, Ended, Expected, Away, []Act{Release}},
		{s, Ended, "", Failed, []Act{Release, Refuse}},
		{s, Lost, "", Leaving, []Act{End}},
	}
}

// Facts is what the guards look at.
type Facts struct {
	Stays    bool // the reason for which it closes is gone
	Way      Way  // in which it leaves, or has left
	Expected bool // its program had to end, or the machine was restarted
}

func (f Facts) meet(g Guard) bool {
	switch g {
	case Stays:
		return f.Stays
	case ByPark:
		return f.Way == Park
	case BySleep:
		return f.Way == Sleep
	case ByStop:
		return f.Way == Stop
	case Expected:
		return f.Expected
	}
	return true
}

// Next returns the state of a service after an event, and what there is to do about it.
// It returns false if the event changes nothing in this state.
func Next(s State, e Event, f Facts) (to State, acts []Act, changes bool) {
	i := slices.IndexFunc(table, func(r row) bool { return r.in == s && r.on == e && f.meet(r.If) })
	if i < 0 {
		return s, nil, false
	}
	return table[i].to, table[i].do, true
}
