package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-gpu/berth/kubernetes/words"
	authenticationv1 "k8s.io/api/authentication/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// refusals returns the scenarios in which somebody asks for what nobody gets.
func refusals() []Scenario {
	return []Scenario{
		{Number: 16, Does: "a claim with an unknown field, one beyond its service, one for the service of another namespace, one with mps, a GPU without a CDI file of its vendor; the driver's account writes the slice of another node",
			Expects: "a sentence in the events of each pod, and nothing is left behind; the API server forbids it", Run: refused},
	}
}

func refused(h *H) {
	h.Machines(Machine{Node: 1, Devices: "sim:1", Config: "gpu: {max_pipelines: 4}\nservices:\n  embedding: {min_memory_mb: 2048, max_memory_mb: 8192, namespaces: [" + h.Space + "]}\n  theirs: {namespaces: [theirs]}\n"})
	for _, c := range []struct{ name, parameters, memory, says string }{
		{"unknown-field", `"colour": "blue"`, "4Gi", "colour"},
		{"too-much", `"service": "embedding"`, "16Gi", "embedding"},
		{"too-little", `"service": "embedding"`, "1Gi", "embedding"},
		{"anothers-service", `"service": "theirs"`, "4Gi", "services.theirs.namespaces"},
		{"mps", `"enforce": "mps"`, "4Gi", "mps"},
		{"important", `"priority": 100`, "4Gi", "priority"},
		{"unknown-library", `"caps": ["tensorflow"]`, "4Gi", "tensorflow"},
	} {
		pod := h.Create(Pod{Name: c.name, Memory: c.memory, Parameters: c.parameters})
		h.wait(patience, "the events of pod "+pod+" say why", h.Said(pod, "FailedPrepareDynamicResources", c.says))
		for _, e := range h.Events(pod) {
			if e.Reason == "FailedPrepareDynamicResources" {
				h.Step("%s: %s", pod, e.Message)
				break
			}
		}
		h.Must(h.Leases(1, 0)())
		h.Delete(pod)
		h.wait(patience, pod+" is gone", h.Gone(pod))
	}
	h.Within(10*time.Second, "nothing is left behind", h.nothing)
	good := h.Create(Pod{Name: "good", Memory: "4Gi", Parameters: `"service": "embedding", "enforce": "watchdog"`})
	h.Eventually("a claim within the limits of its service runs", h.Running(good))
	if l := h.Lease(good); l.Holder.Service != "embedding" || l.EnforcedBy != "watchdog" {
		h.Fail("its lease is for the service %q and enforced by %q", l.Holder.Service, l.EnforcedBy)
	}
	h.classes()
	h.strangers()
	h.Delete(good)
	h.Eventually("it is gone", h.Gone(good))
	h.vendors()
}

// vendors takes the CDI file of a vendor away. The GPU is one of AMD, as the tests of
// the daemon know it: its files are those of /sys.
func (h *H) vendors() {
	const class, file = "/run/amd/class", "/etc/cdi/amd.json"
	n := h.Node(1)
	text, err := os.ReadFile(filepath.Join(h.deploy, "../../internal/device/amd/testdata/server.txtar"))
	h.Must(err)
	for _, part := range strings.Split("\n"+string(text), "\n-- sys/class/")[1:] {
		name, content, _ := strings.Cut(part, " --\n")
		content, _, _ = strings.Cut(content, "\n-- ")
		if !strings.Contains(name, "/proc/") { // processes of that machine
			n.Write(class+"/"+name, strings.TrimSuffix(content, "\n")+"\n")
		}
	}
	h.quiet()
	n.Begin(Machine{Devices: "amd", Class: class})
	var names []string
	for _, d := range n.Devices() {
		names = append(names, fmt.Sprintf(`{"name": %q, "containerEdits": {"env": ["VENDOR=%s"]}}`, d.UUID, d.UUID))
	}
	vendor := `{"cdiVersion": "0.6.0", "kind": "amd.com/gpu", "devices": [` + strings.Join(names, ", ") + `]}`
	n.Write(file, vendor)
	defer func() { _ = os.Remove(n.Path(file)) }()
	n.Label("true")
	h.Eventually("the driver publishes GPUs of AMD", h.Published(1))
	first := h.Create(Pod{Name: "first", Memory: "4Gi"})
	h.Eventually("a pod runs", h.Running(first))
	env, lease := h.Report(first).Env, h.Lease(first)
	if uuid := lease.Parts[0].GPU; env["VENDOR"] != uuid || env["BERTH_LEASE"] != lease.ID || env["CUDA_VISIBLE_DEVICES"] != "" {
		h.Fail("its environment is %v, and its device is %s", env, uuid)
	}
	h.Step("its container has what both CDI files say: the vendor's and the lease's")
	h.Step("remove the CDI file of the vendor")
	h.Must(os.Remove(n.Path(file)))
	second := h.Create(Pod{Name: "second", Memory: "4Gi"})
	h.Eventually("the events say what to install", h.Said(second, "FailedPrepareDynamicResources", "amd-ctk cdi generate"))
	for _, e := range h.Events(second) {
		if e.Reason == "FailedPrepareDynamicResources" {
			h.Step("second: %s", e.Message)
			break
		}
	}
	h.Must(h.untouched(first)())
	n.Write(file, vendor)
	h.Within(time.Minute, "with the file it runs", h.Running(second))
}

