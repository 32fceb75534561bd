package ledger

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// ScopeProblem returns why a scope must not have one of these names, or "" if it may have
// all of them.
func (l *Ledger) ScopeProblem(names []string) string {
	for _, name := range names {
		switch {
		case !kinship.MayScope(name):
			return fmt.Sprintf("has %q, which many programs may share; %s", name, kinship.ScopeForms)
		case l.census.around(name):
			return fmt.Sprintf("has %q, which the daemon itself runs in; name the control group of one program", name)
		}
	}
	units := l.census.unitsOf(names)
	for _, name := range slices.Sorted(maps.Keys(units)) {
		if !kinship.OneUser(units[name]) {
			return fmt.Sprintf("has %q, where processes of root or of several users run; name a unit whose processes are all of one other user", name)
		}
	}
	return ""
}

// around reports whether the daemon runs in or below a control group of this name.
func (c *census) around(name string) bool {
	own := kinship.Facts{Cgroups: c.Cgroups(os.Getpid())}
	return own.Around(name)
}

// unitsOf returns the user ids of the processes in the units of a scope, by unit. An
// unknown user id counts as root.
func (c *census) unitsOf(scope []string) map[string][]kinship.UIDs {
	units := map[string][]kinship.UIDs{}
	for _, pid := range c.PIDs() {
		facts := kinship.Facts{Cgroups: c.Cgroups(pid)}
		if unit, in := facts.ActsOn(scope); in && unit != "" {
			if uids, err := c.UIDs(pid); !errors.Is(err, process.ErrGone) {
				units[unit] = append(units[unit], uids)
			}
		}
	}
	return units
}

// inScope lists the living processes in the scope of a lease that berth may act on,
// without the daemon, its ancestors, and the process that asked for the lease. Barred
// lists those in the scope that berth must not act on: an earlier berth accepted every
// name, and a unit may have other processes now than when it was named.
func (c *census) inScope(held *lease.Lease, holder process.ID, r kinship.Register) (members, barred []process.ID) {
	own := append(c.ownLine(), holder)
	scope := slices.DeleteFunc(slices.Clone(held.Scope), c.around)
	var units map[string][]kinship.UIDs // read for the first process that needs it
	for _, relative := range c.Family() {
		p := kinship.Process{Ancestry: []process.ID{relative.ID}, Facts: c.Facts(relative.ID)}
		if tie, found := r.Scoped(p); !found || !slices.Contains(tie.Leases, held.Fence) || slices.Contains(own, relative.ID) {
			continue
		}
		unit, may := p.ActsOn(scope)
		if may && unit != "" {
			if units == nil {
				units = c.unitsOf(scope)
			}
			may = kinship.OneUser(units[unit])
		}
		if may {
			members = append(members, relative.ID)
		} else {
			barred = append(barred, relative.ID)
		}
	}
	return members, barred
}

// HolderInUnit returns the holder of a lease for the processes of a systemd unit or a
// container: about, or the user of those processes if an administrator asks. It refuses
// an actor who may not speak for every process there. If the unit has no process yet, the
// note says so.
func (l *Ledger) HolderInUnit(unit string, by access.Actor, about lease.Holder) (holder lease.Holder, note string, err error) {
	if kinship.SharedUnit(unit) {
		return about, "", lease.FieldErrors{{Field: "unit", Detail: fmt.Sprintf("is %q, which many programs share; name the service or the container of one program", unit)}}
	}
	uids := map[int]bool{}
	for _, pid := range l.census.PIDs() {
		facts := kinship.Facts{Cgroups: l.census.Cgroups(pid)}
		if !facts.InUnit(unit) {
			continue
		}
		uid, err := l.census.UID(pid)
		if err != nil {
			continue // it has just ended
		}
		if err := access.May(by, access.Speak, access.Of(access.Process, uid, "")); err != nil {
			return about, "", fmt.Errorf("lease for unit %s: process %d: %w", unit, pid, err)
		}
		uids[uid] = true
	}
	switch len(uids) {
	case 0:
		return about, fmt.Sprintf("no process runs in unit %s now; those of user %s are counted when they do", unit, about.User), nil
	case 1:
		for uid := range uids {
			if uid != about.UID {
				about.UID, about.User = uid, l.census.userName(uid)
			}
		}
		return about, "", nil
	}
	return about, "", lease.FieldErrors{{Field: "unit", Detail: fmt.Sprintf("is %s, where processes of %d users run; name a scope instead", unit, len(uids))}}
}
