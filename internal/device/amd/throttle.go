package amd

import (
	"encoding/binary"
	"path/filepath"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// The table gpu_metrics begins with its size, its format and its revision. Only revision
// 1.3 has bits that mean the same for every GPU; throttleReasons ignores the others.
const (
	metricsFormat, metricsRevision = 1, 3
	throttleAt                     = 112 // where the bits are
)

// throttleWords maps the driver's bits to berth's words.
var throttleWords = []struct {
	first, last int // bits
	reason      gpu.ThrottleReason
}{
	{0, 7, gpu.ThrottlePowerCap},     // package power
	{16, 23, gpu.ThrottlePowerBrake}, // currents
	{32, 45, gpu.ThrottleThermal},
	{46, 47, gpu.ThrottleThermalHW}, // PROCHOT
	{56, 57, gpu.ThrottleHardware},
}

func readThrottle(c *drm.Card) []gpu.ThrottleReason {
	var space [1024]byte
	table, err := drm.Read(filepath.Join(c.Device, "gpu_metrics"), space[:])
	if err != nil {
		return nil
	}
	return throttleReasons(table)
}

// throttleReasons reads a table. It returns nil if the table does not say, and an empty
// list if nothing slows the GPU down.
func throttleReasons(table []byte) []gpu.ThrottleReason {
	if len(table) < throttleAt+8 || table[2] != metricsFormat || table[3] != metricsRevision ||
		int(binary.NativeEndian.Uint16(table)) > len(table) {
		return nil
	}
	bits := binary.NativeEndian.Uint64(table[throttleAt:])
	if bits == ^uint64(0) {
		return nil // the driver fills in ones for what it does not know
	}
	reasons := []gpu.ThrottleReason{}
	for _, w := range throttleWords {
		mask := (uint64(1)<<(w.last-w.first+1) - 1) << w.first
		if bits&mask != 0 {
			reasons = append(reasons, w.reason)
		}
	}
	return reasons
}
