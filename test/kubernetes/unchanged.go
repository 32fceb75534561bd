package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unchanged returns the scenarios for pods and clusters that know nothing of amounts.
func unchanged() []Scenario {
	return []Scenario{
		{Number: 17, Does: "pods that ask for nvidia.com/gpu: 1, and three services before and after",
			Expects: "each gets a whole device, the next one waits; six pods on six devices before, on one device after", Run: wholeDevices},
		{Number: 18, Does: "a cluster without consumable capacity and device taints",
			Expects: "fixed shares are published, and two pods share a GPU; one more waits; a GPU that fails is not published while nobody has it", Gates: "DRAConsumableCapacity=false,DRADeviceTaints=false", Run: fixedShares},
	}
}

// extended lets a pod ask for a device by the name of NVIDIA's resource.
func extended(s *corev1.PodSpec) {
	s.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
}

func wholeDevices(h *H) {
	h.Step("apply the overlay nvidia-gpu-name")
	_, err := h.Kubectl("apply", "-k", h.deploy+"/overlays/nvidia-gpu-name")
	defer func() { _, _ = h.Kubectl("apply", "-k", h.deploy+"/base") }()
	h.Must(err)
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	a := h.Create(Pod{Name: "a", Change: extended})
	h.Within(10*time.Second, "a pod with nvidia.com/gpu: 1 runs", h.Running(a))
	lease := h.Lease(a)
	all := h.capacity(h.Node(1), h.Results(a)[0].Device)
	if len(lease.Parts) != 1 || int64(lease.Parts[0].Memory) != all.Value()>>20 {
		h.Fail("its lease is %+v, not the whole device of %s", lease.Parts, all.String())
	}
	if env := h.Report(a).Env; env["BERTH_LEASE"] != lease.ID || env["CUDA_VISIBLE_DEVICES"] != lease.Parts[0].GPU {
		h.Fail("its environment is %v", env)
	}
	b := h.Create(Pod{Name: "b", Change: extended})
	h.Holds(3*time.Second, "the next one waits", h.Pending(b))
	h.Books()
	h.Delete(a)
	h.Within(10*time.Second, "then it runs", h.Running(b))
	h.Delete(b)
	h.Eventually("both are gone", h.Gone(a, b))
	h.services()
}

// services runs the three services of examples/kubernetes/medical-kg, before and after.
func (h *H) services() {
	examples := filepath.Join(h.deploy, "../../examples/kubernetes/medical-kg")
	config, err := os.ReadFile(filepath.Join(examples, "berth.yaml"))
	h.Must(err)
	h.Machines(Machine{Node: 1, Devices: "sim:6", Config: strings.ReplaceAll(string(config), "[medical-kg]", "["+h.Space+"]")})
	names := []string{"embedding", "reranking", "docling-vlm"}
	for _, when := range []string{"before", "after"} {
		want := map[string]int{"before": 6, "after": 1}[when]
		h.Step("the three services, %s", when)
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(examples, when, name+".yaml"))
			h.Must(err)
			yaml := strings.ReplaceAll(string(text), "namespace: medical-kg", "namespace: "+h.Space)
			h.Apply(strings.ReplaceAll(yaml, "medical-kg/"+name+":latest", image))
		}
		h.Within(20*time.Second, "six pods run, "+when, func() error { return h.replicas(names, 2) })
		devices, sum := h.used()
		if len(devices) != want {
			h.Fail("they are on %v, not on %d devices", devices, want)
		}
		h.Step("six pods on %d devices, %d MiB in all", len(devices), sum)
		h.Note("%s: %d devices, %d MiB", when, len(devices), sum)
		if when == "after" && sum != 2*(8+4+16)<<10 {
			h.Fail("they hold %d MiB", sum)
		}
		h.Books()
		_, err := h.Kubectl("-n", h.Space, "delete", "deployments", "--all", "--cascade=foreground", "--wait")
		h.Must(err)
		h.Eventually("no lease is left", h.Leases(1, 0))
	}
}

