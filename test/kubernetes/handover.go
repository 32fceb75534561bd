package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// handovers returns the scenarios in which a share outlives something, or passes on.
func handovers() []Scenario {
	return []Scenario{
		{Number: 13, Does: "cut the power of a node with three pods, delete one of them, and start the node with another boot id",
			Expects: "the pods run again with the same lease ids and fences, their CDI files are written anew, and the lease of the deleted one ends", Run: reboot},
		{Number: 14, Does: "delete a pod by force that ignores SIGTERM, while another waits for its share",
			Expects: "the other one does not run before the old one is dead, then it runs; never is more leased than there is", Run: forced},
		{Number: 15, Does: "one claim for two pods; two claims for one pod",
			Expects: "one lease, the memory of both counts, and it ends after the second; two leases that set no limits of libraries, and are watched", Run: sharedClaims},
	}
}

func reboot(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	pods := []string{h.Create(Pod{Name: "a", Memory: "20Gi"}), h.Create(Pod{Name: "b", Memory: "30Gi"}), h.Create(Pod{Name: "c", Memory: "40Gi"})}
	h.Eventually("three pods run", h.Running(pods...))
	stay, leaves := pods[:2], pods[2]
	fences := map[string]uint64{}
	for _, p := range pods {
		fences[h.Lease(p).ID] = h.Lease(p).Fence
	}
	gone := h.Lease(leaves).ID
	boot := func() string {
		text, err := h.Node(1).On("cat", "/proc/sys/kernel/random/boot_id").Output()
		h.Must(err)
		return string(text)
	}
	before := boot()

	h.Step("cut the power of node-1")
	n := h.Node(1)
	_, err := h.command("", "bash", h.scripts+"/node.sh", "stop", n.Name)
	h.Must(err)
	<-n.ended
	h.Step("delete %s while the node is off", leaves)
	h.Delete(leaves)
	h.Step("start node-1")
	_, err = h.command("", "bash", h.scripts+"/node.sh", "start", n.Name)
	h.Must(err)
	if now := boot(); now == before {
		h.Fail("node-1 has the same boot id: %s", now)
	}
	if files := n.CDI(); len(files) > 0 {
		h.Fail("node-1 still has the CDI files %v", files)
	}
	n.Start()
	h.Within(time.Minute, "the pods run again", func() error {
		if err := h.Running(stay...)(); err != nil {
			return err
		}
		for _, p := range stay {
			if h.restarts(p) == 0 {
				return fmt.Errorf("pod %s was not restarted", p)
			}
		}
		return nil
	})
	for _, p := range stay {
		lease := h.Lease(p)
		if fences[lease.ID] != lease.Fence {
			h.Fail("the lease %s of pod %s has the fence %d; it was %d", lease.ID, p, lease.Fence, fences[lease.ID])
		}
		if env := h.Report(p).Env; env["BERTH_LEASE"] != lease.ID || env["BERTH_FENCE"] != strconv.FormatUint(lease.Fence, 10) {
			h.Fail("pod %s has the lease %s and the fence %s in its environment", p, env["BERTH_LEASE"], env["BERTH_FENCE"])
		}
		if !slices.ContainsFunc(n.CDI(), func(file string) bool { return strings.Contains(file, lease.ID) }) {
			h.Fail("the CDI files are %v, and none is for %s", n.CDI(), lease.ID)
		}
	}
	h.Step("same leases, same fences, new CDI files")
	h.Within(90*time.Second, leaves+" is gone, and its lease", func() error {
		if err := h.Gone(leaves)(); err != nil {
			return err
		}
		if _, err := n.Lease(gone); err == nil {
			return errors.New("the lease is there")
		}
		return nil
	})
	h.Within(time.Minute, "the devices are published again", h.Published(1))
	next := h.Create(Pod{Name: "next", Memory: "40Gi"})
	h.Within(10*time.Second, "a new pod runs", h.Running(next))
	if f := h.Lease(next).Fence; f <= slices.Max(values(fences)) {
		h.Fail("the fence of the new lease is %d, not above %v", f, fences)
	}
}

func values(m map[string]uint64) (all []uint64) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// leased returns an error if more is leased on a device of a node than it has.
func (h *H) leased(node int) Condition {
	return func() error {
		leases, err := h.Node(node).Leases()
		if err != nil {
			return err
		}
		sum := map[string]gpu.MiB{}
		for _, l := range leases {
			for _, p := range l.Parts {
				sum[p.GPU] += p.Memory
			}
		}
		for _, s := range h.Node(node).Status() {
			if d := s.Device; sum[d.UUID] > d.MemoryTotal {
				return fmt.Errorf("%v are leased on %s, which has %v", sum[d.UUID], d.UUID, d.MemoryTotal)
			}
		}
		return nil
	}
}

