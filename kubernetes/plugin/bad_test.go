package plugin_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/kubernetes/claim"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// A claim that cannot have a lease is refused with a sentence that says why, and
// leaves nothing behind. Once it can, it is prepared.
func TestRefused(t *testing.T) {
	m := newMachine(t, "sim:2", func(m *machine) {
		m.config += "services:\n  small:\n    max_memory_mb: 4096\n    namespaces: [" + namespace + "]\n  large:\n    min_memory_mb: 8192\n    namespaces: [" + namespace + "]\n  theirs:\n    namespaces: [theirs]\n"
	})
	for _, x := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		want  []string
	}{
		{"an unknown field", with(claimOf("a", gpu0, 1024, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"memorry": 3}), []string{"memorry"}},
		{"another kind", with(claimOf("a", gpu0, 1024, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"enforce": "strictly"}), []string{"strictly"}},
		{"mps", with(claimOf("a", gpu0, 1024, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"enforce": "mps"}), []string{"mps"}},
		{"more than a service may have", with(claimOf("a", gpu0, 8192, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"service": "small"}), []string{"small", "4"}},
		{"less than a service needs", with(claimOf("a", gpu0, 4096, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"service": "large"}), []string{"large", "8"}},
		{"another's service", with(claimOf("a", gpu0, 4096, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"service": "theirs"}), []string{"theirs", namespace, "services.theirs.namespaces"}},
		{"a device that does not exist", claimOf("a", "gpu-00000000-dead", 1024, 1), []string{"gpu-00000000-dead", node}},
		{"more than the device has", claimOf("a", gpu0, 200<<10, 1), []string{"GPU 0"}},
		{"more slots than the device has", claimOf("a", gpu0, 1024, 5), []string{"slot"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			m.cluster.put(x.claim)
			_, err := m.prepare(x.claim)
			if err == nil {
				t.Fatal("prepared")
			}
			for _, want := range x.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			t.Log(err)
			m.nothingLeft()
			m.stop(x.claim)
		})
	}
	_, metrics := m.page("/metrics")
	for _, code := range []string{"bad_parameters", "other_service", "unknown_device", "insufficient_memory"} {
		if !strings.Contains(metrics, `berth_dra_refusals_total{code="`+code+`"}`) {
			t.Errorf("no refusal with the code %s is counted:\n%s", code, metrics)
		}
	}
	m.start(claimOf("last", gpu0, 1024, 1))
}

// What the API server refuses or does not answer fails a Prepare that has to know, and
// nothing else. It is counted, and the driver goes on.
func TestAPIServerFails(t *testing.T) {
	m := newMachine(t, "sim:1")
	c := claimOf("embedder", gpu0, 1024, 1)
	for _, x := range []struct {
		name   string
		refuse func(*http.Request) int
		reason string
	}{
		{"403", on("GET", "/resourceclaims/", 403), "Forbidden"},
		{"500", on("GET", "/resourceclaims/", 500), ""},
	} {
		t.Run("claims "+x.name, func(t *testing.T) {
			m.cluster.put(c)
			m.cluster.refuses(x.refuse)
			if _, err := m.prepare(c); err == nil {
				t.Error("prepared")
			}
			m.cluster.refuses(nil)
			m.nothingLeft()
		})
	}
	for _, x := range []struct {
		name, reason string
		code         int
	}{{"403", "Forbidden", 403}, {"409", "Conflict", 409}, {"nothing", "NoAnswer", -1}} {
		t.Run("status "+x.name, func(t *testing.T) {
			m.cluster.refuses(on("PATCH", "/status", x.code))
			m.start(c)
			m.eventually("counted", func() string {
				if _, text := m.page("/metrics"); !strings.Contains(text, `berth_dra_api_errors_total{reason="`+x.reason+`",what="claim_status"}`) {
					return text
				}
				return ""
			})
			m.cluster.refuses(nil)
			m.eventually("status", func() string {
				if len(m.cluster.claim(c).Status.Devices) != 1 {
					return "it is not written later"
				}
				return ""
			})
			m.stop(c)
			m.nothingLeft()
		})
	}
	t.Run("slices", func(t *testing.T) {
		m.cluster.refuses(func(r *http.Request) int {
			if r.Method != "GET" && strings.Contains(r.URL.Path, "/resourceslices") {
				return 403
			}
			return 0
		})
		m.killDriver()
		m.startDriver()
		m.start(c)
		m.stop(c)
		m.cluster.refuses(nil)
		m.nothingLeft()
	})
}

// Two claims of one pod would overwrite each other's variables, so neither limits the
// libraries of the program. That is also so if the second comes later.
func TestTwoClaims(t *testing.T) {
	m := newMachine(t, "sim:2")
	alone := with(claimOf("alone", gpu0, 4096, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"enforce": "auto"})
	a := with(claimOf("a", gpu0, 4096, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"enforce": "auto"})
	b := with(claimOf("b", gpu1, 4096, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"enforce": "auto"})
	later := with(claimOf("later", gpu1, 4096, 1), resourcev1.AllocationConfigSourceClaim, map[string]any{"enforce": "auto"})
	b.Status.ReservedFor, later.Status.ReservedFor = a.Status.ReservedFor, a.Status.ReservedFor
	m.start(alone)
	m.start(a, b)
	m.start(later)
	leases := m.leases()
	if by := leases[string(alone.UID)].EnforcedBy; by != "framework" {
		t.Errorf("a claim alone is enforced by %s", by)
	}
	for _, c := range []*resourcev1.ResourceClaim{a, b, later} {
		if by := leases[string(c.UID)].EnforcedBy; by != "watchdog" {
			t.Errorf("claim %s is enforced by %s", c.Name, by)
		}
		if env := strings.Join(m.environment(c), " "); strings.Contains(env, "XLA_") || strings.Contains(env, "CUPY_") {
			t.Errorf("claim %s sets %s", c.Name, env)
		}
	}
	m.stop(alone, a, b, later)
	m.nothingLeft()
}

