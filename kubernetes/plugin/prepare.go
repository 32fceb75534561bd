package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/claim"
)

// The steps of Prepare and Unprepare, after which [Options.Step] is called.
const (
	StepRead     = "prepare: claim read"
	StepState    = "prepare: state written"
	StepAcquired = "prepare: lease acquired"
	StepChecked  = "prepare: claim read again"
	StepCDI      = "prepare: CDI written"
	StepPrepared = "prepare: state completed"

	StepCDIAway   = "unprepare: CDI removed"
	StepReleased  = "unprepare: lease released"
	StepStateAway = "unprepare: state removed"
)

// Steps lists the steps in their order.
func Steps() []string {
	return []string{StepRead, StepState, StepAcquired, StepChecked, StepCDI, StepPrepared, StepCDIAway, StepReleased, StepStateAway}
}

// prepared is a device of a claim, for kubelet.
type prepared struct {
	result
	cdi []string // names of CDI devices
}

// refusal is an error with a code for the metrics.
type refusal struct {
	code string
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(code, format string, args ...any) error {
	return &refusal{code, fmt.Errorf(format, args...)}
}

// codeOf returns the code of an error of Prepare, for the metrics.
func codeOf(err error) string {
	var own *refusal
	var bad *claim.Refusal
	var old *oldDaemonError
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &bad):
		return bad.Code
	case errors.As(err, &old):
		return "old_daemon"
	case problemCode(err) != "":
		return problemCode(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "too_late"
	}
	return "error"
}

// prepareAll prepares the claims of a pod, and returns the result for each.
func (d *Driver) prepareAll(ctx context.Context, claims []*resourcev1.ResourceClaim) (map[string][]prepared, map[string]error) {
	devices, failed := map[string][]prepared{}, map[string]error{}
	unlock, err := d.lock.take(ctx)
	if err == nil {
		defer unlock()
	}
	for _, c := range claims {
		uid, began := string(c.UID), time.Now()
		problem := err
		if problem == nil {
			devices[uid], problem = d.prepare(ctx, c, len(claims) == 1)
		}
		result := "prepared"
		if problem != nil {
			failed[uid], result = problem, "failed"
			d.o.Metrics.Refused(codeOf(problem))
			d.o.Log.Warn("claim not prepared", "namespace", c.Namespace, "claim", c.Name, "uid", uid, "code", codeOf(problem), "err", problem)
		}
		d.o.Metrics.Prepared(result, time.Since(began))
	}
	return devices, failed
}

// prepare leases the devices of a claim and writes its CDI file. It may be called again
// for the same claim at any time. The caller holds the lock. only says that the pod has
// no other claim of this driver in the same call.
func (d *Driver) prepare(ctx context.Context, c *resourcev1.ResourceClaim, only bool) ([]prepared, error) {
	if !goodUID(string(c.UID)) {
		return nil, refuse("bad_claim", "claim %s/%s has the UID %q, which cannot be the id of a lease", c.Namespace, c.Name, c.UID)
	}
	if err := d.ready(ctx); err != nil {
		return nil, err
	}
	c, err := d.still(ctx, c)
	if err != nil {
		return nil, err
	}
	st, fresh, err := d.begin(ctx, c, only)
	if err != nil {
		return nil, err
	}
	d.o.Step(StepRead)
	devices, err := d.devices(st)
	if err != nil {
		return nil, err
	}
	if st.Request == nil {
		return devices, nil // for administration: nothing is held
	}
	if err := d.states.put(st); err != nil {
		return nil, err
	}
	d.o.Step(StepState)

	held, err := d.hold(ctx, c, st)
	if err != nil {
		if fresh && problemCode(err) != "" { // refused, so there is nothing to find later
			err = errors.Join(err, d.states.remove(st.UID))
		}
		return nil, err
	}
	d.o.Step(StepCDI)
	if err := d.states.put(st); err != nil {
		return nil, err
	}
	d.learn(st)
	d.teller.prepared(st, held)
	d.o.Step(StepPrepared)
	return devices, nil
}

// still returns the present claim, if it is still the one that kubelet means and kubelet
// still waits for the answer.
func (d *Driver) still(ctx context.Context, c *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	now, err := d.cluster.claim(ctx, c.Namespace, c.Name, true)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("prepare claim %s/%s: kubelet does not wait any more: %w", c.Namespace, c.Name, ctx.Err())
	case err != nil:
		d.o.Metrics.ClusterFailed("read_claim", err)
		return nil, err
	case now == nil || now.UID != c.UID:
		return nil, refuse("claim_gone", "claim %s/%s with the UID %s does not exist any more", c.Namespace, c.Name, c.UID)
	case !claim.Allocated(now, d.o.Node):
		return nil, refuse("not_allocated", "claim %s/%s is not allocated on node %s any more", c.Namespace, c.Name, d.o.Node)
	}
	return now, nil
}

