// Package claim reads a ResourceClaim that Kubernetes has allocated, and turns
// it into the request for a lease.
//
// It has no side effects: the claim and the names of the devices come in as arguments.
package claim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// Claim is the part of a ResourceClaim that belongs to this driver on one node.
type Claim struct {
	UID, Namespace, Name string

	Pods       []Pod // those that the claim is reserved for
	Template   bool  // whether it was made for one pod, so that no other pod joins later
	Admin      bool  // whether every part is for administration, so that there is no lease
	Parts      []Part
	Parameters Parameters
}

// Pod is a pod that uses a claim.
type Pod struct{ Name, UID string }

// Part is the part of a claim on one published device.
type Part struct {
	Device   string // its published name
	Pool     string
	Requests []string // of the claim, each once
	Admin    bool     // whether it is access for administration, which holds nothing
	Fixed    bool     // whether the device is a fixed share, which has its own size: Memory and Slots are zero
	Memory   gpu.MiB
	Slots    int
	Shares   []Share // the parts of the part, as the API server names them
}

// Share is one result of an allocation.
type Share struct {
	Request string
	ShareID string // empty if the device is not shared
}

// The codes of refusals.
const (
	NotHere       = "not_allocated_here"
	BadClaim      = "bad_claim"
	BadCapacity   = "bad_capacity"
	BadParameters = "bad_parameters"
	OtherService  = "other_service"
	UnknownDevice = "unknown_device"
)

// Refusal says why there cannot be a lease for a claim.
type Refusal struct {
	Code string
	Text string // one sentence, and what to do
}

func (r *Refusal) Error() string { return r.Text }

// refuse returns a refusal whose text is safe to show, whatever is quoted in it.
func refuse(code, format string, args ...any) error {
	return &Refusal{code, gpu.Printable(fmt.Sprintf(format, args...), maxText)}
}

// The limits of a lease: see api.LeaseRequest.
const (
	maxMemory = gpu.MiB(1) << 30
	maxSlots  = 1 << 16
	maxParts  = 256
	maxName   = 128
	maxText   = 1000 // of a refusal: an event has 1024 bytes
)

// MaxScope is the most pods that a lease covers: as many as a claim can be reserved for.
const MaxScope = 256

// Allocated reports whether a claim has a device of this driver on a node.
func Allocated(c *resourcev1.ResourceClaim, node string) bool {
	return len(Results(c, node)) > 0
}

// Results lists the allocation results for this driver's devices on a node.
func Results(c *resourcev1.ResourceClaim, node string) []resourcev1.DeviceRequestAllocationResult {
	if c == nil || c.Status.Allocation == nil {
		return nil
	}
	var list []resourcev1.DeviceRequestAllocationResult
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver == words.Driver && r.Pool == node {
			list = append(list, r)
		}
	}
	return list
}

