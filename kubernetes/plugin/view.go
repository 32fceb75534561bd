package plugin

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/export"
	"github.com/berth-gpu/berth/kubernetes/slice"
)

var _ export.Source = (*Driver)(nil)

// registerWithin is how long kubelet may take to register the driver.
const registerWithin = 2 * time.Minute

// Live returns why the driver does not work, or nil. An absent daemon is no reason: the
// driver waits for it, and a restart would not bring it back.
func (d *Driver) Live() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.registered && time.Since(d.began) > registerWithin {
		return errors.New("kubelet has not registered the driver: look at its log and at " + d.o.Registry)
	}
	return nil
}

// Ready returns why the driver cannot prepare claims, or nil.
func (d *Driver) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.registered:
		return errors.New("kubelet has not registered the driver yet")
	case d.down != nil:
		return d.down
	case d.status == nil:
		return fmt.Errorf("the daemon at %s has not answered yet", d.o.Address)
	case d.old != nil:
		return d.old
	}
	return d.vendor
}

// DaemonUp reports whether the daemon answers.
func (d *Driver) DaemonUp() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status != nil && d.down == nil
}

// Taints returns the taints that were published last.
func (d *Driver) Taints() []export.Taint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.taints)
}

// Claims returns the number of prepared claims, and the share and use of each.
func (d *Driver) Claims() (int, []export.Claim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []export.Claim
	for _, l := range d.facts.Leases {
		st := d.known[l.ID]
		if st == nil {
			continue
		}
		pod := ""
		if len(st.Pods) > 0 {
			pod = st.Pods[0].Name
		}
		for _, p := range l.Parts {
			all = append(all, export.Claim{Namespace: st.Namespace, Pod: pod, Name: st.Name, GPU: p.GPU, Leased: p.Memory, Measured: p.Measured})
		}
	}
	return len(d.known), all
}

// Node returns the page of the node. Anybody who reaches the driver may read it, so it is
// made of fields that are listed here, whatever else the daemon tells an operator: the
// state of each device, who holds its leases and how much, and the pods that these are
// for.
func (d *Driver) Node() api.Node {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := api.Node{Name: d.o.Node, Driver: d.o.Version, At: d.heard, Leases: []api.PodLease{}}
	if d.down != nil {
		n.Down = d.down.Error()
	}
	if d.status == nil {
		return n
	}
	n.Status = &api.StatusAll{
		Host: d.status.Host, Version: d.status.Version, Monitoring: d.status.Monitoring, Note: d.status.Note,
		GPUs: make([]api.Status, len(d.status.GPUs)), Utilization: d.status.Utilization, Machine: d.status.Machine,
	}
	for i := range d.status.GPUs {
		n.Status.GPUs[i] = shownDevice(&d.status.GPUs[i])
	}
	for i := range d.facts.Leases {
		l := &d.facts.Leases[i]
		one := api.PodLease{Lease: shownLease(l)}
		if st := d.known[l.ID]; st != nil && slice.Own(l) {
			one.Namespace, one.Claim = st.Namespace, st.Name
			for _, p := range st.Pods {
				one.Pods = append(one.Pods, p.Name)
			}
		}
		n.Leases = append(n.Leases, one)
	}
	return n
}

// shownDevice returns what the page shows of a device.
func shownDevice(s *api.Status) api.Status {
	shown := api.Status{
		Device: s.Device, State: s.State, Since: s.Since, Reason: s.Reason, StateCause: s.StateCause,
		Multiplier: s.Multiplier, Cause: s.Cause, Slower: s.Slower, Health: s.Health, Stale: s.Stale,
		Slots: s.Slots, Trust: s.Trust, Drain: s.Drain,
	}
	if m := s.Sample; m != nil {
		shown.Sample = &gpu.Sample{
			GPU: m.GPU, Name: m.Name, Time: m.Time, State: m.State, Utilization: m.Utilization, MemoryBusy: m.MemoryBusy,
			MemoryTotal: m.MemoryTotal, MemoryUsed: m.MemoryUsed, MemoryFree: m.MemoryFree, MemoryShare: m.MemoryShare, Blind: m.Blind,
			Temperature: m.Temperature, MemoryTemperature: m.MemoryTemperature, Power: m.Power, PowerOf: m.PowerOf,
			ClockSM: m.ClockSM, ClockMemory: m.ClockMemory, Throttle: m.Throttle,
		}
	}
	for i := range s.Leases {
		l := &s.Leases[i]
		shown.Leases = append(shown.Leases, api.DeviceLease{
			ID: l.ID, Holder: shownHolder(l.Holder), State: l.State, Memory: l.Memory, Measured: l.Measured, Slots: l.Slots, Granted: l.Granted,
		})
	}
	return shown
}

// shownLease returns what the page shows of a lease.
func shownLease(l *api.Lease) api.Lease {
	return api.Lease{
		ID: l.ID, Fence: l.Fence, State: l.State, Parent: l.Parent, Holder: shownHolder(l.Holder), Binding: l.Binding,
		Granted: l.Granted, Parts: l.Parts, Priority: l.Priority, EnforcedBy: l.EnforcedBy,
		Exclusive: l.Exclusive, Pool: l.Pool, FromPool: l.FromPool,
	}
}

// shownHolder returns what the page shows of a holder: whose lease it is.
func shownHolder(h api.Holder) api.Holder {
	return api.Holder{Service: h.Service, Name: h.Name, User: h.User, UID: h.UID}
}
