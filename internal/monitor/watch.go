package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health"
)

// watchRetry is how long to wait after a watch failed.
const watchRetry = 10 * time.Second

// watch listens for faults while the monitor is on, until ctx ends.
func (m *Monitor) watch(ctx context.Context, src *source) {
	var next time.Time // zero: at once
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
			if !told || now.Sub(begun) > watchRetry { // once for failures in a row
				m.tellWatch(src, now, err)
			}
			told = true
		}
	})
}

func (m *Monitor) tellWatch(src *source, now time.Time, err error) {
	m.emit(gpu.Event{
		Time: now, Code: gpu.EventMonitoring, Severity: gpu.Warning,
		Text: fmt.Sprintf("Cannot watch for faults (%s): %v; trying again every %v", src.backend.Name(), err, watchRetry),
	})
}

var errWatchEnded = errors.New("the driver stopped reporting")

// askWatch listens until the monitor is switched off or ctx ends, and is nil
// then. A watch that does not return when it is told to keeps this backend
// waiting, and nobody else.
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

// faulted takes a fault that a driver reported.
func (m *Monitor) faulted(f device.Fault) {
	now := time.Now()
	e := gpu.Event{
		Time: now, Code: gpu.EventDeviceFault, Severity: faultSeverity(f.Class), GPU: f.GPU, Text: faultText(f),
		Data: map[string]any{"kind": string(f.Kind), "class": string(f.Class)},
	}
	if f.Kind == device.FaultXID {
		e.Data["xid"] = f.Code
	}
	if f.PID > 0 {
		e.Data["pid"] = f.PID
	}
	u := m.unit(f.GPU)
	if u == nil {
		m.emit(e)
		return
	}
	e.Text = name(u.description()) + ": " + e.Text
	settings, _, _ := m.control()
	u.judging.Lock()
	defer u.judging.Unlock()
	m.emit(e)
	if f.Class == device.ClassDevice {
		m.quarantine(u, settings.Health, now, cause(f))
	}
}

// quarantine closes a device at once, without waiting for the next sample. The
// caller holds judging.
func (m *Monitor) quarantine(u *unit, rules health.Rules, now time.Time, why string) {
	before := u.standing
	u.standing.Fail(rules, now, why)
	v := u.show(now, u.verdict) // as it was last measured
	u.keep(v, nil)
	m.tellStanding(u, now, before)
	m.tellState(u, now, v, nil)
	m.tellReading(u)
}

func faultText(f device.Fault) string {
	switch {
	case f.Text != "":
		return f.Text
	case f.Kind == device.FaultXID:
		return fmt.Sprintf("XID %d", f.Code)
	}
	return string(f.Kind)
}

// cause is a fault in a few words.
func cause(f device.Fault) string {
	if f.Kind == device.FaultXID {
		xid := device.DescribeXID(f.Code)
		return fmt.Sprintf("XID %d, %s", xid.Code, xid.Name)
	}
	return faultText(f)
}

func faultSeverity(c device.FaultClass) gpu.Severity {
	switch c {
	case device.ClassDevice:
		return gpu.Serious
	case device.ClassApplication:
		return gpu.Warning
	}
	return gpu.Note
}
