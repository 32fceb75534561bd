package check

import "math"

// pattern determines the word at each index.
type pattern struct {
	factor uint32 // 0 means the same word everywhere
	mask   uint32
}

// at returns the word at an index.
func (p pattern) at(index uint64) uint32 {
	return (uint32(index)+uint32(index>>32))*p.factor ^ p.mask
}

// spread is odd, so that a pattern with this factor has a different word at each of 2³²
// neighbours.
const spread = 0x9E3779B1

// quickPatterns have each bit in both states, neighbours that differ, and words that
// depend on their address.
var quickPatterns = []pattern{
	{0, 0x00000000}, {0, 0xFFFFFFFF}, {0, 0xAAAAAAAA}, {0, 0x55555555}, {spread, 0}, {spread, 0xFFFFFFFF},
}

// longPatterns returns quickPatterns, and one bit that wanders through the word, and its
// inverse.
func longPatterns() []pattern {
	list := append([]pattern{}, quickPatterns...)
	for bit := range 32 {
		list = append(list, pattern{0, 1 << bit}, pattern{0, ^uint32(1 << bit)})
	}
	return list
}

// chainOf returns the value that the program chain computes in a thread.
func chainOf(thread uint32, rounds int, seed uint32) uint32 {
	state, x, y := thread*spread+seed, float32(0), 0.0
	for range rounds {
		state = state*0x0019660D + 0x3C6EF35F
		state ^= state >> 13
		h := float32(state>>8) * (1.0 / (1 << 24)) // exact
		x = fma32(x, 0.75, h)
		y = math.FMA(y, 0.75, float64(h))
		state ^= math.Float32bits(x)
	}
	bits := math.Float64bits(y)
	return state ^ uint32(bits) ^ uint32(bits>>32)
}

// fma32 returns x*y + z, rounded once. Rounding to a float64 first would round twice,
// unless that rounding is to the odd one of two neighbours.
func fma32(x, y, z float32) float32 {
	product, c := float64(x)*float64(y), float64(z) // exact
	sum := product + c
	back := sum - product
	rest := (product - (sum - back)) + (c - back) // what the sum lacks, exactly
	if rest != 0 {
		if bits := math.Float64bits(sum); bits&1 == 0 {
			if (rest > 0) == (sum > 0) {
				bits++
			} else {
				bits--
			}
			sum = math.Float64frombits(bits)
		}
	}
	return float32(sum)
}
