package plugin_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/words"
)

const (
	gpu0 = "sim-h200-0"
	gpu1 = "sim-h200-1"
)

// start stores claims and prepares them.
func (m *machine) start(claims ...*resourcev1.ResourceClaim) {
	m.t.Helper()
	for _, c := range claims {
		m.cluster.put(c)
	}
	if _, err := m.prepare(claims...); err != nil {
		m.t.Fatal(err)
	}
}

// stop unprepares claims and removes them.
func (m *machine) stop(claims ...*resourcev1.ResourceClaim) {
	m.t.Helper()
	if err := m.unprepare(claims...); err != nil {
		m.t.Fatal(err)
	}
	for _, c := range claims {
		m.cluster.remove(c)
	}
}

// nothingLeft checks that no lease and no file is left.
func (m *machine) nothingLeft() {
	m.t.Helper()
	if l := m.leases(); len(l) > 0 {
		m.t.Errorf("leases are left: %+v", l)
	}
	if f := m.files("cdi"); len(f) > 0 {
		m.t.Errorf("CDI files are left: %v", f)
	}
	if f := m.files("p/" + words.Driver + "/state"); len(f) > 0 {
		m.t.Errorf("state files are left: %v", f)
	}
}

// environment returns what the CDI file of a claim adds to a container.
func (m *machine) environment(c *resourcev1.ResourceClaim) []string {
	m.t.Helper()
	text, err := os.ReadFile(m.path("cdi/berth.dev-lease_" + string(c.UID) + ".json"))
	if err != nil {
		m.t.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(text, &spec); err != nil || len(spec.Devices) != 1 {
		m.t.Fatalf("%v: %s", err, text)
	}
	return spec.Devices[0].ContainerEdits.Env
}

// A claim gets the lease that the scheduler counted, and a container what it needs to
// know. The same call again changes nothing. In the end nothing is left.
func TestPrepare(t *testing.T) {
	m := newMachine(t, "sim:2")
	c := claimOf("embedder", gpu1, 8192, 1)
	m.cluster.put(c)
	for range 2 {
		devices, err := m.prepare(c)
		if err != nil || len(devices) != 1 {
			t.Fatalf("%v, %v", devices, err)
		}
		d := devices[0]
		want := []string{cdi.Name(string(c.UID))}
		if d.PoolName != node || d.DeviceName != gpu1 || !slices.Equal(d.RequestNames, []string{"gpu"}) || !slices.Equal(d.CdiDeviceIds, want) ||
			d.GetShareId() != string(*c.Status.Allocation.Devices.Results[0].ShareID) {
			t.Errorf("kubelet gets %+v", d)
		}
	}
	l, ok := m.leases()[string(c.UID)]
	if !ok || len(l.Parts) != 1 || l.Parts[0].GPU != "SIM-h200-1" || l.Parts[0].Memory != 8192 || l.Parts[0].Slots != 1 ||
		l.Binding != "named" || l.Holder.Name != namespace+"/embedder" || !slices.Equal(l.Scope, []string{"pod" + string(c.Status.ReservedFor[0].UID)}) {
		t.Errorf("the lease is %+v", l)
	}
	env := m.environment(c)
	for _, want := range []string{"BERTH_LEASE=" + string(c.UID), "CUDA_VISIBLE_DEVICES=SIM-h200-1", "NVIDIA_VISIBLE_DEVICES=void"} {
		if !slices.Contains(env, want) {
			t.Errorf("the container has no %s: %v", want, env)
		}
	}
	m.eventually("status of the claim", func() string {
		devices := m.cluster.claim(c).Status.Devices
		if len(devices) != 1 || len(devices[0].Conditions) != 3 {
			return "it is missing"
		}
		for _, condition := range devices[0].Conditions {
			if condition.Status != "True" {
				return condition.Type + ": " + condition.Message
			}
		}
		if !strings.Contains(string(devices[0].Data.Raw), string(c.UID)) {
			return string(devices[0].Data.Raw)
		}
		return ""
	})
	m.stop(c)
	if err := m.unprepare(c); err != nil {
		t.Error(err)
	}
	m.nothingLeft()
}

// The devices of the daemon are published, and nothing more while nothing happens.
func TestPublish(t *testing.T) {
	m := newMachine(t, "sim:2")
	m.eventually("devices", func() string {
		if d := m.cluster.devices(); len(d) != 2 || d[0].Name != gpu0 || d[1].Name != gpu1 {
			return "not published"
		}
		return ""
	})
	d := m.cluster.devices()[0]
	memory, slots := d.Capacity[words.Memory], d.Capacity[words.Slots]
	if slots.Value.Value() != 4 || memory.Value.Value() <= 140000<<20 || d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations {
		t.Errorf("published as %+v", d)
	}
	if min := memory.RequestPolicy.ValidRange.Min; min.Value() != int64(gpu.MiB(600))<<20 {
		t.Errorf("the least is %v", min)
	}
}
