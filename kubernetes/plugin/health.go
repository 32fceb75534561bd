package plugin

import (
	"context"
	"slices"
	"time"

	"github.com/berth-gpu/berth/kubernetes/slice"
)

// healthAgain is how often the driver repeats health that has not changed. Kubelet
// forgets it after 30 seconds.
const healthAgain = 10 * time.Second

// setHealth sets the health of the devices and notifies its watchers. The caller holds
// d.mu.
func (d *Driver) setHealth(now []slice.Health) {
	if slices.Equal(d.health, now) {
		return
	}
	d.health = slices.Clone(now)
	close(d.healthNews)
	d.healthNews = make(chan struct{})
}

// watchHealth calls report with the health of all devices, whenever it changes and every
// ten seconds, until ctx ends. at is when the daemon last answered.
func (d *Driver) watchHealth(ctx context.Context, report func(all []slice.Health, at time.Time) bool) {
	for {
		d.mu.Lock()
		all, at, news := d.health, d.heard, d.healthNews
		d.mu.Unlock()
		if len(all) > 0 && !report(all, at) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-time.After(healthAgain):
		}
	}
}
