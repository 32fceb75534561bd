package sim

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/internal/device"
)

var _ device.Meter = (*card)(nil)

// metered is how far back the answer of Busy reaches, in real time.
const metered = time.Second

// Busy returns the present share of each process for the whole time since then. A caller
// that asks often gets the real shares.
func (c *card) Busy(_ context.Context, since time.Time) (busy device.Busy, err error) {
	err = c.look(func(now time.Duration, r reading) {
		busy = device.Busy{From: since, Until: c.backend.wall(now), Shares: shares(r.processes)}
		if from := busy.Until.Add(-metered); from.After(since) {
			busy.From = from
		}
		if busy.Until.Before(since) {
			busy.Until = since
		}
	})
	return busy, err
}
