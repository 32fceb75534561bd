package ledger

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/words"
)

// announce sends the event of an effect, if it has one.
func (l *Ledger) announce(e *lease.Effect) {
	if l.hooks.Event == nil {
		return
	}
	if e.Kind == lease.Asked || e.Kind == lease.TimedOut {
		l.hooks.announceRequest(e, func() bool {
			l.mu.RLock()
			defer l.mu.RUnlock()
			return l.book.Request(e.Request.Key()) == e.Request
		})
		return
	}
	held := e.Lease()
	if held == nil {
		return // withdrawn: the client knows
	}
	code, severity, verb := wording(e.Kind)
	if code == "" || e.Kind == lease.Renewed && e.By.Door == access.Itself {
		return // berth keeps a lease that is in use, every minute
	}
	total := held.Total()
	text, public := l.sentence(e, held, verb)
	event := gpu.Event{
		Time: e.Time, Code: code, Severity: severity, Lease: held.ID, User: held.Holder.User, By: lease.ByOf(e.By), Text: text, Public: public,
		Data: map[string]any{"fence": held.Fence, "memory_mb": int64(total.Memory), "slots": total.Slots},
	}
	if e.Kind != lease.Granted {
		event.Data["held_seconds"] = e.Time.Sub(held.Granted).Seconds()
	}
	if e.Kind == lease.Resized {
		event.Data["was_mb"] = int64(e.Before.Total().Memory)
	}
	if len(held.Parts) == 1 {
		event.GPU = held.Parts[0].GPU
	}
	l.hooks.Event(event)
}

// sentence returns the text of an event about a lease. If the text names the
// program, which is at its end, sentence also returns it without that name, as
// public text. Every grant calls it, so it builds the text in one buffer.
func (l *Ledger) sentence(e *lease.Effect, held *lease.Lease, verb string) (text, public string) {
	b := append(append(append(make([]byte, 0, 160), held.ID...), ' '), verb...)
	switch e.Kind {
	case lease.Granted:
		b = append(append(b, ' '), amount(held)...)
		b = append(b, " on "...)
		b = l.appendLabels(b, held.Parts)
		b = appendHolder(b, held.Holder)
	case lease.Resized:
		b = append(append(b, " from "...), e.Before.Parts[0].Memory.String()...)
		b = append(append(b, " to "...), held.Parts[0].Memory.String()...)
		b = append(b, " on "...)
		b = l.appendLabels(b, held.Parts)
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

// appendLabels appends the labels of the devices of a lease, or the UUID of a
// device that was not seen yet.
func (l *Ledger) appendLabels(text []byte, parts []lease.Part) []byte {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i, p := range parts {
		text = append(text, separator(i, "", ", ")...)
		if d := l.devices[p.GPU]; d != nil {
			text = append(text, d.Device.Label()...)
		} else {
			text = append(text, p.GPU...)
		}
	}
	return text
}

// announceRequest sends the event that a request waits, unless the same batch
// granted it, or the event that a request was not granted in time.
func (h *Hooks) announceRequest(e *lease.Effect, waits func() bool) {
	r := e.Request
	data := map[string]any{"memory_mb": int64(r.Memory), "slots": r.Slots, "gpus": r.GPUs}
	if e.Kind == lease.Asked {
		if !waits() {
			return
		}
		h.Event(gpu.Event{
			Time: e.Time, Code: gpu.EventWaiting, Severity: gpu.Note, Lease: r.ID, User: r.Holder.User, By: lease.ByOf(e.By), Data: data,
			Text: fmt.Sprintf("%s waits for %s, until %s at the latest", r.ID, r.Memory, r.Deadline.Format(time.TimeOnly)),
		})
		return
	}
	h.Event(gpu.Event{
		Time: e.Time, Code: gpu.EventTimedOut, Severity: gpu.Warning, Lease: r.ID, User: r.Holder.User, Data: data,
		Text: fmt.Sprintf("%s waited %s for %s and did not get it", r.ID, words.Duration(e.Time.Sub(r.Requested)), r.Memory),
	})
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
			text = append(text, separator(said, " for ", ", ")...)
			text = append(text, word...)
			said++
		}
	}
	return text
}

// separator returns the text to write before word i: first for the first word,
// other for every other.
func separator(i int, first, other string) string {
	if i == 0 {
		return first
	}
	return other
}
