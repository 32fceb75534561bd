package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/kubernetes/words"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func sharing() []Scenario {
	return []Scenario{
		{Number: 1, Does: "two pods, 60 GiB each, on one H200",
			Expects: "both run within 5 s on the same device, with two share ids, two leases named after the claims, and the right environment", Run: twoPods},
		{Number: 2, Does: "a third pod of 60 GiB, then the first one is deleted",
			Expects: "it waits without a device; then it runs within 5 s, with a larger fence", Run: thirdPod},
		{Number: 3, Does: "a pod of 200 GiB, a pod of 5 slots of 4, and 60 random claims on two nodes",
			Expects: "the first two never get a device; no device is ever sold beyond its capacity, and every claim that fits alone gets one in the end", Run: tooMuch},
	}
}

// share asserts that a pod holds an amount on the device of the only GPU: in the
// claim, in the ledger, and in the environment of its container. It returns the fence.
func (h *H) share(pod string, mib int64) uint64 {
	claim, err := h.Claim(pod)
	h.Must(err)
	results := h.Results(pod)
	if len(results) != 1 || results[0].ShareID == nil {
		h.Fail("the claim of pod %s has not got one share: %v", pod, results)
	}
	amount := results[0].ConsumedCapacity[words.Memory]
	if amount.Value() != mib<<20 {
		h.Fail("the claim of pod %s consumes %s, not %d MiB", pod, amount.String(), mib)
	}
	lease := h.Lease(pod)
	if len(lease.Parts) != 1 || int64(lease.Parts[0].Memory) != mib || lease.Parts[0].Slots != 1 {
		h.Fail("the lease of pod %s is %+v, not %d MiB and 1 slot", pod, lease.Parts, mib)
	}
	if want := h.Space + "/" + pod; lease.Holder.Name != want {
		h.Fail("the holder of the lease of pod %s is %q, not %q", pod, lease.Holder.Name, want)
	}
	env := h.Report(pod).Env
	for name, want := range map[string]string{
		"BERTH_LEASE": string(claim.UID), "BERTH_FENCE": strconv.FormatUint(lease.Fence, 10), "BERTH_GPUS": lease.Parts[0].GPU,
		"BERTH_MEMORY_MB": strconv.FormatInt(mib, 10), "CUDA_VISIBLE_DEVICES": lease.Parts[0].GPU, "NVIDIA_VISIBLE_DEVICES": "void",
	} {
		if env[name] != want {
			h.Fail("in the container of pod %s, %s is %q, not %q", pod, name, env[name], want)
		}
	}
	return lease.Fence
}

func twoPods(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	h.Step("create the pods a and b, 60 GiB each")
	a, b := h.Create(Pod{Name: "a", Memory: "60Gi"}), h.Create(Pod{Name: "b", Memory: "60Gi"})
	h.Within(5*time.Second, "both run", h.Running(a, b))
	h.share(a, 60<<10)
	h.share(b, 60<<10)
	one, two := h.Results(a)[0], h.Results(b)[0]
	if one.Device != two.Device || *one.ShareID == *two.ShareID {
		h.Fail("the claims have not got two shares of one device: %+v and %+v", one, two)
	}
	h.Step("both are on %s; claim, lease and environment agree", one.Device)
}

func thirdPod(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	a, b := h.Create(Pod{Name: "a", Memory: "60Gi"}), h.Create(Pod{Name: "b", Memory: "60Gi"})
	h.Eventually("a and b run", h.Running(a, b))
	fence := max(h.share(a, 60<<10), h.share(b, 60<<10))
	h.Step("create c, 60 GiB")
	c := h.Create(Pod{Name: "c", Memory: "60Gi"})
	h.Eventually("the scheduler says why c waits", h.Said(c, "FailedScheduling", "cannot allocate all claims"))
	h.Holds(5*time.Second, "c waits and its claim has no device", h.Pending(c))
	h.Books()
	h.Step("delete a")
	h.Delete(a)
	h.Within(5*time.Second, "c runs", h.Running(c))
	if next := h.share(c, 60<<10); next <= fence {
		h.Fail("the fence of c is %d, not above %d", next, fence)
	}
}

func tooMuch(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:2"}, Machine{Node: 2, Devices: "sim:2"})
	h.Step("create a pod of 200 GiB, and one of 5 slots of 4")
	large, wide := h.Create(Pod{Name: "large", Memory: "200Gi"}), h.Create(Pod{Name: "wide", Memory: "1Gi", Slots: "5"})
	random := rand.New(rand.NewPCG(16, 3))
	const count = 60
	var waiting []string
	h.Step("create %d pods that ask for 1 to 150 GiB and 1 to 4 slots", count)
	fits := map[string]bool{}
	for i := range count {
		gib, slots := 1+random.IntN(150), 1+random.IntN(4)
		name := fmt.Sprintf("r%d", i)
		fits[name] = gib < 140 // a device has 139.9 GiB to lease
		h.Create(Pod{Name: name, Memory: fmt.Sprintf("%dGi", gib), Slots: strconv.Itoa(slots)})
		if fits[name] {
			waiting = append(waiting, name)
		}
	}
	// Each pod ends when it has been seen to run, which makes room for the next.
	looks := 0
	h.Within(2*time.Minute, "every claim that fits alone had a device", func() error {
		h.Must(h.sold())
		looks++
		var still []string
		for _, name := range waiting {
			if h.Running(name)() != nil {
				still = append(still, name)
				continue
			}
			h.Delete(name)
		}
		waiting = still
		if len(waiting) > 0 {
			return fmt.Errorf("%d wait, %s among them", len(waiting), waiting[0])
		}
		return nil
	})
	h.Step("no device was sold beyond its capacity at any of %d looks", looks)
	for name, fit := range fits {
		if !fit {
			h.Must(h.Pending(name)())
		}
	}
	h.Must(All(h.Pending(large), h.Pending(wide))())
}

// sold returns an error if claims consume more of a device than it has.
func (h *H) sold() error {
	// The claims first: a device that is published smaller meanwhile is another matter.
	claims, err := h.Cluster.ResourceV1().ResourceClaims("").List(h.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	sums := map[string]*resource.Quantity{}
	for _, c := range claims.Items {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			for name, amount := range r.ConsumedCapacity {
				key := r.Pool + " " + r.Device + " " + string(name)
				if sums[key] == nil {
					sums[key] = &resource.Quantity{}
				}
				sums[key].Add(amount)
			}
		}
	}
	for _, n := range h.nodes {
		for _, d := range h.Slice(n.Name) {
			for name, capacity := range d.Capacity {
				if sum := sums[n.Name+" "+d.Name+" "+string(name)]; sum != nil && sum.Cmp(capacity.Value) > 0 {
					return fmt.Errorf("claims have %s %s of %s on %s, which has %s", sum, name, d.Name, n.Name, capacity.Value.String())
				}
			}
		}
	}
	return nil
}
