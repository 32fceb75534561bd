package placement

import "slices"

// presence lists the devices that a service runs on, with the number of its leases there,
// sorted by position. A service runs on few devices, so a short sorted list is smaller
// and faster than a table over all of them.
type presence []onDevice

type onDevice struct {
	position int32
	leases   int32
}

func (p presence) find(position int) (int, bool) {
	return slices.BinarySearchFunc(p, int32(position), func(d onDevice, at int32) int {
		return int(d.position - at)
	})
}

// leases returns the number of leases that the service has on a device.
func (p presence) leases(position int) int32 {
	if len(p) == 0 {
		return 0
	}
	if i, ok := p.find(position); ok {
		return p[i].leases
	}
	return 0
}

// AddLeases adds by, which may be negative, to the number of leases that a service has on
// a device. Affinity goes by this number.
func (s *Snapshot) AddLeases(service, uuid string, by int) {
	position, ok := s.position[uuid]
	if !ok || service == "" || by == 0 {
		return
	}
	p := s.services[service]
	i, found := p.find(position)
	switch {
	case !found && by > 0:
		p = slices.Insert(p, i, onDevice{int32(position), int32(by)})
	case found:
		if p[i].leases += int32(by); p[i].leases <= 0 {
			p = slices.Delete(p, i, i+1)
		}
	}
	if len(p) == 0 {
		delete(s.services, service)
		return
	}
	s.services[service] = p
}