func forced(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	old := h.Create(Pod{Name: "old", Memory: "100Gi", Use: 90 << 10, Args: []string{"--ignore-term"}, Grace: 20})
	h.Eventually("the old pod runs", h.Running(old))
	pod, err := h.Pod(old)
	h.Must(err)
	first := h.Lease(old)
	next := h.Create(Pod{Name: "next", Memory: "100Gi"})
	h.Holds(2*time.Second, "the next one waits", h.Pending(next))
	stop := h.watch(h.leased(1))
	h.Step("kubectl delete pod %s --force", old)
	_, err = h.Kubectl("-n", h.Space, "delete", "pod", old, "--force", "--grace-period=0")
	h.Must(err)
	begin := time.Now()
	dead := time.Duration(0)
	refused := 0
	took := h.Within(40*time.Second, "the next one runs", func() error {
		alive := len(h.Processes(pod, "work")) > 0
		running := h.Running(next)()
		if !alive && dead == 0 {
			dead = time.Since(begin)
		}
		if alive && running == nil {
			h.Fail("the next pod runs while the old one lives")
		}
		if alive {
			if _, err := h.Node(1).Lease(first.ID); err != nil {
				h.Fail("the lease of the old pod has ended while its processes live: %v", err)
			}
		}
		return running
	})
	if err := stop(); err != nil {
		h.Fail("%v", err)
	}
	for _, e := range h.Events(next) {
		if e.Reason == "FailedPrepareDynamicResources" {
			refused += int(max(e.Count, 1))
			if refused == 1 {
				h.Step("the next one was refused: %s", e.Message)
			}
		}
	}
	h.Step("the old one was dead after %.1f s, the next one ran after %.1f s, refused %d times; never was more leased than there is", dead.Seconds(), took.Seconds(), refused)
	h.Note("dead %.1fs, refused %d times", dead.Seconds(), refused)
	if f := h.Lease(next).Fence; f <= first.Fence {
		h.Fail("the fence of the next lease is %d, not above %d", f, first.Fence)
	}
}

func sharedClaims(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	h.twoPodsOneClaim()
	h.twoClaimsOnePod()
}

// twoClaimsOnePod runs a pod with two claims. Both would set the same variables, so
// neither limits libraries.
func (h *H) twoClaimsOnePod() {
	h.MakeClaim(Pod{Name: "one", Memory: "10Gi"})
	h.MakeClaim(Pod{Name: "two", Memory: "20Gi"})
	two := "two"
	both := h.Create(Pod{Name: "both", Claim: "one", Change: func(s *corev1.PodSpec) {
		s.ResourceClaims = append(s.ResourceClaims, corev1.PodResourceClaim{Name: "more", ResourceClaimName: &two})
		s.Containers[0].Resources.Claims = append(s.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "more"})
	}})
	h.Within(5*time.Second, "a pod with two claims runs", h.Running(both))
	leases, err := h.Node(1).Leases()
	h.Must(err)
	if len(leases) != 2 || leases[0].EnforcedBy != "watchdog" || leases[1].EnforcedBy != "watchdog" {
		h.Fail("the leases are %+v", leases)
	}
	for name := range h.Report(both).Env {
		if strings.HasPrefix(name, "CUPY") || strings.HasPrefix(name, "XLA") || strings.HasPrefix(name, "PYTORCH") {
			h.Fail("%s is set in the container", name)
		}
	}
	h.Step("two leases, watched, without limits of libraries")
}

func (h *H) twoPodsOneClaim() {
	h.MakeClaim(Pod{Name: "shared", Memory: "40Gi"})
	a := h.Create(Pod{Name: "a", Claim: "shared", Use: 10 << 10})
	h.Eventually("the first pod runs", h.Running(a))
	b := h.Create(Pod{Name: "b", Claim: "shared", Use: 5 << 10})
	h.Within(5*time.Second, "the second pod runs", h.Running(b))
	if one, two := h.Lease(a), h.Lease(b); one.ID != two.ID || one.Fence != two.Fence {
		h.Fail("the pods have the leases %s and %s", one.ID, two.ID)
	}
	h.Must(h.Leases(1, 1)())
	lease := h.Lease(a)
	for _, p := range []string{a, b} {
		if env := h.Report(p).Env; env["BERTH_LEASE"] != lease.ID {
			h.Fail("pod %s has the lease %s in its environment, not %s", p, env["BERTH_LEASE"], lease.ID)
		}
	}
	h.Within(20*time.Second, "the memory of both counts", h.measured(a, 15<<10))
	if strays, err := h.Node(1).Foreign(); err != nil || len(strays) > 0 {
		h.Fail("foreign processes: %+v, %v", strays, err)
	}
	h.Step("delete the first pod")
	h.Delete(a)
	h.Within(10*time.Second, "it is gone", h.Gone(a))
	h.Holds(3*time.Second, "the lease stands, and the second pod runs", func() error {
		if _, err := h.Node(1).Lease(lease.ID); err != nil {
			return err
		}
		return h.untouched(b)()
	})
	h.Within(10*time.Second, "only the second one counts", h.measured(b, 5<<10))
	h.Step("delete the second pod")
	h.Delete(b)
	h.Within(10*time.Second, "it is gone, and the lease", All(h.Gone(b), h.Leases(1, 0)))
	h.Eventually("the claim is free", func() error {
		c, err := h.Cluster.ResourceV1().ResourceClaims(h.Space).Get(h.ctx, "shared", metav1.GetOptions{})
		if err == nil && c.Status.Allocation != nil {
			err = errors.New("it is allocated")
		}
		return err
	})
}
