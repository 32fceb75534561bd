package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func failures() []Scenario {
	return []Scenario{
		{Number: 8, Does: "kill -9 the driver: back at once, and away for 60 s; a pod is deleted meanwhile",
			Expects: "pods run on; the slice stays the first time, and goes and comes back the second time; the deleted pod waits for the driver, then its lease ends", Run: driverDies},
		{Number: 9, Does: "kill -9 the daemon 20 times while 30 pods come and go",
			Expects: "no fence is lost, no lease exists twice, and no pod hangs after the last start", Run: daemonDies},
		{Number: 10, Does: "restart the kubelet; kill a container of a running pod",
			Expects: "nothing is prepared again; the container comes back with its device and environment; the slices are back within 60 s", Run: kubeletRestarts},
	}
}

// Processes returns the pids of a program in a pod, as the harness sees them.
func (h *H) Processes(pod *corev1.Pod, program string) []int {
	var pids []int
	all, err := filepath.Glob("/proc/[0-9]*/cgroup")
	h.Must(err)
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), string(pod.UID)) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		name, _, _ := strings.Cut(string(line), "\x00")
		if pid, wrong := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && wrong == nil && filepath.Base(name) == program {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Strike sends a signal to the first process of a program in a pod.
func (h *H) Strike(pod *corev1.Pod, program string, s syscall.Signal) {
	pids := h.Processes(pod, program)
	if len(pids) == 0 {
		h.Fail("no process %s runs in pod %s", program, pod.Name)
	}
	h.Must(syscall.Kill(pids[0], s))
}

// published is true while the node has devices in a slice.
func (h *H) published(node int) Condition {
	return func() error {
		if len(h.Slice(h.Node(node).Name)) == 0 {
			return errors.New("the slices of " + h.Node(node).Name + " are gone")
		}
		return nil
	}
}

// untouched is true while pods run and were never restarted.
func (h *H) untouched(pods ...string) Condition {
	return func() error {
		for _, pod := range pods {
			if err := h.Running(pod)(); err != nil {
				return err
			}
			if n := h.restarts(pod); n > 0 {
				return fmt.Errorf("pod %s was restarted %d times", pod, n)
			}
		}
		return nil
	}
}

func driverDies(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	a, b := h.Create(Pod{Name: "a", Memory: "20Gi"}), h.Create(Pod{Name: "b", Memory: "20Gi"})
	h.Eventually("a and b run", h.Running(a, b))
	driver, err := h.Node(1).Driver()
	h.Must(err)

	h.Step("kill -9 the driver, which the kubelet starts again")
	h.Strike(driver, "berth-dra", syscall.SIGKILL)
	h.wait(patience, "the driver was restarted", func() error {
		now, err := h.Node(1).Driver()
		if err == nil && now.Status.ContainerStatuses[0].RestartCount == 0 {
			err = errors.New("the driver has not ended")
		}
		return err
	})
	h.Holds(5*time.Second, "the slice stays, and the pods run on", All(h.published(1), h.untouched(a, b)))
	h.Within(30*time.Second, "the driver is ready", h.Published(1))
	c := h.Create(Pod{Name: "c", Memory: "20Gi"})
	h.Within(30*time.Second, "a new pod runs", h.Running(c))
	h.Books()

	h.Step("kill -9 the driver, which nobody starts again for 60 s")
	driver, err = h.Node(1).Driver()
	h.Must(err)
	h.Strike(driver, "berth-dra", syscall.SIGSTOP) // so that it does not end in order when its pod is deleted
	h.Node(1).Label("")
	h.wait(patience, "the pod of the driver is deleted", func() error {
		if p, err := h.Node(1).Driver(); err == nil {
			return fmt.Errorf("pod %s is there", p.Name)
		}
		return nil
	})
	h.Strike(driver, "berth-dra", syscall.SIGKILL)
	away := time.Now()
	lease := h.Lease(b)
	h.Step("delete b")
	h.Delete(b)
	h.Within(45*time.Second, "the kubelet removes the slices", func() error {
		if h.published(1)() == nil {
			return errors.New("they are there")
		}
		return nil
	})
	h.Holds(max(0, time.Minute-time.Since(away)), "a and c run on, b waits, and its lease stands", func() error {
		if p, err := h.Pod(b); err != nil {
			return err
		} else if p.DeletionTimestamp == nil {
			return errors.New("b is not about to end")
		}
		if _, err := h.Node(1).Lease(lease.ID); err != nil {
			return err
		}
		return h.untouched(a, c)()
	})
	h.Step("start the driver again")
	h.Node(1).Label("true")
	h.Within(time.Minute, "the slices are back", h.Published(1))
	h.Within(time.Minute, "b is gone", h.Gone(b))
	if _, err := h.Node(1).Lease(lease.ID); err == nil {
		h.Fail("the lease of b is there")
	}
	d := h.Create(Pod{Name: "d", Memory: "20Gi"})
	h.Within(10*time.Second, "a new pod runs", h.Running(d))
	h.Must(h.untouched(a, c)())
}

func daemonDies(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:4", Config: "gpu: {max_pipelines: 16}\n"})
	const pods, kills = 30, 20
	random := rand.New(rand.NewPCG(16, 9))
	create := func(generation, slot int) string {
		name := fmt.Sprintf("p%d-%d", slot, generation)
		return h.Create(Pod{Name: name, Memory: fmt.Sprintf("%dMi", 1024+random.IntN(15<<10))})
	}
	var names [pods]string
	h.Step("create %d pods", pods)
	for slot := range names {
		names[slot] = create(0, slot)
	}
	started := 0
	for kill := range kills {
		h.Node(1).Kill()
		// Some pods come and go while the daemon is away.
		for range 2 {
			slot := random.IntN(pods)
			h.Delete(names[slot])
			names[slot] = create(kill+1, slot)
			started++
		}
		h.sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		h.Node(1).Start()
		h.sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
		if err := h.twice(); err != nil {
			h.Fail("after kill %d: %v", kill+1, err)
		}
	}
	h.Step("the daemon was killed %d times, and %d pods were replaced", kills, started)
	h.Within(90*time.Second, "all pods run", h.Running(names[:]...))
	h.Eventually("deleted pods are gone", func() error {
		list, err := h.Cluster.CoreV1().Pods(h.Space).List(h.ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != pods {
			err = fmt.Errorf("there are %d pods", len(list.Items))
		}
		return err
	})
	for _, pod := range names {
		env, lease := h.Report(pod).Env, h.Lease(pod)
		if env["BERTH_LEASE"] != lease.ID || env["BERTH_FENCE"] != strconv.FormatUint(lease.Fence, 10) {
			h.Fail("pod %s has the lease %s with the fence %s, the daemon %s with %d", pod, env["BERTH_LEASE"], env["BERTH_FENCE"], lease.ID, lease.Fence)
		}
	}
	h.Step("every container has the lease and the fence that the daemon knows")
}

// twice returns an error if two leases have the same id or the same fence.
func (h *H) twice() error {
	leases, err := h.Node(1).Leases()
	if err != nil {
		return err
	}
	ids, fences := map[string]bool{}, map[uint64]bool{}
	for _, l := range leases {
		if ids[l.ID] || fences[l.Fence] {
			return fmt.Errorf("the lease %s with the fence %d exists twice", l.ID, l.Fence)
		}
		ids[l.ID], fences[l.Fence] = true, true
	}
	return nil
}

// sleep waits, unless the scenario ends.
func (h *H) sleep(d time.Duration) {
	ctx, cancel := context.WithTimeout(h.ctx, d)
	defer cancel()
	<-ctx.Done()
	h.Must(h.ctx.Err())
}

// Metric returns the sum of the series of a metric of the driver on a node.
func (h *H) Metric(node int, name string) float64 {
	driver, err := h.Node(node).Driver()
	h.Must(err)
	text, err := h.Cluster.CoreV1().Pods(driver.Namespace).ProxyGet("http", driver.Name, "9480", "metrics", nil).DoRaw(h.ctx)
	h.Must(err)
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if before, _, _ := strings.Cut(series, "{"); before == name {
			number, err := strconv.ParseFloat(value[strings.LastIndexByte(value, ' ')+1:], 64)
			h.Must(err)
			sum += number
		}
	}
	return sum
}

func kubeletRestarts(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"})
	a, b := h.Create(Pod{Name: "a", Memory: "20Gi"}), h.Create(Pod{Name: "b", Memory: "20Gi"})
	h.Eventually("a and b run", h.Running(a, b))
	const prepared = "berth_dra_prepare_seconds_count"
	before := h.Metric(1, prepared)
	if before < 2 {
		h.Fail("the driver says that it prepared %v claims, not 2 or more", before)
	}
	h.Step("restart the kubelet")
	old := h.slices("node-1")
	h.Node(1).Kubelet()
	// The kubelet removes the slices of its node when it starts, so those that are
	// there afterwards are others.
	h.Within(time.Minute, "the slices are back", All(h.ready("node-1"), h.Published(1), func() error {
		if now := h.slices("node-1"); now == old {
			return fmt.Errorf("they are still %s", now)
		}
		return nil
	}))
	h.Holds(10*time.Second, "the pods run on", h.untouched(a, b))
	h.Step("kill the container of a")
	pod, err := h.Pod(a)
	h.Must(err)
	fence := h.Report(a).Env["BERTH_FENCE"]
	h.Strike(pod, "work", syscall.SIGKILL)
	h.Within(10*time.Second, "the container is back", func() error {
		if n := h.restarts(a); n != 1 {
			return fmt.Errorf("it was restarted %d times", n)
		}
		return h.Running(a)()
	})
	if now := h.share(a, 20<<10); strconv.FormatUint(now, 10) != fence {
		h.Fail("the fence of a is %d; it was %s", now, fence)
	}
	if after := h.Metric(1, prepared); after != before {
		h.Fail("the driver prepared %v claims, and %v before", after, before)
	}
	h.Step("no claim was prepared again; the container has its device and environment")
	c := h.Create(Pod{Name: "c", Memory: "20Gi"})
	h.Within(time.Minute, "a new pod runs", h.Running(c))
	h.Delete(b)
	h.Within(10*time.Second, "an old pod ends", h.Gone(b))
}

// slices returns the UIDs of the slices of a node.
func (h *H) slices(node string) string {
	list, err := h.Cluster.ResourceV1().ResourceSlices().List(h.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	h.Must(err)
	var uids []string
	for _, s := range list.Items {
		uids = append(uids, string(s.UID))
	}
	return strings.Join(uids, " ")
}

// ready is true when a node is ready, and its kubelet has said so lately.
func (h *H) ready(name string) Condition {
	return func() error {
		n, err := h.Cluster.CoreV1().Nodes().Get(h.ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New(name + " is not ready")
	}
}
