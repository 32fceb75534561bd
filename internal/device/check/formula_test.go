package check

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exact returns x*y + z with one rounding, the slow way.
func exact(x, y, z float32) float32 {
	product := new(big.Float).SetPrec(200).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
	sum := new(big.Float).SetPrec(400).Add(product.SetPrec(400), big.NewFloat(float64(z)))
	f, _ := sum.Float32()
	return f
}

func TestFMA32(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	try := func(x, y, z float32) {
		if got, want := fma32(x, y, z), exact(x, y, z); got != want {
			t.Fatalf("%b × %b + %b = %b; want %b", x, y, z, got, want)
		}
	}
	// Rounding to float64 first rounds this one twice, and wrong: the product lies
	// a little above the middle of two neighbours.
	try(1+1.0/(1<<12), 1+1.0/(1<<12), 1.0/(1<<30)*1.0/(1<<30))
	for range 30_000 {
		// Halfway cases are common with few bits.
		short := func() float32 {
			return float32(random.IntN(1<<13)-1<<12) * float32(math.Pow(2, float64(random.IntN(30)-15)))
		}
		try(short(), short(), short())
		unit := func() float32 { return float32(random.Uint32()>>8) / (1 << 24) }
		try(4*unit(), 0.75, unit())
	}
}

func TestPatterns(t *testing.T) {
	list := longPatterns()
	var ones, zeros uint32
	seen := map[pattern]bool{}
	for _, p := range list {
		if seen[p] {
			t.Errorf("%+v is there twice", p)
		}
		seen[p] = true
		ones, zeros = ones|p.at(0), zeros|^p.at(0)
	}
	if ones != 0xFFFFFFFF || zeros != 0xFFFFFFFF {
		t.Errorf("bits that are ever set: %#x, ever clear: %#x", ones, zeros)
	}
	// Two places whose addresses differ in one bit have different words.
	p := pattern{factor: spread}
	for bit := range 38 {
		for _, i := range []uint64{0, 12345, 1<<35 + 7} {
			if p.at(i) == p.at(i^1<<bit) {
				t.Errorf("the words at %#x and %#x are the same", i, i^1<<bit)
			}
		}
	}
}
