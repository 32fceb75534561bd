package view

import (
	"math"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// coldest is the lower end of temperature curves: no device is colder.
const coldest = 20

// curves draws the load and the temperature of a device in the last minutes.
func curves(c *api.Curves, size int) (load, temperature string) {
	if c == nil || size == 0 {
		return "", ""
	}
	return term.Spark(stretch(c.Utilization, c.Points, size), 0, 100), term.Spark(stretch(c.Temperature, c.Points, size), coldest, 100)
}

// stretch returns size values for a list of up to points averages that ends now. Values
// before the beginning of the list are NaN.
func stretch[T ~float64](list []T, points, size int) []float64 {
	values := make([]float64, size)
	for i := range values {
		// The part of the list that this value stands for ends behind it.
		from, to := i*points/size, max((i+1)*points/size, i*points/size+1)
		from, to = max(from-(points-len(list)), 0), to-(points-len(list))
		values[i] = math.NaN()
		if to > from && to <= len(list) {
			sum := 0.0
			for _, v := range list[from:to] {
				sum += float64(v)
			}
			values[i] = sum / float64(to-from)
		}
	}
	return values
}
