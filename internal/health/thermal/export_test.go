package thermal

import "github.com/berth-gpu/berth/gpu"

// Classify returns the state that a sample means by itself, and why.
func Classify(t gpu.Thresholds, s *gpu.Sample) (gpu.State, string) {
	heat, heatWhy := classifyTemperature(t, s)
	memory, memoryWhy := classifyMemory(t, s)
	return classify(s, heat, memory, heatWhy, memoryWhy)
}
