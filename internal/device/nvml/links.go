package nvml

import (
	"cmp"
	"context"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
)

// wiring has the connections of one GPU. The backend reads the NVLink part once, when it
// finds the GPU, because that takes long on machines with many GPUs; the rest grows as it
// finds other GPUs.
type wiring struct {
	direct   map[string]int          // number of NVLinks to other GPUs, by their PCI address
	switched int                     // number of NVLinks to switches, which reach every other GPU on them
	nearest  map[string]gpu.LinkKind // the kind of link on the PCI side, by the other's UUID
}

// readWiring counts the NVLinks of a GPU.
func readWiring(s *session, h nvml.Device) wiring {
	w := wiring{direct: map[string]int{}, nearest: map[string]gpu.LinkKind{}}
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := h.GetNvLinkState(link)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			break // no NVLink at all, or no more links
		}
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if s.hasRemoteType {
			if kind, ret := h.GetNvLinkRemoteDeviceType(link); ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				w.switched++
				continue
			}
		}
		if remote, ret := h.GetNvLinkRemotePciInfo(link); ret == nvml.SUCCESS {
			w.direct[busID(remote)]++
		}
	}
	return w
}

// pciKinds maps NVML's levels of PCI topology to berth's words.
var pciKinds = map[nvml.GpuTopologyLevel]gpu.LinkKind{
	nvml.TOPOLOGY_INTERNAL:   gpu.LinkSwitch, // two GPUs on one board
	nvml.TOPOLOGY_SINGLE:     gpu.LinkSwitch,
	nvml.TOPOLOGY_MULTIPLE:   gpu.LinkSwitch,
	nvml.TOPOLOGY_HOSTBRIDGE: gpu.LinkBridge,
	nvml.TOPOLOGY_NODE:       gpu.LinkNode,
	nvml.TOPOLOGY_SYSTEM:     gpu.LinkSystem,
}

// link asks for the PCI topology of every pair that is not known yet.
func (b *Backend) link(ctx context.Context, cards []*card) error {
	for i, one := range cards {
		for _, two := range cards[i+1:] {
			if one.slice != nil || two.slice != nil || one.linked(two) {
				continue
			}
			if err := b.linkPair(ctx, one, two); err != nil {
				return err
			}
		}
	}
	return nil
}

// linkPair asks for the PCI topology of one pair. It looks up its own handles: those in
// the cards belong to the goroutine that reads them.
func (b *Backend) linkPair(ctx context.Context, one, two *card) error {
	s, err := b.lib.enter(ctx)
	if err != nil {
		return err
	}
	defer b.lib.leave()
	first, ret := s.find(one)
	if ret != nvml.SUCCESS {
		return nil // gone again; the next scan asks again
	}
	second, ret := s.find(two)
	if ret != nvml.SUCCESS {
		return nil
	}
	level, ret := first.GetTopologyCommonAncestor(second)
	if gone(ret) {
		return nil
	}
	kind := gpu.LinkKind("") // the driver does not know
	if ret == nvml.SUCCESS {
		kind = pciKinds[level]
	}
	one.note(two, kind)
	two.note(one, kind)
	return nil
}

func (c *card) linked(other *card) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.wires.nearest[other.uuid]
	return known
}

func (c *card) note(other *card, kind gpu.LinkKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wires.nearest[other.uuid] = kind
}

// connect writes the known links between the present GPUs into their descriptions.
func (b *Backend) connect(cards []*card) {
	cards = slices.DeleteFunc(slices.Clone(cards), func(c *card) bool { return c.slice != nil })
	switched := map[*card]int{} // does not change after a card is made
	for _, c := range cards {
		switched[c] = c.wires.switched
	}
	for _, c := range cards {
		c.mu.Lock()
		var links []gpu.Link
		for _, other := range cards {
			if other == c {
				continue
			}
			// Some platforms hide the address of the far end behind a switch.
			lanes := max(c.wires.direct[other.pci], min(switched[c], switched[other]))
			if lanes > 0 {
				links = append(links, gpu.Link{To: other.uuid, Kind: gpu.LinkNVLink, Lanes: lanes})
			} else if kind := c.wires.nearest[other.uuid]; kind != "" {
				links = append(links, gpu.Link{To: other.uuid, Kind: kind})
			}
		}
		slices.SortStableFunc(links, func(a, b gpu.Link) int {
			return cmp.Or(cmp.Compare(b.Kind.Closeness(), a.Kind.Closeness()), cmp.Compare(b.Lanes, a.Lanes))
		})
		c.desc.Links = links
		c.mu.Unlock()
	}
}
