package energy

import "github.com/berth-gpu/berth/gpu"

// Baseline learns the power that an idle device draws.
type Baseline struct {
	Watts gpu.Watts `json:"watts"`
	Empty bool      `json:"empty,omitempty"` // it was measured without a process on the device

	block block
}

// block is a stretch of time long enough for its average power to count as sustained.
type block struct {
	joules, seconds float64
	empty           bool
}

const (
	sustained = 10.0 // seconds
	// follow is the part of the difference that a block above the baseline adds to it. A
	// device that has just worked settles within seconds, and one in a warmer room draws
	// more for hours.
	follow = 0.1
	// assumed is the largest share of its highest power that an idle device is assumed to
	// draw, until it was seen without a process.
	assumed = 0.1
)

// learn records the power during some seconds, and whether no process was on the device
// all that time. Most is the highest power of the device, or 0 if not known.
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

// settle records the average power of a block.
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

// pause drops the current block, because nothing was measured for a while.
func (b *Baseline) pause() { b.block = block{} }
