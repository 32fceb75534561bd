package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Acquire grants a lease, now or when there is room. If the caller leaves meanwhile,
// nothing remains of the request.
func (d *Leases) Acquire(ctx context.Context, by Caller, w api.LeaseRequest) (api.Lease, error) {
	if w.ID == "" && len(w.Parts) == 0 {
		w.ID = madeUp("lease", 10)
	}
	return d.acquire(ctx, &by, &wish{LeaseRequest: w})
}

// acquire is the only way to a lease, for every door and for the runs of plans. It
// resolves the wish, asks the ledger while the caller stands aside, and hands over the
// lease. A new lease that cannot be handed over is given back.
func (d *Leases) acquire(ctx context.Context, by *Caller, w *wish) (api.Lease, error) {
	r, err := d.resolve(by, w)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	by.aside()
	found, err := d.ledger.Acquire(ctx, r.Request)
	by.back(ctx)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	if r.learned {
		d.peaks.Took(peaks.Key{User: found.Holder.User, Name: found.Holder.Name}, r.Memory)
	}
	held := ledger.Held{Lease: found.Lease}
	if found.Stood && found.Pool { // its children may have some of it
		if now, stands := d.ledger.Find(found.Key()); stands && now.Fence == found.Fence {
			held.InPool = now.InPool
		}
	}
	l := LeaseOf(held)
	l.Stood, l.Was = found.Stood, found.Was
	err = d.handOver(ctx, &l, found, &r)
	if err != nil && !found.Stood {
		err = d.giveBack(&l, err)
	}
	if err != nil {
		return api.Lease{}, err
	}
	return l, nil
}

// handOver prepares the devices and the process of a lease, and adds to the answer what
// a launcher needs. It refuses if that fails, or if the caller of a new lease has left. For
// a lease that stood it does what was not done yet: the daemon, or the caller, may have
// gone after the grant.
func (d *Leases) handOver(ctx context.Context, l *api.Lease, found ledger.Found, r *resolved) error {
	cleared := ""
	unanswered := !found.Stood || r.Repeated && d.equip.traces.cleared(found.Fence) == "" && !d.equip.begun(found.Lease)
	if r.Parent == "" && unanswered { // a child uses the memory of its parent
		var note string
		cleared, note = d.equip.scrub(ctx, found.Lease)
		l.Note = joined(l.Note, note)
	}
	if err := d.equip.equip(ctx, l, found.Lease, r, cleared); err != nil {
		return err
	}
	if r.isolation == launch.ByCgroup && (r.Parent == "" || r.FromPool) && r.Run == (lease.Run{}) { // a child, and the lease of a run, is handed to its process first
		if d.equip.IsolatedBy(found.Lease) == "" {
			note, err := d.equip.enclose(found.Lease)
			if err != nil {
				return err
			}
			l.Note = joined(l.Note, note)
		}
		l.IsolatedBy = launch.ByCgroup
	}
	if ctx.Err() != nil && r.Exact == nil && !found.Stood { // repeating the request finds an exact lease
		return withdrawn(l)
	}
	return nil
}

// withdrawn refuses a lease whose caller has left and would never release it.
func withdrawn(l *api.Lease) error {
	return Refused(fmt.Errorf("wait for %s: %w", l.ID, ledger.ErrWithdrawn))
}

// giveBack ends a lease that its caller does not get, unless the caller has asked again and
// got it then, and returns why. If the journal refuses that now, the ledger tries again
// until it succeeds. If the ledger has stopped, the lease remains: the answer to a caller
// who seems to have left may still get through, and giveBack returns nil.
func (d *Leases) giveBack(l *api.Lease, why error) error {
	kept, err := d.ledger.TakeBack(keyOf(l), l.Fence, "the client disconnected before it received the lease")
	if l.EnforcedBy == launch.MPS && !kept {
		d.mps.Release(l.Fence) // even if the lease ended before MPS knew it
	}
	if errors.Is(err, ledger.ErrStopped) && errors.Is(why, ledger.ErrWithdrawn) {
		return nil
	}
	return why
}

