package plugin

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/claim"
	"github.com/berth-gpu/berth/kubernetes/export"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// paper is a cluster that writes down what it is told.
type paper struct {
	held     *resourcev1.ResourceClaim
	refuses  int // how many reports it still refuses
	reports  int // how many it took
	status   map[string]metav1.ConditionStatus
	messages map[string]string
	warnings []string
	devices  []resourcev1.Device // of an earlier driver
	fails    error               // of a question for them
}

func (p *paper) claim(context.Context, string, string, bool) (*resourcev1.ResourceClaim, error) {
	return p.held, nil
}

func (p *paper) claimWith(context.Context, string, string) (*resourcev1.ResourceClaim, error) {
	return p.held, nil
}

func (p *paper) published(context.Context, string) ([]resourcev1.Device, error) {
	return p.devices, p.fails
}

func (p *paper) report(_ context.Context, _ *resourcev1.ResourceClaim, devices []*resourceapply.AllocatedDeviceStatusApplyConfiguration) error {
	if p.refuses > 0 {
		p.refuses--
		return errors.New("the API server refuses")
	}
	p.reports++
	p.status, p.messages = map[string]metav1.ConditionStatus{}, map[string]string{}
	for _, c := range devices[0].Conditions {
		p.status[*c.Type], p.messages[*c.Type] = *c.Status, *c.Message
	}
	return nil
}

func (p *paper) warn(_ string, pod claim.Pod, reason, text string) {
	p.warnings = append(p.warnings, pod.Name+" "+reason+" "+text)
}

// reporting returns a driver with one prepared claim, and its cluster.
func reporting() (*Driver, *state, *paper) {
	p := &paper{held: &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gpu", UID: "c1"}}}
	p.held.Status.Allocation = &resourcev1.AllocationResult{}
	p.held.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: words.Driver, Pool: "node-1", Device: "gpu-1"}}
	d := &Driver{o: Options{Node: "node-1", Metrics: export.New(), Log: slog.New(slog.DiscardHandler)}, cluster: p, known: map[string]*state{}}
	d.teller = newTeller(d)
	st := &state{
		UID: "c1", Namespace: "shop", Name: "gpu", Fence: 7, Request: &api.LeaseRequest{ID: "c1"},
		Pods: []claim.Pod{{Name: "one"}, {Name: "two"}}, Results: results(p.held, "node-1"),
	}
	d.known["c1"] = st
	return d, st, p
}

func leaseOf(used gpu.MiB) api.Lease {
	return api.Lease{
		ID: "c1", Fence: 7, EnforcedBy: "watchdog", Launch: &api.Launch{Receipt: "berth measures it."},
		Parts: []api.LeasePart{{GPU: "GPU-1", Memory: 4096, Slots: 1, Measured: gpu.Some(used)}},
	}
}

