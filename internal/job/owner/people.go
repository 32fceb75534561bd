package owner

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Refusal says why a service does not come.
type Refusal struct {
	Status     int           // of HTTP
	Code       string        // for programs
	Why        string        // for people
	RetryAfter time.Duration // zero: to ask again does not help
}

func (r *Refusal) Error() string { return r.Why }

// mostWaiters is how many may wait for a service. A front asks once for all requests of a
// user.
const mostWaiters = 4096

func gone(name string) *Refusal {
	return &Refusal{Status: http.StatusNotFound, Code: "model_not_found", Why: fmt.Sprintf("There is no service %q here. /v1/models lists the models.", name)}
}

func unavailable(code string, after time.Duration, format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Code: code, Why: fmt.Sprintf(format, args...), RetryAfter: after}
}

func isStopped(name string, s *api.FrontStopped) *Refusal {
	return unavailable("stopped", 0, "%s", service.Tokenless(s.Sentence(name)))
}

// forAll returns why a service failed for those who ask for it. Of the reason why its
// program could not be started, which may name paths, that is the end: an error of the
// system.
func forAll(why string) string {
	rest, is := strings.CutPrefix(why, unstarted)
	if !is {
		return why
	}
	if end := rest[strings.LastIndex(rest, ": ")+1:]; !strings.Contains(end, "/") {
		return unstarted + strings.TrimSpace(end)
	}
	return strings.TrimSuffix(unstarted, ": ")
}

// retryUnknown is when somebody may ask again for a service whose user is not known.
const retryUnknown = 30 * time.Second

// noUser says that the user of a service is not known.
func noUser(s *service.Spec) string {
	return fmt.Sprintf("there is no user %s here, or the user database does not answer", s.User)
}

// failed says that a service has failed. Everybody reads it, so it has no lines of the log.
func failed(name string, f *api.ServiceFailure) *Refusal {
	if f == nil {
		return unavailable("failed", service.Rest(1), "The service %s failed.", name)
	}
	after := service.Rest(f.Count)
	if !f.Next.IsZero() {
		after = max(time.Until(f.Next), time.Second)
	}
	return unavailable("failed", after, "The service %s failed: %s. berth logs %s shows its log.", name, forAll(f.Why), name)
}

// waiter is somebody who waits for a service.
type waiter struct {
	user  string // for whom a front asks
	since time.Time
	done  chan result // has room for one
}

type result struct {
	brought api.FrontBrought
	err     error
}

// Bring brings a service for somebody, and returns when it is open. It returns a *Refusal
// if it does not come. Once ctx has ended, nobody waits for it any more.
func (o *Owner) Bring(ctx context.Context, b api.FrontBring) (api.FrontBrought, error) {
	select {
	case <-o.begun:
	case <-ctx.Done():
		return api.FrontBrought{}, context.Cause(ctx)
	}
	if err := o.never(b.Service, ""); err != nil {
		return api.FrontBrought{}, unavailable("never_fits", 0, "The service %s cannot come even if all others go: %v", b.Service, err)
	}
	w := &waiter{user: b.User, since: time.Now(), done: make(chan result, 1)}
	defer func() { _ = o.decide(func() error { o.leave(b.Service, w); return nil }) }()
	if err := o.decide(func() error { return o.enter(b.Service, w) }); err != nil {
		return api.FrontBrought{}, err
	}
	select {
	case r := <-w.done:
		return r.brought, r.err
	case <-ctx.Done():
		return api.FrontBrought{}, context.Cause(ctx)
	case <-o.running.Done():
		return api.FrontBrought{}, runs.ErrStopped
	}
}

// never returns why a service that has no lease could never get one, on a device if that
// is not empty.
func (o *Owner) never(name, uuid string) error {
	o.mu.RLock()
	s := o.services[name]
	if s == nil || s.spec == nil || uuid == "" && s.life.State.Leases() {
		o.mu.RUnlock()
		return nil
	}
	spec, number := s.spec, int64(0)
	if s.life.Instance != nil {
		number = s.life.Instance.Number
	}
	o.mu.RUnlock()
	i := o.instance(spec, time.Now())
	i.Number = number
	return o.leases.Never(askFor(&service.Life{Instance: i, GPU: uuid}))
}

// enter lets somebody wait for a service, or answers at once.
func (o *Owner) enter(name string, w *waiter) error {
	s := o.services[name]
	switch {
	case s == nil || s.spec == nil:
		return gone(name)
	case s.life.Stopped != nil:
		return isStopped(name, s.life.Stopped)
	case !s.life.Answers(s.spec):
		return unavailable("not_started", 0, "The service %s is started by hand. It comes after berth start %s.", name, name)
	case s.life.State == service.Failed && s.life.Failure != nil && time.Now().Before(s.life.Failure.Next):
		return failed(name, s.life.Failure)
	case len(s.waiters) >= mostWaiters:
		return &Refusal{Status: http.StatusTooManyRequests, Code: "too_many_requests", Why: fmt.Sprintf("%d wait for the service %s. Try again later.", len(s.waiters), name), RetryAfter: time.Second}
	case s.life.State == service.Serving:
		w.done <- opened(s)
		s.left = time.Now()
		return nil
	}
	o.set(func() { s.waiters = append(s.waiters, w) })
	return nil
}

