package alert

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/series"
)

// fires returns the event of an alert that fires.
func (as *Alerts) fires(s *State, at time.Time) gpu.Event {
	e := as.event(s, at)
	e.Code, e.Severity = gpu.EventAlert, s.Severity()
	e.Text = s.Name() + ": " + cmp.Or(s.Annotations.Get("summary"), s.Annotations.Get("description"), "the alert fires")
	e.Data["value"], e.Data["since"], e.Data["annotations"] = jsonable(s.Value), s.ActiveAt.UTC(), s.Annotations.Map()
	switch {
	case s.Acknowledged != nil:
		e.Data["acknowledged"] = true // hooks ignore it
	case s.FiredAt.Before(at):
		e.Data["again"] = true
	case e.GPU != "" && as.Told != nil && as.Told(e.GPU, s.Annotations.Get(gpu.CauseAnnotation), e.Severity):
		e.Data["told"] = true // hooks that got the event before ignore it
	}
	as.conceal(&e, s, s.Name()+" fires")
	return e
}

// conceal sets the public sentence of an event about an alert that names a person other
// than the user of the event.
func (as *Alerts) conceal(e *gpu.Event, s *State, public string) {
	if e.User == "" && series.Tells(s.Labels) {
		e.Public = public
	}
}

// resolved returns the events of alerts that no longer fire.
func (as *Alerts) resolved(list []State, at time.Time, why string) []gpu.Event {
	var events []gpu.Event
	for i := range list {
		e := as.event(&list[i], at)
		e.Code, e.Severity = gpu.EventAlertResolved, gpu.Note
		e.Text = list[i].Name() + " is over"
		if why != "" {
			e.Text, e.Data["reason"] = e.Text+": "+why, why
		} else if said := list[i].Annotations.Get("summary"); said != "" {
			e.Text += ". It said: " + said
		}
		as.conceal(&e, &list[i], list[i].Name()+" is over")
		events = append(events, e)
	}
	return events
}

// event returns the common part of all events about an alert. An alert about a lease
// belongs to its user, so that viewers do not see the name. For an alert that names a
// person in another way, the caller sets a public sentence.
func (as *Alerts) event(s *State, at time.Time) gpu.Event {
	e := gpu.Event{
		Time: at, User: s.Labels.Get("user"),
		Data: map[string]any{"alert": s.Name(), "labels": s.Labels.Map(), "fingerprint": s.Fingerprint},
	}
	if uuid := s.Labels.Get("gpu"); uuid != "" && as.Known(uuid) {
		e.GPU = uuid
	}
	if user, id, whole := strings.Cut(s.Labels.Get("lease"), "/"); whole {
		e.User, e.Lease = cmp.Or(e.User, user), id
	}
	return e
}

// jsonable returns a value that JSON can hold.
func jsonable(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return v
}
