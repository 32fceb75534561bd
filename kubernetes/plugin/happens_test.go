package plugin_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	healthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// condition returns a condition of the device of a claim.
func (m *machine) condition(c *resourcev1.ResourceClaim, kind string) metav1.Condition {
	if now := m.cluster.claim(c); now != nil && len(now.Status.Devices) == 1 {
		for _, condition := range now.Status.Devices[0].Conditions {
			if condition.Type == kind {
				return condition
			}
		}
	}
	return metav1.Condition{}
}

// becomes waits until a condition of the claim has a status.
func (m *machine) becomes(c *resourcev1.ResourceClaim, kind string, want metav1.ConditionStatus) metav1.Condition {
	m.t.Helper()
	m.eventually(fmt.Sprintf("%s is %s", kind, want), func() string {
		if now := m.condition(c, kind); now.Status != want {
			return fmt.Sprintf("%+v", now)
		}
		return ""
	})
	return m.condition(c, kind)
}

// A lease that somebody releases comes back with a new fence. If there is no room
// then, the claim and its pod say so until there is.
func TestReleasedByHand(t *testing.T) {
	m := newMachine(t, "sim:1")
	c := claimOf("embedder", gpu0, 8192, 1)
	m.start(c)
	m.becomes(c, words.Ready, metav1.ConditionTrue)
	before := m.leases()[string(c.UID)]
	if _, err := m.admin.Release(t.Context(), string(c.UID), before.Fence); err != nil {
		t.Fatal(err)
	}
	m.eventually("lease", func() string {
		if l := m.leases()[string(c.UID)]; l.Fence <= before.Fence {
			return "it is not back"
		}
		return ""
	})
	m.eventually("CDI file", func() string {
		if want := fmt.Sprintf("BERTH_FENCE=%d", m.leases()[string(c.UID)].Fence); !strings.Contains(strings.Join(m.environment(c), " "), want) {
			return "it has the old fence"
		}
		return ""
	})

	// The driver is away while the lease goes and somebody else takes the room.
	m.killDriver()
	if _, err := m.admin.Release(t.Context(), string(c.UID), 0); err != nil {
		t.Fatal(err)
	}
	all, err := m.admin.Available(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.admin.Acquire(t.Context(), api.LeaseRequest{ID: "ada", Memory: all.GPUs[0].Available - 1024, Timeout: gpu.Some(0.0)}); err != nil {
		t.Fatal(err)
	}
	m.startDriver()
	lost := m.becomes(c, words.Ready, metav1.ConditionFalse)
	if !strings.Contains(lost.Message, "GPU 0") {
		t.Errorf("%+v", lost)
	}
	m.eventually("event", func() string {
		if said := m.cluster.said("embedder", "LeaseLost"); len(said) == 0 {
			return "the pod has none"
		}
		return ""
	})
	if _, err := m.admin.Release(t.Context(), "ada", 0); err != nil {
		t.Fatal(err)
	}
	m.becomes(c, words.Ready, metav1.ConditionTrue)
	m.stop(c)
	m.nothingLeft()
}

// scenario is a GPU that fails after some seconds, and the process of a pod that uses
// more than its lease holds.
const scenario = `
devices: 1xh200
timeline:
  - {at: 0s, device: 0, process: {pid: 5000001, name: train, memory_mb: 9000, uid: 1000, cgroup: /kubepods/pod%s/main}}
`

// A pod over its limit sees it in the status of its claim and as an event.
func TestOverLimit(t *testing.T) {
	c := claimOf("trainer", gpu0, 8192, 1)
	m := newMachine(t, "", func(m *machine) {
		m.devices = "sim:" + m.path("card.yaml")
		text := fmt.Sprintf(scenario, c.Status.ReservedFor[0].UID)
		if err := os.WriteFile(m.path("card.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	m.start(c)
	over := m.becomes(c, words.WithinLimit, metav1.ConditionFalse)
	m.eventually("event", func() string {
		if said := m.cluster.said("trainer", "LeaseOverLimit"); len(said) == 0 {
			return "the pod has none"
		}
		return ""
	})
	said := m.cluster.said("trainer", "LeaseOverLimit")[0]
	t.Log(over.Message, "|", said)
	if l := m.leases()[string(c.UID)]; len(l.Processes) != 1 || l.Processes[0].Evidence != "scope" {
		t.Errorf("the processes of the lease are %+v", l.Processes)
	}
	m.eventually("metrics", func() string {
		_, text := m.page("/metrics")
		want := `berth_dra_claim_memory_mb{claim="trainer",gpu="SIM-h200-0",kind="measured",namespace="shop",pod="trainer"} 9000`
		if !strings.Contains(text, want) {
			return text
		}
		return ""
	})
	if code, page := m.page("/node"); code != 200 || strings.Contains(page, "5000001") || !strings.Contains(page, `"claim":"trainer"`) {
		t.Errorf("%d %s", code, page)
	}

	// Two claims are gone and kubelet has forgotten both. The lease of the one whose
	// process still runs stays.
	idle := claimOf("idle", gpu0, 1024, 1)
	m.start(idle)
	m.cluster.remove(c)
	m.cluster.remove(idle)
	m.eventually("the other lease ends", func() string {
		if _, there := m.leases()[string(idle.UID)]; there {
			return "it is there"
		}
		return ""
	})
	if _, there := m.leases()[string(c.UID)]; !there {
		t.Error("the lease of a process that runs was ended")
	}
	m.stop(c)
	m.nothingLeft()
}

// A GPU that fails is tainted, and the stream of its health says why.
func TestQuarantine(t *testing.T) {
	m := newMachine(t, "", func(m *machine) {
		m.devices = "sim:" + m.path("card.yaml")
		text := "devices: 2xh200\ntimeline:\n  - {at: 2s, device: 0, xid: 79}\n"
		if err := os.WriteFile(m.path("card.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	stream, err := healthv1.NewDRAResourceHealthClient(m.dra).NodeWatchResources(t.Context(), &healthv1.NodeWatchResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		report, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Devices) != 2 || report.Devices[1].Health != healthv1.HealthStatus_HEALTHY {
			t.Fatalf("%+v", report.Devices)
		}
		if bad := report.Devices[0]; bad.Health == healthv1.HealthStatus_UNHEALTHY {
			if bad.Device.PoolName != node || bad.Device.DeviceName != gpu0 || bad.Message == "" {
				t.Errorf("%+v", bad)
			}
			break
		}
	}
	m.eventually("taint", func() string {
		for _, d := range m.cluster.devices() {
			if d.Name == gpu0 && len(d.Taints) == 1 && d.Taints[0].Key == words.Driver+"/"+words.Quarantine && d.Taints[0].Effect == resourcev1.DeviceTaintEffectNoExecute {
				return ""
			}
		}
		return "there is none"
	})
	c := claimOf("late", gpu0, 1024, 1)
	m.cluster.put(c)
	if _, err := m.prepare(c); err == nil || !strings.Contains(err.Error(), "quarantine") {
		t.Errorf("prepared on a GPU in quarantine: %v", err)
	}
	m.nothingLeft()
}

// A daemon without exact leases is refused with the version that it has and what the
// driver needs.
func TestOlderDaemon(t *testing.T) {
	m := newMachine(t, "sim:1", func(m *machine) { m.behind = "/old" })
	old, err := net.Listen("unix", m.path("old"))
	if err != nil {
		t.Fatal(err)
	}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "berth"})
	to.FlushInterval = -1
	to.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", m.path("d"))
	}}
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.json" {
			_, _ = w.Write([]byte(`{"components": {"schemas": {"LeaseRequest": {"properties": {"memory_mb": {}}}}}}`))
			return
		}
		to.ServeHTTP(w, r)
	})}
	go func() { _ = proxy.Serve(old) }()
	t.Cleanup(func() { _ = proxy.Close() })
	c := claimOf("embedder", gpu0, 1024, 1)
	m.cluster.put(c)
	_, err = m.prepare(c)
	if err == nil || !strings.Contains(err.Error(), "has no exact leases; this driver needs berth with") {
		t.Errorf("prepared by an older daemon: %v", err)
	}
	m.eventually("readiness", func() string {
		if code, text := m.page("/readyz"); code != 503 || !strings.Contains(text, "has no exact leases") {
			return text
		}
		return ""
	})
	m.nothingLeft()
}

