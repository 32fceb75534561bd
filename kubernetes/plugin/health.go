package plugin

import (
	"context"
	"slices"
	"time"

	"github.com/berth-gpu/berth/kubernetes/slice"
)

// healthAgain is how often health is reported that has not changed. Kubelet forgets
// it after 30 seconds.
const healthAgain = 10 * time.Second

// setHealth keeps what the devices are like and tells those who follow it. The caller
// holds d.mu.
func (d *Driver) setHealth(now []slice.Health) {
	if slices.Equal(d.health, now) {
		return
	}
	d.health = slices.Clone(now)
	close(d.healthNews)
	d.healthNews = make(chan struct{})
}

// watchHealth calls report with the health of all devices, whenever it changes and
// every ten seconds, until ctx ends. At says when the daemon last said so.
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
