package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/kubernetes/words"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// install applies the manifests of the driver, and the token that it shows.
func (h *H) install() {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "berth-system"}}
	if _, err := h.Cluster.CoreV1().Namespaces().Create(h.ctx, space, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		h.Must(err)
	}
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "berth-token", Namespace: "berth-system"}, StringData: map[string]string{"token": secret}}
	if _, err := h.Cluster.CoreV1().Secrets("berth-system").Create(h.ctx, token, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		h.Must(err)
	}
	_, err := h.Kubectl("apply", "-k", h.deploy+"/base")
	h.Must(err)
}

// Machines ends the daemons and drivers that run, and starts those that the scenario
// wants. It returns when the slices of these nodes are those of the daemons.
func (h *H) Machines(machines ...Machine) {
	var text []string
	for _, m := range machines {
		what := m.Devices
		if m.Script != "" {
			what = "a scenario of the simulator"
		}
		text = append(text, h.Node(m.Node).Name+" with "+what)
	}
	h.Step("start the daemon and the driver: %s", strings.Join(text, ", "))
	h.quiet()
	for _, m := range machines {
		h.Node(m.Node).Begin(m)
	}
	for _, m := range machines {
		h.Node(m.Node).Label("true")
	}
	for _, m := range machines {
		h.wait(patience, "the driver on "+h.Node(m.Node).Name+" is ready", h.Published(m.Node))
	}
}

// quiet ends all drivers and daemons.
func (h *H) quiet() {
	for _, n := range h.nodes {
		n.Label("")
	}
	h.wait(patience, "no driver runs", func() error {
		list, err := h.Cluster.CoreV1().Pods("berth-system").List(h.ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods run", len(list.Items))
		}
		return err
	})
	for _, n := range h.nodes {
		n.Stop()
	}
	h.Must(h.Cluster.ResourceV1().ResourceSlices().DeleteCollection(h.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
}

// Label sets the label of the node that the DaemonSet of the driver asks for; empty removes it.
func (n *Node) Label(value string) {
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	_, err := n.h.Cluster.CoreV1().Nodes().Patch(n.h.ctx, n.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata": {"labels": {"berth.dev/gpu": %s}}}`, text), metav1.PatchOptions{})
	n.h.Must(err)
}

// Published is true when the driver of a node is ready and has published the devices of its daemon.
func (h *H) Published(node int) Condition {
	n := h.Node(node)
	return func() error {
		p, err := n.Driver()
		if err != nil {
			return err
		}
		if len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("the driver %s is not ready: %s", p.Name, h.lastLine(p))
		}
		want := map[string]bool{}
		for _, d := range n.Devices() {
			want[d.UUID] = true
		}
		got := map[string]bool{}
		for _, d := range h.Slice(n.Name) {
			if a := d.Attributes["uuid"]; a.StringValue != nil {
				got[*a.StringValue] = true
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("the slices of %s have %v, the daemon %v", n.Name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		return nil
	}
}

// lastLine returns what a driver that is not ready logged last.
func (h *H) lastLine(p *corev1.Pod) string {
	tail := int64(2)
	text, err := h.Cluster.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: &tail}).DoRaw(context.WithoutCancel(h.ctx))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// Slice returns the devices that the driver of a node has published.
func (h *H) Slice(node string) []resourcev1.Device {
	list, err := h.Cluster.ResourceV1().ResourceSlices().List(h.ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	h.Must(err)
	var all []resourcev1.Device
	for _, s := range list.Items {
		if s.Spec.Driver == words.Driver {
			all = append(all, s.Spec.Devices...)
		}
	}
	return all
}

// capacity returns the memory of a published device.
func (h *H) capacity(n *Node, device string) resource.Quantity {
	for _, d := range h.Slice(n.Name) {
		if d.Name == device {
			return d.Capacity[words.Memory].Value
		}
	}
	return resource.Quantity{}
}
