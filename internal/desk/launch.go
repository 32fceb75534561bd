package desk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/words"
)

// equipment returns what a launcher needs to know about the devices of a lease. Cleared
// says who cleared their memory for it; if empty, it is what scrub said when the lease
// was granted, or who does that in general.
func (d *equipper) equipment(granted *lease.Lease, r *resolved, cleared string) *api.Launch {
	cleared = cmp.Or(cleared, d.traces.cleared(granted.Fence))
	e := &api.Launch{Context: d.config().GPU.Context, Isolation: r.isolation, ClearedBy: cleared}
	for _, p := range granted.Parts {
		device := d.ledger.Sum(p.GPU).Device
		device.UUID = p.GPU // even if the device has just gone
		e.Devices = append(e.Devices, device)
	}
	if d.clearedBy != nil && cleared == "" {
		e.ClearedBy = d.clearedBy(e.Devices)
	}
	return e
}

// equip adds to the answer what a launcher needs, if one asks, also for a lease that
// existed before.
func (d *equipper) equip(ctx context.Context, l *api.Lease, granted *lease.Lease, r *resolved, cleared string) error {
	if !r.launched {
		return nil
	}
	l.Launch = d.equipment(granted, r, cleared)
	if err := d.startMPS(ctx, granted, l.Launch); err != nil {
		return err
	}
	if r.environs {
		environ(l, r.caps)
	}
	return nil
}

// environ adds to a lease the environment of its program, for a launcher that starts from
// an empty one.
func environ(l *api.Lease, caps []string) {
	variables, receipt := launch.Environment(*l, l.Launch.Devices, launch.Ladder{
		Context: l.Launch.Context, MPS: l.Launch.MPS, Compute: l.Launch.Compute, Isolation: l.Launch.Isolation, ClearedBy: l.Launch.ClearedBy, Caps: caps,
	}, nil)
	l.Launch.Environment, l.Launch.Receipt = variables, receipt.Sentence
}

// AddLaunch adds to an existing lease what a launcher needs to start a program under it.
// The libraries in caps limit the program to the memory of the lease.
func (d *Leases) AddLaunch(ctx context.Context, by access.Actor, l *api.Lease, held ledger.Held, caps []string) error {
	if err := access.May(by, access.Inspect, access.Of(access.Held, held.Holder.UID, held.Holder.User)); err != nil {
		return Refused(fmt.Errorf("start a program under %s: %w", held.ID, err))
	}
	if bad, fine := knownCaps(caps); !fine {
		return wrongFields(lease.FieldErrors{bad})
	}
	return d.equip.equip(ctx, l, held.Lease, &resolved{launched: true, environs: true, caps: caps, isolation: cmp.Or(l.IsolatedBy, launch.ByEnv)}, "")
}

// startMPS starts what a lease that MPS enforces needs. If it fails, the lease must not
// remain: nothing would enforce it.
func (d *equipper) startMPS(ctx context.Context, granted *lease.Lease, e *api.Launch) error {
	if granted.EnforcedBy != launch.MPS {
		return nil
	}
	pipe, err := d.mps.Use(ctx, granted.Parts[0].GPU, granted.Holder.UID, granted.Fence)
	if err != nil {
		return because(err, Conflict, "mps_failed", "Try again, or with --enforce framework.")
	}
	// If the lease ended while MPS started, nothing released it there: MPS did not know
	// it yet.
	if held, stands := d.ledger.Find(granted.Key()); !stands || held.Lease.Fence != granted.Fence {
		d.mps.Release(granted.Fence)
		return Refuse(Conflict, "lease_ended", "The lease %s ended while MPS started for it. Ask again.", granted.ID)
	}
	e.MPS = pipe
	if share, limited := d.config().Services[granted.Holder.Service].Compute.Get(); limited && share < 100 {
		e.Compute = int(share)
	}
	return nil
}

// scrub overwrites the free memory of the devices of a new lease before its holder hears
// of it, if others may have left something there and the driver is not known to clear it.
// It returns who clears the memory, for the receipt, and a note for the holder if that
// was not done in full. Both are empty if berth need not scrub.
func (d *equipper) scrub(ctx context.Context, granted *lease.Lease) (by, note string) {
	defer func() {
		if by != "" && ctx.Err() == nil { // a caller who has left may ask again
			d.traces.clear(granted.Fence, by)
		}
	}()
	if d.config().GPU.Scrub != "on" || d.checkup == nil {
		d.traces.forget()
		return "", ""
	}
	me := userKey(granted.Holder)
	var partly, not []string
	ours := false // whether berth has to clear the memory
	for _, p := range granted.Parts {
		on := d.ledger.Sum(p.GPU).Device
		if d.clearedBy != nil && strings.HasPrefix(d.clearedBy([]gpu.Device{on}), "driver") {
			continue
		}
		if ours = true; !d.traces.use(p.GPU, me) {
			continue
		}
		there := d.otherUsers(granted, p.GPU) // what they leave meanwhile is not overwritten
		done, err := d.checkup.Scrub(ctx, on, p.Memory)
		switch {
		case err != nil:
			not = append(not, fmt.Sprintf("%s: %v", on.Label(), err))
			continue
		case done.Verdict != proof.Passed:
			not = append(not, fmt.Sprintf("%s: %s", on.Label(), done.Reason))
			continue
		}
		users := append(append(there, d.otherUsers(granted, p.GPU)...), me)
		if d.traces.scrubbed(p.GPU, users); len(users) > 1 {
			partly = append(partly, on.Label())
		}
	}
	switch {
	case !ours:
		return "", ""
	case len(not) > 0:
		return "nobody: the memory could not be overwritten", "the memory of earlier programs could not be overwritten: " + words.And(not)
	case len(partly) > 0:
		return "berth, partly", "the memory of earlier programs was overwritten in part, because others have leases or processes on " + words.And(partly)
	}
	return "berth", ""
}

// begun reports whether a process of a lease was seen on its devices.
func (d *equipper) begun(l *lease.Lease) bool {
	return slices.ContainsFunc(l.Parts, func(part lease.Part) bool {
		return slices.ContainsFunc(d.ledger.Processes(part.GPU), func(p ledger.Process) bool { return p.Lease != nil && p.Lease.Fence == l.Fence })
	})
}

// otherUsers returns the users whose memory on a device could not be overwritten for a
// lease: other users who hold leases there, and processes under no lease.
func (d *equipper) otherUsers(granted *lease.Lease, uuid string) (users []string) {
	for _, h := range d.ledger.Holdings(uuid) {
		if h.Lease.Fence != granted.Fence && !h.Lease.Holder.Same(granted.Holder) {
			users = append(users, userKey(h.Lease.Holder))
		}
	}
	for _, p := range d.ledger.Processes(uuid) {
		if p.Lease == nil && p.Kind != gpu.Graphics && !d.mps.Serves(p.Line) {
			users = append(users, "a process under no lease")
		}
	}
	return users
}

// userKey returns a key that differs between the users of holders.
func userKey(h lease.Holder) string { return fmt.Sprintf("%d/%s", h.UID, h.User) }
