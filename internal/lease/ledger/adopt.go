package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Adoption asks to put a process that already runs under a lease.
type Adoption struct {
	ID     string
	Holder lease.Holder // the process; see HolderOf
	GPU    string       // UUID; empty for the devices that the process is seen on
	Memory gpu.MiB      // zero for what it uses now, plus a margin where there is room for one
	By     access.Actor // who asks
	// TimeLimit and Limits are those of lease.Request.
	TimeLimit time.Duration
	Limits    *lease.Limits
}

// ErrNotSeen refuses to adopt a process that no device lists.
var ErrNotSeen = errors.New("no device lists the process")

// ErrCovered refuses to adopt a process if everything that it uses is leased.
var ErrCovered = errors.New("everything that the process uses is under a lease already")

// HolderOf returns the holder of a lease for a process. It refuses an actor who
// may not speak for the process. About describes the holder, and has the pid of
// the process that asks, if that is known.
func (l *Ledger) HolderOf(pid int, by access.Actor, about lease.Holder) (lease.Holder, error) {
	return l.census.holder(pid, by, about)
}

// Adopt grants a lease over what a process uses already. That takes nothing more from the
// device, so Adopt grants it even if the device has no room left. What the caller asks
// for beyond it must fit, and must not delay waiting requests.
func (l *Ledger) Adopt(ctx context.Context, a Adoption) (*lease.Lease, error) {
	id := process.ID{PID: a.Holder.PID, Start: a.Holder.Start}
	if slices.Contains(l.census.ownLine(), id) {
		return nil, fmt.Errorf("adopt process %d: %w", id.PID, ErrNoHolder)
	}
	var granted *lease.Lease
	err := l.submitFor(ctx, a.By, func(now time.Time) error {
		x := adopting{Adoption: a, l: l, process: id}
		note, err := x.decide()
		if err != nil {
			return err
		}
		granted = &lease.Lease{
			ID: a.ID, Holder: x.Holder, Binding: lease.ByProcess, TimeLimit: x.TimeLimit, Imposed: x.imposed, Unchosen: x.unchosen, Parts: x.parts, Terms: lease.Terms{EnforcedBy: "watchdog", Note: note},
			Groups: quota.GroupNames(x.limits), By: a.By,
		}
		_, err = l.apply(lease.Grant{Lease: granted, Adopted: x.measured}, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.deliver(ctx, granted)
}

// adopting is an adoption that is being decided. The clerk calls its methods,
// with the lock of the ledger.
type adopting struct {
	Adoption
	l       *Ledger
	process process.ID

	limits   *lease.Limits // of the holder; nil means no limits
	imposed  bool          // see lease.Lease
	unchosen bool          // see lease.Lease
	parts    []lease.Part
	measured []gpu.MiB // by part: the memory that the process uses there
	total    gpu.MiB   // on all devices: the memory that it uses, plus what grow has added
}

// decide finds the parts of the lease and returns a note for people, or an error
// that refuses the adoption.
func (x *adopting) decide() (note string, err error) {
	if err := x.admit(); err != nil {
		return "", err
	}
	if x.see(); len(x.parts) == 0 {
		return "", x.whyNotSeen()
	}
	for _, m := range x.measured {
		x.total += m
	}
	err = quota.Within(x.l.book, x.limits, x.Holder, lease.Usage{Memory: x.total}, 1)
	if err == nil {
		err = quota.WithinGPUs(x.l.book, x.limits, &lease.Request{Holder: x.Holder, GPUs: len(x.parts)})
	}
	if err != nil {
		return "", fmt.Errorf("adopt process %d as %s: %w", x.process.PID, x.ID, err)
	}
	if x.Memory == 0 {
		return x.addMargins(), nil
	}
	for i, p := range x.parts {
		if err := x.grow(p.GPU, max(p.Memory-x.measured[i], 0)); err != nil {
			return "", err
		}
	}
	return "", nil
}

// admit refuses an id that is in use, and a service that the user may not use,
// and applies the limits of the user that are about one lease. It does not apply
// the minimum, maximum and quota of the service: those are for requests, and this
// process runs already.
func (x *adopting) admit() error {
	if x.l.book.InUse(x.Holder.Owner(), x.ID) {
		return fmt.Errorf("adopt process %d as %s: %w", x.process.PID, x.ID, lease.ErrDuplicate)
	}
	if x.limits = x.l.settings.Limits.For(x.Holder, x.Limits, &x.By); x.limits != nil {
		r := lease.Request{Holder: x.Holder, Binding: lease.ByProcess, TimeLimit: x.TimeLimit, Imposed: x.TimeLimit != 0 && kinship.MandateOf(x.By).All}
		if err := quota.Apply(x.limits, &r); err != nil {
			return fmt.Errorf("adopt process %d as %s: %w", x.process.PID, x.ID, err)
		}
		x.Holder, x.TimeLimit, x.imposed, x.unchosen = r.Holder, r.TimeLimit, r.Imposed, r.Unchosen
	}
	if err := x.l.settings.Knows(x.Holder.Service); err != nil {
		return err
	}
	service := x.l.settings.Services[x.Holder.Service]
	_, err := quota.Admit(quota.Service{Name: x.Holder.Service, Users: service.Users, Nameless: service.Nameless}, lease.Request{Holder: x.Holder}, lease.Usage{})
	return err
}

// see finds what the process and its descendants use under no lease yet.
func (x *adopting) see() {
	for _, uuid := range slices.Sorted(maps.Keys(x.l.devices)) {
		if x.GPU != "" && x.GPU != uuid || !x.l.devices[uuid].Leasable() { // of one that is cut, the instances list the process too
			continue
		}
		here := x.l.standing.holdings(uuid)
		var used gpu.MiB
		for _, u := range x.l.devices[uuid].used {
			if owners, _ := here.of(u.Process); owners == nil && here.Tied(u.Process, x.process) {
				used += u.memory
			}
		}
		memory := x.Memory
		if memory == 0 {
			memory = used
		}
		if memory > 0 && (used > 0 || x.GPU != "") {
			x.parts, x.measured = append(x.parts, lease.Part{GPU: uuid, Memory: memory}), append(x.measured, used)
		}
	}
}

// whyNotSeen returns why nothing of the process can be adopted.
func (x *adopting) whyNotSeen() error {
	for _, uuid := range slices.Sorted(maps.Keys(x.l.devices)) {
		if x.GPU != "" && x.GPU != uuid {
			continue
		}
		here := x.l.standing.holdings(uuid)
		for _, u := range x.l.devices[uuid].used {
			if owners, _ := here.of(u.Process); len(owners) > 0 && here.Tied(u.Process, x.process) {
				return fmt.Errorf("adopt process %d: %w: %s, on %s", x.process.PID, ErrCovered, owners[0].Lease.ID, uuid)
			}
		}
	}
	return fmt.Errorf("adopt process %d: %w; to lease for it anyway, give a gpu and an amount of memory", x.process.PID, ErrNotSeen)
}

// addMargins adds a margin to each part where the device has room for it, and
// returns a note that says so.
func (x *adopting) addMargins() (note string) {
	const least = gpu.MiB(256)
	tight := 0
	for i, p := range x.parts {
		margin := max(p.Memory/10, least)
		if x.grow(p.GPU, margin) == nil {
			x.parts[i].Memory += margin
		} else {
			tight++
		}
	}
	if tight > 0 {
		return "the device has no room for more than the process uses now, so it is over its limit as soon as it grows"
	}
	return "the process may grow by a tenth of what it uses now, but at least by " + least.String()
}

// grow adds memory on a device beyond what the process uses already. It refuses
// by the rules for a request that does not wait. It checks the quota of the
// service against everything that the process is going to have.
func (x *adopting) grow(uuid string, more gpu.MiB) error {
	if more == 0 {
		return nil
	}
	growth := &lease.Request{ID: x.ID, Holder: x.Holder, GPUs: 1, Memory: more, Where: gpu.Where{GPU: uuid}, By: x.By, Limits: x.Limits}
	before, whole := x.l.adviceBefore(growth), *growth
	whole.Memory += x.total
	if err := x.l.overQuota(&whole, before); err != nil {
		return err
	}
	if x.l.refusal(growth, before) != nil {
		return x.l.whyNot(growth)
	}
	x.total += more
	return nil
}
