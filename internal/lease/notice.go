package lease

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Notice is an event about a lease or a request. Rest adds its sentence and its data, at
// any time, and is nil if they are there: a busy machine displaces most events before
// anybody reads them.
type Notice struct {
	gpu.Event
	Fence uint64 // of the lease; 0 if it is about a request
	Rest  func(*gpu.Event)
}

// Whole returns the event with its sentence and its data.
func (n Notice) Whole() gpu.Event {
	if n.Rest != nil {
		n.Rest(&n.Event)
	}
	return n.Event
}

// NoticeOf returns the event that tells people about an effect; false if there is none.
// Labels appends the names of the devices of a lease.
func NoticeOf(e *Effect, labels func(text []byte, parts []Part) []byte) (Notice, bool) {
	if e.Kind == Asked || e.Kind == TimedOut {
		return Notice{Event: requestEvent(e)}, true
	}
	held := e.Lease()
	if held == nil {
		return Notice{}, false // withdrawn: the client knows
	}
	code, severity, verb := wording(e.Kind)
	if code == "" || e.Kind == Renewed && e.By.Door == access.Itself {
		return Notice{}, false // berth keeps a lease that is in use, every minute
	}
	by := e.By
	if c := held.Cancelled; c != nil && e.Kind == Revoked { // its owner or an operator asked for it before
		severity, verb, by = gpu.Note, "was ended", c.By
	}
	n := Notice{Fence: held.Fence, Event: gpu.Event{Time: e.Time, Code: code, Severity: severity, Lease: held.ID, User: held.Holder.User, By: ByOf(by)}}
	if len(held.Parts) == 1 {
		n.GPU = held.Parts[0].GPU
	}
	f := factsOf(e, held, labels)
	if e.Why == "" && len(e.Spared) == 0 && (e.Kind == Granted || e.Kind == Renewed || e.Kind == Released) {
		n.Rest = func(event *gpu.Event) {
			event.Text, event.Public = f.sentence(verb)
			event.Data = f.data()
		}
		return n, true
	}
	n.Text, n.Public = f.sentence(verb)
	n.Data = f.data()
	f.add(&n.Event, e, held)
	n.Event = Sparing(n.Event, e.Spared)
	return n, true
}

// facts are what the events about all leases tell. They do not hold on to the lease.
type facts struct {
	id, service, user, name string
	fence                   uint64
	total                   Usage
	each                    Part // what it has on each device
	labels                  string
	granted                 bool          // it is the news
	held                    time.Duration // else
}

func factsOf(e *Effect, held *Lease, labels func([]byte, []Part) []byte) facts {
	f := facts{
		id: held.ID, service: held.Holder.Service, user: held.Holder.User, name: held.Holder.Name,
		fence: held.Fence, total: held.Total(), each: held.Parts[0], granted: e.Kind == Granted, held: e.Time.Sub(held.Granted),
	}
	if f.granted || e.Kind == Resized {
		var room [32]byte
		f.labels = string(labels(room[:0], held.Parts))
	}
	return f
}

func (f *facts) data() map[string]any {
	data := map[string]any{"fence": f.fence, "memory_mb": int64(f.total.Memory), "slots": f.total.Slots}
	if !f.granted {
		data["held_seconds"] = f.held.Seconds()
	}
	return data
}

// sentence returns the text of an event. If it ends with the name of the program,
// sentence also returns it without that, as public text.
func (f *facts) sentence(verb string) (text, public string) {
	b := append(append(append(make([]byte, 0, 160), f.id...), ' '), verb...)
	if !f.granted {
		return string(b), ""
	}
	b = append(append(b, ' '), amount(f.each)...)
	b = append(append(b, " on "...), f.labels...)
	before := " for "
	for _, word := range [...]string{f.service, f.user} {
		if word != "" {
			b = append(append(b, before...), word...)
			before = ", "
		}
	}
	if f.name == "" {
		return string(b), ""
	}
	upTo := len(b)
	text = string(append(append(append(b, " ("...), f.name...), ')'))
	return text, text[:upTo]
}

// add adds what few events tell. If the text ends with the reason of whoever cancelled the
// lease, the public one does without.
func (f *facts) add(event *gpu.Event, e *Effect, held *Lease) {
	switch e.Kind {
	case Warned:
		ends, _ := held.Ends()
		event.Text += fmt.Sprintf(" at %s, with its processes: that is its time limit of %s", ends.Format(time.TimeOnly), words.Duration(held.TimeLimit))
		event.Data["ends"], event.Data["time_limit_seconds"] = ends.Format(time.RFC3339), held.TimeLimit.Seconds()
	case Resized:
		event.Text += " from " + e.Before.Parts[0].Memory.String() + " to " + f.each.Memory.String() + " on " + f.labels
		event.Data["was_mb"] = int64(e.Before.Total().Memory)
		if held.Asked > 0 {
			event.Data["asked_mb"] = int64(held.Asked)
		}
	}
	if e.Why != "" {
		if c := held.Cancelled; c != nil && c.Why != "" { // whoever cancelled it wrote that to its holder
			event.Public = event.Text
		}
		event.Text += ": " + e.Why
	}
}

