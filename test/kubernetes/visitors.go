package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// visitors returns the scenarios in which people use a node beside Kubernetes.
func visitors() []Scenario {
	return []Scenario{
		{Number: 19, Does: "berth exec on the node takes 50 GiB",
			Expects: "the slice shrinks within 15 s; a pod that no longer fits waits without a node, and does not hang there; when it ends, the pod runs", Run: visitor},
	}
}

func visitor(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	n := h.Node(1)
	device := h.Slice(n.Name)[0].Name
	full := h.capacity(n, device)
	h.Step("berth exec --memory 50GiB on the node; the device has %s", full.String())
	cmd := n.On(h.run+"/bin/berth", "exec", "--memory", "50GiB", "--", "sleep", "600")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	h.Must(cmd.Start())
	ended := false
	end := func() {
		if !ended {
			ended = true
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			_ = cmd.Wait()
		}
	}
	defer end()
	h.wait(patience, "the lease of the node's user stands", h.Leases(1, 1))
	want := full.Value()>>20 - 50<<10
	h.Within(15*time.Second, "the slice shrinks", func() error {
		now := h.capacity(n, device)
		if now.Value()>>20 > want {
			return fmt.Errorf("it has %s, not %d MiB", now.String(), want)
		}
		return nil
	})
	small, large := h.Create(Pod{Name: "small", Memory: "60Gi"}), h.Create(Pod{Name: "large", Memory: "100Gi"})
	h.Within(10*time.Second, "a pod that fits runs", h.Running(small))
	h.Holds(10*time.Second, "a pod that no longer fits has no node", h.Pending(large))
	h.Must(h.unprepared())

	// What is published lags behind. A pod that was scheduled before hangs on its node,
	// with the reason, and starts when there is room.
	h.Delete(small)
	h.Eventually("the small one is gone", h.Gone(small))
	h.Step("the user of the node ends")
	end()
	h.Within(75*time.Second, "the large pod runs", h.Running(large))
	now := h.capacity(n, device)
	h.Step("the device has %s again", now.String())
	h.Delete(large)
	h.Eventually("it is gone", h.Gone(large))
	h.race(want + 20<<10)
}

// race creates a pod at the moment at which a user of the node takes the memory that it
// needs: either it waits without a node, or it hangs there with a reason until there is room.
func (h *H) race(mib int64) {
	n := h.Node(1)
	cmd := n.On(h.run+"/bin/berth", "exec", "--memory", "50GiB", "--", "sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	h.Must(cmd.Start())
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); _ = cmd.Wait() }()
	h.wait(patience, "the lease of the node's user stands", h.Leases(1, 1))
	late := h.Create(Pod{Name: "late", Memory: fmt.Sprintf("%dMi", mib)})
	h.sleep(8 * time.Second)
	what := "it waits without a node"
	for _, e := range h.Events(late) {
		if e.Reason == "FailedPrepareDynamicResources" {
			what = "it hangs on the node: " + strings.TrimSpace(e.Message)
		}
	}
	h.Step("a pod that was created within a second of berth exec: %s", what)
	if h.Running(late)() == nil {
		h.Fail("the pod runs, and there is no room for it")
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	h.Within(75*time.Second, "with room it runs", h.Running(late))
}