// replicas returns an error while Deployments do not have so many pods that run.
func (h *H) replicas(names []string, count int32) error {
	for _, name := range names {
		d, err := h.Cluster.AppsV1().Deployments(h.Space).Get(h.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if d.Status.ReadyReplicas != count {
			return fmt.Errorf("%d pods of %s run", d.Status.ReadyReplicas, name)
		}
	}
	return nil
}

// used returns the devices with leases, and the sum of these.
func (h *H) used() (devices []string, mib int64) {
	for number, n := range h.nodes {
		if n.daemon == nil {
			continue
		}
		leases, err := n.Leases()
		h.Must(err)
		for _, l := range leases {
			for _, p := range l.Parts {
				mib += int64(p.Memory)
				if name := fmt.Sprintf("node-%d %s", number, p.GPU); !slices.Contains(devices, name) {
					devices = append(devices, name)
				}
			}
		}
	}
	return devices, mib
}

func fixedShares(h *H) {
	// The times of health are shorter than usual, so that the scenario can see the end.
	h.Machines(Machine{Node: 1, Script: "devices: 2xh200\n", Config: "gpu: {max_pipelines: 2, quarantine_seconds: 15, probation_seconds: 5}\n"})
	shares := h.Slice("node-1")
	if len(shares) != 4 {
		h.Fail("%d devices are published, not the 4 shares of two GPUs", len(shares))
	}
	for _, d := range shares {
		if d.AllowMultipleAllocations != nil || len(d.Taints) > 0 || !strings.HasSuffix(d.Name[:len(d.Name)-1], "-s") {
			h.Fail("a share is %+v", d)
		}
	}
	share := h.capacity(h.Node(1), shares[0].Name)
	h.Step("4 shares of %s are published, %s to %s", share.String(), shares[0].Name, shares[3].Name)
	var pods []string
	for _, name := range []string{"a", "b", "c", "d"} {
		pods = append(pods, h.Create(Pod{Name: name, Whole: true}))
		h.wait(patience, name+" runs", h.Running(name))
	}
	seen, devices := map[string]bool{}, h.Node(1).Devices()
	for i, pod := range pods {
		lease, results := h.Lease(pod), h.Results(pod)
		if len(lease.Parts) != 1 || lease.Parts[0].GPU != devices[i/2].UUID || int64(lease.Parts[0].Memory) != share.Value()>>20 || seen[results[0].Device] {
			h.Fail("the lease of pod %s is %+v, its share %s", pod, lease.Parts, results[0].Device)
		}
		seen[results[0].Device] = true
		if env := h.Report(pod).Env; env["BERTH_LEASE"] != lease.ID || env["CUDA_VISIBLE_DEVICES"] != lease.Parts[0].GPU {
			h.Fail("the environment of pod %s is %v", pod, env)
		}
	}
	h.Step("four pods run, two on each GPU; claim, lease and environment agree")
	e := h.Create(Pod{Name: "e", Whole: true})
	h.Holds(3*time.Second, "a fifth pod waits", h.Pending(e))
	h.Books()
	h.Delete(pods[0])
	h.Within(10*time.Second, "then it runs", h.Running(e))

	for _, pod := range pods[2:] {
		h.Delete(pod)
	}
	h.Eventually("nobody has the second GPU", h.Gone(pods[2:]...))
	h.Step("the second GPU fails, after a restart of the daemon")
	h.Node(1).Script("devices: 2xh200\ntimeline:\n- {at: 3s, device: 1, xid: 79}\n")
	h.Within(15*time.Second, "its shares are away", h.listed(2))
	f := h.Create(Pod{Name: "f", Whole: true})
	h.Holds(3*time.Second, "a new pod waits", h.Pending(f))
	h.Must(h.untouched(pods[1], e)())
	h.Within(90*time.Second, "its shares are back", h.listed(4)) // what gets better is published after a minute
	h.Within(10*time.Second, "the new pod runs", h.Running(f))
}

// listed is true when the slices of the first node have so many devices.
func (h *H) listed(count int) Condition {
	return func() error {
		if n := len(h.Slice("node-1")); n != count {
			return fmt.Errorf("%d devices are published, not %d", n, count)
		}
		return nil
	}
}