// classes makes a class that says what claims cannot say.
func (h *H) classes() {
	const class = "e2e-important"
	h.Apply(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: ` + class + `}, spec: {
  selectors: [{cel: {expression: 'device.driver == "gpu.berth.dev"'}}],
  config: [{opaque: {driver: gpu.berth.dev, parameters: {apiVersion: gpu.berth.dev/v1alpha1, kind: Lease, service: embedding, socket: true}}}]}}`)
	defer func() { _, _ = h.Kubectl("delete", "deviceclass", class) }()
	of := func(s *resourcev1.ResourceClaimSpec) { s.Devices.Requests[0].Exactly.DeviceClassName = class }
	with := h.Create(Pod{Name: "with-socket", Memory: "4Gi", Template: of})
	h.Eventually("a pod of a class with a service and the socket runs", h.Running(with))
	if l, env := h.Lease(with), h.Report(with).Env; l.Holder.Service != "embedding" || env["BERTH_SOCKET"] != "/run/berth/berth.sock" {
		h.Fail("its lease is for the service %q, and BERTH_SOCKET is %q", l.Holder.Service, env["BERTH_SOCKET"])
	}
	other := h.Create(Pod{Name: "other-service", Memory: "4Gi", Template: of, Parameters: `"service": "training"`})
	h.Eventually("a claim cannot change the service of its class", h.Said(other, "FailedPrepareDynamicResources", "service"))
	h.Delete(with)
	h.Delete(other)
	h.Eventually("both are gone", h.Gone(with, other))
}

// nothing returns an error if the node of a scenario has something of a claim.
func (h *H) nothing() error {
	n := h.Node(1)
	if leases, err := n.Leases(); err != nil || len(leases) > 0 {
		return fmt.Errorf("%d leases, %w", len(leases), err)
	}
	if cdi, state := n.CDI(), n.State(); len(cdi)+len(state) > 0 {
		return fmt.Errorf("the CDI files %v and the state files %v", cdi, state)
	}
	return nil
}

// strangers writes slices as the driver of node-1.
func (h *H) strangers() {
	driver, err := h.Node(1).Driver()
	h.Must(err)
	token, err := h.Cluster.CoreV1().ServiceAccounts("berth-system").CreateToken(h.ctx, "berth-dra", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: driver.Name, UID: driver.UID}}}, metav1.CreateOptions{})
	h.Must(err)
	as := rest.AnonymousClientConfig(h.config)
	as.BearerToken = token.Status.Token
	account, err := kubernetes.NewForConfig(as)
	h.Must(err)
	slice := func(name, node, driver string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 0, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu"}}}}
	}
	slices := account.ResourceV1().ResourceSlices()
	forbidden := func(what string, err error) {
		if !apierrors.IsForbidden(err) {
			h.Fail("the driver of node-1 could %s: %v", what, err)
		}
		h.Step("the driver of node-1 cannot %s: %v", what, err)
	}
	_, err = slices.Create(h.ctx, slice("e2e-own", "node-1", words.Driver), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}) // the driver would remove it
	h.Must(err)
	h.Step("the driver of node-1 may write slices of node-1")
	pool := slice("e2e-pool", "node-1", words.Driver)
	pool.Spec.Pool.Name = "node-2"
	_, err = slices.Create(h.ctx, pool, metav1.CreateOptions{})
	forbidden("write a slice of the pool of node-2", err)
	_, err = slices.Create(h.ctx, slice("e2e-other", "node-2", words.Driver), metav1.CreateOptions{})
	forbidden("write a slice of node-2", err)
	_, err = slices.Create(h.ctx, slice("e2e-foreign", "node-1", "gpu.example.com"), metav1.CreateOptions{})
	forbidden("write a slice of another driver", err)
	theirs := slice("e2e-theirs", "node-2", words.Driver)
	theirs.Spec.Pool.Name = "node-2-e2e"
	_, err = h.Cluster.ResourceV1().ResourceSlices().Create(h.ctx, theirs, metav1.CreateOptions{})
	h.Must(err)
	forbidden("delete a slice of node-2", slices.Delete(h.ctx, "e2e-theirs", metav1.DeleteOptions{}))
	h.Must(h.Cluster.ResourceV1().ResourceSlices().Delete(h.ctx, "e2e-theirs", metav1.DeleteOptions{}))
	_, err = account.CoreV1().Secrets("berth-system").List(h.ctx, metav1.ListOptions{})
	forbidden("read secrets", err)

	// The account may say how the devices of a claim do, and not who gets them.
	c, err := h.Claim("good")
	h.Must(err)
	c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "thief", UID: "00000000-0000-0000-0000-000000000000"})
	_, err = account.ResourceV1().ResourceClaims(h.Space).UpdateStatus(h.ctx, c, metav1.UpdateOptions{})
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		h.Fail("the driver of node-1 could reserve a claim: %v", errors.Join(err))
	}
	h.Step("the driver of node-1 cannot reserve a claim for a pod: %v", err)
}