// opened is the answer to those who wait for a service that is open.
func opened(s *owned) result {
	return result{brought: api.FrontBrought{Epoch: s.life.Epoch, Port: s.life.Instance.Port, UID: s.life.Instance.Spec.UID}}
}

// leave notes that somebody does not wait any more.
func (o *Owner) leave(name string, w *waiter) {
	s := o.services[name]
	if s == nil {
		return
	}
	if at := slices.Index(s.waiters, w); at >= 0 {
		o.set(func() { s.waiters = slices.Delete(slices.Clone(s.waiters), at, at+1) })
		s.left = time.Now()
	}
}

// refuse tells those who wait that a service does not come.
func (o *Owner) refuse(s *owned, r *Refusal) { o.dismiss(s, result{err: r}) }

// dismiss tells those who wait what became of the service.
func (o *Owner) dismiss(s *owned, r result) {
	if len(s.waiters) == 0 {
		return
	}
	for _, w := range s.waiters {
		w.done <- r
	}
	o.set(func() { s.waiters = nil })
	s.left = time.Now()
}

// Start starts a service, or lets one start again that was stopped.
func (o *Owner) Start(name string, by access.Actor, why string) error {
	<-o.begun
	if err := o.never(name, ""); err != nil {
		return fmt.Errorf("%w: %s cannot come even if all others go: %w", ErrState, name, err)
	}
	return o.do(name, by, "started", why, func(s *owned, l *service.Life) error {
		l.Call(time.Now())
		return nil
	})
}

// Stop stops a service until somebody starts it. Its requests end first.
func (o *Owner) Stop(name string, by access.Actor, why string) error {
	return o.do(name, by, "stopped", why, func(s *owned, l *service.Life) error {
		if l.Stopped != nil {
			return fmt.Errorf("%w: %s stopped it on %s", ErrState, l.Stopped.By, l.Stopped.At.Format("2006-01-02 15:04"))
		}
		l.Stopped = &api.FrontStopped{By: lease.ByOf(by).String(), Why: gpu.Printable(why, 256), At: time.Now()}
		l.Started, l.Called, l.Again, l.GPU = false, time.Time{}, "", ""
		return nil
	})
}

// Restart stops a service and starts it again. Its requests end first.
func (o *Owner) Restart(name string, by access.Actor, why string) error {
	return o.do(name, by, "restarted", why, func(s *owned, l *service.Life) error {
		l.Call(time.Now())
		if l.State.Leases() {
			l.Again = "it is restarted by " + lease.ByOf(by).String()
		}
		return nil
	})
}

// Move stops a service and starts it on another device. Its requests end first.
func (o *Owner) Move(name, uuid string, by access.Actor, why string) error {
	<-o.begun
	if err := o.never(name, uuid); err != nil {
		return fmt.Errorf("%w: %s cannot come to %s: %w", ErrState, name, uuid, err)
	}
	return o.do(name, by, "moved to "+uuid, why, func(s *owned, l *service.Life) error {
		switch i := l.Instance; {
		case s.spec.GPUs > 1:
			return fmt.Errorf("%w: it needs %d devices, and only one on a single device can be moved", ErrState, s.spec.GPUs)
		case i != nil && len(i.Devices) == 1 && i.Devices[0] == uuid && l.Again == "":
			return fmt.Errorf("%w: it is there already", ErrState)
		}
		l.Call(time.Now())
		if l.GPU = uuid; l.Instance != nil {
			l.Again = "it is moved by " + lease.ByOf(by).String()
		}
		return nil
	})
}

// Vacate restarts the services on a device that nothing is granted on any more, so that
// they come back on another one. Those that could come to none of the others stay. It does
// not wait: the monitor calls it.
func (o *Owner) Vacate(uuid, why string, others func() []string) {
	o.runs.Send(vacated{uuid, why, others})
}

// vacate finds out which services on a device could come to others, and restarts them.
func (o *Owner) vacate(v vacated) {
	names := o.names()
	o.busy.Go(func() {
		devices := v.others()
		names = slices.DeleteFunc(names, func(name string) bool {
			return !slices.ContainsFunc(devices, func(other string) bool { return o.never(name, other) == nil })
		})
		_ = o.decide(func() error { o.restart(v.gpu, v.why, names); return nil })
	})
}

// restart restarts those of some services that are on a device.
func (o *Owner) restart(uuid, why string, names []string) {
	for _, name := range names {
		s := o.services[name]
		if s == nil || s.life.Instance == nil || !slices.Contains(s.life.Instance.Devices, uuid) || s.life.Again != "" {
			continue
		}
		switch s.life.State {
		case service.Parked, service.Asleep: // whoever asks for it brings it
			_ = o.happen(s, service.Leave, service.Facts{}, leaves(service.ForOthers, why))
		default:
			_ = o.alter(s, func(l *service.Life) { l.Again = why })
		}
	}
}

