package desk

import (
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// longestReason is the most characters that the reason of a drain may have.
const longestReason = 200

// Drain takes a device out of use: its leases go on, and no new ones are granted there.
// The answer leaves out the leases, of which each caller sees other parts.
func (d *Devices) Drain(by Caller, b api.DrainRequest) (api.Drained, error) {
	on, err := d.named(b.GPU)
	if err != nil {
		return api.Drained{}, err
	}
	now := time.Now()
	next := health.Drain{By: lease.ByOf(by.Actor).String(), Since: now.UTC().Truncate(time.Second), Why: term.Clean(strings.TrimSpace(b.Reason))}
	if len([]rune(next.Why)) > longestReason {
		return api.Drained{}, wrongFields(lease.FieldErrors{{Field: "reason", Detail: "must have at most 200 characters"}})
	}
	if b.Until != nil {
		if next.Until = b.Until.UTC(); next.Over(now) {
			return api.Drained{}, wrongFields(lease.FieldErrors{{Field: "until", Detail: "is in the past"}})
		}
	}
	if d.drains == nil {
		return api.Drained{}, Refuse(Unavailable, "no_drains", "This daemon only looks, and cannot drain devices.")
	}
	before, again := d.drains.Drained(on)
	if err := d.record.act(drainAct(&by, "drain", on, &before, &next), func() error { return d.drains.Drain(on.UUID, next) }); err != nil {
		return api.Drained{}, notDrained(err)
	}
	text := on.Label() + " is drained"
	if again {
		text += ", as it was before"
	}
	if b.Until != nil {
		text += ", until " + next.Until.Format(time.RFC3339)
	}
	text += ": berth grants nothing there"
	data := map[string]any{}
	if left := d.holders(on.UUID, data); left > 0 {
		text += ", and " + words.Count(left, "lease") + " " + words.Form(left, "goes", "go") + " on"
	}
	if next.Why != "" {
		text += " (" + next.Why + ")"
	}
	if b.Until != nil {
		data["until"] = next.Until
	}
	if next.Why != "" {
		data["reason"] = next.Why
	}
	d.publish(gpu.Event{Time: now, Code: gpu.EventDrained, Severity: gpu.Note, GPU: on.UUID, By: lease.ByOf(by.Actor), Text: text, Data: data})
	return api.Drained{GPU: on.UUID, Index: on.Index, Changed: true, Drain: DrainOf(next)}, nil
}

// holders adds the leases on a device to the data of an event, and returns their number.
func (d *Devices) holders(uuid string, data map[string]any) int {
	var leases []string
	var fences []uint64
	for _, h := range d.ledger.Holdings(uuid) {
		leases, fences = append(leases, h.Lease.ID), append(fences, h.Lease.Fence)
	}
	if len(leases) > 0 {
		data["leases"], data["fences"] = leases, fences
	}
	return len(leases)
}

// Undrain opens a device to leases again.
func (d *Devices) Undrain(by Caller, b api.UndrainRequest) (api.Drained, error) {
	on, err := d.named(b.GPU)
	if err != nil {
		return api.Drained{}, err
	}
	answer := api.Drained{GPU: on.UUID, Index: on.Index}
	before, drained := d.drained(on)
	if !drained {
		return answer, nil
	}
	err = d.record.act(drainAct(&by, "undrain", on, &before, nil), func() error {
		_, answer.Changed, err = d.drains.Undrain(on.UUID)
		return err
	})
	switch {
	case err != nil:
		return api.Drained{}, notDrained(err)
	case answer.Changed:
		d.publish(Undrained(on, time.Now(), lease.ByOf(by.Actor)))
	case on.Parent != "":
		return api.Drained{}, Refuse(Conflict, "parent_drained", "%s is part of %s, and that is what is drained. Undrain that one.", on.Label(), d.label(on.Parent))
	}
	return answer, nil
}

// Undrained returns the event for a drain that has ended. By is the zero value if it
// ended by itself.
func Undrained(on gpu.Device, now time.Time, by gpu.By) gpu.Event {
	text := on.Label() + " is not drained any more: berth grants leases there again, if it is well"
	if by == (gpu.By{}) {
		text = "The drain of " + on.Label() + " is over: berth grants leases there again, if it is well"
	}
	return gpu.Event{Time: now, Code: gpu.EventUndrained, Severity: gpu.Note, GPU: on.UUID, By: by, Text: text}
}

// drainAct returns the audit entry for a drain that begins or ends.
func drainAct(by *Caller, what string, on gpu.Device, before, after *health.Drain) api.AuditEntry {
	e := api.AuditEntry{Who: audit.Who(by.Actor), What: what, Object: api.AuditObject{Kind: "device", ID: on.UUID}}
	e.Before, e.After = drainFacts(before), drainFacts(after)
	return e
}

func drainFacts(d *health.Drain) map[string]string {
	if d == nil || d.Since.IsZero() {
		return nil
	}
	facts := map[string]string{"by": d.By}
	if !d.Until.IsZero() {
		facts["until"] = d.Until.Format(time.RFC3339)
	}
	if d.Why != "" {
		facts["reason"] = d.Why
	}
	return facts
}

// notDrained returns the refusal for an error of Drains.
func notDrained(err error) *Refusal {
	if r := Refused(err); r.Code != "internal" {
		return r
	}
	return because(err, Unavailable, "drains_not_written", "Nothing was changed. Look at the disk of the state folder; then try again.")
}
