package service

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Life is what is kept of a service over restarts of the daemon.
type Life struct {
	State State     `json:"state"`
	Since time.Time `json:"since"`         // of the state
	Why   string    `json:"why,omitempty"` // of the state, in words
	Epoch uint64    `json:"epoch"`         // of its newest stay; it only grows

	Instance *Instance `json:"instance,omitempty"` // while it waits for its lease or has one; never changed, but replaced

	Stopped *api.FrontStopped `json:"stopped,omitempty"` // a person stopped it
	Started bool              `json:"started,omitempty"` // a person started it
	Called  time.Time         `json:"called,omitzero"`   // since when it has to come though nobody waits; zero: it has not to
	Again   string            `json:"again,omitempty"`   // why it has to go and to come again; empty: it has not to
	GPU     string            `json:"gpu,omitempty"`     // the device that it must come to
	Sent    bool              `json:"sent,omitempty"`    // it was idle, or others needed its room; it comes if somebody asks

	Failure  *api.ServiceFailure `json:"failure,omitempty"`
	Failures int                 `json:"failures,omitempty"` // since it was last ready for a while

	Log      string            `json:"log,omitempty"` // of its newest program, also after its end
	Took     api.ServiceTimes  `json:"took"`
	Trouble  map[Way]time.Time `json:"trouble,omitempty"` // when a way to send it away failed last; never changed, but replaced
	Switches uint64            `json:"switches,omitempty"`
}

