package slice

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// grain is the unit of the memory that others use: the use by a driver and its processes
// goes up and down by a few MiB all the time.
const grain = gpu.MiB(64)

// use has the shares of leases on one device.
type use struct {
	memory gpu.MiB // of leases that are not for claims: the larger of leased and measured
	slots  int
	leases int

	own       int     // number of leases for claims
	ownMemory gpu.MiB // memory that they hold
	ownSlots  int
	over      gpu.MiB // memory that their processes use beyond that
}

// uses adds up the shares of leases on each device.
func uses(leases []api.Lease) map[string]use {
	all := map[string]use{}
	for i := range leases {
		l := &leases[i]
		if l.State == "waiting" || l.State == "released" {
			continue
		}
		own := Own(l)
		for part, p := range l.Parts {
			u, measured := all[p.GPU], p.Measured.Or(0)
			switch {
			case own:
				u.own++
				u.ownMemory += p.Memory
				u.ownSlots += p.Slots
				u.over += max(measured-p.Memory, 0)
			case l.State == "parked": // its memory is not on the device
				u.leases++
			default:
				u.leases++
				u.memory += max(l.Holds(part), measured)
				u.slots += p.Slots
			}
			all[p.GPU] = u
		}
	}
	return all
}

// ceiling returns how much memory of a device berth leases when nobody holds any.
func ceiling(a api.DeviceAvailable) gpu.MiB {
	limit := a.Total
	if a.Limit > 0 {
		limit = min(limit, a.Limit)
	}
	return max(limit-a.Reserve, 0)
}

// memoryFor returns the memory of a device that all claims together can have.
func memoryFor(a api.DeviceAvailable, u use) gpu.MiB {
	others := max(u.memory, 0) + max(a.Foreign, 0) + max(u.over, 0)
	others = (others + grain - 1) / grain * grain
	return max(ceiling(a)-others, 0)
}

// slotsFor returns the slots of a device that all claims together can have: half of them
// on probation. The state of the device does not count, because it follows from its
// memory too.
func slotsFor(s api.Status, u use) int {
	all := s.Slots.Capacity
	if s.Trust != nil && s.Trust.Phase == phaseProbation {
		all = min(max(all/2, 1), all)
	}
	return max(all-u.slots, 0)
}

// mebibytes returns an amount of memory as a quantity.
func mebibytes(m gpu.MiB) resource.Quantity {
	return *resource.NewQuantity(int64(m)<<20, resource.BinarySI)
}

func count(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// memoryCapacity returns the memory of a device that claims share by amount. A claim that
// does not name an amount gets all of it. If less is left than a claim needs, the default
// is more than there is, so that no claim fits.
func memoryCapacity(value, least gpu.MiB) resourcev1.DeviceCapacity {
	least = max(least, 1)
	if value < least+1 {
		return unfit(mebibytes(value), mebibytes(max(least, value+1)))
	}
	return ranged(mebibytes(value), mebibytes(value), mebibytes(least), mebibytes(1))
}

// slotCapacity returns the slots of a device that claims share. Each takes one at least,
// because slots bound how many share it.
func slotCapacity(value int) resourcev1.DeviceCapacity {
	one := count(1)
	switch {
	case value < 1:
		return unfit(count(0), one)
	case value == 1: // the API server accepts a range only with a second step in it
		return resourcev1.DeviceCapacity{Value: one, RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: &one, ValidValues: []resource.Quantity{one}}}
	}
	return ranged(count(int64(value)), one, one, one)
}

// ranged returns a capacity from which claims take any amount from least on, in steps.
func ranged(value, standard, least, step resource.Quantity) resourcev1.DeviceCapacity {
	most := value.DeepCopy()
	return resourcev1.DeviceCapacity{Value: value, RequestPolicy: &resourcev1.CapacityRequestPolicy{
		Default: &standard, ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: &least, Max: &most, Step: &step},
	}}
}

// unfit returns a capacity that fits no claim that leaves the amount to the default. A
// range would have to fit into the value.
func unfit(value, standard resource.Quantity) resourcev1.DeviceCapacity {
	return resourcev1.DeviceCapacity{Value: value, RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: &standard}}
}

// shareCapacities returns the capacities of a fixed share, all of which one claim has.
func shareCapacities(memory gpu.MiB, known bool) map[resourcev1.QualifiedName]resourcev1.DeviceCapacity {
	c := map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{words.Slots: {Value: count(1)}}
	if known {
		c[words.Memory] = resourcev1.DeviceCapacity{Value: mebibytes(memory)}
	}
	return c
}

// rise is how long an increase must last before it is published.
const rise = time.Minute

// steady follows a number: down at once, up only after it has been higher by a margin for
// a minute, and then to the lowest value of that minute. So a number that goes up and
// down stays the same.
type steady struct {
	value  int64
	known  bool
	since  time.Time // since when it has been higher by the margin; zero if it is not
	lowest int64     // the lowest value in that time
}

// follow returns the number to publish.
func (s *steady) follow(now time.Time, target, margin int64) int64 {
	switch {
	case !s.known || target <= s.value:
		s.value, s.known, s.since = target, true, time.Time{}
	case target < s.value+max(margin, 1):
		s.since = time.Time{}
	case s.since.IsZero() || now.Before(s.since):
		s.since, s.lowest = now, target
	default:
		s.lowest = min(s.lowest, target)
		if now.Sub(s.since) >= rise {
			s.value, s.since = s.lowest, time.Time{}
			if target >= s.value+max(margin, 1) {
				s.since, s.lowest = now, target // there may be more in another minute
			}
		}
	}
	return s.value
}
