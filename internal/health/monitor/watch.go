package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/health"
)

// watchRetry is how long to wait after a watch failed.
const watchRetry = 10 * time.Second

// watch listens for faults while the monitor is on, until ctx ends.
func (m *Monitor) watch(ctx context.Context, src *source) {
	var next time.Time // zero means at once
	told := false
	worthwhile, giveUp := context.WithCancel(ctx)
	defer giveUp()
	m.repeat(worthwhile, func(Settings) time.Time { return next }, func() {
		begun := time.Now()
		err := m.askWatch(ctx, src)
		switch {
		case errors.Is(err, device.ErrUnsupported):
			giveUp()
		case err != nil:
			now := time.Now()
			next = now.Add(watchRetry)
			if !told || now.Sub(begun) > watchRetry { // one event for failures in a row
				m.emit(gpu.Event{
					Time: now, Code: gpu.EventMonitoring, Severity: gpu.Warning,
					Text: fmt.Sprintf("Cannot watch for faults (%s): %v; berth tries again every %v", src.backend.Name(), err, watchRetry),
				})
			}
			told = true
		}
	})
}

var errWatchEnded = errors.New("the driver stopped reporting")

// askWatch listens until the monitor is switched off or ctx ends, and then returns nil. A
// watch that does not return when its context ends blocks this backend, and no other.
func (m *Monitor) askWatch(ctx context.Context, src *source) error {
	listening, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case src.watching <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	done := make(chan error, 1)
	go func() {
		err := src.backend.Watch(listening, func(f device.Fault) {
			if listening.Err() == nil {
				m.faulted(f)
			}
		})
		if err == nil && listening.Err() == nil {
			err = errWatchEnded
		}
		<-src.watching
		done <- err
	}()
	for {
		_, on, changed := m.control()
		if !on {
			cancel()
		}
		select {
		case err := <-done:
			if listening.Err() != nil {
				return nil
			}
			return err
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// faulted handles a fault that a driver reported.
func (m *Monitor) faulted(f device.Fault) {
	now := time.Now()
	data := map[string]any{"class": string(f.Class)}
	maps.Copy(data, f.Detail)
	if f.Name != "" {
		data["fault"] = f.Name
	}
	if f.PID > 0 {
		data["pid"] = f.PID
	}
	e := gpu.Event{
		Time: now, Code: gpu.EventDeviceFault, Severity: cmp.Or(f.Severity, gpu.Note), GPU: f.GPU, Text: f.String(), Data: data,
	}
	u := m.unit(f.GPU)
	if u == nil {
		e.Text = "The driver reported a fault without saying on which GPU: " + e.Text
		m.emit(e)
		return
	}
	e.Text = u.description().Label() + ": " + e.Text
	settings, _, _ := m.control()
	u.judging.Lock()
	defer u.judging.Unlock()
	m.emit(e)
	if health.Quarantines(f.Fault) { // at once, without waiting for the next sample
		m.restand(u, now, func(s *health.Standing) { s.Fail(settings.Health, now, f.Cause()) })
	}
}

// Checked records the outcome of a check of a device that began at a time. A device that
// may leave its quarantine does so with its next sample.
func (m *Monitor) Checked(uuid string, began time.Time, v proof.Verdict, why string) {
	u := m.unit(uuid)
	if u == nil {
		return
	}
	settings, _, _ := m.control()
	u.judging.Lock()
	defer u.judging.Unlock()
	now := time.Now()
	m.restand(u, now, func(s *health.Standing) { s.Checked(settings.Health, began, now, v, why) })
	m.hurry(u)
}

// restand changes the standing of a device, and reports the change. The caller holds
// judging.
func (m *Monitor) restand(u *unit, now time.Time, change func(*health.Standing)) {
	before := u.standing
	change(&u.standing)
	v := u.show(now, u.verdict) // as it was last measured
	u.keep(v, nil)
	m.tell(append(m.ofStanding(u, now, before), u.ofState(now, v, nil)...)...)
	m.tellReading(u, false)
	m.tellParts(u)
}
