package monitor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// scanPeriod and scanRetry are how often to look for new devices. New devices
// are rare, and the sampler of a device notices when it comes back; after a
// failure it pays to try sooner.
const (
	scanPeriod   = time.Minute
	scanRetry    = 10 * time.Second
	scanDeadline = 10 * time.Second // eight sleeping devices take seconds to wake up
)

// source is one backend and what the monitor knows about it.
type source struct {
	backend device.Backend

	// Each channel holds a token while its call is in the driver, so that no
	// second call queues up behind one that hangs.
	scanning, watching chan struct{}

	// guarded by Monitor.mu
	scanDue time.Time
	failing bool // the last scan failed, and an event said so
}

func newSource(b device.Backend) *source {
	return &source{backend: b, scanning: make(chan struct{}, 1), watching: make(chan struct{}, 1)}
}

func (m *Monitor) scanDue(src *source) time.Time {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return src.scanDue
}

// scan looks for devices and adopts the new ones.
func (m *Monitor) scan(ctx context.Context, src *source) error {
	err := m.askScan(ctx, src)
	if ctx.Err() != nil {
		return fmt.Errorf("look for devices (%s): %w", src.backend.Name(), ctx.Err())
	}
	period := scanPeriod
	if err != nil {
		period = scanRetry
		err = fmt.Errorf("look for devices (%s): %w", src.backend.Name(), err)
	}
	now := time.Now()
	m.mu.Lock()
	src.scanDue = now.Add(period)
	news := src.failing != (err != nil)
	src.failing = err != nil
	m.mu.Unlock()
	if news {
		m.tellScan(src, now, err)
	}
	return err
}

func (m *Monitor) tellScan(src *source, now time.Time, err error) {
	e := gpu.Event{Time: now, Code: gpu.EventMonitoring, Severity: gpu.Note}
	e.Text = fmt.Sprintf("Looking for devices (%s) works again", src.backend.Name())
	if err != nil {
		e.Severity = gpu.Warning
		e.Text = fmt.Sprintf("Cannot %v; berth tries again every %v", err, scanRetry)
	}
	m.emit(e)
}

// askScan asks the driver. The result of a scan that comes back too late still
// counts while the monitor runs: a scan may take long once, while the devices
// wake up.
func (m *Monitor) askScan(ctx context.Context, src *source) error {
	limited, cancel := context.WithTimeout(ctx, scanDeadline)
	defer cancel()
	select {
	case src.scanning <- struct{}{}:
	case <-limited.Done():
		return device.ErrHung
	}
	done := make(chan error, 1)
	go func() {
		found, err := src.backend.Scan(limited)
		if err == nil && ctx.Err() == nil {
			m.adopt(src, found)
		}
		<-src.scanning
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-limited.Done():
		return device.ErrHung
	}
}

// adopt takes over what a scan found: new devices get a unit, known ones a
// fresh description. A device that is not found any more keeps its unit, which
// finds out by itself. If two backends know the same device, the first one gets
// it.
func (m *Monitor) adopt(src *source, found []device.Device) {
	m.adopting.Lock()
	defer m.adopting.Unlock()
	now := time.Now()
	units := slices.Clone(m.list())
	var fresh []*unit
	for _, d := range found {
		described := d.Describe()
		i := slices.IndexFunc(units, func(u *unit) bool { return u.uuid == described.UUID })
		switch {
		case i < 0:
			u := newUnit(src, d, now, m.before[d.Describe().UUID])
			u.judging.Lock() // so that device_found is its first event
			units, fresh = append(units, u), append(fresh, u)
		case units[i].source == src:
			units[i].describe(described)
		}
	}
	slices.SortStableFunc(units, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(a.description().Index, b.description().Index), cmp.Compare(a.uuid, b.uuid))
	})
	m.mu.Lock()
	for _, u := range fresh {
		u.resize(m.settings.HistorySize)
	}
	m.units = units
	m.startSamplers()
	m.mu.Unlock()
	for _, u := range fresh {
		m.tellFound(u, now)
		u.judging.Unlock()
	}
}
