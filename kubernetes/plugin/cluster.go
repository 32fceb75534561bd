package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/berth-gpu/berth/gpu/maker"
	"github.com/berth-gpu/berth/kubernetes/claim"
	"github.com/berth-gpu/berth/kubernetes/slice"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// cluster has the calls to the API server, apart from publishing devices.
type cluster interface {
	// claim returns a claim, or nil if it does not exist. Unless fresh is set, the claim
	// may be a few seconds old.
	claim(ctx context.Context, namespace, name string, fresh bool) (*resourcev1.ResourceClaim, error)
	// claimWith returns the claim of a namespace with a UID, or nil if it does not exist.
	claimWith(ctx context.Context, namespace, uid string) (*resourcev1.ResourceClaim, error)
	// published returns the devices of a node that this driver, or an earlier one, has
	// published.
	published(ctx context.Context, node string) ([]resourcev1.Device, error)
	// report writes the status of this driver's devices of a claim.
	report(ctx context.Context, c *resourcev1.ResourceClaim, devices []*resourceapply.AllocatedDeviceStatusApplyConfiguration) error
	// warn sends an event about a pod. It does not wait.
	warn(namespace string, pod claim.Pod, reason, text string)
}

// clusterTimeout limits one call to the API server.
const clusterTimeout = 5 * time.Second

// kube is the cluster behind an API server.
type kube struct {
	client   kubernetes.Interface
	recorder events.EventRecorder
}

// newKube returns the cluster, which sends events until ctx ends.
func newKube(ctx context.Context, client kubernetes.Interface) (*kube, error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("record events: %w", err)
	}
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return &kube{client: client, recorder: broadcaster.NewRecorder(runtime.NewScheme(), words.Driver)}, nil
}

func (k *kube) claim(ctx context.Context, namespace, name string, fresh bool) (*resourcev1.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	var o metav1.GetOptions
	if !fresh {
		o.ResourceVersion = "0" // from the cache of the API server
	}
	c, err := k.client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read claim %s/%s: %w", namespace, name, err)
	}
	return c, nil
}

func (k *kube) claimWith(ctx context.Context, namespace, uid string) (*resourcev1.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	o := metav1.ListOptions{Limit: 500}
	for {
		page, err := k.client.ResourceV1().ResourceClaims(namespace).List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list the claims of namespace %s: %w", namespace, err)
		}
		for i := range page.Items {
			if string(page.Items[i].UID) == uid {
				return &page.Items[i], nil
			}
		}
		if o.Continue = page.Continue; o.Continue == "" {
			return nil, nil
		}
	}
}

func (k *kube) published(ctx context.Context, node string) ([]resourcev1.Device, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	list, err := k.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: resourcev1.ResourceSliceSelectorNodeName + "=" + node + "," + resourcev1.ResourceSliceSelectorDriver + "=" + words.Driver,
	})
	if err != nil {
		return nil, fmt.Errorf("list the devices of node %s: %w", node, err)
	}
	newest := int64(0)
	for i := range list.Items {
		newest = max(newest, list.Items[i].Spec.Pool.Generation)
	}
	var all []resourcev1.Device
	for i := range list.Items {
		if spec := &list.Items[i].Spec; spec.Pool.Name == node && spec.Pool.Generation == newest {
			all = append(all, spec.Devices...)
		}
	}
	return all, nil
}

func (k *kube) report(ctx context.Context, c *resourcev1.ResourceClaim, devices []*resourceapply.AllocatedDeviceStatusApplyConfiguration) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	// Because of the UID, the API server refuses a later claim of the same name as a
	// conflict.
	status := resourceapply.ResourceClaim(c.Name, c.Namespace).WithUID(c.UID).
		WithStatus(resourceapply.ResourceClaimStatus().WithDevices(devices...))
	_, err := k.client.ResourceV1().ResourceClaims(c.Namespace).ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: words.Driver, Force: true})
	if apierrors.IsInvalid(err) {
		_, err = k.client.ResourceV1().ResourceClaims(c.Namespace).UpdateStatus(ctx, withDevices(c, devices), metav1.UpdateOptions{FieldManager: words.Driver})
	}
	if err != nil {
		return fmt.Errorf("write the status of claim %s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}

// withDevices returns a claim with the status of this driver's devices in place of its own
// earlier one.
//
// An API server that applies a change writes the parameters of the claim anew, in sorted
// order and without spaces. Where somebody wrote them otherwise, it takes that for a change
// of the allocation, and refuses it. A whole claim keeps them as they are, if the client
// speaks Protocol Buffers.
func withDevices(c *resourcev1.ResourceClaim, devices []*resourceapply.AllocatedDeviceStatusApplyConfiguration) *resourcev1.ResourceClaim {
	c = c.DeepCopy()
	var all []resourcev1.AllocatedDeviceStatus
	for _, one := range devices {
		d := resourcev1.AllocatedDeviceStatus{Driver: *one.Driver, Pool: *one.Pool, Device: *one.Device, ShareID: one.ShareID, Data: one.Data}
		for _, o := range one.Conditions {
			d.Conditions = append(d.Conditions, metav1.Condition{Type: *o.Type, Status: *o.Status, Reason: *o.Reason, Message: *o.Message, LastTransitionTime: *o.LastTransitionTime})
		}
		all = append(all, d)
	}
	c.Status.Devices = append(slices.DeleteFunc(c.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
		return slices.ContainsFunc(all, func(own resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == own.Driver && d.Pool == own.Pool
		})
	}), all...)
	return c
}

// keeps asks the API server which fields of a device it keeps, without changing anything.
// If the API server does not say, keeps returns shape.
func (k *kube) keeps(ctx context.Context, node string, shape slice.Shape) slice.Shape {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	several := true
	probe := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: node + "-probe-"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: words.Driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{
				Name: "probe", AllowMultipleAllocations: &several,
				Taints: []resourcev1.DeviceTaint{{Key: words.Driver + "/probe", Effect: resourcev1.DeviceTaintEffectNoSchedule}},
			}},
		},
	}
	kept, err := k.client.ResourceV1().ResourceSlices().Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || len(kept.Spec.Devices) != 1 {
		return shape
	}
	shape.Consumable = shape.Consumable && kept.Spec.Devices[0].AllowMultipleAllocations != nil
	shape.Taints = shape.Taints && len(kept.Spec.Devices[0].Taints) > 0
	return shape
}

// soldTwice lists the resources by which a device plugin offers the GPUs of the node as
// well. Kubernetes does not see that they are the same GPUs.
func (k *kube) soldTwice(ctx context.Context, node string) []string {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	n, err := k.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range maker.All() {
		for _, name := range m.Resources {
			if amount := n.Status.Allocatable[corev1.ResourceName(name)]; amount.Sign() > 0 {
				names = append(names, name)
			}
		}
	}
	return names
}

// maxNote is the longest text of an event.
const maxNote = 1024

func (k *kube) warn(namespace string, pod claim.Pod, reason, text string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: types.UID(pod.UID)}
	k.recorder.Eventf(about, nil, corev1.EventTypeWarning, reason, "HoldToLease", "%s", cut(text, maxNote-24))
}

// cut shortens a text to at most n bytes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	n -= len("…")
	for n > 0 && text[n]&0xc0 == 0x80 { // in the middle of a character
		n--
	}
	return text[:n] + "…"
}
