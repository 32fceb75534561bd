package device_test

import (
	"context"
	"fmt"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/sim"
)

// Every backend lists its devices, and each device is measured by itself.
func Example() {
	b, err := sim.Open("2xrtx-4060", sim.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	devices, err := b.Scan(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, dev := range devices {
		var s gpu.Sample
		if err := dev.Fast(context.Background(), &s); err != nil {
			fmt.Println(err)
			continue
		}
		d := dev.Describe()
		fmt.Printf("GPU %d, %s, %s; it tells its memory in use: %v\n", d.Index, d.Name, d.MemoryTotal, s.MemoryUsed.Known())
	}
	// Output:
	// GPU 0, NVIDIA GeForce RTX 4060 (simulated), 8 GiB; it tells its memory in use: true
	// GPU 1, NVIDIA GeForce RTX 4060 (simulated), 8 GiB; it tells its memory in use: true
}
