package park

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Yields reports whether a parked lease lets others go first, instead of already waiting
// for its turn in the queue: a request of its priority or a higher one has waited longer
// for the same device, and gets it within a turn because others are parked for it.
//
// The queue goes by the shares of users before it goes by age. Without Yields, a service
// whose user has something else would wait forever while two others take turns: the one
// that was parked last would always be ahead of it.
func Yields(now time.Time, r Rules, p placement.Pressure, parked placement.Holding) bool {
	return slices.ContainsFunc(p.Wants, func(w placement.Want) bool {
		if w.Into == parked.Fence || w.Priority < parked.Priority || !w.Since.Before(parked.Since) {
			return false
		}
		t := turn{now: now, rules: r, pressure: p, host: p.Host}
		return slices.ContainsFunc(w.Rooms, func(room placement.Room) bool {
			if room.GPU != parked.GPU || room.Missing <= 0 && room.MissingSlots <= 0 {
				return false
			}
			e, possible := t.exit(w, room)
			return possible && !e.at.After(now.Add(r.Keep+r.Slice))
		})
	})
}
