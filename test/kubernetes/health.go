package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/kubernetes/words"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func health() []Scenario {
	return []Scenario{
		{Number: 6, Does: "GPU 0 of 2 reports XID 79",
			Expects: "a taint within 3 s, the pod deleted within 10 s and its Deployment's next one on GPU 1; a pod that tolerates it stays and is Unhealthy; later the taint goes", Run: sickDevice},
		{Number: 7, Does: "the driver of a GPU hangs for 20 s; later its memory is 97 % full",
			Expects: "NoSchedule and Unknown, and back; then no taint at all", Run: silentDevice},
	}
}

// taints returns the taints of the device with an UUID, as key=value:effect.
func (h *H) taints(node int, uuid string) []string {
	var list []string
	for _, d := range h.Slice(h.Node(node).Name) {
		if a := d.Attributes["uuid"]; a.StringValue == nil || *a.StringValue != uuid {
			continue
		}
		for _, t := range d.Taints {
			list = append(list, fmt.Sprintf("%s=%s:%s", strings.TrimPrefix(t.Key, words.Driver+"/"), t.Value, t.Effect))
		}
	}
	return list
}

// Tainted is true when a device has a taint with the key and the effect.
func (h *H) Tainted(node int, uuid, key string, effect resourcev1.DeviceTaintEffect) Condition {
	return func() error {
		all := h.taints(node, uuid)
		for _, t := range all {
			if strings.HasPrefix(t, key+"=") && strings.HasSuffix(t, ":"+string(effect)) {
				return nil
			}
		}
		return fmt.Errorf("%s has the taints %v, and not %s:%s", uuid, all, key, effect)
	}
}

// Untainted is true when a device keeps nobody away.
func (h *H) Untainted(node int, uuid string) Condition {
	return func() error {
		for _, t := range h.taints(node, uuid) {
			if !strings.HasSuffix(t, ":"+string(resourcev1.DeviceTaintEffectNone)) {
				return fmt.Errorf("%s has the taint %s", uuid, t)
			}
		}
		return nil
	}
}

// Healthy is true when the kubelet says of the device of a pod that it is in a state of health.
func (h *H) Healthy(pod string, want corev1.ResourceHealthStatus) Condition {
	return func() error {
		p, err := h.Pod(pod)
		if err != nil {
			return err
		}
		said := "nothing"
		for _, c := range p.Status.ContainerStatuses {
			for _, r := range c.AllocatedResourcesStatus {
				for _, d := range r.Resources {
					if said = string(d.Health); d.Message != nil {
						said += ": " + *d.Message
					}
					if d.Health == want {
						return nil
					}
				}
			}
		}
		return fmt.Errorf("the kubelet says of the device of pod %s: %s; not %s", pod, said, want)
	}
}

// Script ends the daemon with SIGKILL and starts it with another scenario of the
// simulator. Leases stand.
func (n *Node) Script(yaml string) {
	n.Kill()
	n.Write("/etc/berth/scenario.yaml", yaml)
	n.Start()
}

// Deploy makes a Deployment of one pod, and returns how to find the pod that it has now.
func (h *H) Deploy(p Pod) (pod func() (string, error)) {
	one, labels := int32(1), map[string]string{"app": p.Name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: h.Space},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: h.Spec(p)}}}
	_, err := h.Cluster.AppsV1().Deployments(h.Space).Create(h.ctx, d, metav1.CreateOptions{})
	h.Must(err)
	return func() (string, error) {
		list, err := h.Cluster.CoreV1().Pods(h.Space).List(h.ctx, metav1.ListOptions{LabelSelector: "app=" + p.Name})
		if err != nil {
			return "", err
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil {
				return p.Name, nil
			}
		}
		return "", fmt.Errorf("the Deployment %s has no pod", p.Name)
	}
}

