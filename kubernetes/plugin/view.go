package plugin

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
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

// Node returns the page of the node. It has no processes: anybody in the cluster may read
// it.
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
	status := *d.status
	status.GPUs = slices.Clone(status.GPUs)
	for i := range status.GPUs {
		status.GPUs[i] = withoutProcesses(status.GPUs[i])
	}
	n.Status = &status
	for _, l := range d.facts.Leases {
		l.Processes, l.Holder.PID, l.Heir, l.Launch = nil, 0, 0, nil // a copy
		one := api.PodLease{Lease: l}
		if st := d.known[l.ID]; st != nil && slice.Own(&l) {
			one.Namespace, one.Claim = st.Namespace, st.Name
			for _, p := range st.Pods {
				one.Pods = append(one.Pods, p.Name)
			}
		}
		n.Leases = append(n.Leases, one)
	}
	return n
}

func withoutProcesses(s api.Status) api.Status {
	if s.Sample != nil {
		sample := *s.Sample
		sample.Processes, sample.ProcessUtilization = nil, nil
		s.Sample = &sample
	}
	s.Leases = slices.Clone(s.Leases)
	for i := range s.Leases {
		s.Leases[i].Holder.PID = 0
	}
	return s
}
