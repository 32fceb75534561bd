package sim

import (
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// Describe returns the description from memory.
func (c *card) Describe() gpu.Device {
	d := c.about
	c.mu.Lock()
	d.PowerLimit = gpu.Some(gpu.Watts(c.plant.cap))
	c.mu.Unlock()
	d.Links = slices.Clone(d.Links)
	return d
}

// Devices sit on boards of eight, half of each board on either NUMA node.
const (
	boardSize = 8
	nodeSize  = boardSize / 2
)

// describe returns the identity of every device. It is the same at every start.
func describe(models []*model, firstIndex int) []gpu.Device {
	devices := make([]gpu.Device, len(models))
	for i, m := range models {
		devices[i] = gpu.Device{
			UUID:              uuid(m, firstIndex+i),
			Index:             firstIndex + i,
			Name:              m.Title + " (simulated)",
			Vendor:            gpu.Simulated,
			Backend:           backendName,
			PCI:               busID(i),
			ComputeCapability: m.ComputeCapability,
			MemoryTotal:       m.Memory,
			NUMANode:          gpu.Some(i / nodeSize % 2),
			PowerLimit:        gpu.Some(gpu.Watts(m.Power.Cap)),
			TempSlowdown:      gpu.Some(m.Limits.Slowdown),
			TempMax:           gpu.Some(m.Limits.Max),
			TempShutdown:      gpu.Some(m.Limits.Shutdown),
		}
	}
	for i := range devices {
		devices[i].Links = links(models, devices, i)
	}
	return devices
}

// uuid returns a readable UUID. Its index makes it unique on the machine.
func uuid(m *model, index int) string { return fmt.Sprintf("SIM-%s-%d", m.Name, index) }

// busID spreads devices over buses, 28 to a PCI domain, the way large machines do.
func busID(i int) string {
	const perDomain, firstBus, gap = 28, 0x1b, 8
	return fmt.Sprintf("%08X:%02X:00.0", i/perDomain, firstBus+i%perDomain*gap)
}

// links lists how device i reaches the others, best first.
func links(models []*model, devices []gpu.Device, i int) []gpu.Link {
	var list []gpu.Link
	for j := range devices {
		if j == i {
			continue
		}
		link := gpu.Link{To: devices[j].UUID, Kind: gpu.LinkSystem}
		own, same := models[i].Link, models[i] == models[j]
		switch {
		case same && own.Kind == gpu.LinkNVLink && i/boardSize == j/boardSize:
			link.Kind, link.Lanes = own.Kind, own.Lanes
		case same && i/nodeSize == j/nodeSize:
			link.Kind = own.Kind
		case i/nodeSize == j/nodeSize:
			link.Kind = gpu.LinkNode
		}
		list = append(list, link)
	}
	slices.SortStableFunc(list, func(a, b gpu.Link) int { return b.Kind.Closeness() - a.Kind.Closeness() })
	return list
}