// A claim that the scheduler gave other devices, while nobody ended its lease, gets a
// lease on those.
func TestAllocatedAgain(t *testing.T) {
	m := newMachine(t, "sim:2")
	c := claimOf("embedder", gpu0, 8192, 1)
	m.start(c)
	again := claimOf("embedder", gpu1, 4096, 1)
	again.UID = c.UID
	m.start(again)
	if l := m.leases(); len(l) != 1 || l[string(c.UID)].Parts[0].GPU != "SIM-h200-1" || l[string(c.UID)].Parts[0].Memory != 4096 {
		t.Errorf("%+v", l)
	}
	m.stop(again)
	m.nothingLeft()
}

// While nothing happens, the driver writes nothing to the API server.
func TestRest(t *testing.T) {
	m := newMachine(t, "sim:2")
	c := claimOf("embedder", gpu0, 8192, 1)
	m.start(c)
	m.becomes(c, words.Ready, metav1.ConditionTrue)
	looks := func(n int) {
		for range n {
			_, before := m.page("/node")
			m.eventually("look", func() string {
				if _, now := m.page("/node"); now == before {
					return "not yet"
				}
				return ""
			})
		}
	}
	looks(2)
	count := func() string {
		m.cluster.mu.Lock()
		defer m.cluster.mu.Unlock()
		return fmt.Sprint(m.cluster.writes, m.cluster.statuses, len(m.cluster.events))
	}
	before := count()
	looks(3)
	if now := count(); now != before {
		t.Errorf("the writes were %s and are %s", before, now)
	}
	m.stop(c)
	m.nothingLeft()
}

// A claim that allows it can be parked, and says so. A pod that starts again brings it
// back, with the same lease, and one that ends ends it also while it is parked.
func TestParkedClaim(t *testing.T) {
	m := newMachine(t, "sim:1")
	c := with(claimOf("embedder", gpu0, 8192, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"optimize": []string{"park"}})
	other := claimOf("other", gpu0, 8192, 1)
	m.start(c)
	m.start(other)
	m.becomes(c, words.OnDevice, metav1.ConditionTrue)
	before := m.leases()[string(c.UID)]
	if _, err := m.admin.Park(t.Context(), string(other.UID), api.Park{}); err == nil {
		t.Error("a claim that allows nothing was parked")
	}
	park := func() {
		t.Helper()
		if _, err := m.admin.Park(t.Context(), string(c.UID), api.Park{}); err != nil {
			t.Fatal(err)
		}
	}
	park()
	m.becomes(c, words.OnDevice, metav1.ConditionFalse)
	if _, err := m.prepare(c); err != nil {
		t.Fatal(err)
	}
	if now := m.leases()[string(c.UID)]; now.State != "active" || now.Fence != before.Fence {
		t.Errorf("after another start its lease is %s, with the fence %d", now.State, now.Fence)
	}
	m.becomes(c, words.OnDevice, metav1.ConditionTrue)
	park()
	m.stop(c)
	m.stop(other)
	m.nothingLeft()
}
