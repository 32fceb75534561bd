package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/kubernetes/words"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Books asserts that the leases of each daemon are the claims that are allocated on
// its node and belong to a pod there: ids, devices and MiB. Leases that are not for a
// claim do not count.
func (h *H) Books() { h.wait(patience, "the leases are the allocated claims", h.balanced) }

func (h *H) balanced() error {
	claims, err := h.Cluster.ResourceV1().ResourceClaims("").List(h.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range h.nodes {
		if n.daemon == nil {
			continue
		}
		want, got := map[string]bool{}, map[string]bool{}
		uuids := map[string]string{}
		for _, d := range h.Slice(n.Name) {
			if a := d.Attributes["uuid"]; a.StringValue != nil {
				uuids[d.Name] = *a.StringValue
			}
		}
		known := map[string]bool{}
		for _, c := range claims.Items {
			known[string(c.UID)] = true
			if c.Status.Allocation == nil || len(c.Status.ReservedFor) == 0 {
				continue
			}
			memory := map[string]int64{}
			for _, r := range c.Status.Allocation.Devices.Results {
				if r.Driver != words.Driver || r.Pool != n.Name {
					continue
				}
				amount := r.ConsumedCapacity[words.Memory]
				if r.ConsumedCapacity == nil {
					amount = h.capacity(n, r.Device)
				}
				memory[uuids[r.Device]] += amount.Value() >> 20
			}
			for uuid, mib := range memory {
				want[fmt.Sprintf("%s %s %d MiB", c.UID, uuid, mib)] = true
			}
		}
		leases, err := n.Leases()
		if err != nil {
			return err
		}
		for _, l := range leases {
			if l.Holder.User != "token:kubernetes" {
				continue
			}
			if !known[l.ID] {
				return fmt.Errorf("the lease %s on %s is for no claim", l.ID, n.Name)
			}
			for _, p := range l.Parts {
				got[fmt.Sprintf("%s %s %d MiB", l.ID, p.GPU, p.Memory)] = true
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("on %s the leases are\n%s\nand the allocated claims are\n%s", n.Name, lines(got), lines(want))
		}
	}
	return nil
}

func lines(set map[string]bool) string {
	return "    " + strings.Join(slices.Sorted(maps.Keys(set)), "\n    ")
}

// Leases is true when the daemon of a node has n leases.
func (h *H) Leases(node, n int) Condition {
	return func() error {
		list, err := h.Node(node).Leases()
		if err == nil && len(list) != n {
			err = fmt.Errorf("there are %d leases on node-%d, not %d", len(list), node, n)
		}
		return err
	}
}

// clean deletes everything in the namespace of the scenario, and asserts that nothing
// of it is left on the nodes.
func (h *H) clean() {
	zero := int64(1)
	all := metav1.DeleteOptions{GracePeriodSeconds: &zero}
	kinds := "deployments,replicasets,jobs,statefulsets,daemonsets,poddisruptionbudgets"
	if _, err := h.Kubectl("-n", h.Space, "delete", kinds, "--all", "--wait=false"); err != nil {
		h.Must(err)
	}
	h.Must(h.Cluster.CoreV1().Pods(h.Space).DeleteCollection(h.ctx, all, metav1.ListOptions{}))
	h.wait(patience, "all pods are gone", func() error {
		list, err := h.Cluster.CoreV1().Pods(h.Space).List(h.ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("pod %s is there (%d in all)%s", list.Items[0].Name, len(list.Items), h.why(&list.Items[0]))
		}
		return err
	})
	h.Must(h.Cluster.ResourceV1().ResourceClaims(h.Space).DeleteCollection(h.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	h.wait(patience, "no lease, CDI file, state file and foreign process is left", h.bare)
	if err := h.Cluster.CoreV1().Namespaces().Delete(h.ctx, h.Space, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		h.Must(err)
	}
}

// bare returns what is left of a scenario on the nodes.
func (h *H) bare() error {
	var left []error
	claims, err := h.Cluster.ResourceV1().ResourceClaims(h.Space).List(h.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(claims.Items) > 0 {
		left = append(left, fmt.Errorf("%d claims", len(claims.Items)))
	}
	for _, n := range h.nodes {
		if n.daemon == nil {
			continue
		}
		leases, err := n.Leases()
		if err != nil {
			return err
		}
		strays, err := n.Foreign()
		if err != nil {
			return err
		}
		for what, count := range map[string]int{"leases": len(leases), "CDI files": len(n.CDI()), "state files": len(n.State()), "foreign processes": len(strays)} {
			if count > 0 {
				left = append(left, fmt.Errorf("%d %s on %s", count, what, n.Name))
			}
		}
	}
	return errors.Join(left...)
}

// begin makes the namespace of the scenario.
func (h *H) begin() {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.Space}}
	_, err := h.Cluster.CoreV1().Namespaces().Create(h.ctx, space, metav1.CreateOptions{})
	h.Must(err)
	h.wait(patience, "the namespace has its account", func() error {
		_, err := h.Cluster.CoreV1().ServiceAccounts(h.Space).Get(h.ctx, "default", metav1.GetOptions{})
		return err
	})
}

// force removes what a scenario that failed has left, so that the next one can begin.
func (h *H) force() {
	_, _ = h.Kubectl("-n", h.Space, "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
	_ = h.Cluster.CoreV1().Namespaces().Delete(h.ctx, h.Space, metav1.DeleteOptions{})
	for _, n := range h.nodes {
		empty(n.Path("/run/cdi"))
		empty(n.Path("/var/lib/kubelet/plugins/" + words.Driver + "/state"))
	}
}
