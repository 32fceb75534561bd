package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/berth-gpu/berth/kubernetes/words"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// kind is a kind of pod, with a claim template of its own.
type kind struct {
	name, memory, service string // no memory: the whole device
	of100                 int
}

// kinds are the pods of the load.
var kinds = []kind{
	{"embedding", "8Gi", "embedding_service", 40},
	{"reranking", "4Gi", "reranking_service", 30},
	{"docling", "16Gi", "docling_service", 20},
	{"training", "", "training", 10},
}

// choose returns one of the kinds, as often as it is meant to be there.
func choose(r *rand.Rand) kind {
	n := r.IntN(100)
	for _, k := range kinds {
		if n -= k.of100; n < 0 {
			return k
		}
	}
	return kinds[0]
}

// namespaces are one for every part, so that nothing is left over for the next.
var namespaces = []string{"plain", "claims", "paced-plain", "paced-claims", "random"}

// makeKinds makes the device class, the namespaces and the claim templates.
func (f *fleet) makeKinds(ctx context.Context) error {
	extended := "berth.dev/gpu"
	if _, err := f.client.ResourceV1().DeviceClasses().Create(ctx, &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: words.Driver},
		Spec: resourcev1.DeviceClassSpec{
			ExtendedResourceName: &extended,
			Selectors:            []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", words.Driver)}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the device class: %w", err)
	}
	for _, name := range namespaces {
		if _, err := f.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("make the namespace %s: %w", name, err)
		}
		// The controller manager makes the same account, a little later.
		if _, err := f.client.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make the account of %s: %w", name, err)
		}
		for _, k := range kinds {
			request := &resourcev1.ExactDeviceRequest{DeviceClassName: words.Driver}
			if k.memory != "" {
				request.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{words.Memory: resource.MustParse(k.memory)}}
			}
			if err := f.makeTemplate(ctx, name, k.name, k.service, request); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeTemplate makes a claim template with one request.
func (f *fleet) makeTemplate(ctx context.Context, namespace, name, service string, request *resourcev1.ExactDeviceRequest) error {
	parameters := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"service":%q,"enforce":"auto","caps":["cupy","jax"]}`, words.ParametersVersion, words.ParametersKind, service)
	_, err := f.client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: request}},
			Config: []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
				Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: words.Driver, Parameters: runtime.RawExtension{Raw: []byte(parameters)}},
			}}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make the claim template %s/%s: %w", namespace, name, err)
	}
	return nil
}

// create creates a pod for the nodes of a part, with a claim from a template or, if
// that is "", without.
func (f *fleet) create(ctx context.Context, namespace, name, nodes, template string) error {
	no, grace := false, int64(1)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "fleet"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{part: nodes}, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "work", Image: "registry.test/work:1", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("4Gi")},
			}}},
		},
	}
	if template != "" {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}
	f.seen.sent(namespace + "/" + name)
	_, err := f.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the pod %s/%s: %w", namespace, name, err)
	}
	return nil
}

// remove deletes all pods of a namespace, and waits until they and their claims are
// gone.
func (f *fleet) remove(ctx context.Context, namespace string) error {
	f.say("deleting the pods of %s", namespace)
	if err := each(16, f.seen.there(namespace), func(name string) error {
		now := int64(0)
		err := f.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}); err != nil {
		return fmt.Errorf("delete the pods of %s: %w", namespace, err)
	}
	most := 0
	return f.until(ctx, "pods and claims that are gone", func() (int, int) {
		left := f.seen.left(namespace)
		most = max(most, left)
		return most - left, most
	})
}