// What happens to a lease is in the status of its claim and in events on its pods, in
// the daemon's words, and nothing is written while nothing changes.
func TestTeller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, st, p := reporting()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.teller.run(ctx)
		expect := func(what string, reports int, ready, enforced, within metav1.ConditionStatus) {
			t.Helper()
			synctest.Wait()
			if p.reports != reports || p.status[words.Ready] != ready || p.status[words.Enforced] != enforced || p.status[words.WithinLimit] != within {
				t.Errorf("%s: after %d reports the status is %v", what, p.reports, p.status)
			}
		}
		const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
		d.teller.prepared(st, leaseOf(0))
		expect("prepared", 1, yes, yes, yes)
		if p.messages[words.Enforced] != "berth measures it." || p.messages[words.Ready] != "The lease holds 4 GiB and 1 slot on GPU-1." {
			t.Errorf("%q", p.messages)
		}
		happens := func(code gpu.EventCode, fence uint64, text string) {
			d.teller.happened(gpu.Event{Code: code, Lease: "c1", Text: text, Data: map[string]any{"fence": fence}})
		}
		happens(gpu.EventOverLimit, 6, "an earlier lease")
		expect("an event of an earlier lease", 1, yes, yes, yes)
		happens(gpu.EventOverLimit, 7, "too much")
		expect("over the limit", 2, yes, yes, no)
		d.teller.looked(st, leaseOf(5000))
		expect("still over the limit", 2, yes, yes, no)
		happens(gpu.EventStopped, 7, "ended")
		expect("stopped", 2, yes, yes, no)
		d.teller.looked(st, leaseOf(10))
		expect("within the limit", 3, yes, yes, yes)
		d.teller.looked(st, leaseOf(20))
		expect("a sample later", 3, yes, yes, yes)
		happens(gpu.EventStop, 7, "hot")
		happens(gpu.EventRevoked, 7, "taken away")
		expect("revoked", 4, no, yes, yes)
		d.teller.lost(st, &api.Problem{Status: 409, Code: "insufficient_memory", Detail: "no room"})
		d.teller.lost(st, &api.Problem{Status: 409, Code: "insufficient_memory", Detail: "no room"})
		expect("no room", 5, no, yes, yes)
		d.teller.prepared(st, leaseOf(0))
		expect("back", 6, yes, yes, yes)
		want := []string{
			"one LeaseOverLimit too much", "two LeaseOverLimit too much", "one LeaseStopped ended", "two LeaseStopped ended",
			"one LeaseStop hot", "two LeaseStop hot", "one LeaseRevoked taken away", "two LeaseRevoked taken away",
			"one LeaseLost The lease of claim gpu is gone, and berth does not grant it again: no room", "two LeaseLost The lease of claim gpu is gone, and berth does not grant it again: no room",
		}
		if strings.Join(p.warnings, "\n") != strings.Join(want, "\n") {
			t.Errorf("the pods were told\n%s", strings.Join(p.warnings, "\n"))
		}
	})
}

// An API server that refuses is asked again, with growing pauses, until it takes the
// status: what it does not know, pods wait for.
func TestTellerRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, st, p := reporting()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.teller.run(ctx)
		p.refuses = 3
		d.teller.prepared(st, leaseOf(0))
		time.Sleep(time.Minute)
		synctest.Wait()
		if p.reports != 1 {
			t.Errorf("%d reports after the API server works again", p.reports)
		}
		p.refuses = 100
		d.teller.prepared(st, leaseOf(0))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if p.refuses != 0 || p.reports != 2 {
			t.Errorf("%d refusals are left, and there are %d reports", p.refuses, p.reports)
		}
		p.refuses = 1 << 20
		d.teller.prepared(st, leaseOf(0))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if tried := 1<<20 - p.refuses; tried > int(24*time.Hour/longestPause)+10 {
			t.Errorf("the API server was asked %d times in a day", tried)
		}
		p.refuses = 0
		time.Sleep(longestPause)
		synctest.Wait()
		if p.reports != 3 {
			t.Errorf("%d reports", p.reports)
		}
		p.held.UID = types.UID("c2")
		d.teller.prepared(st, leaseOf(0))
		synctest.Wait()
		if p.reports != 3 || len(d.teller.reports) != 0 {
			t.Errorf("%d reports, the last of them for another claim", p.reports)
		}
	})
}

// A status that says the same already is not written again, and what it said keeps its
// time.
func TestWriteOnce(t *testing.T) {
	d, st, p := reporting()
	r := report{st: st, lease: leaseOf(0), receipt: "berth measures it."}
	before := &resourcev1.AllocatedDeviceStatus{Driver: words.Driver, Pool: "node-1", Device: "gpu-1"}
	before.Conditions = r.conditions(nil, time.Unix(1000, 0))
	before.Data = &runtime.RawExtension{Raw: []byte(`{"fence": 7, "enforced_by": "watchdog", "lease": "c1"}`)}
	p.held.Status.Devices = []resourcev1.AllocatedDeviceStatus{*before}
	r.receipt = "" // a driver that has started again does not know it
	if err := d.teller.write(t.Context(), r); err != nil || p.reports != 0 {
		t.Errorf("%d reports, %v", p.reports, err)
	}
	r.over = "too much"
	now := r.conditions(before, time.Unix(2000, 0))
	if now[0].LastTransitionTime.Unix() != 1000 || now[2].LastTransitionTime.Unix() != 2000 || now[1].Message != "berth measures it." {
		t.Errorf("%+v", now)
	}
	if err := d.teller.write(t.Context(), r); err != nil || p.reports != 1 {
		t.Errorf("%d reports, %v", p.reports, err)
	}
}

