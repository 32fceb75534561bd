package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/kubernetes/words"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// image is the image of the workload.
const image = "registry.test/work:1"

// class is the name of the device class.
const class = words.Driver

// Pod is a pod of the workload.
type Pod struct {
	Name       string
	Memory     string // of a device, such as 60Gi; empty and no slots: no claim, unless Whole
	Slots      string
	Whole      bool     // ask for a device and no amount: all of it
	Claim      string   // the name of an existing ResourceClaim instead
	Parameters string   // fields of the opaque parameters, in JSON: "enforce": "watchdog"
	Use        int      // MiB that it uses
	Guest      bool     // it can use memory later; implied by Use
	Args       []string // further arguments of the workload
	UID        int64    // of its processes
	Node       string   // the only node it may run on
	Grace      int64    // seconds from SIGTERM to SIGKILL; default 1
	Labels     map[string]string
	Change     func(*corev1.PodSpec)
	Template   func(*resourcev1.ResourceClaimSpec)
}

// Create makes a pod, and the claim template of the same name that it needs. It
// returns the name of the pod.
func (h *H) Create(p Pod) string {
	spec := h.Spec(p)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: h.Space, Labels: p.Labels}, Spec: spec}
	_, err := h.Cluster.CoreV1().Pods(h.Space).Create(h.ctx, pod, metav1.CreateOptions{})
	h.Must(err)
	return p.Name
}

// Spec makes the claim template of a pod and returns the specification of the pod,
// for those who make a Deployment of it.
func (h *H) Spec(p Pod) corev1.PodSpec {
	args := slices.Clone(p.Args)
	if p.Use > 0 || p.Guest {
		h.slots++
		args = append(args, "--slot", strconv.Itoa(h.slots), "--use", strconv.Itoa(p.Use))
	}
	grace := max(p.Grace, 1)
	folder := corev1.HostPathDirectoryOrCreate
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{Name: "work", Image: image, ImagePullPolicy: corev1.PullNever, Args: args,
			VolumeMounts: []corev1.VolumeMount{{Name: "guests", MountPath: "/guests"}}}},
		Volumes: []corev1.Volume{{Name: "guests", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: guests, Type: &folder}}}},
	}
	if p.UID != 0 {
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &p.UID}
	}
	if p.Node != "" {
		spec.NodeSelector = map[string]string{"kubernetes.io/hostname": p.Node}
	}
	claim := corev1.PodResourceClaim{Name: "gpu"}
	switch {
	case p.Claim != "":
		claim.ResourceClaimName = &p.Claim
	case p.Memory != "" || p.Slots != "" || p.Whole || p.Template != nil:
		h.template(p)
		claim.ResourceClaimTemplateName = &p.Name
	}
	if claim.ResourceClaimName != nil || claim.ResourceClaimTemplateName != nil {
		spec.ResourceClaims = []corev1.PodResourceClaim{claim}
		spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}
	if p.Change != nil {
		p.Change(&spec)
	}
	return spec
}

