package claim

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-gpu/berth/gpu"
)

const (
	claimUID = "3f8f6a3e-6d50-4f4d-8a57-1a40c5a0d001"
	podUID   = "7c1d0c7e-90f1-4c9e-a5b4-0e2f0f6f0002"
	node     = "node-1"
)

type result = resourcev1.DeviceRequestAllocationResult

// got is what a request got on a device, by the amounts as in "8Gi 1".
func got(request, device, share, amounts string) result {
	r := result{Request: request, Driver: "gpu.berth.dev", Pool: node, Device: device}
	if share != "" {
		id := types.UID(share)
		r.ShareID = &id
	}
	if amounts != "" {
		memory, slots, _ := strings.Cut(amounts, " ")
		r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory), "slots": resource.MustParse(slots)}
	}
	return r
}

// sample returns a claim of one pod.
func sample(results ...result) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "embed-gpu", UID: claimUID},
		Status: resourcev1.ResourceClaimStatus{
			Allocation:  &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: results}},
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "embed-0", UID: podUID}},
		},
	}
}

// configured adds parameters, from the class or from the claim.
func configured(c *resourcev1.ResourceClaim, class bool, parameters string, requests ...string) *resourcev1.ResourceClaim {
	source := resourcev1.AllocationConfigSourceClaim
	if class {
		source = resourcev1.AllocationConfigSourceClass
	}
	c.Status.Allocation.Devices.Config = append(c.Status.Allocation.Devices.Config, resourcev1.DeviceAllocationConfiguration{
		Source: source, Requests: requests,
		DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
			Driver: "gpu.berth.dev", Parameters: runtime.RawExtension{Raw: []byte(parameters)},
		}},
	})
	return c
}

func TestRead(t *testing.T) {
	admin := got("watch", "gpu-1", "", "")
	yes := true
	admin.AdminAccess = &yes
	other := got("nic", "eth-0", "", "")
	other.Driver = "nic.example.com"
	elsewhere := got("gpu", "gpu-9", "", "8Gi 1")
	elsewhere.Pool = "node-2"
	for _, c := range []struct {
		name    string
		results []result
		parts   []Part
		admin   bool
	}{
		{"one share", []result{other, got("gpu", "gpu-1", "s1", "8Gi 1"), elsewhere},
			[]Part{{Device: "gpu-1", Pool: node, Requests: []string{"gpu"}, Memory: 8192, Slots: 1, Shares: []Share{{"gpu", "s1"}}}}, false},
		{"two shares of one device", []result{got("a", "gpu-1", "s1", "8Gi 1"), got("b", "gpu-2", "s2", "1Gi 1"), got("b", "gpu-1", "s3", "1Gi 2"), got("b", "gpu-1", "s4", "1Mi 1")},
			[]Part{
				{Device: "gpu-1", Pool: node, Requests: []string{"a", "b"}, Memory: 9217, Slots: 4, Shares: []Share{{"a", "s1"}, {"b", "s3"}, {"b", "s4"}}},
				{Device: "gpu-2", Pool: node, Requests: []string{"b"}, Memory: 1024, Slots: 1, Shares: []Share{{"b", "s2"}}},
			}, false},
		{"a fixed share", []result{got("gpu", "gpu-1-s0", "", "")},
			[]Part{{Device: "gpu-1-s0", Pool: node, Requests: []string{"gpu"}, Fixed: true, Shares: []Share{{"gpu", ""}}}}, false},
		{"administration", []result{admin},
			[]Part{{Device: "gpu-1", Pool: node, Requests: []string{"watch"}, Admin: true, Shares: []Share{{"watch", ""}}}}, true},
		{"administration and a share", []result{admin, got("gpu", "gpu-1", "s1", "8Gi 1")},
			[]Part{
				{Device: "gpu-1", Pool: node, Requests: []string{"watch"}, Admin: true, Shares: []Share{{"watch", ""}}},
				{Device: "gpu-1", Pool: node, Requests: []string{"gpu"}, Memory: 8192, Slots: 1, Shares: []Share{{"gpu", "s1"}}},
			}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := sample(c.results...)
			read, err := Read(claim, node)
			if err != nil || !Allocated(claim, node) {
				t.Fatalf("%v, allocated %v", err, Allocated(claim, node))
			}
			want := Claim{UID: claimUID, Namespace: "ml", Name: "embed-gpu", Pods: []Pod{{"embed-0", podUID}}, Admin: c.admin, Parts: c.parts}
			if !reflect.DeepEqual(read, want) {
				t.Errorf("read\n%+v, want\n%+v", read, want)
			}
		})
	}
}

