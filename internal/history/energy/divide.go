package energy

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

const (
	// askEvery is how often the driver is asked what processes had of a device.
	// NVIDIA's takes 2.3 ms for the answer.
	askEvery = 5 * time.Second
	// believed is how long an answer counts, and rarely how long one counts that
	// comes with the slow metrics.
	believed = 3 * askEvery
	rarely   = 90 * time.Second
)

// shares returns how a device is divided. A party that is alone has all of it.
// Several have what the driver says; where it says nothing, all have the same.
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

// divide returns what the processes of each party had; empty if none had any.
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

// ask asks every device that is divided what its processes had of it.
func (ms *Meters) ask(ctx context.Context, now time.Time) {
	for uuid, since := range ms.due(now) {
		busy, err := ms.Busy(ctx, uuid, since)
		if err != nil {
			continue // a device that cannot tell is divided by the next best
		}
		ms.mu.Lock()
		ms.devices[uuid].busy = busy
		ms.mu.Unlock()
	}
}

// due returns the devices to ask, and since when.
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