// ClaimSpec returns what the claim of a pod asks for.
func (p Pod) ClaimSpec() resourcev1.ResourceClaimSpec {
	exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: class}
	amounts := map[resourcev1.QualifiedName]resource.Quantity{}
	for name, value := range map[string]string{words.Memory: p.Memory, words.Slots: p.Slots} {
		if value != "" {
			amounts[resourcev1.QualifiedName(name)] = resource.MustParse(value)
		}
	}
	if len(amounts) > 0 {
		exactly.Capacity = &resourcev1.CapacityRequirements{Requests: amounts}
	}
	spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: exactly}}}}
	if p.Parameters != "" {
		text := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, %s}`, words.ParametersVersion, words.ParametersKind, p.Parameters)
		spec.Devices.Config = []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
			Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: words.Driver, Parameters: runtime.RawExtension{Raw: []byte(text)}}}}}
	}
	if p.Template != nil {
		p.Template(&spec)
	}
	return spec
}

// template makes the claim template of a pod.
func (h *H) template(p Pod) {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: h.Space},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: p.ClaimSpec()}}
	if _, err := h.Cluster.ResourceV1().ResourceClaimTemplates(h.Space).Create(h.ctx, t, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		h.Must(err)
	}
}

// MakeClaim makes a claim of its own, for pods that name it.
func (h *H) MakeClaim(p Pod) {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: h.Space}, Spec: p.ClaimSpec()}
	_, err := h.Cluster.ResourceV1().ResourceClaims(h.Space).Create(h.ctx, c, metav1.CreateOptions{})
	h.Must(err)
}

// Pod returns a pod of the scenario.
func (h *H) Pod(name string) (*corev1.Pod, error) {
	return h.Cluster.CoreV1().Pods(h.Space).Get(h.ctx, name, metav1.GetOptions{})
}

// Delete deletes a pod, and does not wait for its end.
func (h *H) Delete(name string) {
	h.Must(h.Cluster.CoreV1().Pods(h.Space).Delete(h.ctx, name, metav1.DeleteOptions{}))
}

// Running is true when the containers of all pods run and the workload has begun.
func (h *H) Running(pods ...string) Condition {
	return func() error {
		for _, name := range pods {
			p, err := h.Pod(name)
			if err != nil {
				return err
			}
			if p.Status.Phase != corev1.PodRunning || len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready {
				return fmt.Errorf("pod %s is %s%s", name, p.Status.Phase, h.why(p))
			}
		}
		return nil
	}
}

// why returns the last event of a pod that does not run.
func (h *H) why(p *corev1.Pod) string {
	all := h.Events(p.Name)
	if len(all) == 0 {
		return ""
	}
	return "; its last event: " + all[len(all)-1].Reason + ": " + all[len(all)-1].Message
}

// Pending is true while a pod has no node and its claim no device.
func (h *H) Pending(name string) Condition {
	return func() error {
		p, err := h.Pod(name)
		if err != nil {
			return err
		}
		if p.Spec.NodeName != "" {
			return fmt.Errorf("pod %s is on %s", name, p.Spec.NodeName)
		}
		if c, err := h.Claim(name); err == nil && c.Status.Allocation != nil {
			return fmt.Errorf("the claim of pod %s is allocated", name)
		}
		return nil
	}
}

// Gone is true when a pod no longer exists.
func (h *H) Gone(pods ...string) Condition {
	return func() error {
		for _, name := range pods {
			if _, err := h.Pod(name); err == nil {
				return fmt.Errorf("pod %s is there", name)
			} else if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	}
}

// Claim returns the first claim of a pod.
func (h *H) Claim(pod string) (*resourcev1.ResourceClaim, error) {
	p, err := h.Pod(pod)
	if err != nil {
		return nil, err
	}
	name := ""
	switch {
	case len(p.Spec.ResourceClaims) > 0 && p.Spec.ResourceClaims[0].ResourceClaimName != nil:
		name = *p.Spec.ResourceClaims[0].ResourceClaimName
	case len(p.Status.ResourceClaimStatuses) > 0 && p.Status.ResourceClaimStatuses[0].ResourceClaimName != nil:
		name = *p.Status.ResourceClaimStatuses[0].ResourceClaimName
	case p.Status.ExtendedResourceClaimStatus != nil:
		name = p.Status.ExtendedResourceClaimStatus.ResourceClaimName
	default:
		return nil, fmt.Errorf("pod %s has no claim yet", pod)
	}
	return h.Cluster.ResourceV1().ResourceClaims(h.Space).Get(h.ctx, name, metav1.GetOptions{})
}

// Results returns what the claim of a pod has got.
func (h *H) Results(pod string) []resourcev1.DeviceRequestAllocationResult {
	c, err := h.Claim(pod)
	h.Must(err)
	if c.Status.Allocation == nil {
		h.Fail("the claim of pod %s is not allocated", pod)
	}
	return c.Status.Allocation.Devices.Results
}

// Lease returns the lease of a pod, from the daemon of its node.
func (h *H) Lease(pod string) api.Lease {
	p, err := h.Pod(pod)
	h.Must(err)
	c, err := h.Claim(pod)
	h.Must(err)
	l, err := h.nodeOf(p).Lease(string(c.UID))
	h.Must(err)
	return l
}

func (h *H) nodeOf(p *corev1.Pod) *Node {
	for _, n := range h.nodes {
		if n.Name == p.Spec.NodeName {
			return n
		}
	}
	h.Fail("pod %s is on no node", p.Name)
	return nil
}

// Events returns the events about a pod, oldest first.
func (h *H) Events(pod string) []corev1.Event {
	list, err := h.Cluster.CoreV1().Events(h.Space).List(h.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	h.Must(err)
	when := func(e corev1.Event) int64 {
		return max(e.LastTimestamp.UnixMilli(), e.EventTime.UnixMilli(), e.CreationTimestamp.UnixMilli())
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return int(when(a) - when(b)) })
	return list.Items
}

// Said is true when an event about a pod has the reason and contains the text.
func (h *H) Said(pod, reason, text string) Condition {
	return func() error {
		var said []string
		for _, e := range h.Events(pod) {
			if (reason == "" || e.Reason == reason) && strings.Contains(e.Message, text) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no event %s with %q about pod %s; there are: %s", reason, text, pod, strings.Join(said, " | "))
	}
}

// Report is what a container of the workload sees.
type Report struct {
	UID       int               `json:"uid"`
	Cgroup    string            `json:"cgroup"`
	Namespace string            `json:"pid_namespace"`
	Env       map[string]string `json:"env"`
}

// Report reads what the container of a pod printed when it began.
func (h *H) Report(pod string) Report {
	var r Report
	h.wait(patience, "the log of pod "+pod, func() error {
		text, err := h.Cluster.CoreV1().Pods(h.Space).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(h.ctx)
		if err != nil {
			return err
		}
		line, _, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return fmt.Errorf("it is %q", text)
		}
		return json.Unmarshal(line, &r)
	})
	return r
}

// Use makes the container of a pod use an amount of memory on its GPUs. The pod must be a guest.
func (h *H) Use(pod string, mib int) {
	_, err := h.Exec(pod, "/work", "use", strconv.Itoa(mib))
	h.Must(err)
}

// Exec runs a command in the container of a pod and returns what it prints.
func (h *H) Exec(pod string, command ...string) (string, error) {
	request := h.Cluster.CoreV1().RESTClient().Post().Resource("pods").Namespace(h.Space).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	e, err := remotecommand.NewSPDYExecutor(h.config, "POST", request.URL())
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := e.StreamWithContext(h.ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &out}); err != nil {
		return out.String(), fmt.Errorf("exec %s in pod %s: %w: %s", strings.Join(command, " "), pod, err, out.String())
	}
	return out.String(), nil
}
