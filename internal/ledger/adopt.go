package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	Memory gpu.MiB      // zero: what it uses now
}

// ErrNotSeen refuses to adopt a process that is on no device.
var ErrNotSeen = errors.New("the process is not seen on any device")

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
	about.PID, about.Start, about.Boot = id.PID, id.Start, l.boot
	if about.Name == "" || by.PID != pid {
		about.Name = l.processes.Name(pid)
	}
	if by.PID != pid && by.UID != uid { // an administrator speaks for somebody
		about.UID, about.User = uid, ""
	}
	if about.User == "" {
		about.UID, about.User = uid, process.UserName(uid)
	}
	return about, nil
}

// Adopt grants a lease over what a process uses already. It does not take more
// of the device, so it is granted also where there is no room left.
func (l *Ledger) Adopt(ctx context.Context, a Adoption) (*lease.Lease, error) {
	var granted *lease.Lease
	err := l.submit(ctx, func(now time.Time) error {
		parts, measured := l.seenOn(processOf(&lease.Lease{Holder: a.Holder}), a)
		if len(parts) == 0 {
			return fmt.Errorf("adopt process %d: %w: it is listed once it uses a GPU; name a gpu and the memory to lease them for it", a.Holder.PID, ErrNotSeen)
		}
		granted = &lease.Lease{ID: a.ID, Holder: a.Holder, Binding: lease.ByProcess, Parts: parts, EnforcedBy: "none"}
		_, err := l.apply(lease.Grant{Lease: granted, Adopted: measured}, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return granted, l.attend(granted)
}

// seenOn is what a process and its descendants use, as parts of a lease. The
// caller holds mu.
func (l *Ledger) seenOn(id process.ID, a Adoption) (parts []lease.Part, measured []gpu.MiB) {
	for _, uuid := range slices.Sorted(maps.Keys(l.devices)) {
		o := l.devices[uuid]
		if a.GPU != "" && a.GPU != uuid || o.Sample == nil {
			continue
		}
		var used gpu.MiB
		for _, u := range l.kin.resolve(l.processes, o.Sample.Processes) {
			if slices.Contains(u.line, id) {
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
