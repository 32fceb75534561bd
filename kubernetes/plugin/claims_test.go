package plugin_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// newUID returns a UID as an API server makes them.
func newUID() types.UID {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// claimOf returns a claim of a pod of the same name, made from a template, with an
// amount of a device.
func claimOf(name, device string, memory gpu.MiB, slots int) *resourcev1.ResourceClaim {
	share, yes := newUID(), true
	pod := newUID()
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: newUID(),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: pod, Controller: &yes}},
		},
		Status: resourcev1.ResourceClaimStatus{
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod}},
			Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{
					Request: "gpu", Driver: words.Driver, Pool: node, Device: device, ShareID: &share,
					ConsumedCapacity: map[resourcev1.QualifiedName]resource.Quantity{
						words.Memory: *resource.NewQuantity(int64(memory)<<20, resource.BinarySI),
						words.Slots:  *resource.NewQuantity(int64(slots), resource.DecimalSI),
					},
				}},
			}},
		},
	}
}

// with returns the claim with parameters.
func with(c *resourcev1.ResourceClaim, source resourcev1.AllocationConfigSource, parameters map[string]any) *resourcev1.ResourceClaim {
	parameters["apiVersion"], parameters["kind"] = words.ParametersVersion, words.ParametersKind
	text, err := json.Marshal(parameters)
	if err != nil {
		panic(err)
	}
	config := resourcev1.DeviceAllocationConfiguration{Source: source}
	config.Opaque = &resourcev1.OpaqueDeviceConfiguration{Driver: words.Driver, Parameters: runtime.RawExtension{Raw: text}}
	c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, config)
	return c
}

// shared returns the claim as one that somebody made, so that other pods can join.
func shared(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	c.OwnerReferences = nil
	return c
}

// joined returns the claim with another pod.
func joined(c *resourcev1.ResourceClaim, pod string) *resourcev1.ResourceClaim {
	c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: newUID()})
	return c
}
