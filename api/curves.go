package api

import "github.com/berth-gpu/berth/gpu"

// Curves is what a device did in the last minutes: averages over equal stretches
// of time, oldest first, the last one until now. A list is shorter than was asked
// for if berth has not measured that long, and empty if it cannot measure that. A
// stretch without a sample repeats the one before.
type Curves struct {
	Seconds     float64       `json:"seconds" doc:"How far back a whole list goes."`
	Points      int           `json:"points" doc:"How many averages a whole list has."`
	Utilization []gpu.Percent `json:"utilization_percent"`
	Temperature []gpu.Celsius `json:"temperature_celsius"`
}