// uid matches texts that may be part of a file name and of the name of a control group.
var uid = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?$`)

// Read returns the part of a claim on a node. Its errors are of type [*Refusal].
func Read(c *resourcev1.ResourceClaim, node string) (Claim, error) {
	found := Results(c, node)
	if len(found) == 0 {
		return Claim{}, refuse(NotHere, "the claim has no device of %s on node %s", words.Driver, node)
	}
	out := Claim{UID: string(c.UID), Namespace: c.Namespace, Name: c.Name}
	if !uid.MatchString(out.UID) {
		return Claim{}, refuse(BadClaim, "claim %s/%s has the UID %s, which is not one", c.Namespace, c.Name, quote(out.UID))
	}
	for _, owner := range c.OwnerReferences {
		if owner.Kind == "Pod" && owner.APIVersion == "v1" && owner.Controller != nil && *owner.Controller {
			out.Template = true
		}
	}
	var err error
	if out.Pods, err = Pods(c); err != nil {
		return Claim{}, err
	}
	if out.Parts, err = parts(found); err != nil {
		return Claim{}, err
	}
	out.Admin = !slices.ContainsFunc(out.Parts, func(p Part) bool { return !p.Admin })
	if out.Parameters, err = parametersOf(c, found); err != nil {
		return Claim{}, err
	}
	return out, nil
}

// Pods lists the pods that a claim is reserved for. Its errors are of type [*Refusal].
func Pods(c *resourcev1.ResourceClaim) ([]Pod, error) {
	var list []Pod
	for _, r := range c.Status.ReservedFor {
		if r.APIGroup != "" || r.Resource != "pods" {
			continue
		}
		if !uid.MatchString(string(r.UID)) {
			return nil, refuse(BadClaim, "the claim is reserved for pod %s with the UID %s, which is not one", quote(r.Name), quote(string(r.UID)))
		}
		list = append(list, Pod{r.Name, string(r.UID)})
	}
	return list, nil
}

// parts adds up the results of an allocation, by device.
func parts(found []resourcev1.DeviceRequestAllocationResult) ([]Part, error) {
	var list []Part
	for _, r := range found {
		admin := r.AdminAccess != nil && *r.AdminAccess
		i := slices.IndexFunc(list, func(p Part) bool { return p.Device == r.Device && p.Admin == admin })
		if i < 0 {
			i = len(list)
			list = append(list, Part{Device: r.Device, Pool: r.Pool, Admin: admin, Fixed: !admin})
		}
		p := &list[i]
		if !slices.Contains(p.Requests, r.Request) {
			p.Requests = append(p.Requests, r.Request)
		}
		share := Share{Request: r.Request}
		if r.ShareID != nil {
			share.ShareID = string(*r.ShareID)
		}
		p.Shares = append(p.Shares, share)
		if admin || len(r.ConsumedCapacity) == 0 {
			continue
		}
		memory, err := amount(r, words.Memory, 1<<20, int64(maxMemory))
		if err != nil {
			return nil, err
		}
		slots, err := amount(r, words.Slots, 1, maxSlots)
		if err != nil {
			return nil, err
		}
		p.Fixed = false
		p.Memory += gpu.MiB(memory)
		p.Slots += int(slots)
		if p.Memory > maxMemory || p.Slots > maxSlots {
			return nil, refuse(BadCapacity, "the claim has %s and %d slots on device %s; that is more than a lease can have", p.Memory, p.Slots, r.Device)
		}
	}
	return list, nil
}

// amount returns how much of a capacity a result consumes, in units. It rounds up, so
// that a lease never has less than Kubernetes has given away.
func amount(r resourcev1.DeviceRequestAllocationResult, name resourcev1.QualifiedName, unit, most int64) (int64, error) {
	q, known := r.ConsumedCapacity[name]
	if !known {
		q, known = r.ConsumedCapacity[words.Driver+"/"+name]
	}
	if !known {
		return 0, nil
	}
	if q.Sign() < 0 || q.Cmp(*resource.NewQuantity(most*unit, resource.BinarySI)) > 0 {
		return 0, refuse(BadCapacity, "the claim has %s of %s on device %s; no device has that", quote(q.String()), name, r.Device)
	}
	if q.IsZero() && name == words.Memory {
		// The scheduler gives nothing to a claim for nothing while a device has less than
		// the least amount, and a lease without memory has no limit.
		return 0, refuse(BadCapacity, "the claim asks for no memory of device %s, so nothing would limit its programs; ask for some, or leave the amount out", r.Device)
	}
	if q.IsZero() && name == words.Slots {
		return 0, refuse(BadCapacity, "the claim asks for no slot of device %s, so nothing would limit how many share it; ask for one, or leave the amount out", r.Device)
	}
	return (q.Value() + unit - 1) / unit, nil
}

// quote returns a text from outside, for use in a sentence.
func quote(text string) string {
	return `"` + strings.ReplaceAll(gpu.Printable(text, 80), `"`, `'`) + `"`
}
