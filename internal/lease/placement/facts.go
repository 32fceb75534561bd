package placement

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// SameFacts reports whether two devices are equal in all that placement uses.
func SameFacts(a, b *gpu.Device) bool {
	return a.Index == b.Index && a.Name == b.Name && a.Vendor == b.Vendor && a.ComputeCapability == b.ComputeCapability &&
		a.MemoryTotal == b.MemoryTotal && slices.Equal(a.Links, b.Links)
}

// mostOwnUse is more than a driver uses for itself. Memory in use beyond it
// belongs to a process that berth cannot see, and that may end.
const mostOwnUse = gpu.MiB(1024)

// OwnUse returns the memory that a driver uses for itself, which nobody can ever lease:
// the least that was measured beyond what processes use, in this sample and before. It
// ignores a sample that lacks the memory of a process.
func OwnUse(s *gpu.Sample, before gpu.Opt[gpu.MiB]) gpu.Opt[gpu.MiB] {
	rest, measured := s.MemoryUsed.Get()
	for _, p := range s.Processes {
		memory, known := p.Memory.Get()
		rest, measured = rest-memory, measured && known
	}
	if !measured {
		return before
	}
	return gpu.Some(min(max(rest, 0), mostOwnUse, before.Or(mostOwnUse)))
}
