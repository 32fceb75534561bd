package energy

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

const (
	// askEvery is how often a driver is asked how much processes used a device. NVIDIA's
	// driver takes 2.3 ms to answer.
	askEvery = 5 * time.Second
	// believed is how long an answer counts, and rarely how long one counts that comes
	// with the slow metrics.
	believed = 3 * askEvery
	rarely   = 90 * time.Second
)

// shares returns the share of each party in a device. A single party has all of it.
// Several parties have what the driver says, or equal shares if it says nothing.
func (u *unit) shares(s *gpu.Sample, parties map[Party][]int) Shares {
	if len(parties) > 1 {
		if age := s.Time.Sub(u.busy.Until); age >= 0 && age <= believed {
			if shares := divide(parties, u.busy.Shares); len(shares) > 0 {
				return shares
			}
		} else if age := s.Time.Sub(s.SlowTime); age >= 0 && age <= rarely {
			if shares := divide(parties, s.ProcessUtilization); len(shares) > 0 {
				return shares
			}
		}
	}
	alike := Shares{}
	for party := range parties {
		alike[party] = 1
	}
	return alike
}

// divide returns how much the processes of each party used the device. The result is
// empty if none used it.
func divide(parties map[Party][]int, had map[int]gpu.Percent) Shares {
	shares := Shares{}
	for party, pids := range parties {
		for _, pid := range pids {
			if share := float64(had[pid]); share > 0 {
				shares[party] += share
			}
		}
	}
	return shares
}

// ask asks every divided device how much its processes used it.
func (ms *Meters) ask(ctx context.Context, now time.Time) {
	for uuid, since := range ms.due(now) {
		busy, err := ms.Busy(ctx, uuid, since)
		if err != nil {
			continue // without an answer, shares falls back to the next best
		}
		ms.mu.Lock()
		ms.devices[uuid].busy = busy
		ms.mu.Unlock()
	}
}

// due returns the devices to ask, and the moment from which to ask.
func (ms *Meters) due(now time.Time) map[string]time.Time {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	due := map[string]time.Time{}
	for uuid, u := range ms.devices {
		if len(u.Last.Shares) > 1 && now.Sub(u.asked) >= askEvery {
			due[uuid] = now.Add(-askEvery)
			u.asked = now
		}
	}
	return due
}

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
