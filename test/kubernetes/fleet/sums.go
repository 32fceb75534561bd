package main

import (
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/kubernetes/words"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deviceID names a device in the cluster.
type deviceID struct{ pool, device string }

// amount is what a device has, or what a claim consumes of it.
type amount struct{ memory, slots int64 }

// share is what a claim consumes of one device.
type share struct {
	deviceID
	amount
}

// sums adds up what claims consume of devices. It looks at the sum whenever a claim
// changes, and remembers each time that it was more than the device has.
type sums struct {
	values map[deviceID]amount
	claims map[types.UID][]share
	total  map[deviceID]amount
	looks  int
	broken []string
}

func newSums() sums {
	return sums{values: map[deviceID]amount{}, claims: map[types.UID][]share{}, total: map[deviceID]amount{}}
}

// value sets what a device has.
func (s *sums) value(d deviceID, has amount) { s.values[d] = has }

// put replaces what a claim consumes, and reports whether that is anything new.
func (s *sums) put(claim types.UID, now []share) (changed bool) {
	before := s.claims[claim]
	if slices.Equal(before, now) {
		return false
	}
	for _, b := range before {
		t := s.total[b.deviceID]
		s.total[b.deviceID] = amount{t.memory - b.memory, t.slots - b.slots}
	}
	for _, n := range now {
		t := s.total[n.deviceID]
		s.total[n.deviceID] = amount{t.memory + n.memory, t.slots + n.slots}
	}
	s.claims[claim] = now
	if len(now) == 0 {
		delete(s.claims, claim)
	}
	s.looks++
	for _, n := range now {
		has, known := s.values[n.deviceID]
		switch t := s.total[n.deviceID]; {
		case !known:
			s.broken = append(s.broken, fmt.Sprintf("claim %s has device %s of %s, which no slice has", claim, n.device, n.pool))
		case t.memory > has.memory || t.slots > has.slots:
			s.broken = append(s.broken, fmt.Sprintf("device %s of %s: claims consume %d bytes and %d slots of %d bytes and %d slots", n.device, n.pool, t.memory, t.slots, has.memory, has.slots))
		}
	}
	return true
}

// shares returns what a claim consumes of the driver's devices: nothing until it is
// allocated.
func shares(c *resourcev1.ResourceClaim) []share {
	if c.Status.Allocation == nil {
		return nil
	}
	var all []share
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver != words.Driver {
			continue
		}
		memory, slots := r.ConsumedCapacity[words.Memory], r.ConsumedCapacity[words.Slots]
		all = append(all, share{deviceID{r.Pool, r.Device}, amount{memory.Value(), slots.Value()}})
	}
	return all
}

// capacity returns what a device has.
func capacity(d resourcev1.Device) amount {
	memory, slots := d.Capacity[words.Memory].Value, d.Capacity[words.Slots].Value
	return amount{memory.Value(), slots.Value()}
}
