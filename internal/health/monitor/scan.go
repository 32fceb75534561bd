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

// scanPeriod and scanRetry are how often to look for new devices. New devices are rare,
// and the sampler of a device notices when it comes back; after a failure it pays to try
// sooner.
const (
	scanPeriod   = time.Minute
	scanRetry    = 10 * time.Second
	scanDeadline = 10 * time.Second // eight sleeping devices take seconds to wake up

	orderPatience = 5 * time.Second // see wait
)

// source is one backend and what the monitor knows about it.
type source struct {
	backend device.Backend

	// Each channel holds a token while its call is in the driver, so that no
	// second call queues up behind one that hangs.
	scanning, watching chan struct{}

	before *source       // the source numbered before it; nil for the first
	once   chan struct{} // closed after the first scan, even if it failed

	// guarded by Monitor.adopting
	shift    int // added to the indexes of its devices
	numbered bool

	// guarded by Monitor.mu
	scanDue time.Time
	failing bool // whether the last scan failed, and an event said so
	scanned bool // whether once is closed
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
	if !src.scanned {
		src.scanned = true
		close(src.once)
	}
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

// askScan calls the driver. A late result still counts while the monitor runs: a scan may
// take long once, while the devices wake up.
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
		src.wait(limited)
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

// wait waits for the first scan of the source before this one, so that devices get the
// same numbers at every start, whichever driver answers first. A driver that hangs delays
// the others once, and no longer than orderPatience.
func (s *source) wait(ctx context.Context) {
	if s.before == nil {
		return
	}
	patience, cancel := context.WithTimeout(ctx, orderPatience)
	defer cancel()
	select {
	case <-s.before.once:
	case <-patience.Done():
	}
}

// number returns the index of a device among all devices: those of the sources before
// come first. A device keeps its number while the monitor runs; if another device has the
// number that it should get, it gets the next free one. The caller holds adopting.
func (m *Monitor) number(src *source, units []*unit, d *gpu.Device) int {
	taken := map[int]bool{}
	for _, u := range units {
		if u.uuid != d.UUID {
			taken[u.description().Index] = true
		}
	}
	index := d.Index + src.shift
	for taken[index] {
		index++
	}
	return index
}

// order sets the shift of a source when its first devices are found: 0, unless one of the
// indexes is taken. The caller holds adopting.
func (m *Monitor) order(src *source, units []*unit, found []device.Device) {
	if src.numbered || len(found) == 0 {
		return
	}
	src.numbered = true
	next, taken := 0, false
	for _, u := range units {
		index := u.description().Index
		next = max(next, index+1)
		taken = taken || slices.ContainsFunc(found, func(d device.Device) bool {
			own := d.Describe()
			return own.Index == index && own.UUID != u.uuid
		})
	}
	if taken {
		src.shift = next
	}
}

// adopt takes over the result of a scan: new devices get a unit, known ones a fresh
// description. A device that the scan did not find keeps its unit, which finds out by
// itself. If two backends know the same device, the first one gets it.
func (m *Monitor) adopt(src *source, found []device.Device) {
	m.adopting.Lock()
	defer m.adopting.Unlock()
	now := time.Now()
	units := slices.Clone(m.list())
	var fresh []*unit
	m.order(src, units, found)
	for _, d := range found {
		described := d.Describe()
		known := find(units, described.UUID)
		own := described.Index
		if known == nil || known.own != own {
			described.Index = m.number(src, units, &described)
		} else {
			described.Index = known.description().Index
		}
		switch {
		case known == nil:
			u := newUnit(src, d, described, now, m.before[described.UUID], m.Heat[described.UUID])
			u.judging.Lock() // so that device_found is its first event
			units, fresh = append(units, u), append(fresh, u)
		case known.source == src:
			known.own = own
			known.describe(described)
		}
	}
	slices.SortStableFunc(units, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(a.description().Index, b.description().Index), cmp.Compare(a.uuid, b.uuid))
	})
	for _, u := range units {
		if u.whole.Load() == nil && u.description().Parent != "" {
			if whole := find(units, u.description().Parent); whole != u {
				u.whole.Store(whole)
			}
		}
	}
	m.mu.Lock()
	for _, u := range fresh {
		u.history.resize(m.settings.HistorySize) // nobody else knows it yet
	}
	m.units = units
	m.startSamplers()
	m.mu.Unlock()
	for _, u := range fresh {
		m.tellFound(u, now)
		u.judging.Unlock()
	}
}