// begin returns the state of a claim: that of an earlier Prepare if it was for the same
// allocation, else a new one, which is fresh. What an earlier Prepare has read is not judged
// again: a driver of another version may refuse it.
func (d *Driver) begin(ctx context.Context, c *resourcev1.ResourceClaim, only bool) (st *state, fresh bool, err error) {
	all := results(c, d.o.Node)
	before, err := d.states.get(string(c.UID))
	if err != nil {
		d.o.Log.Warn("state file ignored", "uid", c.UID, "err", err)
	}
	if before != nil && !before.sameAllocation(all) {
		// The scheduler gave the claim other devices, and nobody ended the lease of the
		// earlier ones.
		if err := d.endUnused(ctx, before.UID, before.Fence); err != nil {
			return nil, false, err
		}
		before = nil
	}
	if before != nil {
		pods, err := claim.Pods(c)
		if err != nil {
			return nil, false, err
		}
		if _, left := before.join(pods); len(left) > 0 { // else the daemon would have too many
			if _, err := d.rescope(ctx, before, 0, nil, left); err != nil && problemCode(err) != codeUnknown {
				return nil, false, err
			}
		}
		return before, false, nil
	}
	want, err := claim.Read(c, d.o.Node)
	if err != nil {
		return nil, false, err
	}
	for i := range all {
		share, ok := d.find(all[i].Device)
		if !ok {
			return nil, false, refuse("unknown_device", "node %s has no device %s: berth knows no GPU of that name. It was taken out of the machine, or never was in it. Delete the pod, so that it is scheduled anew.", d.o.Node, all[i].Device)
		}
		all[i].GPU = share.UUID
	}
	st = &state{UID: want.UID, Namespace: want.Namespace, Name: want.Name, Template: want.Template, Pods: want.Pods, Socket: want.Parameters.Socket, Results: all}
	if want.Admin {
		return st, true, nil
	}
	if want.Parameters.Socket {
		if err := d.closedSocket(ctx); err != nil {
			return nil, false, err
		}
	}
	request, err := want.Request(d.share, d.knownServices(), only && !d.sharesPod(want))
	if err != nil {
		return nil, false, err
	}
	st.Request = &request
	return st, true, nil
}

// join sets the pods of a state. It returns the control groups that its lease did not
// have, and those that it has to give up: a lease has room for MaxScope of them, and a
// claim that a Deployment shares sees any number of pods. A pod that is gone keeps its
// place as long as there is room, because its processes may live a little longer.
func (s *state) join(pods []claim.Pod) (added, left []string) {
	s.Pods = pods
	var now []string
	for _, p := range pods {
		name := "pod" + p.UID
		if now = append(now, name); !slices.Contains(s.Request.Scope, name) {
			s.Request.Scope, added = append(s.Request.Scope, name), append(added, name)
		}
	}
	surplus := len(s.Request.Scope) - claim.MaxScope
	s.Request.Scope = slices.DeleteFunc(slices.Clone(s.Request.Scope), func(name string) bool { // the oldest first
		if surplus <= 0 || slices.Contains(now, name) {
			return false
		}
		surplus, left = surplus-1, append(left, name)
		return true
	})
	return added, left
}

// sharesPod reports whether a pod of the claim has another claim of this driver: the
// variables of both would meet in one environment.
func (d *Driver) sharesPod(want claim.Claim) bool {
	uids, err := d.states.list()
	if err != nil {
		return true
	}
	for _, uid := range uids {
		if uid == want.UID {
			continue
		}
		if other, err := d.states.get(uid); err != nil || other != nil && other.sharesPod(want.Pods) {
			return true
		}
	}
	return false
}

// hold leases the devices of a state and writes its CDI file.
func (d *Driver) hold(ctx context.Context, c *resourcev1.ResourceClaim, st *state) (api.Lease, error) {
	held, err := d.acquire(ctx, st)
	if err != nil {
		return held, err
	}
	d.o.Step(StepAcquired)
	if _, err := d.still(ctx, c); err != nil {
		if held.Stood { // an earlier Prepare has it, and perhaps a container
			return held, err
		}
		return held, d.giveUp(ctx, st, held.Fence, err)
	}
	d.o.Step(StepChecked)
	st.Fence = held.Fence
	return held, d.writeCDI(ctx, st, held)
}