// NewID returns an id for a lease that the caller is going to ask for: a name and a
// number that no id of this daemon has had. A caller that has asked before without an
// answer gets the id of the lease that its process was granted then, if it was.
func (d *Leases) NewID(_ context.Context, by Caller, q api.NewID) (api.MadeID, error) {
	if bad := words.TextProblem(q.Name); bad != "" {
		return api.MadeID{}, wrongFields(lease.FieldErrors{{Field: "name", Detail: bad}})
	}
	if by.Repeated {
		if id := d.heldBy(&by, q.Name); id != "" {
			return api.MadeID{ID: id}, nil
		}
	}
	id, err := d.newID(&by, q.Name)
	if err != nil {
		return api.MadeID{}, Refused(err)
	}
	return api.MadeID{ID: id}, nil
}

// heldBy returns the id of the newest lease that is bound to the process of the caller and
// has an id that newID made from a name; "" if there is none.
func (d *Leases) heldBy(by *Caller, name string) (id string) {
	self, fence := by.self(), uint64(0)
	if self.PID == 0 {
		return ""
	}
	for _, l := range d.ledger.View().Leases {
		made, err := job.ParseID(l.ID)
		h := &l.Holder
		ours := h.Same(self) && l.Binding == lease.ByProcess && h.PID == self.PID && h.Start == self.Start && h.Boot == self.Boot
		if err == nil && ours && made.Name == name && !made.One && l.Fence > fence {
			id, fence = l.ID, l.Fence
		}
	}
	return id
}

// newID returns a name with a new number. Users may choose any id, so it skips those that
// the caller uses.
func (d *Leases) newID(by *Caller, name string) (string, error) {
	for {
		number, err := d.numbers.Next()
		if err != nil {
			return "", because(err, Unavailable, "no_number", "Nothing was leased. Make room on the disk of the state folder; then ask again.")
		}
		id := name + "-" + strconv.FormatInt(number, 10)
		if !d.ledger.Taken(lease.OwnerOf(&by.Actor), id) {
			return id, nil
		}
	}
}

// madeUp returns an id for a request that has none.
func madeUp(kind string, letters int) string {
	return kind + "-" + strings.ToLower(rand.Text()[:letters])
}

// unknownCaller is the note of an allocation that does not end by itself although nobody
// asked for that.
const unknownCaller = "the daemon does not know the process of the caller, so the lease lasts until it is deallocated"

// Allocate leases memory under an id that the caller chooses. If the caller does not say
// what ends the lease, it ends with the process of the caller, or after a while without
// use if that process only asks for others (curl in a script), which has no GPU open. See
// lease.Settle and lease.Detach.
func (d *Leases) Allocate(ctx context.Context, by Caller, b api.Allocate) (api.Lease, error) {
	w := &wish{again: againOf(b.Again), unitExists: true, LeaseRequest: b.Request()}
	if !b.Timeout.Known() && !b.Wait {
		w.Timeout = gpu.Some(0.0)
	}
	if b.Unit != "" && b.Binding == "" && !b.TTL.Known() && b.PID == 0 {
		w.Binding = string(lease.ByName) // the caller does not use it itself
	}
	said := w.Binding != "" || b.TTL.Known() || b.PID != 0
	if !said || b.Binding == string(lease.ByProcess) && b.PID == 0 {
		by.Holder = by.self()
	}
	switch {
	case said:
	case by.Holder.PID != 0:
		w.Binding, w.implied = string(lease.ByProcess), !d.processes.HasGPUOpen(process.ID{PID: by.Holder.PID, Start: by.Holder.Start})
	default:
		w.note = unknownCaller
	}
	return d.acquire(ctx, &by, w)
}

func againOf(word string) lease.Again {
	switch word {
	case "id":
		return lease.SameID
	case "service":
		return lease.SameService
	}
	return lease.Once
}
