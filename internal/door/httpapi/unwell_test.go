package httpapi_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/daemon/daemontest"
)

// await waits for an event with this code.
func await(t *testing.T, c *client.Client, code gpu.EventCode) gpu.Event {
	t.Helper()
	e, err := daemontest.Await(t.Context(), c, gpu.EventFilter{Codes: []gpu.EventCode{code}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// closed checks that every answer about a device says that nothing is granted
// there, and why.
func closed(t *testing.T, c *client.Client, ref, why string) {
	t.Helper()
	one, err := c.Status(t.Context(), ref)
	for err == nil && one.Slots.Usable != 0 { // the ledger hears of it a moment after the event
		one, err = c.Status(t.Context(), ref)
	}
	if err != nil || !strings.Contains(one.Reason, why) || one.Slots.Usable != 0 || one.Multiplier != 0 {
		t.Errorf("status of %s: %+v, %v; want it closed: %s", ref, one, err, why)
	}
	room, err := c.Available(t.Context())
	i := slices.IndexFunc(room.GPUs, func(d api.DeviceAvailable) bool { return d.GPU == one.Device.UUID })
	if err != nil || i < 0 || room.GPUs[i].Available != 0 || !strings.Contains(room.GPUs[i].Reason, why) {
		t.Errorf("available: %+v, %v; want nothing on %s: %s", room, err, ref, why)
	}
	_, err = c.Allocate(t.Context(), api.Allocate{ID: "more", Memory: 1024, GPU: gpu.Ref(ref)})
	refused := (*api.Problem)(nil)
	if !errors.As(err, &refused) || refused.Status != 409 || !strings.Contains(refused.Detail, why) {
		t.Errorf("asking for %s: %v; want a refusal: %s", ref, err, why)
	}
	e, err := c.Explain(t.Context(), api.LeaseRequest{Memory: 1024, GPU: gpu.Ref(ref)})
	i = slices.IndexFunc(e.Devices, func(o api.Obstacle) bool { return o.GPU == one.Device.UUID })
	if err != nil || e.Fits || i < 0 || e.Devices[i].Code != "closed" || !strings.Contains(e.Devices[i].Text, why) {
		t.Errorf("explained: %+v, %v; want %s closed: %s", e, err, ref, why)
	}
}

// A device in quarantine is shown as such, measured on, and not granted. The
// others are.
func TestQuarantinedDevice(t *testing.T) {
	c := daemontest.Open(t, daemontest.Options{Devices: daemontest.Scenario(t, `
devices: 2
timeline: [{at: 500ms, repeat: 1s, device: 0, xid: 48}]
`)})
	if e := await(t, c, gpu.EventDeviceQuarantined); e.GPU != "SIM-h200-0" || e.Severity != gpu.Serious {
		t.Errorf("told %+v", e)
	}
	closed(t, c, "0", "in quarantine until")
	all, err := c.StatusAll(t.Context())
	if err != nil || len(all.GPUs) != 2 {
		t.Fatalf("status of all: %+v, %v", all, err)
	}
	shut, other := all.GPUs[0], all.GPUs[1]
	if shut.State != gpu.Unavailable || shut.Health != gpu.Unhealthy || shut.Sample == nil || shut.Well() {
		t.Errorf("status %+v; want it unavailable, unhealthy and measured", shut)
	}
	if shut.Trust == nil || shut.Trust.Phase != "quarantine" || shut.Trust.Why == "" || shut.Trust.Until == nil || !shut.Trust.Until.After(*shut.Trust.Since) {
		t.Errorf("trust %+v; want a quarantine with an end and a reason", shut.Trust)
	}
	if !other.Well() {
		t.Errorf("the other device is %+v", other)
	}
	granted, err := c.Allocate(t.Context(), api.Allocate{ID: "work", Memory: 1024})
	if err != nil || granted.Parts[0].GPU != other.Device.UUID || granted.Parts[0].Index != gpu.Some(1) {
		t.Errorf("granted %+v, %v; want the device that is well", granted, err)
	}
}

// A device that is gone is shown with its last sample, and not granted.
func TestLostDevice(t *testing.T) {
	c := daemontest.Open(t, daemontest.Options{Devices: daemontest.Scenario(t, `
devices: 2
timeline: [{at: 2s, for: 118s, repeat: 120s, device: 1, lost: true}]
`)})
	await(t, c, gpu.EventDeviceLost)
	closed(t, c, "1", "not on the bus")
	gone, err := c.Status(t.Context(), "SIM-h200-1")
	if err != nil || gone.State != gpu.Unavailable || gone.Well() {
		t.Errorf("status %+v, %v", gone, err)
	}
	all, err := c.StatusAll(t.Context())
	if err != nil || len(all.GPUs) != 2 {
		t.Fatalf("status of all: %+v, %v", all, err)
	}
	slots := all.GPUs[0].Slots.Capacity
	want := api.Utilization{TotalGPUs: 1, TotalCapacity: slots, PerGPU: map[string]api.GPUUtilization{"SIM-h200-0": {Capacity: slots}}}
	if diff := cmp.Diff(want, all.Utilization); diff != "" {
		t.Errorf("the totals count a device that is gone (-want +got):\n%s", diff)
	}
}

// should_throttle is true from THROTTLED on, as the event is. NORMAL is no
// reason to slow down; its multiplier is.
func TestShouldThrottle(t *testing.T) {
	c := daemontest.Open(t, daemontest.Options{Devices: "sim:1"})
	for _, step := range []struct {
		thresholds string
		state      gpu.State
		multiplier float64
		throttle   bool
	}{
		{`{"throttle_cooldown_seconds":0,"critical_pause_seconds":0}`, gpu.Optimal, 1, false},
		{`{"temp_optimal":1}`, gpu.Normal, 0.8, false},
		{`{"temp_normal":2}`, gpu.Throttled, 0.5, true},
		{`{"temp_throttle":3}`, gpu.Critical, 0, true},
	} {
		if _, err := c.SetConfig(t.Context(), json.RawMessage(step.thresholds)); err != nil {
			t.Fatal(err)
		}
		got, err := c.Throttle(t.Context(), "0")
		for err == nil && got.State != step.state { // until the next sample
			got, err = c.Throttle(t.Context(), "0")
		}
		if err != nil || got.Multiplier != step.multiplier || got.Throttle != step.throttle {
			t.Errorf("%s: %+v, %v; want should_throttle %v", step.state, got, err, step.throttle)
		}
	}
}

// The holder of a device that is too hot is told to stop, and keeps its lease.
func TestStoppedHolder(t *testing.T) {
	c := daemontest.Open(t, daemontest.Options{Devices: "sim:1"})
	held, err := c.Allocate(t.Context(), api.Allocate{ID: "work", Memory: 1024})
	if err != nil {
		t.Fatal(err)
	}
	cool := json.RawMessage(`{"temp_optimal":1,"temp_normal":2,"temp_throttle":3,"temp_critical":4}`)
	if _, err := c.SetConfig(t.Context(), cool); err != nil {
		t.Fatal(err)
	}
	stop := await(t, c, gpu.EventStop)
	if stop.Lease != "work" || stop.GPU != "SIM-h200-0" || stop.Severity != gpu.Serious || stop.User != held.Holder.User || stop.Data["too_hot"] != true {
		t.Errorf("told %+v; want the holder of work to stop", stop)
	}
	for _, code := range []gpu.EventCode{gpu.EventCritical, gpu.EventOverheat} {
		if e := await(t, c, code); e.GPU != "SIM-h200-0" {
			t.Errorf("told %+v", e)
		}
	}
	closed(t, c, "0", "is above temp_critical")
	if l, err := c.Lease(t.Context(), "work"); err != nil || l.State != "active" || l.Fence != held.Fence {
		t.Errorf("the lease is %+v, %v; want it to stand", l, err)
	}
}
