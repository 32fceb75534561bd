package energy

import "github.com/berth-gpu/berth/gpu"

// Baseline learns the power that a device draws while it does nothing.
type Baseline struct {
	Watts gpu.Watts `json:"watts"`
	Empty bool      `json:"empty,omitempty"` // it was measured without a process on the device

	block block
}

// block is a stretch of time whose average power counts as sustained.
type block struct {
	joules, seconds float64
	empty           bool
}

const (
	sustained = 10.0 // seconds
	// follow is how much of the difference a block adds that is above the
	// baseline: a device that has just worked settles within seconds, and one in a
	// warmer room draws more for hours.
	follow = 0.1
	// assumed is the share of the highest power that a device is taken to draw for
	// itself, at most, until it was seen without a process.
	assumed = 0.1
)

// learn takes in the power of some seconds, and whether there was no process on
// the device all the while. Most is the highest power of the device; 0: not known.
func (b *Baseline) learn(power gpu.Watts, seconds float64, empty bool, most gpu.Watts) {
	if b.block.empty != empty {
		b.block = block{empty: empty}
	}
	b.block.joules += float64(power) * seconds
	b.block.seconds += seconds
	switch {
	case b.block.seconds >= sustained:
		b.settle(gpu.Watts(b.block.joules/b.block.seconds), empty, most)
		b.block = block{empty: empty}
	case b.Watts == 0:
		b.settle(power, false, most) // a first guess
	}
}

// settle takes in the average power of a block.
func (b *Baseline) settle(power gpu.Watts, empty bool, most gpu.Watts) {
	switch {
	case empty && (!b.Empty || power < b.Watts):
		b.Watts, b.Empty = power, true
	case empty:
		b.Watts += gpu.Watts(follow * float64(power-b.Watts))
	case b.Empty:
		b.Watts = min(b.Watts, power)
	case most > 0:
		guess := min(power, gpu.Watts(assumed*float64(most)))
		if b.Watts == 0 || guess < b.Watts {
			b.Watts = guess
		}
	}
}

// pause forgets the block that has begun: nobody measured for a while.
func (b *Baseline) pause() { b.block = block{} }
