package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// Resize changes the memory of a lease on each of its devices. It gives memory back at
// once. It takes more only where there is room and where that delays no waiting request;
// it waits for that in the queue, for at most wait, and not at all if wait is zero. A
// lease that berth has shrunk goes before others to get back what it had. The settings of
// its service hold. A fence of zero matches any fence. Limits are those of the actor; if
// nil, the ledger finds those of the holder.
func (l *Ledger) Resize(ctx context.Context, name lease.Name, fence uint64, memory gpu.MiB, by access.Actor, limits *lease.Limits, wait time.Duration) (*lease.Lease, error) {
	return l.into(ctx, by, func(now time.Time) (*lease.Lease, *lease.Request, error) {
		k, err := l.book.Seek(&by, access.Resize, name, fence)
		if err == nil && by.Door != access.Itself {
			err = k.Free()
		}
		if err != nil {
			return nil, nil, err
		}
		resized, err := l.resize(lease.Resize{Key: k, Fence: fence, Memory: memory, By: by}, limits, now)
		if err == nil || wait <= 0 || !mayGrowLater(err) {
			return resized, nil, err
		}
		held := l.book.Standing(k, fence)
		r := held.Growing(max(memory, l.settings.Services[held.Holder.Service].MinMemory))
		r.By, r.Limits = by, limits
		if own := l.limitsOf(&r); own != nil {
			wait = min(wait, own.LongestWait.Or(wait))
		}
		r.Requested, r.Deadline = now, now.Add(min(wait, lease.MaxWait))
		_, err = l.apply(lease.Ask{Request: &r}, now)
		return nil, &r, err
	})
}

// mayGrowLater reports whether a lease that was refused more memory may get it later.
func mayGrowLater(err error) bool {
	refused := (*placement.ResizeError)(nil)
	if errors.As(err, &refused) {
		return refused.Ever
	}
	return quota.Later(err)
}

// Shrink takes memory from a lease whose processes do not use it, if the service allows
// that. The lease gets the memory back when it asks for it; see Resize.
func (l *Ledger) Shrink(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB) (*lease.Lease, error) {
	var shrunk *lease.Lease
	err := l.submit(ctx, func(now time.Time) error {
		to := to
		if held := l.book.Standing(k, fence); held != nil {
			service := l.settings.Services[held.Holder.Service]
			if err := service.MayShrink(held); err != nil {
				return err
			}
			to = max(to, service.MinMemory)
		}
		e, err := l.apply(lease.Resize{Key: k, Fence: fence, Memory: to, By: access.Daemon(), Shrinks: true, Why: "its processes never used more"}, now)
		shrunk = e.After
		return err
	})
	return shrunk, err
}

// Regrow gives a lease back the size that it had before Shrink. It waits for room, and
// goes before others.
func (l *Ledger) Regrow(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB) error {
	_, err := l.Resize(ctx, k.Name(), fence, to, access.Daemon(), nil, lease.MaxWait)
	return err
}

// resize resizes a lease. The caller holds mu.
func (s *state) resize(r lease.Resize, limits *lease.Limits, now time.Time) (*lease.Lease, error) {
	held := s.book.Standing(r.Key, r.Fence)
	if held != nil && (r.Fence == 0 || r.Fence == held.Fence) && access.May(r.By, access.Resize, held.Object()) == nil {
		if err := held.Resizable(); err != nil {
			return nil, fmt.Errorf("resize %s: %w", r.ID, err)
		}
		if bad := lease.MemoryProblem(r.Memory, 1); bad != "" {
			return nil, lease.FieldErrors{{Field: "memory_mb", Detail: bad}}
		}
		var err error
		if r.Memory, err = s.resizable(held, r.Memory, limits, &r.By); err != nil {
			return nil, err
		}
	} // else the book refuses
	e, err := s.apply(r, now)
	return e.After, err
}

// resizable returns the amount that a lease gets if it asks for memory on each of its
// devices, or refuses it by the rules for a request that does not wait. The caller holds
// mu.
func (s *state) resizable(held *lease.Lease, memory gpu.MiB, limits *lease.Limits, by *access.Actor) (gpu.MiB, error) {
	service, known := s.settings.Services[held.Holder.Service]
	memory = max(memory, service.MinMemory)
	if had := held.Parts[0].Memory; known && memory > had {
		used := s.book.ServiceUsage(held.Holder.Service)
		used.Memory -= held.Total().Memory
		used.Slots -= held.Total().Slots
		whole := lease.Request{Holder: held.Holder, GPUs: len(held.Parts), Memory: memory, Slots: held.Parts[0].Slots}
		if _, err := quota.Admit(service.Service, whole, used); err != nil {
			return 0, err
		}
	}
	more := lease.Usage{Memory: memory*gpu.MiB(len(held.Parts)) - held.Total().Memory}
	if err := quota.Within(s.book, s.settings.Limits.For(held.Holder, limits, by), held.Holder, more, 0); err != nil {
		return 0, fmt.Errorf("resize %s: %w", held.ID, err)
	}
	for _, p := range held.Parts {
		if err := s.grow(held, p, memory, limits, by); err != nil {
			return 0, err
		}
	}
	return memory, nil
}

// grow returns an error if a lease cannot have this much memory on a device now. The
// caller holds mu.
func (s *state) grow(held *lease.Lease, p lease.Part, memory gpu.MiB, limits *lease.Limits, by *access.Actor) error {
	more := s.book.Growth(held.Key(), p.GPU, memory)
	if more == 0 {
		return nil
	}
	growth := &lease.Request{ID: held.ID, Run: held.Run, Holder: held.Holder, GPUs: 1, Memory: more, Where: gpu.Where{GPU: p.GPU}, By: *by, Limits: limits}
	var before *placement.Ahead
	if memory > held.Asked { // otherwise berth took the memory, and the lease goes before all others
		before = s.adviceBefore(growth)
	}
	err := s.overQuota(growth, before)
	if err == nil && s.refusal(growth, before) == nil {
		return nil
	}
	if err == nil {
		err = s.whyNot(growth)
	}
	refusal := &placement.ResizeError{Lease: held, GPU: p.GPU, Asked: memory, Most: p.Memory, Why: err}
	if o := s.devices[p.GPU]; o != nil {
		sum, _ := s.book.Sum(p.GPU)
		refusal.Ever = memory <= o.most(sum) || more <= sum.Available()
	}
	noFit, queued := (*placement.NoFitError)(nil), (*placement.QueuedError)(nil)
	switch base := memory - more; { // the memory that it takes already
	case errors.As(err, &noFit):
		refusal.Most = max(base+noFit.LargestNow, p.Memory)
	case errors.As(err, &queued):
		refusal.Most = max(base+queued.LargestNow, p.Memory)
	}
	return refusal
}
