package main

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/kubernetes/words"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// optimizing returns the scenario about pods that allow to be optimized.
func optimizing() []Scenario {
	return []Scenario{
		{Number: 21, Does: "people at a node wait for a GPU that pods have: first pods that allow nothing, then one that allows parking; it is deleted while it is parked",
			Expects: "no pod leaves without its word; the one that allows it is parked, its claim and an event say so, it comes back when there is room, and its lease ends with it", Run: parkedPods},
	}
}

// at runs berth exec on the first node, as people do there.
func (h *H) at(memory string) *exec.Cmd {
	cmd := h.Node(1).On(h.run+"/bin/berth", "exec", "--memory", memory, "--enforce", "none", "--", "sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	h.Must(cmd.Start())
	return cmd
}

// leave ends a berth exec of people.
func leave(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
}

// people is true when so many leases of people at the node stand, and so many wait.
func (h *H) people(want int) Condition {
	return func() error {
		leases, err := h.Node(1).Leases()
		if err != nil {
			return err
		}
		have := 0
		for _, l := range leases {
			if l.Holder.User != "token:kubernetes" && l.State == "active" {
				have++
			}
		}
		if have != want {
			return fmt.Errorf("%d leases of people stand", have)
		}
		return nil
	}
}

// onDevice is true when the condition OnDevice of a pod's claim has a status; with an
// empty one, when the claim has no such condition.
func (h *H) onDevice(pod string, want metav1.ConditionStatus) Condition {
	return func() error {
		c, err := h.Claim(pod)
		if err != nil {
			return err
		}
		got := metav1.ConditionStatus("")
		for _, d := range c.Status.Devices {
			for _, one := range d.Conditions {
				if one.Type == words.OnDevice {
					got = one.Status
				}
			}
		}
		if len(c.Status.Devices) == 0 || got != want {
			return fmt.Errorf("the condition OnDevice of pod %s is %q", pod, got)
		}
		return nil
	}
}

// leaseIs is true when the lease of a pod is in a state.
func (h *H) leaseIs(pod, state string) Condition {
	return func() error {
		if l := h.Lease(pod); l.State != state {
			return fmt.Errorf("the lease of pod %s is %s", pod, l.State)
		}
		return nil
	}
}

func parkedPods(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1", Config: "gpu: {max_pipelines: 8}\noptimization: {keep_seconds: 1, time_slice_seconds: 2, park_grace_seconds: 1}\n"})
	stays := h.Create(Pod{Name: "stays", Memory: "100Gi", Use: 9 << 10})
	beside := h.Create(Pod{Name: "beside", Memory: "20Gi", Use: 4 << 10})
	h.Eventually("two pods run that allow nothing", h.Running(stays, beside))
	h.Eventually("their claims have no condition OnDevice", All(h.onDevice(stays, ""), h.onDevice(beside, "")))
	first := h.at("60GiB")
	h.Holds(10*time.Second, "somebody at the node waits, and no pod is parked", All(h.people(0), h.leaseIs(stays, "active"), h.leaseIs(beside, "active")))
	leave(first)
	h.Delete(stays)
	h.Eventually("the large pod is gone", h.Gone(stays))

	parks := h.Create(Pod{Name: "parks", Memory: "100Gi", Use: 9 << 10, Parameters: `"optimize": ["trim", "park"]`})
	h.Eventually("a pod runs that allows parking", h.Running(parks))
	fence := h.Lease(parks).Fence
	h.Eventually("its claim says that it is on its device", h.onDevice(parks, metav1.ConditionTrue))
	second := h.at("60GiB")
	h.Within(20*time.Second, "somebody at the node has the room", h.people(1))
	h.Must(h.leaseIs(parks, "parked")())
	h.Within(10*time.Second, "the claim says that it is parked", h.onDevice(parks, metav1.ConditionFalse))
	h.Within(10*time.Second, "an event on the pod says so", h.Said(parks, "LeaseParked", "is parked"))
	h.Must(h.leaseIs(beside, "active")())
	h.Must(h.Running(parks, beside)())
	leave(second)
	h.Within(20*time.Second, "it comes back when they leave", All(h.leaseIs(parks, "active"), h.onDevice(parks, metav1.ConditionTrue)))
	if l := h.Lease(parks); l.Fence != fence || l.Parts[0].Memory != 100<<10 {
		h.Fail("its lease is %+v with the fence %d, not %d", l.Parts, l.Fence, fence)
	}
	h.Books()

	third := h.at("60GiB")
	defer leave(third)
	h.Within(20*time.Second, "it is parked again", h.leaseIs(parks, "parked"))
	h.Delete(parks)
	h.Within(30*time.Second, "a pod that is deleted while it is parked goes", h.Gone(parks))
	h.Within(10*time.Second, "and so does its lease", func() error {
		leases, err := h.Node(1).Leases()
		if err == nil && len(leases) != 2 {
			err = fmt.Errorf("%d leases stand", len(leases))
		}
		return err
	})
	leave(third)
	h.Eventually("the people are gone", h.people(0))
}
