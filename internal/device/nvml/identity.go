package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
)

// identify reads the constant properties of a GPU.
func (b *Backend) identify(s *session, h nvml.Device, uuid string) *card {
	d := gpu.Device{UUID: uuid, Vendor: gpu.NVIDIA, Backend: b.Name(), Driver: s.driver, Confidential: s.confidential, Name: "NVIDIA GPU"}
	if name, ret := h.GetName(); ret == nvml.SUCCESS {
		d.Name = name
	}
	if pci, ret := h.GetPciInfo(); ret == nvml.SUCCESS {
		d.PCI = busID(pci)
		d.NUMANode = numaNode(b.roots.Sys, d.PCI)
	}
	if minor, ret := h.GetMinorNumber(); ret == nvml.SUCCESS {
		d.Path = fmt.Sprintf("/dev/nvidia%d", minor)
	}
	if major, minor, ret := h.GetCudaComputeCapability(); ret == nvml.SUCCESS {
		d.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
	}
	if m, ret := h.GetMemoryInfo(); ret == nvml.SUCCESS {
		d.MemoryTotal = gpu.MiBOf(m.Total)
	}
	d.TempSlowdown = threshold(h, nvml.TEMPERATURE_THRESHOLD_SLOWDOWN)
	d.TempMax = threshold(h, nvml.TEMPERATURE_THRESHOLD_GPU_MAX)
	d.TempShutdown = threshold(h, nvml.TEMPERATURE_THRESHOLD_SHUTDOWN)
	return &card{
		lib: b.lib, roots: b.roots, uuid: uuid, pci: d.PCI,
		desc: d, wires: readWiring(s, h),
	}
}

// powerLimit returns the cap in force: the lowest of the limits of the board, the user
// and the system.
func powerLimit(h nvml.Device) gpu.Opt[gpu.Watts] {
	mw, ret := h.GetEnforcedPowerLimit()
	if ret != nvml.SUCCESS || mw == 0 {
		return gpu.Opt[gpu.Watts]{}
	}
	return gpu.Some(gpu.Watts(mw) / 1000)
}

func threshold(h nvml.Device, which nvml.TemperatureThresholds) gpu.Opt[gpu.Celsius] {
	t, ret := h.GetTemperatureThreshold(which)
	if ret != nvml.SUCCESS || t == 0 {
		return gpu.Opt[gpu.Celsius]{}
	}
	return gpu.Some(gpu.Celsius(t))
}

// busID returns a PCI address as the kernel writes it in /sys and lspci shows it,
// 0000:18:00.0; NVML has eight digits for the domain. It returns "" if NVML has none.
func busID(pci nvml.PciInfo) string {
	var text strings.Builder
	for _, c := range pci.BusId {
		if c == 0 {
			break
		}
		text.WriteByte(byte(c))
	}
	domain, rest, ok := strings.Cut(strings.ToLower(text.String()), ":")
	number, err := strconv.ParseUint(domain, 16, 32)
	if !ok || err != nil {
		return ""
	}
	return fmt.Sprintf("%04x:%s", number, rest)
}

// numaNode returns the NUMA node of a device. It is absent on machines with one
// node, where the kernel says -1.
func numaNode(sys, pci string) gpu.Opt[int] {
	text, err := os.ReadFile(filepath.Join(sys, "bus/pci/devices", pci, "numa_node"))
	if err != nil {
		return gpu.Opt[int]{}
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return gpu.Opt[int]{}
	}
	return gpu.Some(node)
}
