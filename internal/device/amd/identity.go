package amd

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// identify describes the GPU at a place.
func (b *Backend) identify(at *place, index int) gpu.Device {
	d := gpu.Device{
		UUID: at.uuid(), Index: index, Name: b.name(&at.Card), Vendor: gpu.AMD, Backend: b.Name(),
		Driver: b.Root.DriverVersion(driver), PCI: at.PCI, Path: at.Render(), NUMANode: at.NUMANode(),
		Ordinal: at.node.ordinal,
	}
	if bytes, err := drm.Number(at.Device, "mem_info_vram_total"); err == nil && bytes > 0 {
		d.MemoryTotal = gpu.MiBOf(uint64(bytes))
	}
	if limit := at.sensors.Watts("power1_cap"); limit.Or(0) > 0 {
		d.PowerLimit = limit
	}
	d.TempMax = at.sensors.Temperature("crit", core...)
	d.TempShutdown = at.sensors.Temperature("emergency", core...)
	return d
}

// uuid returns the UUID that ROCm shows: GPU- and sixteen hexadecimal digits. A GPU
// without a serial number gets its UUID from its place.
func (p *place) uuid() string {
	text, err := drm.Text(p.Device, "unique_id")
	text = strings.TrimPrefix(strings.ToLower(text), "0x")
	if n, bad := strconv.ParseUint(text, 16, 64); err != nil || bad != nil || n == 0 {
		return p.Place()
	}
	const digits = 16
	return "GPU-" + strings.Repeat("0", max(digits-len(text), 0)) + text
}

// name returns the name from the board, or from the lists of this machine.
func (b *Backend) name(c *drm.Card) string {
	product, _ := drm.Text(c.Device, "product_name")
	return gpu.Printable(cmp.Or(product, b.Root.Name(c), "AMD GPU "+c.Model), 128)
}
