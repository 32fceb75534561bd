package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/kubernetes/words"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func attribution() []Scenario {
	return []Scenario{
		{Number: 4, Does: "a process of uid 1000 in its own PID namespace uses 20 GiB; another pod claims its lease",
			Expects: "the memory counts for the pod's own lease and nothing is foreign; the pod that claims the lease of another is foreign", Run: ownMemory},
		{Number: 5, Does: "a pod uses more than it holds: first with over_limit warn, then with stop",
			Expects: "an event and WithinLimit=False; then its container ends and restarts under the same lease and fence, and the neighbour and the driver run on", Run: overLimit},
	}
}

// measured is true when the lease of a pod is charged with an amount.
func (h *H) measured(pod string, mib int) Condition {
	return func() error {
		l := h.Lease(pod)
		if got := int(l.Parts[0].Measured.Or(-1)); got != mib {
			return fmt.Errorf("the lease of pod %s is charged with %d MiB, not %d", pod, got, mib)
		}
		return nil
	}
}

// foreign is true when processes under no lease use exactly an amount of a node's devices.
func (h *H) foreign(node, mib int) Condition {
	return func() error {
		list, err := h.Node(node).Foreign()
		if err != nil {
			return err
		}
		sum := 0
		for _, s := range list {
			sum += int(s.Memory.Or(0))
		}
		if sum != mib {
			return fmt.Errorf("%d MiB are foreign, not %d: %+v", sum, mib, list)
		}
		return nil
	}
}

func ownMemory(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	h.Step("create a (uid 1000, 60 GiB, uses 20 GiB) and b (root, 30 GiB, uses 10 GiB)")
	a := h.Create(Pod{Name: "a", Memory: "60Gi", UID: 1000, Use: 20 << 10})
	b := h.Create(Pod{Name: "b", Memory: "30Gi", Use: 10 << 10})
	h.Within(5*time.Second, "both run", h.Running(a, b))
	if r := h.Report(a); r.UID != 1000 || r.Namespace == h.Report(b).Namespace {
		h.Fail("the container of a runs as uid %d in %s", r.UID, r.Namespace)
	}
	h.Within(5*time.Second, "each is charged with its own memory", All(h.measured(a, 20<<10), h.measured(b, 10<<10), h.foreign(1, 0)))
	lease := h.Lease(a)
	if n := len(lease.Processes); n != 1 || lease.Processes[0].Evidence != "scope" {
		h.Fail("the lease of a has the processes %+v", lease.Processes)
	}
	h.Step("create a pod without a claim that says it has the lease of a, and uses 5 GiB")
	forger := h.Create(Pod{Name: "forger", UID: 1000, Use: 5 << 10, Node: "node-1",
		Args: []string{"--gpu", lease.Parts[0].GPU, "--lease", lease.ID, "--fence", strconv.FormatUint(lease.Fence, 10)}})
	h.Eventually("the forger runs", h.Running(forger))
	h.Within(5*time.Second, "its 5 GiB are foreign, and nobody else's", All(h.foreign(1, 5<<10), h.measured(a, 20<<10), h.measured(b, 10<<10)))
	h.Holds(3*time.Second, "it stays so", All(h.foreign(1, 5<<10), h.measured(a, 20<<10), h.measured(b, 10<<10)))
}

// condition returns the status of a condition of the first device of a pod's claim.
func (h *H) condition(pod, kind string) (metav1.Condition, error) {
	c, err := h.Claim(pod)
	if err != nil {
		return metav1.Condition{}, err
	}
	for _, d := range c.Status.Devices {
		for _, condition := range d.Conditions {
			if d.Driver == words.Driver && condition.Type == kind {
				return condition, nil
			}
		}
	}
	return metav1.Condition{}, fmt.Errorf("the claim of pod %s has no condition %s", pod, kind)
}

// Condition is true when a condition of the first device of a pod's claim has a status.
func (h *H) Condition(pod, kind string, status metav1.ConditionStatus) Condition {
	return func() error {
		c, err := h.condition(pod, kind)
		if err == nil && c.Status != status {
			err = fmt.Errorf("%s of the claim of pod %s is %s, not %s: %s", kind, pod, c.Status, status, c.Message)
		}
		return err
	}
}

// Set changes the configuration of the daemon at run time, in JSON.
func (n *Node) Set(config string) {
	c := n.Daemon()
	defer c.Close()
	_, err := c.SetConfig(n.h.ctx, json.RawMessage(config))
	n.h.Must(err)
}

// restarts returns how often the container of a pod was restarted.
func (h *H) restarts(pod string) int {
	p, err := h.Pod(pod)
	h.Must(err)
	return int(p.Status.ContainerStatuses[0].RestartCount)
}

func overLimit(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1", Config: "gpu: {max_pipelines: 4, over_limit: warn}\n"})
	h.Step("create a and b, 10 GiB each, which use 8 GiB")
	a := h.Create(Pod{Name: "a", Memory: "10Gi", Use: 8 << 10})
	b := h.Create(Pod{Name: "b", Memory: "10Gi", Use: 8 << 10})
	h.Eventually("both run", All(h.Running(a, b)))
	h.Eventually("both are measured", All(h.measured(a, 8<<10), h.measured(b, 8<<10)))
	h.Eventually("a is within its limit", h.Condition(a, words.WithinLimit, metav1.ConditionTrue))
	lease := h.Lease(a)
	driver, err := h.Node(1).Driver()
	h.Must(err)

	h.Step("a uses 12 GiB of its 10")
	h.Use(a, 12<<10)
	h.Within(5*time.Second, "WithinLimit=False", h.Condition(a, words.WithinLimit, metav1.ConditionFalse))
	h.Within(5*time.Second, "the pod has an event", h.Said(a, "LeaseOverLimit", ""))
	h.Holds(3*time.Second, "with warn nothing ends", All(h.Running(a, b), h.measured(a, 12<<10)))
	h.Use(a, 8<<10)
	h.Within(time.Minute, "WithinLimit=True again", h.Condition(a, words.WithinLimit, metav1.ConditionTrue))

	h.Step("over_limit: stop, and a uses 12 GiB again")
	h.Node(1).Set(`{"over_limit": "stop"}`)
	h.Use(a, 12<<10)
	h.Within(10*time.Second, "the container ended and runs again", func() error {
		if n := h.restarts(a); n != 1 {
			return fmt.Errorf("it was restarted %d times", n)
		}
		return h.Running(a)()
	})
	h.Eventually("the pod has an event", h.Said(a, "LeaseStopped", ""))
	if again := h.Lease(a); again.ID != lease.ID || again.Fence != lease.Fence {
		h.Fail("the lease of a is %s with the fence %d; it was %s with %d", again.ID, again.Fence, lease.ID, lease.Fence)
	}
	env := h.Report(a).Env
	if env["BERTH_LEASE"] != lease.ID || env["BERTH_FENCE"] != strconv.FormatUint(lease.Fence, 10) {
		h.Fail("the new container has BERTH_LEASE=%s and BERTH_FENCE=%s", env["BERTH_LEASE"], env["BERTH_FENCE"])
	}
	h.Eventually("it is charged with what it uses now", h.measured(a, 8<<10))
	if n := h.restarts(b); n != 0 {
		h.Fail("the neighbour was restarted %d times", n)
	}
	now, err := h.Node(1).Driver()
	h.Must(err)
	if now.UID != driver.UID || now.Status.ContainerStatuses[0].RestartCount != driver.Status.ContainerStatuses[0].RestartCount {
		h.Fail("the driver was restarted")
	}
	h.Step("the same lease and fence; the neighbour and the driver were not touched")
}