func TestAmounts(t *testing.T) {
	for _, c := range []struct {
		amounts string
		memory  gpu.MiB
		slots   int
		refused string
	}{
		{"8Gi 1", 8192, 1, ""}, {"8589934592 1", 8192, 1, ""}, {"8589934593 1", 8193, 1, ""}, {"1 1", 1, 1, ""}, {"1 0", 0, 0, "no slot"}, {"0 1", 0, 0, "no memory"},
		{"10G 1", 9537, 1, ""}, {"500m 1500m", 1, 2, ""}, {"1Pi 65536", 1 << 30, 65536, ""},
		{"-1 1", 0, 0, "memory"}, {"1Gi -1", 0, 0, "slots"}, {"2Pi 1", 0, 0, "memory"}, {"9e30 1", 0, 0, "memory"}, {"1Gi 65537", 0, 0, "slots"}, {"1Gi 1e18", 0, 0, "slots"},
	} {
		read, err := Read(sample(got("gpu", "gpu-1", "s1", c.amounts)), node)
		if c.refused != "" {
			if r := refusal(t, err); r.Code != BadCapacity || !strings.Contains(r.Text, c.refused) {
				t.Errorf("%s: %+v", c.amounts, r)
			}
			continue
		}
		if err != nil || read.Parts[0].Memory != c.memory || read.Parts[0].Slots != c.slots {
			t.Errorf("%s: %+v, %v", c.amounts, read.Parts, err)
		}
	}
	if r := refusal(t, second(Read(sample(got("a", "gpu-1", "s1", "1Pi 1"), got("b", "gpu-1", "s2", "1Pi 1")), node))); r.Code != BadCapacity {
		t.Errorf("a sum that no device has: %+v", r)
	}
}

func second(_ Claim, err error) error { return err }

// refusal returns err as a refusal with a sentence.
func refusal(t testing.TB, err error) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Code == "" || len(r.Text) < 10 || strings.ContainsAny(r.Text, "\n\r\x00") {
		t.Fatalf("%v is not a refusal with a sentence", err)
	}
	return r
}

func TestClaimsThatAreNotForThisNode(t *testing.T) {
	bare := sample()
	bare.Status.Allocation = nil
	for name, c := range map[string]*resourcev1.ResourceClaim{"nil": nil, "not allocated": bare, "no result": sample(), "another node": sample(got("gpu", "gpu-1", "", ""))} {
		at := node
		if name == "another node" {
			at = "node-2"
		}
		if Allocated(c, at) {
			t.Errorf("%s: it is allocated", name)
		}
		if r := refusal(t, second(Read(c, at))); r.Code != NotHere {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A UID becomes the name of a file and of a control group.
func TestOddUIDs(t *testing.T) {
	for _, odd := range []string{"", "..", "a/b", "../../etc/passwd", "a\nb", "-a", strings.Repeat("a", 64)} {
		c := sample(got("gpu", "gpu-1", "s1", "8Gi 1"))
		c.UID = types.UID(odd)
		if r := refusal(t, second(Read(c, node))); r.Code != BadClaim {
			t.Errorf("claim %q: %+v", odd, r)
		}
		c = sample(got("gpu", "gpu-1", "s1", "8Gi 1"))
		c.Status.ReservedFor[0].UID = types.UID(odd)
		if r := refusal(t, second(Read(c, node))); r.Code != BadClaim {
			t.Errorf("pod %q: %+v", odd, r)
		}
	}
}

func TestPodsAndTemplates(t *testing.T) {
	c := sample(got("gpu", "gpu-1", "s1", "8Gi 1"))
	c.Status.ReservedFor = append(c.Status.ReservedFor,
		resourcev1.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "x"},
		resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "embed-1", UID: "u-2"})
	yes := true
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "embed-0", UID: podUID}
	for _, made := range []bool{false, true} {
		if made {
			owner.Controller = &yes
		}
		c.OwnerReferences = []metav1.OwnerReference{owner}
		read, err := Read(c, node)
		if err != nil || len(read.Pods) != 2 || read.Pods[1] != (Pod{"embed-1", "u-2"}) || read.Template != made {
			t.Errorf("made from a template %v: %+v, %v", made, read, err)
		}
	}
}
