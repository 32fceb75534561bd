package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// Adoption puts a process that already runs under a lease.
type Adoption struct {
	ID     string
	Holder lease.Holder // the process; see HolderOf
	GPU    string       // UUID; empty: the devices it is seen on
	Memory gpu.MiB      // zero: what it uses now, and a margin where there is room for it
	By     lease.Actor  // who asks
}

// ErrNotSeen refuses to adopt a process that is on no device.
var ErrNotSeen = errors.New("the process is not seen on any device")

// ErrCovered refuses to adopt a process that uses nothing but what is leased.
var ErrCovered = errors.New("all that the process uses is under a lease already")

// HolderOf makes a process the holder of a lease, if the one who asks may
// speak for it: it is theirs, or they may do everything.
func (l *Ledger) HolderOf(pid int, by lease.Actor, about lease.Holder) (lease.Holder, error) {
	id, err := l.processes.Identify(pid)
	if err != nil {
		return about, err
	}
	uid, err := l.processes.UID(pid)
	if err != nil {
		return about, err
	}
	if !by.Any && uid != by.UID {
		return about, fmt.Errorf("process %d: %w", pid, lease.ErrNotYours)
	}
	if pid == 1 && by.PID != pid { // everything descends from it
		return about, fmt.Errorf("process %d: %w", pid, ErrNoHolder)
	}
	about.PID, about.Start, about.Boot = id.PID, id.Start, l.boot
	if about.Name == "" || by.PID != pid {
		about.Name = l.processes.Name(pid)
	}
	if by.PID != pid && by.UID != uid { // an administrator speaks for somebody
		about.UID, about.User = uid, ""
	}
	if about.User == "" {
		about.UID, about.User = uid, l.userName(uid)
	}
	return about, nil
}

// userName returns the login name of a user, or the number in decimal.
func (l *Ledger) userName(uid int) string {
	if l.names == nil {
		return strconv.Itoa(uid)
	}
	return l.names.Of(uid)
}

// Adopt grants a lease over what a process uses already. That takes no more of
// the device, so it is granted also where there is no room left. What is asked
// for beyond it has to be there, and must not delay those who wait.
func (l *Ledger) Adopt(ctx context.Context, a Adoption) (*lease.Lease, error) {
	id := process.ID{PID: a.Holder.PID, Start: a.Holder.Start}
	if slices.Contains(l.ownLine(), id) {
		return nil, fmt.Errorf("adopt process %d: %w", id.PID, ErrNoHolder)
	}
	var granted *lease.Lease
	err := l.submitFor(ctx, a.By, func(now time.Time) error {
		if err := l.mayAdopt(a); err != nil {
			return err
		}
		parts, measured := l.seenOn(id, a)
		if len(parts) == 0 {
			return l.whyNotSeen(id, a)
		}
		var used gpu.MiB
		for _, m := range measured {
			used += m
		}
		note := ""
		if a.Memory == 0 {
			note = l.addMargins(a, parts, used)
		} else {
			for i, p := range parts {
				more := max(p.Memory-measured[i], 0)
				if err := l.mayGrow(a, p.GPU, more, used); err != nil {
					return err
				}
				used += more
			}
		}
		granted = &lease.Lease{ID: a.ID, Holder: a.Holder, Binding: lease.ByProcess, Parts: parts, EnforcedBy: "watchdog", Note: note}
		_, err := l.apply(lease.Grant{Lease: granted, Adopted: measured}, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.deliver(ctx, granted)
}

// addMargins lets what a process uses now grow a little, where there is room for
// that, and says what it did. Used is what it uses on all devices. The caller
// holds mu.
func (l *Ledger) addMargins(a Adoption, parts []lease.Part, used gpu.MiB) string {
	const least = gpu.MiB(256)
	tight := 0
	for i, p := range parts {
		margin := max(p.Memory/10, least)
		if l.mayGrow(a, p.GPU, margin, used) == nil {
			parts[i].Memory += margin
			used += margin
		} else {
			tight++
		}
	}
	if tight > 0 {
		return "there is no room for more than it uses now, so it is over its limit as soon as it grows"
	}
	return "it may grow by a tenth of what it uses now, and at least by " + least.String()
}

// whyNotSeen says why nothing of a process can be adopted. The caller holds mu.
func (l *Ledger) whyNotSeen(id process.ID, a Adoption) error {
	for _, uuid := range slices.Sorted(maps.Keys(l.devices)) {
		byProcess, _ := l.byProcess(uuid)
		for _, u := range l.devices[uuid].used {
			if owners := ownersOf(u.line, byProcess); (a.GPU == "" || a.GPU == uuid) && slices.Contains(u.line, id) && len(owners) > 0 {
				return fmt.Errorf("adopt process %d: %w: %s, on %s", id.PID, ErrCovered, owners[0].Lease.ID, uuid)
			}
		}
	}
	return fmt.Errorf("adopt process %d: %w: name a gpu and the memory to lease them for it all the same", id.PID, ErrNotSeen)
}

// mayAdopt refuses an id that is in use and a service that is not for
// everybody. The minimum, maximum and quota of a service are for those who
// ask first. The caller holds mu.
func (l *Ledger) mayAdopt(a Adoption) error {
	if l.book.Lease(a.ID) != nil || l.book.Request(a.ID) != nil {
		return fmt.Errorf("adopt process %d as %s: %w", a.Holder.PID, a.ID, lease.ErrDuplicate)
	}
	if !a.By.Any {
		if err := l.book.Crowded(a.Holder.User, false); err != nil {
			return fmt.Errorf("adopt process %d as %s: %w", a.Holder.PID, a.ID, err)
		}
	}
	service := l.settings.Services[a.Holder.Service]
	_, err := lease.Admit(lease.Service{Name: a.Holder.Service, Users: service.Users}, lease.Request{Holder: a.Holder}, lease.Usage{})
	return err
}

// mayGrow refuses memory on a device beyond what a process uses already, by the
// rules for a request that does not want to wait. The quota of its service is
// asked about all that it is going to have: so much so far. The caller holds mu.
func (l *Ledger) mayGrow(a Adoption, uuid string, more, soFar gpu.MiB) error {
	if more == 0 {
		return nil
	}
	growth := &lease.Request{ID: a.ID, Holder: a.Holder, GPUs: 1, Memory: more, Where: gpu.Where{GPU: uuid}}
	before, whole := l.lineBefore(growth), *growth
	whole.Memory += soFar
	if err := l.overQuota(&whole, before); err != nil {
		return err
	}
	if l.refusal(growth, before) == nil {
		return nil
	}
	return l.whyNot(growth)
}

// seenOn is what a process and its descendants use under no lease yet, as parts
// of a lease. The caller holds mu.
func (l *Ledger) seenOn(id process.ID, a Adoption) (parts []lease.Part, measured []gpu.MiB) {
	for _, uuid := range slices.Sorted(maps.Keys(l.devices)) {
		if a.GPU != "" && a.GPU != uuid {
			continue
		}
		var used gpu.MiB
		for _, u := range l.devices[uuid].used {
			if slices.Contains(u.line, id) && !l.holdsAny(u.line, uuid) {
				used += u.memory
			}
		}
		memory := a.Memory
		if memory == 0 {
			memory = used
		}
		if memory > 0 && (used > 0 || a.GPU != "") {
			parts, measured = append(parts, lease.Part{GPU: uuid, Memory: memory}), append(measured, used)
		}
	}
	return parts, measured
}