// A claim that allows parking says where its memory is, also to a driver that starts while
// it is parked; other claims have no such condition.
func TestTellerOfParkedClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, st, p := reporting()
		st.Request.Optimize = []string{"park"}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.teller.run(ctx)
		expect := func(what string, want metav1.ConditionStatus) {
			t.Helper()
			synctest.Wait()
			if p.status[words.OnDevice] != want || p.status[words.Ready] != metav1.ConditionTrue {
				t.Errorf("%s: the status is %v", what, p.status)
			}
		}
		happens := func(code gpu.EventCode, text string) {
			d.teller.happened(gpu.Event{Code: code, Lease: "c1", Text: text, Data: map[string]any{"fence": uint64(7)}})
		}
		d.teller.prepared(st, leaseOf(0))
		expect("prepared", metav1.ConditionTrue)
		happens(gpu.EventParked, "c1 is parked")
		expect("parked", metav1.ConditionFalse)
		away := leaseOf(0)
		away.State = "parked"
		reports := p.reports
		d.teller.looked(st, away)
		if expect("looked at", metav1.ConditionFalse); p.reports != reports || p.messages[words.OnDevice] != "c1 is parked" {
			t.Errorf("%d reports, %q", p.reports-reports, p.messages)
		}
		happens(gpu.EventResumed, "c1 is back")
		expect("resumed", metav1.ConditionTrue)
		d.teller.looked(st, away)
		expect("seen parked, without the event", metav1.ConditionFalse)
		d.teller.looked(st, leaseOf(0))
		expect("seen back, without the event", metav1.ConditionTrue)
		if want := "one LeaseParked c1 is parked\ntwo LeaseParked c1 is parked"; strings.Join(p.warnings, "\n") != want {
			t.Errorf("the pods were told %q", p.warnings)
		}
		st.Request.Optimize = []string{"trim"}
		d.teller.prepared(st, leaseOf(0))
		expect("a claim that does not allow it", "")
	})
}

// A claim whose status is written as a whole keeps the devices of others, and its
// parameters letter by letter.
func TestWithDevices(t *testing.T) {
	_, _, p := reporting()
	raw := []byte(`{"kind":  "Lease"}`)
	p.held.Status.Allocation.Devices.Config = []resourcev1.DeviceAllocationConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
		Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: words.Driver, Parameters: runtime.RawExtension{Raw: raw}}}}}
	p.held.Status.Devices = []resourcev1.AllocatedDeviceStatus{
		{Driver: "nic.example.com", Pool: "node-1", Device: "eth1"}, {Driver: words.Driver, Pool: "node-1", Device: "old"}, {Driver: words.Driver, Pool: "node-2", Device: "gpu-1"},
	}
	at := metav1.NewTime(time.Unix(1000, 0))
	own := resourceapply.AllocatedDeviceStatus().WithDriver(words.Driver).WithPool("node-1").WithDevice("gpu-1").WithShareID("s").WithData(runtime.RawExtension{Raw: []byte("{}")}).
		WithConditions(metaapply.Condition().WithType("Ready").WithStatus(metav1.ConditionTrue).WithReason("Leased").WithMessage("m").WithLastTransitionTime(at))
	got := withDevices(p.held, []*resourceapply.AllocatedDeviceStatusApplyConfiguration{own})
	var names []string
	for _, d := range got.Status.Devices {
		names = append(names, d.Driver+" "+d.Pool+" "+d.Device)
	}
	if want := "nic.example.com node-1 eth1, gpu.berth.dev node-2 gpu-1, gpu.berth.dev node-1 gpu-1"; strings.Join(names, ", ") != want {
		t.Errorf("the devices are %q", names)
	}
	last := got.Status.Devices[2]
	if *last.ShareID != "s" || string(last.Data.Raw) != "{}" || len(last.Conditions) != 1 || last.Conditions[0] != (metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Leased", Message: "m", LastTransitionTime: at}) {
		t.Errorf("%+v", last)
	}
	if string(got.Status.Allocation.Devices.Config[0].Opaque.Parameters.Raw) != string(raw) || len(p.held.Status.Devices) != 3 {
		t.Error("the parameters or the claim itself have changed")
	}
}
