package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// operations returns the scenarios 11 to 19.
func operations() []Scenario {
	return slices.Concat([]Scenario{
		{Number: 11, Does: "roll the driver out twice while pods come and go",
			Expects: "no claim fails to be prepared, and the slices are never empty", Run: rollout},
		{Number: 12, Does: "kubectl drain a node",
			Expects: "its pods run on the other node or wait, it has no leases, and its driver lives; after uncordon the one that waited runs there", Run: drained},
	}, handovers(), refusals(), unchanged(), visitors())
}

// watch looks at a condition ten times a second until stop is called, which returns
// what was wrong first.
func (h *H) watch(c Condition) (stop func() error) {
	end, result := make(chan struct{}), make(chan error, 1)
	go func() {
		var first error
		for {
			if err := h.try(h.ctx, func() { h.Must(c()) }); err != nil && first == nil {
				first = err
			}
			select {
			case <-end:
				result <- first
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() error { close(end); return <-result }
}

// unprepared returns an error if a claim of the scenario could not be prepared.
func (h *H) unprepared() error {
	list, err := h.Cluster.CoreV1().Events(h.Space).List(h.ctx, metav1.ListOptions{FieldSelector: "reason=FailedPrepareDynamicResources"})
	if err != nil {
		return err
	}
	for _, e := range list.Items {
		return fmt.Errorf("pod %s: %s", e.InvolvedObject.Name, e.Message)
	}
	return nil
}

func rollout(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:2"}, Machine{Node: 2, Devices: "sim:2"})
	stay := h.Create(Pod{Name: "stay", Memory: "20Gi"})
	h.Eventually("a pod runs", h.Running(stay))
	stop := h.watch(All(h.published(1), h.published(2)))
	pods, slowest := 0, time.Duration(0)
	for round := range 2 {
		before, err := h.Node(1).Driver()
		h.Must(err)
		h.Step("roll the driver out")
		_, err = h.Kubectl("-n", "berth-system", "rollout", "restart", "daemonset/berth-dra")
		h.Must(err)
		begin := time.Now()
		for done := false; !done; {
			var wave []string
			for node := 1; node <= 2; node++ {
				for range 3 {
					wave = append(wave, h.Create(Pod{Name: fmt.Sprintf("p%d-%d", round, pods), Memory: "30Gi", Node: h.Node(node).Name}))
					pods++
				}
			}
			slowest = max(slowest, h.wait(patience, "the pods run", h.Running(wave...)))
			for _, name := range wave {
				h.Delete(name)
			}
			h.wait(patience, "the pods are gone", h.Gone(wave...))
			done = h.rolledOut() == nil
		}
		after, err := h.Node(1).Driver()
		h.Must(err)
		if after.UID == before.UID {
			h.Fail("the driver on node-1 was not replaced")
		}
		h.Step("the rollout took %.1f s", time.Since(begin).Seconds())
	}
	if err := stop(); err != nil {
		h.Fail("the slices were not always there: %v", err)
	}
	h.Must(h.unprepared())
	h.Must(h.untouched(stay)())
	h.Step("%d pods came and went, the slowest started in %.1f s; no claim failed, and the slices were always there", pods, slowest.Seconds())
	h.Note("%d pods, the slowest %.1fs", pods, slowest.Seconds())
}

// rolledOut returns an error while old drivers run.
func (h *H) rolledOut() error {
	d, err := h.Cluster.AppsV1().DaemonSets("berth-system").Get(h.ctx, "berth-dra", metav1.GetOptions{})
	if err != nil {
		return err
	}
	list, err := h.Cluster.CoreV1().Pods("berth-system").List(h.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=berth-dra"})
	if err != nil {
		return err
	}
	s, want := d.Status, d.Status.DesiredNumberScheduled
	if d.Generation != s.ObservedGeneration || s.UpdatedNumberScheduled != want || s.NumberAvailable != want || len(list.Items) != int(want) {
		return fmt.Errorf("%d of %d drivers are new, %d are available, %d pods run", s.UpdatedNumberScheduled, want, s.NumberAvailable, len(list.Items))
	}
	return nil
}

func drained(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1"}, Machine{Node: 2, Devices: "sim:1"})
	one := int32(1)
	deploy := func(name, memory string) {
		labels := map[string]string{"app": name}
		spec := h.Spec(Pod{Name: name, Memory: memory})
		_, err := h.Cluster.AppsV1().Deployments(h.Space).Create(h.ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: h.Space},
			Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}}}, metav1.CreateOptions{})
		h.Must(err)
	}
	// The other node is closed at first, so that everything is on node-1.
	_, err := h.Kubectl("cordon", "node-2")
	defer func() { _, _ = h.Kubectl("uncordon", "node-1", "node-2") }()
	h.Must(err)
	deploy("small", "60Gi")
	h.Eventually("small runs", h.runs("small", "node-1"))
	deploy("large", "75Gi")
	h.Eventually("large runs", h.runs("large", "node-1"))
	h.Books()
	_, err = h.Kubectl("uncordon", "node-2")
	h.Must(err)
	stay := h.Create(Pod{Name: "stay", Memory: "60Gi", Node: "node-2"})
	h.Eventually("a pod on node-2 runs", h.Running(stay))

	h.Step("kubectl drain node-1")
	begin := time.Now()
	text, err := h.Kubectl("drain", "node-1", "--ignore-daemonsets", "--timeout=60s")
	if err != nil {
		h.Fail("kubectl drain: %v: %s", err, text)
	}
	h.Step("kubectl drain ended after %.1f s", time.Since(begin).Seconds())
	h.Within(10*time.Second, "node-1 has no leases", h.Leases(1, 0))
	// Of the two, one fits beside the pod on node-2, and the other waits.
	h.Within(10*time.Second, "one of the two runs on node-2", func() error {
		if h.runs("small", "node-2")() == nil || h.runs("large", "node-2")() == nil {
			return nil
		}
		return errors.New("neither does")
	})
	waiting := "large"
	if h.runs("large", "node-2")() == nil {
		waiting = "small"
	}
	h.Holds(3*time.Second, waiting+" waits, and the driver of node-1 lives", func() error {
		if err := h.runs(waiting, "")(); err != nil {
			return err
		}
		return h.Published(1)()
	})
	h.Must(h.untouched(stay)())
	h.Books()
	h.Step("kubectl uncordon node-1")
	_, err = h.Kubectl("uncordon", "node-1")
	h.Must(err)
	h.Within(10*time.Second, waiting+" runs on node-1", h.runs(waiting, "node-1"))
}

// runs is true when the pod of a Deployment runs on a node, or, without a node, waits
// for one.
func (h *H) runs(app, node string) Condition {
	return func() error {
		list, err := h.Cluster.CoreV1().Pods(h.Space).List(h.ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		var seen []string
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && p.Spec.NodeName == node {
				if node == "" {
					return nil
				}
				return h.Running(p.Name)()
			}
			seen = append(seen, fmt.Sprintf("%s is on %q%s", p.Name, p.Spec.NodeName, h.why(&p)))
		}
		return fmt.Errorf("no pod of %s is on %q: %s", app, node, strings.Join(seen, "; "))
	}
}
