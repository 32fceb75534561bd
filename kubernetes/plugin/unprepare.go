package plugin

import (
	"context"
	"fmt"
)

// unprepareAll undoes the Prepare of claims, and returns the result for each.
func (d *Driver) unprepareAll(ctx context.Context, uids []string) map[string]error {
	done := map[string]error{}
	unlock, err := d.lock.take(ctx)
	if err == nil {
		defer unlock()
	}
	for _, uid := range uids {
		done[uid] = err
		if err == nil {
			done[uid] = d.unprepare(ctx, uid)
		}
		if done[uid] != nil {
			d.o.Log.Warn("claim not unprepared", "uid", uid, "err", done[uid])
		}
	}
	return done
}

// unprepare ends the lease of a claim and removes its files. It may be called again, and
// for a claim that was never prepared. The caller holds the lock.
func (d *Driver) unprepare(ctx context.Context, uid string) error {
	if !goodUID(uid) {
		return fmt.Errorf("the claim has the UID %q, which cannot be the id of a lease", uid)
	}
	st, err := d.states.get(uid)
	if err != nil { // the UID is the id of the lease, so nothing else is needed
		d.o.Log.Warn("state file ignored", "uid", uid, "err", err)
	}
	if err := d.o.CDI.Remove(uid); err != nil {
		return err
	}
	d.o.Step(StepCDIAway)
	var fence uint64
	if st != nil {
		fence = st.Fence
	}
	if err := d.release(ctx, uid, fence); err != nil {
		return err
	}
	d.o.Step(StepReleased)
	if err := d.states.remove(uid); err != nil {
		return err
	}
	d.forget(uid)
	d.o.Step(StepStateAway)
	return nil
}
