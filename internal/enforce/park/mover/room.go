package mover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/words"
)

const (
	// freeing is how long a driver may take to free memory on a device after it was moved
	// off.
	freeing = 15 * time.Second
	// firstLook and longestLook are the shortest and the longest time between two looks
	// at a device.
	firstLook, longestLook = 50 * time.Millisecond, time.Second
	// remains is how much memory of a process may stay on its device.
	remains gpu.MiB = 16
	// patience is how long memory may wait for room before berth tells people.
	patience = 10 * time.Second
)

// sample measures a device now.
func (p *Mover) sample(ctx context.Context, uuid string) (gpu.Sample, error) {
	began := time.Now()
	p.Monitor.Read(ctx, uuid)
	r, found := p.Monitor.Find(uuid)
	if !found || r.Sample.Time.Before(began) {
		if err := context.Cause(ctx); err != nil {
			return gpu.Sample{}, err
		}
		return gpu.Sample{}, errors.New("its device cannot be measured now")
	}
	return r.Sample, nil
}

// awaitRoom waits until a device has room for the memory that comes back to it, as
// measured: a process that finds none is lost. It keeps the room until release is called.
// Memory beyond the size of the lease, and all memory of a lease that has ended, must be
// memory that nobody else has leased. If the wait is long, awaitRoom closes the session,
// which others may need.
func (p *Mover) awaitRoom(ctx context.Context, r *record, memory gpu.MiB, on []move.Process, m *movement) (release func(), err error) {
	began, told := time.Now(), false
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		release, why := p.takeRoom(ctx, r, memory)
		if release != nil {
			if told {
				p.fail(r, "")
			}
			return release, nil
		}
		if !told && time.Since(began) > patience {
			told = true
			p.fail(r, why)
			p.Publish(r.event(gpu.EventResuming, gpu.Warning, fmt.Sprintf("%s waits on its way back: %s", r.Key.ID, why), map[string]any{"memory_mb": memory}))
		}
		if pause == longestLook {
			m.close()
		}
		if err := wait(ctx, pause); err != nil {
			return nil, err
		}
		if ended(p.Processes, on) {
			return func() {}, nil // they have ended, as the driver will report
		}
		_ = p.hasEnded(r)
	}
}

// takeRoom takes the room on a device, or says why there is none.
func (p *Mover) takeRoom(ctx context.Context, r *record, memory gpu.MiB) (release func(), why string) {
	select {
	case p.roomLock <- struct{}{}:
		defer func() { <-p.roomLock }()
	case <-ctx.Done():
		return nil, "the daemon is stopping"
	}
	open := func() {}
	if beyond := memory - p.leased(r); beyond > 0 {
		if pause := p.hangs(r); pause > 0 {
			return nil, fmt.Sprintf("it needs %s beyond what it has leased, and did not answer when its device was closed to others for that; berth tries again in %s", beyond, words.Duration(pause))
		}
		var err error
		if open, err = p.Closures.Hold(r.GPU, "berth brings the memory of a program back to it"); err != nil {
			return nil, err.Error()
		}
		if left := p.Leases.Sums()[r.GPU].Available(); left < beyond {
			open()
			return nil, fmt.Sprintf("it needs %s beyond what it has leased, and %s of its device can be leased", beyond.Beside(left), max(left, 0).Beside(beyond))
		}
	}
	s, err := p.sample(ctx, r.GPU)
	if err != nil {
		open()
		return nil, err.Error()
	}
	free, known := s.MemoryFree.Get()
	if total, ok := s.MemoryTotal.Get(); !known && ok {
		if used, ok := s.MemoryUsed.Get(); ok {
			free, known = total-used, true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if free -= p.coming[r.GPU]; !known || free < memory {
		open()
		return nil, fmt.Sprintf("%s of its device are free, as measured, and it needs %s", max(free, 0).Beside(memory), memory.Beside(free))
	}
	p.coming[r.GPU] += memory
	return func() {
		p.mu.Lock()
		p.coming[r.GPU] -= memory
		p.mu.Unlock()
		p.Monitor.Read(context.WithoutCancel(ctx), r.GPU)
		open()
	}, ""
}

// leased returns how much a lease may have of its device, or 0 if it has ended.
func (p *Mover) leased(r *record) gpu.MiB {
	if held := p.Leases.Lease(r.Key, r.Fence); held != nil {
		return held.Parts[0].Memory
	}
	return 0
}

// place is a device and an owner whose programs use it.
type place struct {
	owner lease.Owner
	gpu   string
}

// hangs returns for how long no device is closed for a lease, because programs of its
// owner did not come back to the device.
func (p *Mover) hangs(r *record) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.hung[place{r.Key.Owner, r.GPU}].until)
}

// hang notes that programs of a lease did not come back while its device was closed for
// them. A user can stop programs on purpose, and begin again with other leases, so it
// counts for all leases of the owner, and each time doubles the pause.
func (p *Mover) hang(r *record) {
	const longest = 24 * time.Hour
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(p.hung, func(_ place, b bar) bool { return now.Sub(b.until) > longest })
	at := place{r.Key.Owner, r.GPU}
	b := p.hung[at]
	p.hung[at] = bar{until: now.Add(min(time.Minute<<min(b.times, 11), longest)), times: b.times + 1}
}

// awaitGone waits until measurements show that a device is free of the memory of a lease.
func (p *Mover) awaitGone(ctx context.Context, r *record) error {
	pids := map[int]bool{}
	for _, m := range r.Processes {
		pids[m.PID] = true
	}
	began := time.Now()
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		s, err := p.sample(ctx, r.GPU)
		left := gpu.MiB(0)
		switch {
		case err != nil:
		case s.Processes == nil:
			err = errors.New("the driver does not say which processes are on the device")
		default:
			for _, on := range s.Processes {
				if used := on.Memory.Or(0); pids[on.PID] && used > remains {
					left += used
				}
			}
			if left == 0 {
				return nil
			}
			err = fmt.Errorf("%s of its memory stay on the device", left)
		}
		if time.Since(began) > freeing {
			return err
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

// ended reports whether all of the processes have ended. One that cannot be looked at now has
// not.
func ended(table process.Table, on []move.Process) bool {
	return !slices.ContainsFunc(on, func(id move.Process) bool { return !table.Ended(process.ID(id)) })
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