func sickDevice(h *H) {
	// The times of health are shorter than usual, so that the scenario can see the end.
	config := "gpu: {max_pipelines: 4, quarantine_seconds: 20, probation_seconds: 5}\n"
	h.Machines(Machine{Node: 1, Script: "devices: 2xh200\n", Config: config})
	sick, well := h.Node(1).Devices()[0].UUID, h.Node(1).Devices()[1].UUID
	h.Step("create a pod that tolerates quarantine, and a Deployment, on %s", sick)
	tolerant := h.Create(Pod{Name: "tolerant", Memory: "20Gi", Template: func(s *resourcev1.ResourceClaimSpec) {
		// The effect must be there: Kubernetes 1.36 evicts in spite of a toleration without one.
		s.Devices.Requests[0].Exactly.Tolerations = []resourcev1.DeviceToleration{{Key: words.Driver + "/" + words.Quarantine,
			Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoExecute}}
	}})
	h.Eventually("the tolerant pod runs", h.Running(tolerant))
	current := h.Deploy(Pod{Name: "app", Memory: "60Gi"})
	first := ""
	h.Eventually("the pod of the Deployment runs", func() (err error) {
		if first, err = current(); err != nil {
			return err
		}
		return h.Running(first)()
	})
	for _, pod := range []string{tolerant, first} {
		if on := h.Lease(pod).Parts[0].GPU; on != sick {
			h.Fail("pod %s is on %s, not on the first device", pod, on)
		}
	}
	h.Eventually("its device is Healthy", h.Healthy(tolerant, corev1.ResourceHealthStatusHealthy))

	h.Step("XID 79 on %s, after a restart of the daemon", sick)
	h.Node(1).Script("devices: 2xh200\ntimeline:\n- {at: 3s, device: 0, xid: 79}\n")
	h.wait(patience, "the device is in quarantine", func() error {
		if t := h.Node(1).Status()[0].Trust; t == nil || t.Phase != "quarantine" {
			return fmt.Errorf("trust is %+v", t)
		}
		return nil
	})
	h.Within(3*time.Second, "the taint", h.Tainted(1, sick, words.Quarantine, resourcev1.DeviceTaintEffectNoExecute))
	h.Within(10*time.Second, "the pod is gone", h.Gone(first))
	next := ""
	h.Within(10*time.Second, "the next one runs", func() (err error) {
		if next, err = current(); err != nil {
			return err
		}
		return h.Running(next)()
	})
	if on := h.Lease(next).Parts[0].GPU; on != well {
		h.Fail("the next pod is on %s, not on %s", on, well)
	}
	h.Within(15*time.Second, "the tolerant pod is Unhealthy", h.Healthy(tolerant, corev1.ResourceHealthStatusUnhealthy))
	h.Must(h.Running(tolerant)())
	if n := h.restarts(tolerant); n != 0 {
		h.Fail("the tolerant pod was restarted %d times", n)
	}
	h.Books()
	h.Within(40*time.Second, "the taint is gone", h.Untainted(1, sick))
	h.Eventually("the device is Healthy again", h.Healthy(tolerant, corev1.ResourceHealthStatusHealthy))
	after := h.Create(Pod{Name: "after", Memory: "30Gi"})
	h.Eventually("a new pod gets the device", h.Running(after))
	if on := h.Lease(after).Parts[0].GPU; on != sick {
		h.Fail("the new pod is on %s, not on %s", on, sick)
	}
}

func silentDevice(h *H) {
	h.Machines(Machine{Node: 1, Script: "devices: h200\n"})
	uuid := h.Node(1).Devices()[0].UUID
	full := h.Create(Pod{Name: "full", Memory: "139776Mi", Guest: true})
	h.Eventually("the pod runs", h.Running(full))
	h.Eventually("its device is Healthy", h.Healthy(full, corev1.ResourceHealthStatusHealthy))
	h.Step("the driver of the GPU hangs for 20 s, after a restart of the daemon")
	h.Node(1).Script("devices: h200\ntimeline:\n- {at: 5s, for: 20s, device: 0, hang: true}\n")
	h.Within(15*time.Second, "NoSchedule", h.Tainted(1, uuid, words.Silent, resourcev1.DeviceTaintEffectNoSchedule))
	h.Within(15*time.Second, "Unknown", h.Healthy(full, corev1.ResourceHealthStatusUnknown))
	h.Must(h.Running(full)())
	h.Within(40*time.Second, "no taint again", h.Untainted(1, uuid))
	h.Within(30*time.Second, "Healthy again", h.Healthy(full, corev1.ResourceHealthStatusHealthy))
	h.Step("the pod uses 97 %% of the memory")
	h.Use(full, 139500)
	h.Eventually("the daemon calls that CRITICAL, because of memory", func() error {
		if s := h.Node(1).Status()[0]; s.State != "CRITICAL" || s.StateCause != "memory" {
			return fmt.Errorf("it is %s because of %q: %s", s.State, s.StateCause, s.Reason)
		}
		return nil
	})
	h.Holds(12*time.Second, "no taint, and Healthy", func() error {
		if all := h.taints(1, uuid); len(all) > 0 {
			return fmt.Errorf("it has the taints %v", all)
		}
		return h.Healthy(full, corev1.ResourceHealthStatusHealthy)()
	})
}