// do lets a person change what becomes of a service. When it returns, the fronts know it.
func (o *Owner) do(name string, by access.Actor, did, why string, change func(*owned, *service.Life) error) error {
	err := o.decide(func() error {
		s := o.services[name]
		if s == nil || s.spec == nil {
			return fmt.Errorf("%w: %s", ErrUnknown, name)
		}
		life := s.life
		if err := change(s, &life); err != nil {
			return err
		}
		if err := o.alter(s, func(l *service.Life) { *l = life }); err != nil {
			return err
		}
		if life.Stopped != nil {
			o.refuse(s, isStopped(name, life.Stopped))
		}
		o.Publish(tokenless(ordered(s, by, did, why)))
		return nil
	})
	if err == nil {
		o.heard()
	}
	return err
}

// mostTold is how many lines of its log the event of a failure has.
const mostTold = 8

// tokenless returns an event in which others than its user do not read the name of a token.
func tokenless(e gpu.Event) gpu.Event {
	if public := service.Tokenless(e.Text); public != e.Text {
		e.Public = public
	}
	return e
}

// ordered is the event that somebody has changed what becomes of a service.
func ordered(s *owned, by access.Actor, did, why string) gpu.Event {
	text := fmt.Sprintf("The service %s was %s by %s", s.name, did, lease.ByOf(by))
	if why = gpu.Printable(why, 256); why != "" {
		text += ": " + why
	}
	return gpu.Event{
		Time: time.Now(), Code: gpu.EventServiceOrdered, Severity: gpu.Note, User: s.spec.User, By: lease.ByOf(by), Text: text + ".",
		Data: map[string]any{"service": s.name, "order": did},
	}
}

// cutOff is the event that the requests of a service are broken off.
func (o *Owner) cutOff(s *owned) gpu.Event {
	i, open := s.life.Instance, 0
	for _, f := range o.fronts {
		open += f.open[s.name].Open
	}
	return gpu.Event{
		Time: time.Now(), Code: gpu.EventServiceCut, Severity: gpu.Warning, User: i.Spec.User, Lease: i.LeaseID(), GPU: i.Devices[0],
		Text: fmt.Sprintf("The service %s has to go (%s), and %s had not ended %s after it took no more: berth breaks off what is left. time_slice_seconds of the service says how long they may take.",
			s.name, i.ForWhom, words.Count(open, "request"), words.Duration(time.Since(s.life.Since))),
		Data: map[string]any{"service": s.name, "requests": open},
	}
}

// tellPeople publishes what has happened to a service, if it matters to people.
func (o *Owner) tellPeople(s *owned, was *service.Life) {
	l, i := &s.life, s.life.Instance
	if i == nil {
		i = was.Instance
	}
	event := gpu.Event{Time: time.Now(), Severity: gpu.Note, User: i.Spec.User, Lease: i.LeaseID(), Data: map[string]any{"service": s.name, "state": string(l.State)}}
	if len(i.Devices) > 0 {
		event.GPU = i.Devices[0]
	}
	switch {
	case l.State == was.State:
		return
	case l.State == service.Serving && was.State != service.Closing:
		came, how := l.Took.Start.Last, "started"
		waited := i.Granted.Sub(i.Asked)
		if was.State == service.Returning {
			if came, how = l.Took.Resume.Last, "came back from where it was parked"; was.Instance.Way == service.Sleep {
				came, how = l.Took.Wake.Last, "woke"
			}
			waited = max(time.Since(i.Asked)-time.Duration(came*float64(time.Second)), 0)
		}
		event.Code = gpu.EventServiceReady
		event.Text = fmt.Sprintf("The service %s is ready: it waited %s for room, and %s in %s.", s.name, words.Duration(waited), how, words.Duration(time.Duration(came*float64(time.Second))))
		event.Data["waited_seconds"], event.Data["took_seconds"] = waited.Seconds(), came
	case l.State == service.Parked || l.State == service.Asleep || l.State == service.Away && was.State != service.Waiting:
		event.Code = gpu.EventServiceLeft
		event.Text = fmt.Sprintf("The service %s has left, and is %s: %s.", s.name, l.State, l.Why)
		event = tokenless(event)
		event.Data["took_seconds"] = time.Since(was.Since).Seconds()
		event.Data["way"] = string(i.Way)
	case l.State == service.Failed:
		event.Code, event.Severity = gpu.EventServiceFailed, gpu.Warning
		event.Text = fmt.Sprintf("The service %s failed, %s in a row: %s. It is started again after %s.", s.name, words.Count(l.Failure.Count, "time"), l.Failure.Why, words.Duration(service.Rest(l.Failure.Count)))
		event.Public = fmt.Sprintf("The service %s failed.", s.name)
		event.Data["failures"], event.Data["log"] = l.Failure.Count, l.Failure.Log[max(len(l.Failure.Log)-mostTold, 0):]
	default:
		return
	}
	o.Publish(event)
}
