package plugin_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/berth-gpu/berth/kubernetes/plugin"
)

// A Prepare whose claim changes while the lease is acquired gives the lease back.
func TestChangesMeanwhile(t *testing.T) {
	m := newMachine(t, "sim:1")
	for _, x := range []struct {
		name   string
		change func(c *resourcev1.ResourceClaim)
		want   string
	}{
		{"the claim is deleted", m.cluster.remove, "does not exist any more"},
		{"the claim is made again", func(c *resourcev1.ResourceClaim) { m.cluster.put(claimOf(c.Name, gpu0, 1024, 1)) }, "does not exist any more"},
		{"the claim is deallocated", func(c *resourcev1.ResourceClaim) {
			other := c.DeepCopy()
			other.Status.Allocation = nil
			m.cluster.put(other)
		}, "is not allocated on node"},
		{"the claim is allocated elsewhere", func(c *resourcev1.ResourceClaim) {
			other := c.DeepCopy()
			other.Status.Allocation.Devices.Results[0].Pool = "node-2"
			m.cluster.put(other)
		}, "is not allocated on node"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := claimOf("embedder", gpu0, 1024, 1)
			m.cluster.put(c)
			m.at(func(step string) {
				if step == plugin.StepAcquired {
					x.change(c)
				}
			})
			_, err := m.prepare(c)
			m.at(nil)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v", err)
			}
			m.nothingLeft()
		})
	}
}

// A Prepare that kubelet no longer waits for gives its lease back, and the next one
// gets one. A lease that an earlier Prepare has stays.
func TestTooLate(t *testing.T) {
	m := newMachine(t, "sim:1")
	c := claimOf("embedder", gpu0, 1024, 1)
	m.cluster.put(c)
	late := func() {
		t.Helper()
		m.at(func(step string) {
			if step == plugin.StepAcquired {
				m.cluster.refuses(on("GET", "/resourceclaims/", -1)) // until kubelet gives up
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := drav1.NewDRAPluginClient(m.dra).NodePrepareResources(ctx, &drav1.NodePrepareResourcesRequest{Claims: named([]*resourcev1.ResourceClaim{c})}); err == nil {
			t.Error("prepared too late")
		}
		m.at(nil)
		m.cluster.refuses(nil)
	}
	late()
	m.eventually("what is left", func() string {
		if len(m.leases()) > 0 || len(m.files("cdi")) > 0 {
			return "a lease or a file"
		}
		return ""
	})
	m.start(c)
	fence := m.leases()[string(c.UID)].Fence
	late()
	m.start(c)
	if l := m.leases()[string(c.UID)]; l.Fence != fence {
		t.Errorf("the fence was %d and is %d", fence, l.Fence)
	}
	m.stop(c)
	m.nothingLeft()
}

// After a reboot the folder of CDI files is empty: the driver writes those of the
// claims that are allocated, with the leases that they had.
func TestReboot(t *testing.T) {
	m := newMachine(t, "sim:2")
	a, b := claimOf("a", gpu0, 1024, 1), claimOf("b", gpu1, 2048, 1)
	m.start(a)
	m.start(b)
	envA, envB := m.environment(a), m.environment(b)
	m.killDriver()
	m.kill(&m.daemon)
	if err := os.RemoveAll(m.path("cdi")); err != nil {
		t.Fatal(err)
	}
	m.startDaemon()
	m.startDriver()
	m.eventually("CDI files", func() string {
		for _, c := range []*resourcev1.ResourceClaim{a, b} {
			if !slices.Contains(m.files("cdi"), "berth.dev-lease_"+string(c.UID)+".json") {
				return "not yet"
			}
		}
		return ""
	})
	if now := m.environment(a); strings.Join(now, " ") != strings.Join(envA, " ") {
		t.Errorf("the environment was %v and is %v", envA, now)
	}
	if now := m.environment(b); strings.Join(now, " ") != strings.Join(envB, " ") {
		t.Errorf("the environment was %v and is %v", envB, now)
	}
	m.stop(a)
	m.stop(b)
	m.nothingLeft()
}
