package plugin

import (
	"encoding/json"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// preparedBefore returns a driver with a claim that an earlier driver has prepared, and the
// claim's lease.
func preparedBefore(t *testing.T) (*Driver, *state, *paper, api.Lease) {
	d, st, p := reporting()
	d.o.CDI = cdi.Folder{Dirs: []string{t.TempDir()}}
	d.facts.Status = []api.Status{{Device: gpu.Device{UUID: "SIM-0", Vendor: gpu.Simulated}}}
	st.Results[0].GPU, st.Request.Scope = "SIM-0", []string{"podp1"}
	p.held.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "one", UID: "p1"}}
	held := leaseOf(0)
	held.Launch.Environment = []string{"CUDA_VISIBLE_DEVICES=SIM-0"}
	if err := d.writeCDI(t.Context(), st, held); err != nil {
		t.Fatal(err)
	}
	return d, st, p, held
}

// A claim that was prepared stays so, also if this driver would refuse its parameters.
func TestPreparedByAnotherVersion(t *testing.T) {
	d, st, p, held := preparedBefore(t)
	p.held.Status.Allocation.Devices.Config = []resourcev1.DeviceAllocationConfiguration{{
		Source: resourcev1.AllocationConfigSourceClaim,
		DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
			Driver: words.Driver, Parameters: runtime.RawExtension{Raw: json.RawMessage(`{"kind":"Lease","apiVersion":"gpu.berth.dev/v9"}`)},
		}},
	}}
	delete(d.known, st.UID)
	if err := d.reconcileHeld(t.Context(), p.held, st, held, true); err != nil || d.known[st.UID] == nil {
		t.Errorf("after a reconcile the claim is known: %t, %v", d.known[st.UID] != nil, err)
	}
	d.states = states{t.TempDir()}
	if err := d.states.put(st); err != nil {
		t.Fatal(err)
	}
	st.Pods = nil
	if again, fresh, err := d.begin(t.Context(), p.held, true); err != nil || fresh || len(again.Pods) != 1 {
		t.Errorf("another Prepare: fresh %t, %v", fresh, err)
	}
}

// A daemon that begins to serve callers from containers without a token takes the socket
// from pods that come later.
func TestTheSocketOpensLater(t *testing.T) {
	d, st, p, held := preparedBefore(t)
	d.o.Socket, st.Socket = "/run/berth/berth.sock", true
	files := func() int {
		written, err := d.o.CDI.List()
		if err != nil {
			t.Fatal(err)
		}
		return len(written)
	}
	d.o.Anybody = anybody{err: &api.Problem{Status: 500}}
	if err := d.reconcileHeld(t.Context(), p.held, st, held, true); err == nil || files() != 1 {
		t.Errorf("a daemon that does not say: %d files, %v", files(), err)
	}
	d.o.Anybody = anybody{who: api.Whoami{User: "root", Role: "viewer"}}
	delete(d.known, st.UID)
	if err := d.reconcileHeld(t.Context(), p.held, st, held, true); codeOf(err) != "open_socket" || files() != 0 || d.known[st.UID] == nil {
		t.Errorf("an open daemon: %d files, known %t, %v", files(), d.known[st.UID] != nil, err)
	}
	if err := d.writeCDI(t.Context(), st, held); codeOf(err) != "open_socket" || files() != 0 {
		t.Errorf("a file for an open daemon: %d files, %v", files(), err)
	}
	d.o.Anybody = anybody{err: &api.Problem{Status: 401}}
	if err := d.writeCDI(t.Context(), st, held); err != nil || files() != 1 {
		t.Errorf("a closed daemon: %d files, %v", files(), err)
	}
}
