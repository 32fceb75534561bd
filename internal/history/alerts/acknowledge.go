package alerts

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/history/alert"
	"github.com/berth-gpu/berth/internal/lease"
)

// The errors of acknowledging.
var (
	ErrUnknown         = errors.New("no alert with this fingerprint is pending or fires")
	ErrNotAcknowledged = errors.New("nobody has acknowledged this alert")
)

// Acknowledge notes that somebody takes care of an alert for a time. Until then,
// or until the alert is resolved, hooks get nothing more about it. Acknowledging
// it again replaces the first.
func (k *Keeper) Acknowledge(by access.Actor, fingerprint string, lasts time.Duration, comment string) (alert.State, error) {
	now := time.Now()
	a := &alert.Acknowledgement{By: lease.ByOf(by), At: now, Until: now.Add(lasts).Round(0), Comment: comment}
	s, err := k.set(by, fingerprint, a)
	if err != nil {
		return s, err
	}
	e := k.event(&s, now)
	e.Code, e.Severity, e.By = gpu.EventAlertAcknowledged, gpu.Note, a.By
	e.Text = fmt.Sprintf("%s is acknowledged until %s", s.Name(), a.Until.Format(time.TimeOnly))
	e.Data["until"] = a.Until.UTC()
	if comment != "" {
		e.Text, e.Data["comment"] = e.Text+": "+comment, comment
	}
	k.conceal(&e, &s, s.Name()+" is acknowledged")
	k.Event(e)
	return s, nil
}

// Unacknowledge takes an acknowledgement back. If the alert fires, people hear of
// it again at the next evaluation.
func (k *Keeper) Unacknowledge(by access.Actor, fingerprint string) (alert.State, error) {
	s, err := k.set(by, fingerprint, nil)
	if err != nil {
		return s, err
	}
	e := k.event(&s, time.Now())
	e.Code, e.Severity, e.By, e.Text = gpu.EventAlertAcknowledged, gpu.Note, lease.ByOf(by), s.Name()+" is no longer acknowledged"
	k.conceal(&e, &s, e.Text)
	k.Event(e)
	return s, nil
}

// set changes the acknowledgement of an alert in every rule that has it; nil
// takes it back.
func (k *Keeper) set(by access.Actor, fingerprint string, a *alert.Acknowledgement) (alert.State, error) {
	found, err := k.find(fingerprint)
	switch {
	case err != nil:
		return found, err
	case a == nil && found.Acknowledged == nil:
		return found, ErrNotAcknowledged
	}
	if k.Record != nil { // it waits for the disk, and nobody waits for it
		if err := k.Record(by, &found, a); err != nil {
			return found, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	err = ErrUnknown
	for _, g := range k.groups {
		for _, active := range g.active {
			if s, there := active[fingerprint]; there {
				s.Acknowledged = a
				if a == nil {
					s.Told = time.Time{}
				}
				active[fingerprint] = s
				found, err = s, nil
			}
		}
	}
	k.change()
	return found, err
}

// find returns an alert.
func (k *Keeper) find(fingerprint string) (alert.State, error) {
	for _, s := range k.Active() {
		if s.Fingerprint == fingerprint {
			return s, nil
		}
	}
	return alert.State{}, ErrUnknown
}