// One claim that two pods use is one lease, which has both in its scope.
func TestSharedClaim(t *testing.T) {
	m := newMachine(t, "sim:1")
	c := shared(claimOf("common", gpu0, 4096, 1))
	m.start(c)
	before := m.leases()[string(c.UID)]
	c = joined(c, "second")
	m.cluster.put(c)
	m.eventually("the second pod joins", func() string {
		if l := m.leases()[string(c.UID)]; len(l.Scope) != 2 || l.Fence != before.Fence {
			return strings.Join(l.Scope, ", ")
		}
		return ""
	})
	m.eventually("the page of the node", func() string {
		if _, page := m.page("/node"); !strings.Contains(page, `"pods":["common","second"]`) {
			return page
		}
		return ""
	})
	m.stop(c)
	m.nothingLeft()
}

// A claim that lasts sees more pods than a lease has room for: those that are gone make
// room for those that come.
func TestSharedClaimLasts(t *testing.T) {
	m := newMachine(t, "sim:1")
	c := shared(claimOf("common", gpu0, 4096, 1))
	m.start(c)
	for round := range 3 {
		c.Status.ReservedFor = c.Status.ReservedFor[:0]
		for i := range claim.MaxScope - 60 {
			c = joined(c, fmt.Sprintf("pod-%d-%d", round, i))
		}
		m.cluster.put(c)
		m.eventually("the pods join", func() string {
			l := m.leases()[string(c.UID)]
			for _, pod := range c.Status.ReservedFor {
				if !slices.Contains(l.Scope, "pod"+string(pod.UID)) {
					return pod.Name + " is missing"
				}
			}
			return ""
		})
	}
	m.stop(c)
	m.nothingLeft()
}

// Access for administration holds nothing.
func TestAdministration(t *testing.T) {
	m := newMachine(t, "sim:1")
	yes := true
	c := claimOf("look", gpu0, 0, 0)
	c.Status.Allocation.Devices.Results[0].AdminAccess = &yes
	m.start(c)
	m.nothingLeft()
	m.stop(c)
}

// A cluster without shares by amount and without taints gets fixed shares.
func TestFixedShares(t *testing.T) {
	m := newMachine(t, "sim:1", func(m *machine) { m.cluster.plain = true })
	m.eventually("fixed shares", func() string {
		if d := m.cluster.devices(); len(d) != 4 || d[0].Name != gpu0+"-s0" {
			return "not published"
		}
		return ""
	})
	a, b := claimOf("a", gpu0+"-s0", 0, 0), claimOf("b", gpu0+"-s1", 0, 0)
	for _, c := range []*resourcev1.ResourceClaim{a, b} {
		r := &c.Status.Allocation.Devices.Results[0]
		r.ShareID, r.ConsumedCapacity = nil, nil
		m.start(c)
	}
	for _, l := range m.leases() {
		if p := l.Parts[0]; p.Memory < 30000 || p.Memory > 36000 || p.Slots != 1 {
			t.Errorf("the lease of a fixed share has %+v", p)
		}
	}
	m.stop(a)
	m.stop(b)
	m.nothingLeft()
}

// A daemon that goes away taints its devices and makes their health unknown; when it is
// back, both are as before.
func TestDaemonAway(t *testing.T) {
	m := newMachine(t, "sim:1")
	c := claimOf("embedder", gpu0, 4096, 1)
	m.start(c)
	fence := m.leases()[string(c.UID)].Fence
	m.kill(&m.daemon)
	m.eventually("taint", func() string {
		if d := m.cluster.devices(); len(d) != 1 || len(d[0].Taints) != 1 || d[0].Taints[0].Key != words.Driver+"/"+words.Away || d[0].Taints[0].Effect != resourcev1.DeviceTaintEffectNoSchedule {
			return "there is none"
		}
		return ""
	})
	if _, err := m.prepare(c); err == nil {
		t.Error("prepared without a daemon")
	}
	if err := m.unprepare(c); err == nil {
		t.Error("unprepared without a daemon")
	}
	if code, text := m.page("/readyz"); code != 503 || !strings.Contains(text, "does not answer") {
		t.Error(code, text)
	}
	if code, text := m.page("/healthz"); code != 200 {
		t.Error(code, text)
	}
	if _, text := m.page("/metrics"); !strings.Contains(text, "berth_dra_daemon_up 0") {
		t.Error(text)
	}
	m.startDaemon()
	m.eventually("taint away", func() string {
		if d := m.cluster.devices(); len(d) != 1 || len(d[0].Taints) != 0 {
			return "it is there"
		}
		return ""
	})
	m.start(c) // unprepare has removed its CDI file
	if l := m.leases()[string(c.UID)]; l.Fence != fence {
		t.Errorf("the fence was %d and is %d", fence, l.Fence)
	}
	m.stop(c)
	m.nothingLeft()
}
