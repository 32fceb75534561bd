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

// EventOf returns the event that tells people about an effect; false if there is none.
// Labels appends the names of the devices of a lease.
func EventOf(e *Effect, labels func(text []byte, parts []Part) []byte) (gpu.Event, bool) {
	if e.Kind == Asked || e.Kind == TimedOut {
		return requestEvent(e), true
	}
	held := e.Lease()
	if held == nil {
		return gpu.Event{}, false // withdrawn: the client knows
	}
	code, severity, verb := wording(e.Kind)
	if code == "" || e.Kind == Renewed && e.By.Door == access.Itself {
		return gpu.Event{}, false // berth keeps a lease that is in use, every minute
	}
	by := e.By
	if c := held.Cancelled; c != nil && e.Kind == Revoked { // its owner or an operator asked for it before
		severity, verb, by = gpu.Note, "was ended", c.By
	}
	total := held.Total()
	text, public := sentence(e, held, verb, labels)
	event := gpu.Event{
		Time: e.Time, Code: code, Severity: severity, Lease: held.ID, User: held.Holder.User, By: ByOf(by), Text: text, Public: public,
		Data: map[string]any{"fence": held.Fence, "memory_mb": int64(total.Memory), "slots": total.Slots},
	}
	if e.Kind != Granted {
		event.Data["held_seconds"] = e.Time.Sub(held.Granted).Seconds()
	}
	if e.Kind == Resized {
		event.Data["was_mb"] = int64(e.Before.Total().Memory)
		if held.Asked > 0 {
			event.Data["asked_mb"] = int64(held.Asked)
		}
	}
	if e.Kind == Warned {
		ends, _ := held.Ends()
		event.Data["ends"], event.Data["time_limit_seconds"] = ends.Format(time.RFC3339), held.TimeLimit.Seconds()
	}
	if len(held.Parts) == 1 {
		event.GPU = held.Parts[0].GPU
	}
	return Sparing(event, e.Spared), true
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

// sentence returns the text of an event about a lease. If the text ends with the name of
// the program, or with the reason of who cancelled it, sentence also returns it without
// that, as public text. Every grant
// calls sentence, so it builds the text in one buffer.
func sentence(e *Effect, held *Lease, verb string, labels func([]byte, []Part) []byte) (text, public string) {
	b := append(append(append(make([]byte, 0, 160), held.ID...), ' '), verb...)
	switch e.Kind {
	case Granted:
		b = append(append(b, ' '), amount(held)...)
		b = append(b, " on "...)
		b = labels(b, held.Parts)
		b = appendHolder(b, held.Holder)
	case Warned:
		ends, _ := held.Ends()
		b = append(b, " at "...)
		b = append(ends.AppendFormat(b, time.TimeOnly), ", with its processes: that is its time limit of "...)
		b = append(b, words.Duration(held.TimeLimit)...)
	case Resized:
		b = append(append(b, " from "...), e.Before.Parts[0].Memory.String()...)
		b = append(append(b, " to "...), held.Parts[0].Memory.String()...)
		b = append(b, " on "...)
		b = labels(b, held.Parts)
	}
	if e.Why != "" {
		upTo := len(b)
		b = append(append(b, ": "...), e.Why...)
		if c := held.Cancelled; c != nil && c.Why != "" { // whoever cancelled it wrote that to its holder
			return string(b), string(b[:upTo])
		}
	}
	if e.Kind != Granted || held.Holder.Name == "" {
		return string(b), ""
	}
	upTo := len(b)
	text = string(append(append(append(b, " ("...), held.Holder.Name...), ')'))
	return text, text[:upTo]
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

func amount(l *Lease) string {
	part := l.Parts[0]
	switch {
	case part.Memory == 0:
		return words.Count(part.Slots, "slot")
	case part.Slots == 0:
		return part.Memory.String()
	}
	return part.Memory.String() + " and " + words.Count(part.Slots, "slot")
}

// appendHolder appends the service and the user of a holder.
func appendHolder(text []byte, h Holder) []byte {
	before := " for "
	for _, word := range [...]string{h.Service, h.User} {
		if word != "" {
			text = append(append(text, before...), word...)
			before = ", "
		}
	}
	return text
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