// Instance is one run of the program of a service, from the request for its lease on.
type Instance struct {
	Spec    Spec      `json:"spec"`   // the settings at its start
	Number  int64     `json:"number"` // in the names of its lease and its run
	Asked   time.Time `json:"asked"`  // since when somebody waits for it
	Learned bool      `json:"learned,omitempty"`
	Whole   bool      `json:"whole,omitempty"` // it leases a whole device, because nobody knows how much memory it uses

	Fence   uint64    `json:"fence,omitempty"` // of its lease
	Devices []string  `json:"devices,omitempty"`
	Memory  gpu.MiB   `json:"memory,omitempty"` // of its lease on each device
	Used    gpu.MiB   `json:"used,omitempty"`   // measured when it closed
	Granted time.Time `json:"granted,omitzero"`
	Port    int       `json:"port,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Ordered time.Time `json:"ordered,omitzero"` // when its minder got its order
	Log     string    `json:"log,omitempty"`

	For     Reason `json:"for,omitempty"`      // why it closes or leaves
	ForWhom string `json:"for_whom,omitempty"` // in words
	Way     Way    `json:"way,omitempty"`      // in which it leaves, or has left
	Failed  bool   `json:"failed,omitempty"`   // it leaves because it failed; Life.Failure has the rest
	Cut     bool   `json:"cut,omitempty"`      // it closes, and its requests are broken off
}

// Reason is why a service has to go.
type Reason string

// The reasons.
const (
	ForIdle   Reason = "idle"   // nobody has asked for it for idle_after
	ForOthers Reason = "others" // others wait for its room
	ForGood   Reason = "good"   // a person stopped it, it starts again, or it is in no settings any more
)

// Situation is what a service is in, besides what is kept of it.
type Situation struct {
	Now  time.Time
	Spec *Spec // the settings now; nil: it is in no settings any more

	Waiting int       // who wait until it comes
	Left    time.Time // when the last one has left who did
	Open    int       // requests that it answers, or that a front is about to send
	Last    time.Time // its last answer
	Known   bool      // every front has told how many requests it has
	Quiet   bool      // nobody asks for another service
	Closed  bool      // no front has a request of its epoch, which is closed
}

// Pauses of a service.
const (
	settle    = time.Second     // it stays at least so long, because a front tells of requests a little later
	dropAfter = 3 * time.Second // a caller that asks again in this time finds what it asked for
	steady    = time.Minute     // one that was ready for so long has not failed
	leastRest = 2 * time.Second // after the first failure; it doubles with each
	mostRest  = 5 * time.Minute
)

// FirstEpoch returns an epoch after all that a service had before, for one of which nothing
// is known, or something old: a front may know more. It is the time in seconds, because no
// service has more than one stay in a second.
func FirstEpoch(now time.Time) uint64 { return uint64(max(now.Unix(), 0)) }

// Rest returns how long a service is not started after its nth failure.
func Rest(n int) time.Duration {
	return min(leastRest<<min(max(n-1, 0), 20), mostRest)
}

// Steady reports whether a service that was ready since a time has not failed.
func Steady(since, now time.Time) bool { return now.Sub(since) >= steady }

// MustGo returns why a service may not be there, in words, or "" if it may.
func (l *Life) MustGo(s *Situation) string {
	switch {
	case s.Spec == nil:
		return "it is in no settings any more"
	case l.Stopped != nil:
		return "it was stopped by " + l.Stopped.By
	}
	return l.Again
}

// Answers reports whether requests bring a service.
func (l *Life) Answers(s *Spec) bool { return s.Start != Never || l.Started || l.State.Leases() }

// Wanted reports whether somebody wants a service to be there.
func (l *Life) Wanted(s *Situation) bool {
	switch {
	case l.MustGo(s) != "":
		return false
	case s.Waiting > 0 && l.Answers(s.Spec), !l.Called.IsZero(), s.Spec.Default && s.Quiet:
		return true
	}
	return s.Spec.Start == Always && !l.Sent && (l.Failures == 0 || s.Spec.Restart)
}

// Idle returns since when a service that is ready has had no request, or zero if it has
// one, or may have one.
func (l *Life) Idle(s *Situation) time.Time {
	if s.Waiting > 0 || s.Open > 0 || !s.Known {
		return time.Time{}
	}
	return later(l.Since, s.Last)
}

// Barred returns until when a service that is ready is not sent away. Those it came for
// are there only a moment later.
func (l *Life) Barred() time.Time { return l.Since.Add(settle) }

// Review returns what has to happen to a service now, given the situation it is in, and
// otherwise when to look again; zero: only a change can make a difference.
func (l *Life) Review(s *Situation) (e Event, why Reason, at time.Time) {
	wanted, must := l.Wanted(s), l.MustGo(s) != ""
	switch l.State {
	case Away, Parked, Asleep:
		switch {
		case must && l.State != Away:
			return Leave, ForGood, at
		case wanted:
			return Want, "", at
		}
	case Failed:
		if at = l.rested(); wanted && !s.Now.Before(at) {
			return Want, "", at
		} else if !wanted {
			at = time.Time{}
		}
	case Waiting, Starting, Returning:
		if must {
			return Leave, ForGood, at
		}
		if at = s.Left.Add(dropAfter); !wanted && s.Known && !s.Now.Before(at) {
			return Drop, "", at
		} else if wanted || !s.Known {
			at = time.Time{}
		}
		if l.State == Starting && l.Instance.Ordered.IsZero() { // from then on, whoever probes it has the time
			if limit := l.Instance.Granted.Add(l.Instance.Spec.Timeout()); !s.Now.Before(limit) {
				return Fails, "", limit
			} else if at.IsZero() || limit.Before(at) {
				at = limit
			}
		}
	case Serving:
		if must && s.Known {
			return Leave, ForGood, at
		}
		idle, since := l.Idle(s), time.Time{}
		after, limited := time.Duration(0), false
		if s.Spec != nil {
			after, limited = s.Spec.IdleAfter.Get()
		}
		if since = later(idle.Add(after), l.Barred()); idle.IsZero() || !limited || s.Spec.Default {
			return "", "", at
		}
		if !s.Now.Before(since) {
			return Leave, ForIdle, at
		}
		return "", "", since
	case Closing:
		if at = l.Overdue(s.Spec); s.Closed || l.Instance.Cut {
			return "", "", time.Time{}
		}
		if !s.Now.Before(at) && s.Known {
			return Overdue, "", at
		}
	}
	return "", "", at
}

// Overdue returns when the requests of a service that closes are broken off.
func (l *Life) Overdue(s *Spec) time.Time { return l.Since.Add(cmp.Or(s, &l.Instance.Spec).slice()) }

// rested returns when a service that has failed may start again.
func (l *Life) rested() time.Time {
	if l.Failure == nil {
		return time.Time{}
	}
	return l.Failure.Next
}

// Remains reports whether a service that is closed stays, because the reason for which it
// was closed is gone.
func (l *Life) Remains(s *Situation) bool {
	if l.MustGo(s) != "" || l.Instance == nil {
		return false
	}
	switch l.Instance.For {
	case ForIdle:
		return s.Waiting > 0
	case ForOthers:
		return false
	}
	return true
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Enter takes a service to the state that follows by the table, and keeps what else is
// known of it true.
func (l *Life) Enter(to State, acts []Act, now time.Time) {
	has := func(a Act) bool { return slices.Contains(acts, a) }
	if l.State == Serving && Steady(l.Since, now) {
		l.Failures = 0
	}
	switch {
	case to == Waiting, to == Returning:
		l.Sent = false
	case to == Leaving && l.Instance.For != ForGood && !l.Instance.Failed, to == Parked:
		l.Sent = true
	}
	if to != l.State && (to == Starting || to == Returning) || l.State == Closing && to == Serving {
		l.Epoch++ // a closed one never opens again
	}
	if has(Open) {
		if l.State != Closing {
			l.Switches++
		}
		l.Called, l.GPU, l.Failure, l.Why = time.Time{}, "", nil, ""
		l.Instance.For, l.Instance.ForWhom, l.Instance.Way, l.Instance.Cut = "", "", "", false
	}
	if has(Release) {
		l.Instance = nil
		if l.Again != "" {
			l.Again, l.Called = "", now
		}
	}
	if to == Failed {
		l.Failures++
		l.Called, l.GPU = time.Time{}, ""
		f := api.ServiceFailure{At: now, Why: l.Why}
		if l.Failure != nil {
			f = *l.Failure
		}
		f.Count, f.Next = l.Failures, now.Add(Rest(l.Failures))
		l.Failure = &f
	}
	if to != l.State {
		l.State, l.Since = to, now
	}
}

// Fail notes why a service fails. What was noted first is the cause of the rest.
func (l *Life) Fail(why string, lines []string, now time.Time) {
	if l.Instance != nil && l.Instance.Failed {
		return
	}
	l.Why = why
	l.Failure = &api.ServiceFailure{At: now, Why: why, Log: lines}
	if l.Instance != nil {
		l.Instance.Failed, l.Instance.Way = true, Stop
	}
}

// Restore takes over the times that were stored, as of this process: setting the clock does
// not change any more how long ago they are. What is ahead, because the clock was set back,
// is now.
func (l *Life) Restore(now time.Time) {
	past := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return now.Add(min(t.Sub(now), 0))
	}
	l.Since, l.Called = past(l.Since), past(l.Called)
	if i := l.Instance; i != nil {
		i.Asked, i.Granted, i.Ordered = past(i.Asked), past(i.Granted), past(i.Ordered)
	}
	if f := l.Failure; f != nil && !f.Next.IsZero() {
		rests := f.Next.Sub(f.At)
		f.At = past(f.At)
		f.Next = f.At.Add(rests)
	}
	for way, failed := range l.Trouble {
		l.Trouble[way] = past(failed)
	}
}

// Call has a service come because a person says so, whatever was before.
func (l *Life) Call(now time.Time) {
	l.Stopped, l.Started, l.Again = nil, true, ""
	if l.State == Serving {
		return
	}
	l.Called, l.Failures = now, 0
	if l.Failure != nil {
		f := *l.Failure
		f.Next = time.Time{}
		l.Failure = &f
	}
}
