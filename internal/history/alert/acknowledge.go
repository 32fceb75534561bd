package alert

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// The errors of Acknowledge and Unacknowledge.
var (
	ErrUnknown         = errors.New("no alert with this fingerprint is pending or fires")
	ErrNotAcknowledged = errors.New("nobody has acknowledged this alert")
)

// Acknowledge records that an actor takes care of an alert for a time. Until then, or
// until the alert is resolved, hooks get no more events about it. A second
// acknowledgement replaces the first.
func (as *Alerts) Acknowledge(by access.Actor, fingerprint string, lasts time.Duration, comment string) (State, error) {
	now := time.Now()
	a := &Acknowledgement{By: lease.ByOf(by), At: now, Until: now.Add(lasts).Round(0), Comment: comment}
	s, err := as.set(by, fingerprint, a)
	if err != nil {
		return s, err
	}
	e := as.event(&s, now)
	e.Code, e.Severity, e.By = gpu.EventAlertAcknowledged, gpu.Note, a.By
	e.Text = fmt.Sprintf("%s is acknowledged until %s", s.Name(), a.Until.Format(time.TimeOnly))
	e.Data["until"] = a.Until.UTC()
	if comment != "" {
		e.Text, e.Data["comment"] = e.Text+": "+comment, comment
	}
	as.conceal(&e, &s, s.Name()+" is acknowledged")
	as.Event(e)
	return s, nil
}

// Unacknowledge takes an acknowledgement back. If the alert fires, the next evaluation
// publishes it again.
func (as *Alerts) Unacknowledge(by access.Actor, fingerprint string) (State, error) {
	s, err := as.set(by, fingerprint, nil)
	if err != nil {
		return s, err
	}
	e := as.event(&s, time.Now())
	e.Code, e.Severity, e.By, e.Text = gpu.EventAlertAcknowledged, gpu.Note, lease.ByOf(by), s.Name()+" is no longer acknowledged"
	as.conceal(&e, &s, e.Text)
	as.Event(e)
	return s, nil
}

// set changes the acknowledgement of an alert in every rule that has it. If a is nil, it
// takes the acknowledgement back.
func (as *Alerts) set(by access.Actor, fingerprint string, a *Acknowledgement) (State, error) {
	found, err := as.find(fingerprint)
	switch {
	case err != nil:
		return found, err
	case a == nil && found.Acknowledged == nil:
		return found, ErrNotAcknowledged
	}
	if as.Record != nil { // before mu is locked: it waits for the disk
		if err := as.Record(by, &found, a); err != nil {
			return found, err
		}
	}
	found, err = as.acknowledge(found, a)
	if err != nil && a != nil && as.Record != nil { // it ended meanwhile, and the audit log must not say that this stands
		_ = as.Record(by, &found, nil)
	}
	return found, err
}

// acknowledge changes the acknowledgement of an alert that find has returned.
func (as *Alerts) acknowledge(found State, a *Acknowledgement) (State, error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	err := ErrUnknown
	for _, g := range as.groups {
		for _, active := range g.active {
			if s, there := active[found.Fingerprint]; there {
				s.Acknowledged = a
				if a == nil {
					s.Told = time.Time{}
				}
				active[found.Fingerprint] = s
				found, err = s, nil
			}
		}
	}
	as.file.Change(writeAfter)
	return found, err
}

// find returns an alert.
func (as *Alerts) find(fingerprint string) (State, error) {
	for _, s := range as.Active() {
		if s.Fingerprint == fingerprint {
			return s, nil
		}
	}
	return State{}, ErrUnknown
}
