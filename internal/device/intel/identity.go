package intel

import (
	"cmp"
	"path/filepath"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// place is where to find a GPU and its values. It does not change.
type place struct {
	drm.Card
	sensors  drm.Sensors
	clock    string // file with the frequency in MHz; empty if there is none
	throttle string // directory of the reasons; empty if there is none
	prefix   string // prefix of the names of the reasons
	ordinal  int
	memory   gpu.MiB // 0 if the driver does not tell
}

// locate finds the files of a card. The drivers have the same values at different places.
func locate(c drm.Card, ordinal int) *place {
	p := &place{Card: c, sensors: c.Sensors(), ordinal: ordinal, memory: memoryOf(&c)}
	for _, file := range []string{
		filepath.Join(c.Device, "tile0/gt0/freq0/act_freq"),
		filepath.Join(c.Dir, "gt/gt0/rps_act_freq_mhz"),
		filepath.Join(c.Dir, "gt_act_freq_mhz"),
	} {
		if drm.Exists(file) {
			p.clock = file
			break
		}
	}
	switch {
	case drm.Exists(c.Device, "tile0/gt0/freq0/throttle/status"):
		p.throttle, p.prefix = filepath.Join(c.Device, "tile0/gt0/freq0/throttle"), ""
	case drm.Exists(c.Dir, "gt/gt0/throttle_reason_status"):
		p.throttle, p.prefix = filepath.Join(c.Dir, "gt/gt0"), "throttle_"
	}
	return p
}

// memoryOf returns how much memory a card has, if the driver has one of the files that
// say so in some versions. Tiles add up.
func memoryOf(c *drm.Card) gpu.MiB {
	for _, pattern := range []string{
		filepath.Join(c.Device, "tile*/physical_vram_size_bytes"),
		filepath.Join(c.Device, "lmem_total_bytes"),
		filepath.Join(c.Dir, "lmem_total_bytes"),
	} {
		files, _ := filepath.Glob(pattern)
		var sum gpu.MiB
		for _, file := range files {
			if bytes, err := drm.Number(file); err == nil && bytes > 0 {
				sum += gpu.MiBOf(uint64(bytes))
			}
		}
		if sum > 0 {
			return sum
		}
	}
	return 0
}

// identify describes the GPU at a place. The drivers tell no serial number, so the UUID
// comes from the place.
func (b *Backend) identify(at *place, index int) gpu.Device {
	d := gpu.Device{
		UUID: at.Place(), Index: index, Name: gpu.Printable(cmp.Or(b.Root.Name(&at.Card), "Intel GPU "+at.Model), 128),
		Vendor: gpu.Intel, Backend: b.Name(), Driver: b.Root.DriverVersion(at.Driver), Ordinal: gpu.Some(at.ordinal),
		PCI: at.PCI, Path: at.Render(), MemoryTotal: at.memory, NUMANode: at.NUMANode(),
	}
	if limit := at.sensors.Watts(limitFiles...); limit.Or(0) > 0 {
		d.PowerLimit = limit
	}
	d.TempMax = at.sensors.Temperature("crit", core...)
	d.TempShutdown = at.sensors.Temperature("emergency", core...)
	return d
}

// The files of the sensors: first that of the card, then that of the chip alone. A card
// has one or both.
var (
	limitFiles  = []string{"power1_max", "power2_max"}
	ratedFiles  = []string{"power1_rated_max", "power2_rated_max"}
	energyFiles = []string{"energy1_input", "energy2_input"}
	core        = []string{"pkg", "2", "1"}
)
