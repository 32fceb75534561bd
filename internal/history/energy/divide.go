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
