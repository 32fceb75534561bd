package api

import "github.com/berth-gpu/berth/gpu"

// Curves has the averages of a device over equal intervals of the last minutes, oldest
// first; the last interval ends now. A list is shorter than requested if berth has not
// measured for that long, and empty if it cannot measure the value. An interval without a
// sample repeats the one before.
type Curves struct {
	Seconds     float64       `json:"seconds" doc:"How far back a whole list goes."`
	Points      int           `json:"points" doc:"How many averages a whole list has."`
	Utilization []gpu.Percent `json:"utilization_percent"`
	Temperature []gpu.Celsius `json:"temperature_celsius"`
}
