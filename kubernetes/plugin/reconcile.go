package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/kubernetes/claim"
	"github.com/berth-gpu/berth/kubernetes/slice"
)

// reconcileLoop compares claims, leases and files at the start, when a lease has
// ended without the driver, and at the pace of the driver.
func (d *Driver) reconcileLoop(ctx context.Context) {
	var whole time.Time
	for ctx.Err() == nil {
		all := time.Since(whole) >= d.o.Pace.Reconcile
		if all {
			whole = time.Now()
		}
		if err := d.reconcile(ctx, all); err != nil && ctx.Err() == nil {
			d.o.Metrics.Reconciled("failed")
			d.o.Log.Warn("reconcile", "err", err)
			whole = time.Now().Add(d.o.Pace.Join - d.o.Pace.Reconcile) // again soon
		}
		select {
		case <-ctx.Done():
		case <-d.wakeReconcile:
			whole = time.Time{}
			select { // until events that come together have come
			case <-ctx.Done():
			case <-time.After(min(beat, d.o.Pace.Join)):
			}
		case <-time.After(d.o.Pace.Join):
		}
	}
}

// reconcile makes leases and files match the claims. Without all, it looks only at the
// claims that other pods can join.
func (d *Driver) reconcile(ctx context.Context, all bool) error {
	if err := d.ready(ctx); err != nil {
		return err
	}
	uids, err := d.claims(ctx)
	if err != nil {
		return err
	}
	leases, err := d.leases(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, uid := range uids {
		failed = append(failed, d.reconcileClaim(ctx, uid, leases, all))
	}
	if all {
		failed = append(failed, d.reconcileLeft(ctx, uids, leases))
	}
	return errors.Join(failed...)
}

// claims lists the claims that have a state file.
func (d *Driver) claims(ctx context.Context) ([]string, error) {
	unlock, err := d.lock.take(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return d.states.list()
}

// leases returns the daemon's leases for claims, by id: those with pods in their scope,
// which only operators can set.
func (d *Driver) leases(ctx context.Context) (map[string]api.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	list, err := d.o.Daemon.Leases(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]api.Lease{}
	for _, l := range list.Leases {
		if goodUID(l.ID) && slice.Own(&l) {
			found[l.ID] = l
		}
	}
	return found, nil
}

// reconcileClaim reconciles one claim that has a state file.
func (d *Driver) reconcileClaim(ctx context.Context, uid string, leases map[string]api.Lease, all bool) error {
	unlock, err := d.lock.take(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := d.states.get(uid)
	if errors.Is(err, errDamaged) && all {
		return d.reconcileDamaged(ctx, uid, leases)
	}
	if err != nil {
		return err
	}
	if st == nil {
		return nil // unprepared meanwhile
	}
	if !all && st.Template {
		d.learn(st)
		return nil
	}
	c, err := d.cluster.claim(ctx, st.Namespace, st.Name, false)
	if err == nil && !d.ours(c, st) { // certainly, and not in a cache
		c, err = d.cluster.claim(ctx, st.Namespace, st.Name, true)
	}
	if err != nil {
		d.o.Metrics.ClusterFailed("read_claim", err)
		return err // unknown, so nothing is ended
	}
	if !d.ours(c, st) {
		return d.reconcileGone(ctx, st)
	}
	d.mu.Lock()
	delete(d.gone, uid)
	d.mu.Unlock()
	held, stands := leases[uid]
	return d.reconcileHeld(ctx, c, st, held, stands)
}

// ours reports whether a claim is the one of a state, with the same devices.
func (d *Driver) ours(c *resourcev1.ResourceClaim, st *state) bool {
	return c != nil && string(c.UID) == st.UID && claim.Allocated(c, d.o.Node) && st.sameAllocation(results(c, d.o.Node))
}

// reconcileGone ends the lease of a claim that is gone, deallocated or elsewhere, if no
// process uses it and kubelet has had time to end it.
func (d *Driver) reconcileGone(ctx context.Context, st *state) error {
	d.mu.Lock()
	since, seen := d.gone[st.UID]
	if !seen {
		since = time.Now()
		d.gone[st.UID] = since
	}
	d.mu.Unlock()
	if time.Since(since) < d.o.Pace.Grace {
		return nil
	}
	if used, err := d.used(ctx, st.UID); used || err != nil {
		return err
	}
	if err := d.unprepare(ctx, st.UID); err != nil {
		return err
	}
	d.o.Metrics.Reconciled("ended")
	d.o.Log.Info("lease ended: its claim is gone", "namespace", st.Namespace, "claim", st.Name, "uid", st.UID)
	return nil
}

// used reports whether processes use the lease of a claim now.
func (d *Driver) used(ctx context.Context, uid string) (bool, error) {
	leases, err := d.leases(ctx)
	return len(leases[uid].Processes) > 0, err
}

// reconcileHeld ensures that a claim has its lease, its pods and its CDI file.
func (d *Driver) reconcileHeld(ctx context.Context, c *resourcev1.ResourceClaim, st *state, held api.Lease, stands bool) error {
	pods, err := claim.Pods(c) // and nothing else of it, which a driver of another version may refuse
	if err != nil {
		return err
	}
	added, left := st.join(pods)
	written, err := d.o.CDI.List()
	if err != nil {
		return err
	}
	if stands && len(added)+len(left) > 0 {
		if held, err = d.rescope(ctx, st, held.Fence, added, left); err != nil {
			return err
		}
	}
	if st.Socket {
		if err := d.stillClosed(ctx, st); err != nil {
			d.learn(st)
			return err
		}
	}
	if !stands || !slices.Contains(written, st.UID) || held.Fence != st.Fence {
		return d.repair(ctx, st)
	}
	d.learn(st)
	d.teller.looked(st, held)
	return nil
}

// stillClosed returns an error if the claim's containers would reach a daemon that serves
// callers from containers without a token, and removes the CDI file, so that no other
// container gets the socket. The repair of a claim writes the file again.
func (d *Driver) stillClosed(ctx context.Context, st *state) error {
	err := d.closedSocket(ctx)
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		err = errors.Join(err, d.o.CDI.Remove(st.UID))
	}
	return err
}

// repair asks for the lease of a state again, and writes its CDI file. If the lease still
// exists, the daemon answers with it.
func (d *Driver) repair(ctx context.Context, st *state) error {
	held, err := d.acquire(ctx, st)
	if problemCode(err) != "" {
		d.learn(st)
		d.teller.lost(st, err)
	}
	if err != nil {
		return err
	}
	if err := d.writeCDI(ctx, st, held); err != nil {
		return err
	}
	st.Fence = held.Fence
	if err := d.states.put(st); err != nil {
		return err
	}
	d.learn(st)
	what := "cdi"
	if !held.Stood {
		what = "acquired"
	}
	d.o.Metrics.Reconciled(what)
	d.o.Log.Info("claim repaired", "what", what, "namespace", st.Namespace, "claim", st.Name, "uid", st.UID, "fence", held.Fence)
	d.teller.prepared(st, held)
	return nil
}

// rescope adds control groups to the lease of a state, and removes others.
func (d *Driver) rescope(ctx context.Context, st *state, fence uint64, added, left []string) (api.Lease, error) {
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	held, err := d.o.Daemon.Rescope(asked, st.UID, api.Rescope{Fence: fence, Add: added, Remove: left})
	if err != nil {
		return held, err
	}
	if err := d.states.put(st); err != nil {
		return held, err
	}
	if len(added) > 0 {
		d.o.Metrics.Reconciled("joined")
	}
	return held, nil
}

// reconcileLeft reconciles leases and CDI files without a state file.
func (d *Driver) reconcileLeft(ctx context.Context, uids []string, leases map[string]api.Lease) error {
	var failed []error
	for uid, held := range leases {
		if !slices.Contains(uids, uid) {
			failed = append(failed, d.reconcileStray(ctx, held))
		}
	}
	failed = append(failed, d.removeStrayFiles(ctx))
	return errors.Join(failed...)
}

// reconcileStray reconciles a lease without a state file: it prepares the claim again if
// it is allocated here, and otherwise ends the lease.
func (d *Driver) reconcileStray(ctx context.Context, held api.Lease) error {
	unlock, err := d.lock.take(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if st, err := d.states.get(held.ID); err != nil || st != nil {
		return err // prepared meanwhile
	}
	return d.adoptOrEnd(ctx, held)
}

// reconcileDamaged reconciles a claim whose state file is damaged. Its lease has
// everything that is needed to prepare it again or to end it; without a lease there is
// nothing to keep. The caller holds the lock.
func (d *Driver) reconcileDamaged(ctx context.Context, uid string, leases map[string]api.Lease) error {
	if held, stands := leases[uid]; stands {
		return d.adoptOrEnd(ctx, held)
	}
	d.o.Log.Warn("damaged state file removed: the claim has no lease", "uid", uid)
	return d.unprepare(ctx, uid)
}

// adoptOrEnd prepares the claim of a lease, or ends the lease if no claim has it. The
// caller holds the lock.
func (d *Driver) adoptOrEnd(ctx context.Context, held api.Lease) error {
	namespace, _, ok := strings.Cut(held.Holder.Name, "/")
	if !ok || !madeUID(held.ID) || held.Binding != "named" {
		return nil // an operator's lease with the scope of a pod, not a claim's
	}
	if now, err := d.leases(ctx); err != nil || now[held.ID].Fence != held.Fence {
		return err // unprepared meanwhile
	}
	c, err := d.cluster.claimWith(ctx, namespace, held.ID)
	if err != nil {
		d.o.Metrics.ClusterFailed("list_claims", err)
		return err
	}
	if c != nil && claim.Allocated(c, d.o.Node) {
		_, err := d.prepare(ctx, c, held.EnforcedBy == "framework") // which only a claim alone has
		d.o.Metrics.Reconciled("adopted")
		return err
	}
	if used, err := d.used(ctx, held.ID); used || err != nil {
		return err
	}
	if err := d.unprepare(ctx, held.ID); err != nil {
		return err
	}
	d.o.Metrics.Reconciled("ended")
	d.o.Log.Info("lease ended: no claim has it", "lease", held.ID, "fence", held.Fence)
	return nil
}

// removeStrayFiles removes the CDI files of claims that have no state file, and forgets
// claims that the other driver of a rollout has unprepared.
func (d *Driver) removeStrayFiles(ctx context.Context) error {
	unlock, err := d.lock.take(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	uids, err := d.states.list()
	if err != nil {
		return err
	}
	for _, uid := range d.knownBut(uids) {
		d.forget(uid)
	}
	written, err := d.o.CDI.List()
	if err != nil {
		return err
	}
	var failed []error
	for _, uid := range written {
		if !slices.Contains(uids, uid) {
			failed = append(failed, d.o.CDI.Remove(uid))
			d.o.Metrics.Reconciled("cdi_removed")
		}
	}
	return errors.Join(failed...)
}
