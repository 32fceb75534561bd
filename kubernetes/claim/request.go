package claim

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// The values of enforce: what enforces the memory of a lease.
const (
	auto      = "auto"
	framework = "framework"
	watchdog  = "watchdog"
	none      = "none"
)

// Find looks up a published name: the UUID of its device, and for a fixed share its size.
type Find = func(device string) (uuid string, memory gpu.MiB, slots int, ok bool)

// Services has the namespaces whose claims may name a service of the daemon's
// configuration, by its name with dashes for underscores.
type Services map[string][]string

// service returns the service that the lease is for. A service of the configuration
// belongs to the namespaces that it lists, and a name that the configuration does not have
// is a service of the claim's own namespace: a claim never names another's. A device
// class, which administrators make, names any service.
func (c Claim) service(known Services) (string, error) {
	p := c.Parameters
	if !p.Claimed {
		return p.Service, nil
	}
	namespaces, configured := known[strings.ReplaceAll(p.Service, "_", "-")]
	switch {
	case !configured:
		name := c.Namespace + "/" + p.Service
		if utf8.RuneCountInString(name) > maxName {
			return "", refuse(BadParameters, "the service %s has a longer name than its namespace %s leaves room for; give it a shorter one", quote(p.Service), c.Namespace)
		}
		return name, nil
	case !slices.Contains(namespaces, c.Namespace):
		return "", refuse(OtherService, "the service %s is not for claims of the namespace %s: name another one, or let an administrator add the namespace to services.%s.namespaces of the daemon, or name the service in a device class", quote(p.Service), c.Namespace, p.Service)
	}
	return p.Service, nil
}

// Request returns the request for the lease of a claim. known has the services of the
// daemon. alone says that the pod has no
// other claim of this driver: two claims would overwrite each other's environment, so
// neither limits the libraries of the program, and the daemon only measures its use.
// The errors of Request are of type [*Refusal].
func (c Claim) Request(find Find, known Services, alone bool) (api.LeaseRequest, error) {
	if c.Admin {
		return api.LeaseRequest{}, refuse(BadClaim, "claim %s/%s is for administration, so there is no lease for it", c.Namespace, c.Name)
	}
	switch n := len(c.Pods); {
	case n == 0:
		return api.LeaseRequest{}, refuse(BadClaim, "claim %s/%s is reserved for no pod, so nobody could tell whose memory it is; the driver tries again", c.Namespace, c.Name)
	case n > MaxScope:
		return api.LeaseRequest{}, refuse(BadClaim, "claim %s/%s is reserved for %d pods; a lease has at most %d: use more claims", c.Namespace, c.Name, n, MaxScope)
	}
	shares, err := c.shares(find)
	if err != nil {
		return api.LeaseRequest{}, err
	}
	service, err := c.service(known)
	if err != nil {
		return api.LeaseRequest{}, err
	}
	enforce, caps := c.Parameters.enforcement(alone)
	r := api.LeaseRequest{
		ID: c.UID, Service: service, Name: c.holder(), Binding: "named", Timeout: gpu.Some(0.0),
		Parts: shares, Admitted: true, Scope: c.Scope(), Enforce: enforce, Caps: caps, Optimize: c.Parameters.Optimize,
	}
	if c.Parameters.Priority != nil {
		r.Priority = gpu.Some(*c.Parameters.Priority)
	}
	return r, nil
}

// Scope returns the names of the control groups of the pods of a claim.
func (c Claim) Scope() []string {
	var names []string
	for _, p := range c.Pods {
		if name := "pod" + p.UID; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// holder returns the name of the holder of the lease, for people.
func (c Claim) holder() string { return gpu.Printable(c.Namespace+"/"+c.Pods[0].Name, maxName) }

// shares returns the shares of the lease, by device. Several fixed shares may be of one
// device.
func (c Claim) shares(find Find) ([]api.LeaseShare, error) {
	var list []api.LeaseShare
	for _, p := range c.Parts {
		if p.Admin {
			continue
		}
		uuid, memory, slots, ok := find(p.Device)
		if !ok {
			return nil, refuse(UnknownDevice, "node %s has no device %s any more, which claim %s/%s was allocated: delete the pod, so that Kubernetes allocates another", p.Pool, p.Device, c.Namespace, c.Name)
		}
		if !p.Fixed {
			memory, slots = p.Memory, p.Slots
		}
		i := slices.IndexFunc(list, func(s api.LeaseShare) bool { return s.GPU == uuid })
		if i < 0 {
			i = len(list)
			list = append(list, api.LeaseShare{GPU: uuid})
		}
		list[i].Memory += memory
		list[i].Slots += slots
	}
	if len(list) > maxParts {
		return nil, refuse(BadClaim, "claim %s/%s has %d devices; a lease has at most %d: use more claims", c.Namespace, c.Name, len(list), maxParts)
	}
	return list, nil
}
