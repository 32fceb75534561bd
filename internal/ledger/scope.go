package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/kin"
	"github.com/berth-gpu/berth/internal/lease"
)

// Rescope changes which control groups the processes of a lease are told by. A
// fence of zero means whichever there is.
func (l *Ledger) Rescope(ctx context.Context, name lease.Name, fence uint64, add, remove []string, by access.Actor) (*lease.Lease, error) {
	var changed *lease.Lease
	err := l.submitFor(ctx, by, func(now time.Time) error {
		k, err := l.book.Seek(&by, access.Scope, name, fence)
		if err != nil {
			return err
		}
		e, err := l.apply(lease.Rescope{Key: k, Fence: fence, Add: add, Remove: remove, By: by}, now)
		changed = e.After
		return err
	})
	return changed, err
}

// HolderInUnit returns who holds a lease for the processes of a systemd unit or a
// container: about, or the user of those processes if an administrator asks. It
// refuses those who may not speak for every process there. The note says that
// there is none yet.
func (l *Ledger) HolderInUnit(unit string, by access.Actor, about lease.Holder) (holder lease.Holder, note string, err error) {
	if kin.SharedUnit(unit) {
		return about, "", lease.FieldErrors{{Field: "unit", Detail: fmt.Sprintf("is %q, which many programs share; name the service or the container of one program", unit)}}
	}
	uids := map[int]bool{}
	for _, pid := range l.census.PIDs() {
		facts := kin.Facts{Cgroups: l.census.Cgroups(pid)}
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
