// Package notice writes what people are told about leases: the event of each
// change to the book.
//
// Pure: no clock, no I/O.
package notice

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Of returns what people are told of an effect; false if they are told nothing.
// Labels appends what the devices of a lease are called.
func Of(e *lease.Effect, labels func(text []byte, parts []lease.Part) []byte) (gpu.Event, bool) {
	if e.Kind == lease.Asked || e.Kind == lease.TimedOut {
		return ofRequest(e), true
	}
	held := e.Lease()
	if held == nil {
		return gpu.Event{}, false // withdrawn: the client knows
	}
	code, severity, verb := wording(e.Kind)
	if code == "" || e.Kind == lease.Renewed && e.By.Door == access.Itself {
		return gpu.Event{}, false // berth keeps a lease that is in use, every minute
	}
	total := held.Total()
	text, public := sentence(e, held, verb, labels)
	event := gpu.Event{
		Time: e.Time, Code: code, Severity: severity, Lease: held.ID, User: held.Holder.User, By: lease.ByOf(e.By), Text: text, Public: public,
		Data: map[string]any{"fence": held.Fence, "memory_mb": int64(total.Memory), "slots": total.Slots},
	}
	if e.Kind != lease.Granted {
		event.Data["held_seconds"] = e.Time.Sub(held.Granted).Seconds()
	}
	if e.Kind == lease.Resized {
		event.Data["was_mb"] = int64(e.Before.Total().Memory)
		if held.Asked > 0 {
			event.Data["asked_mb"] = int64(held.Asked)
		}
	}
	if e.Kind == lease.Warned {
		ends, _ := held.Ends()
		event.Data["ends"], event.Data["time_limit_seconds"] = ends.Format(time.RFC3339), held.TimeLimit.Seconds()
	}
	if len(held.Parts) == 1 {
		event.GPU = held.Parts[0].GPU
	}
	return Sparing(event, e.Spared), true
}

// ofRequest returns the event that a request waits, or that it was not granted
// in time.
func ofRequest(e *lease.Effect) gpu.Event {
	r := e.Request
	event := gpu.Event{
		Time: e.Time, Code: gpu.EventWaiting, Severity: gpu.Note, Lease: r.ID, User: r.Holder.User,
		Data: map[string]any{"memory_mb": int64(r.Memory), "slots": r.Slots, "gpus": r.GPUs},
	}
	if r.Into != 0 {
		event.Data["for"], event.Data["fence"] = r.For(), r.Into
	}
	if e.Kind == lease.Asked {
		event.By = lease.ByOf(e.By)
		event.Text = fmt.Sprintf("%s waits for %s", r.ID, aim(r))
		if r.Deadline.Sub(e.Time) <= lease.MaxWait {
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
func aim(r *lease.Request) string {
	switch r.For() {
	case "resume":
		return "room for its " + r.Memory.String() + " to be resumed"
	case "resize":
		return r.Memory.String() + " more, to have " + r.Size.String()
	}
	return r.Memory.String()
}

// sentence returns the text of an event about a  If the text names the
// program, which is at its end, sentence also returns it without that name, as
// public text. Every grant calls it, so it builds the text in one buffer.
func sentence(e *lease.Effect, held *lease.Lease, verb string, labels func([]byte, []lease.Part) []byte) (text, public string) {
	b := append(append(append(make([]byte, 0, 160), held.ID...), ' '), verb...)
	switch e.Kind {
	case lease.Granted:
		b = append(append(b, ' '), amount(held)...)
		b = append(b, " on "...)
		b = labels(b, held.Parts)
		b = appendHolder(b, held.Holder)
	case lease.Warned:
		ends, _ := held.Ends()
		b = append(b, " at "...)
		b = append(ends.AppendFormat(b, time.TimeOnly), ", with its processes: that is its time limit of "...)
		b = append(b, words.Duration(held.TimeLimit)...)
	case lease.Resized:
		b = append(append(b, " from "...), e.Before.Parts[0].Memory.String()...)
		b = append(append(b, " to "...), held.Parts[0].Memory.String()...)
		b = append(b, " on "...)
		b = labels(b, held.Parts)
	}
	if e.Why != "" {
		b = append(append(b, ": "...), e.Why...)
	}
	if e.Kind != lease.Granted || held.Holder.Name == "" {
		return string(b), ""
	}
	upTo := len(b)
	text = string(append(append(append(b, " ("...), held.Holder.Name...), ')'))
	return text, text[:upTo]
}

func wording(k lease.Kind) (gpu.EventCode, gpu.Severity, string) {
	switch k {
	case lease.Granted:
		return gpu.EventGranted, gpu.Note, "holds"
	case lease.Renewed:
		return gpu.EventRenewed, gpu.Note, "was renewed"
	case lease.Bound:
		return gpu.EventBound, gpu.Note, "was handed to another process"
	case lease.Detached:
		return gpu.EventBound, gpu.Note, "stands without the process that asked for it"
	case lease.Resized:
		return gpu.EventResized, gpu.Note, "was resized"
	case lease.Released:
		return gpu.EventReleased, gpu.Note, "was released"
	case lease.Expired:
		return gpu.EventExpired, gpu.Warning, "expired"
	case lease.Warned:
		return gpu.EventEnding, gpu.Warning, "is about to end"
	case lease.Revoked:
		return gpu.EventRevoked, gpu.Warning, "was revoked"
	}
	return "", "", ""
}

func amount(l *lease.Lease) string {
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
func appendHolder(text []byte, h lease.Holder) []byte {
	said := 0
	for _, word := range [...]string{h.Service, h.User} {
		if word != "" {
			text = append(text, separator(said)...)
			text = append(text, word...)
			said++
		}
	}
	return text
}

// separator returns the text to write before word i.
func separator(i int) string {
	if i == 0 {
		return " for "
	}
	return ", "
}