// giveUp undoes a Prepare that comes too late.
func (d *Driver) giveUp(ctx context.Context, st *state, fence uint64, why error) error {
	if err := d.release(context.WithoutCancel(ctx), st.UID, fence); err != nil {
		return errors.Join(why, err) // the state file stays, for reconcile
	}
	return errors.Join(why, d.states.remove(st.UID))
}

// acquire asks for the lease of a state. If the claim has an unused lease with other
// parts, left from an earlier allocation, acquire ends that first.
func (d *Driver) acquire(ctx context.Context, st *state) (api.Lease, error) {
	held, err := d.ask(ctx, st)
	if problemCode(err) == codeDuplicate {
		if left := d.endUnused(ctx, st.UID, 0); left != nil {
			return held, errors.Join(err, left)
		}
		held, err = d.ask(ctx, st)
	}
	return held, err
}

func (d *Driver) ask(ctx context.Context, st *state) (api.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	held, err := d.o.Daemon.Acquire(ctx, *st.Request)
	if problemCode(err) != codeParked {
		return held, err
	}
	// A new container needs the device. If there is no room, kubelet tries again.
	if _, err := d.o.Daemon.Resume(ctx, st.UID, api.Resume{Why: "its pod starts", Timeout: gpu.Some(askTimeout.Seconds() / 2)}); err != nil {
		return held, err
	}
	return d.o.Daemon.Acquire(ctx, *st.Request)
}

// endUnused ends the lease of a claim, unless processes use it.
func (d *Driver) endUnused(ctx context.Context, uid string, fence uint64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all, err := d.o.Daemon.Leases(ctx)
	if err != nil {
		return err
	}
	for _, l := range all.Leases {
		if l.ID == uid && len(l.Processes) > 0 {
			return refuse("still_used", "the lease of the claim's earlier allocation, on %s, still has %d processes; it ends with them", strings.Join(gpusOf(l), ", "), len(l.Processes))
		}
	}
	return d.release(ctx, uid, fence)
}

func gpusOf(l api.Lease) []string {
	var all []string
	for _, p := range l.Parts {
		all = append(all, p.GPU)
	}
	return all
}

// devices returns the devices of a state for kubelet: each with the vendor's CDI name of
// the GPU, where there is one, and with the name of the lease.
func (d *Driver) devices(st *state) ([]prepared, error) {
	byGPU := map[string][]string{} // each is looked up once: a claim has up to 32 results, and a pod 32 claims
	for _, uuid := range st.gpus() {
		names, err := d.vendorNames(uuid)
		if err != nil {
			return nil, err
		}
		if st.Request != nil {
			names = append(names, cdi.Name(st.UID))
		}
		byGPU[uuid] = names
	}
	var all []prepared
	for _, r := range st.Results {
		all = append(all, prepared{r, byGPU[r.GPU]})
	}
	return all, nil
}

// vendorNames returns the CDI name that the vendor gave a GPU. It returns none for a
// simulated GPU, or if the environment isolates.
func (d *Driver) vendorNames(uuid string) ([]string, error) {
	device, ok := d.device(uuid)
	if !ok {
		return nil, refuse("unknown_device", "berth does not list the device %s any more", uuid)
	}
	if d.isolation(device) == cdi.Env {
		return nil, nil
	}
	name, err := d.o.CDI.Vendor(device)
	if err != nil {
		return nil, &refusal{"no_vendor_cdi", err}
	}
	return []string{name}, nil
}

// isolation returns how a container is kept from GPUs other than its own.
func (d *Driver) isolation(device gpu.Device) string {
	if d.o.Isolation == cdi.Env || device.Vendor == gpu.Simulated {
		return cdi.Env
	}
	return cdi.Vendor
}

// writeCDI writes the CDI file of a state. Whatever was true when the claim was first
// prepared, the file gives a container the daemon's socket only if the daemon turns away
// callers without a token now.
func (d *Driver) writeCDI(ctx context.Context, st *state, held api.Lease) error {
	if st.Socket {
		if err := d.closedSocket(ctx); err != nil {
			return err
		}
	}
	isolation := cdi.Vendor
	for _, uuid := range st.gpus() {
		device, ok := d.device(uuid)
		if !ok {
			return refuse("unknown_device", "berth does not list the device %s any more", uuid)
		}
		if d.isolation(device) == cdi.Env {
			isolation = cdi.Env
		}
	}
	l := cdi.Lease{ClaimUID: st.UID, Lease: held, Isolation: isolation}
	if st.Socket {
		l.Socket = d.o.Socket
	}
	spec, err := cdi.Spec(l)
	if err != nil {
		return fmt.Errorf("make the CDI file of claim %s/%s: %w", st.Namespace, st.Name, err)
	}
	return d.o.CDI.Write(spec, st.UID)
}
