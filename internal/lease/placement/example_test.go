package placement_test

import (
	"fmt"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// The only device with room for a request is chosen.
func ExampleChoose() {
	s := placement.NewSnapshot([]gpu.Device{
		{UUID: "GPU-a", Index: 0, Name: "NVIDIA H200", MemoryTotal: 141_000},
		{UUID: "GPU-b", Index: 1, Name: "NVIDIA H200", MemoryTotal: 141_000},
	})
	s.Update("GPU-a", placement.Use{Available: 1000, Ceiling: 141_000, Usable: 4, MaxPipelines: 4, State: gpu.Optimal})
	s.Update("GPU-b", placement.Use{Available: 90_000, Ceiling: 141_000, Usable: 4, MaxPipelines: 4, State: gpu.Optimal})

	chosen, fits := placement.Choose(s, &lease.Request{Memory: 40_000, Slots: 1}, nil, nil)
	fmt.Println(chosen, fits)
	// Output: [GPU-b] true
}