// requestEvent returns the event that a request waits or was not granted in time.
func requestEvent(e *Effect) gpu.Event {
	r := e.Request
	event := gpu.Event{
		Time: e.Time, Code: gpu.EventWaiting, Severity: gpu.Note, Lease: r.ID, User: r.Holder.User,
		Data: map[string]any{"memory_mb": int64(r.Memory), "slots": r.Slots, "gpus": r.GPUs},
	}
	if r.Into != 0 {
		event.Data["for"], event.Data["fence"] = r.For(), r.Into
	}
	if e.Kind == Asked {
		event.By = ByOf(e.By)
		event.Text = fmt.Sprintf("%s waits for %s", r.ID, aim(r))
		if !r.Patient() {
			event.Text += fmt.Sprintf(", until %s at the latest", r.Deadline.Format(time.TimeOnly))
		}
		return event
	}
	event.Code, event.Severity = gpu.EventTimedOut, gpu.Warning
	if r.For() == "resume" { // it was requested when it was parked, and not when somebody resumed it
		event.Text = fmt.Sprintf("%s was not resumed: there was no room for its %s in time; it stays parked", r.ID, r.Memory)
		return event
	}
	event.Text = fmt.Sprintf("%s waited %s for %s and did not get it", r.ID, words.Duration(e.Time.Sub(r.Requested)), aim(r))
	return event
}

// aim returns what a request waits for.
func aim(r *Request) string {
	switch r.For() {
	case "resume":
		return "room for its " + r.Memory.String() + " to be resumed"
	case "resize":
		return r.Memory.String() + " more, to have " + r.Size.String()
	}
	return r.Memory.String()
}

func wording(k Kind) (gpu.EventCode, gpu.Severity, string) {
	switch k {
	case Granted:
		return gpu.EventGranted, gpu.Note, "holds"
	case Renewed:
		return gpu.EventRenewed, gpu.Note, "was renewed"
	case Bound:
		return gpu.EventBound, gpu.Note, "was handed to another process"
	case Detached:
		return gpu.EventBound, gpu.Note, "stands without the process that asked for it"
	case Resized:
		return gpu.EventResized, gpu.Note, "was resized"
	case Released:
		return gpu.EventReleased, gpu.Note, "was released"
	case Expired:
		return gpu.EventExpired, gpu.Warning, "expired"
	case Warned:
		return gpu.EventEnding, gpu.Warning, "is about to end"
	case Cancelled:
		return gpu.EventEnding, gpu.Note, "was cancelled, and its programs are being ended"
	case Revoked:
		return gpu.EventRevoked, gpu.Warning, "was revoked"
	}
	return "", "", ""
}

func amount(part Part) string {
	switch {
	case part.Memory == 0:
		return words.Count(part.Slots, "slot")
	case part.Slots == 0:
		return part.Memory.String()
	}
	return part.Memory.String() + " and " + words.Count(part.Slots, "slot")
}

// TrimEvent returns the event that asks the programs of a lease to give back what
// their libraries keep for later.
func TrimEvent(l *Lease, by access.Actor, now time.Time) gpu.Event {
	return gpu.Event{
		Time: now, Code: gpu.EventReclaim, Severity: gpu.Note, Lease: l.ID, User: l.Holder.User, By: ByOf(by),
		Text: l.ID + " is asked to give back memory that its libraries keep for later", Data: map[string]any{"pid": l.Holder.PID, "fence": l.Fence},
	}
}

// Sparing adds to an event the processes of the lease that berth left alone, because it
// may not signal them on behalf of the actor, or because of the scope of the lease. Only
// the user and operators see which these are.
func Sparing(e gpu.Event, spared []string) gpu.Event {
	if len(spared) == 0 {
		return e
	}
	if e.Public == "" {
		e.Public = e.Text
	}
	e.Public += "; berth left processes alone that it may not signal here"
	e.Text += LeftAlone(spared)
	e.Data = maps.Clone(e.Data)
	e.Data["spared"] = spared
	return e
}

// LeftAlone names processes that berth left alone, to follow a sentence. It
// returns "" if there are none.
func LeftAlone(spared []string) string {
	if len(spared) == 0 {
		return ""
	}
	return "; berth left processes alone that it may not signal here: " + strings.Join(spared, ", ")
}
